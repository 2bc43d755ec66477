//! Ringing the doorbell, and looking at the host's clock on a page of shared memory: the role `page-reader`.

use super::log::Log;
use super::{Comparison, ready};
use crate::session::failed;
use crate::shared_memory;
use std::fs::File;
use std::net::UdpSocket;
use std::path::Path;
use std::time::{Duration, Instant};
use sys::clock::{sleep_until_tai, tai_ns};
use sys::io_port::IoPort;
use sys::order::settle;
use sys::shared::SharedWords;
use wire::event::Failure;
use wire::page::{self, Look};
use wire::record::Exchange;
use wire::spec::Doorbell;

/// Looks at a time. More hardly tighten the bound, and the guest has other things to do.
const LOOKS: usize = 64;
/// How long it looks for the host to begin writing, after a doorbell. A host that has no CPU to spare will come later, and looking
/// on would only take another.
const SPIN_NS: i64 = 600_000;
/// How long the lab is kept waiting for the first answer: the streams are to begin with clocks that are compared.
const FIRST_NS: i64 = 1_000_000_000;
/// How long the last doorbells' answers are waited for, and how often they are looked for.
const LAST_NS: i64 = 20_000_000;
const BETWEEN_NS: i64 = 1_000_000;

/// What QEMU's debug console reads as (hw/char/debugcon.c).
const DEBUG_CONSOLE: u8 = 0xe9;
/// Rings the doorbell and looks every `period_ns`, `count` times or until stopped, and says what that proves.
///
/// # Errors
/// There is no page, no doorbell, or the recording failed.
pub fn read(comparison: &Comparison, device: &str, doorbell: Doorbell, period_ns: i64) -> Result<(), Failure> {
    let path = if device == "auto" { shared_memory::find()? } else { device.into() };
    let mut reader =
        Reader { words: open(&path)?, run_id: comparison.run_id, bell: Bell::new(doorbell)?, rung: Vec::new() };
    let (mut log, found) = comparison.log()?;
    let (began, mut told, mut lost) = (tai_ns(), false, 0);
    let (mut looks, mut rung) = (Vec::new(), None::<Instant>);
    for _ in comparison.rounds(period_ns) {
        if let Some(rung) = rung {
            // Those that are overdue are left out: the host could not distinguish so many rings.
            if rung.elapsed() < Duration::from_nanos(period_ns as u64) / 2 {
                continue;
            }
            lost += keep(&mut log, &reader.answers(), &looks);
        }
        if !told && (log.rows() > 0 || tai_ns() > began + FIRST_NS) {
            ready(found.clone(), None, log.bound())?;
            told = true;
        }
        rung = Some(Instant::now());
        looks = reader.round();
    }
    let end = tai_ns() + LAST_NS;
    while reader.unanswered() && tai_ns() < end {
        sleep_until_tai(tai_ns() + BETWEEN_NS);
    }
    lost += keep(&mut log, &reader.answers(), &looks);
    log.finish(lost)
}

/// Records what bounds the offset best, of a time's doorbells and of its looks, in this order: 1 if there is nothing.
fn keep(log: &mut Log, rings: &[Exchange], looks: &[Exchange]) -> u64 {
    for row in page::tightest(rings).chain(page::tightest(looks)) {
        log.push(Exchange { sequence: log.rows(), ..row });
    }
    log.progress();
    u64::from(rings.is_empty() && looks.is_empty())
}

/// A doorbell that may still be answered: its number, and the guest's CLOCK_TAI before and after it.
#[derive(Clone, Copy)]
struct Rung {
    number: u64,
    before_tai_ns: i64,
    after_tai_ns: i64,
}

struct Reader {
    words: SharedWords,
    run_id: u64,
    bell: Bell,
    rung: Vec<Rung>,
}

impl Reader {
    fn word(&self, at: usize) -> i64 {
        self.words.load(at) as i64
    }

    /// Which writer's page it is; None if it is not this run's, or not there yet.
    fn writer(&self) -> Option<u64> {
        let known = self.words.load(page::IDENTITY_AT) == page::IDENTITY;
        (known && self.words.load(page::RUN_ID_AT) == self.run_id).then(|| self.words.load(page::BEGAN_AT))
    }

    /// Rings the doorbell, and looks: the looks' exchanges, none if the host wrote nothing meanwhile.
    fn round(&mut self) -> Vec<Exchange> {
        self.rung.clear();
        let Some(writer) = self.writer() else { return Vec::new() };
        self.words.store(page::LOOKING_AT, 1);
        for _ in 0..page::RINGS {
            self.ring();
        }
        let rows = self.spin(tai_ns() + SPIN_NS).map(|begun| self.exchanges(begun)).unwrap_or_default();
        self.words.store(page::LOOKING_AT, 0);
        // Entries of two writers prove nothing together.
        if self.writer() == Some(writer) { rows } else { Vec::new() }
    }

    fn ring(&mut self) {
        let number = self.words.load(page::DOORBELL_AT) + 1;
        self.words.store(page::DOORBELL_AT, number);
        settle();
        let before_tai_ns = tai_ns();
        self.bell.ring(number as u8);
        self.rung.push(Rung { number, before_tai_ns, after_tai_ns: tai_ns() });
    }

    /// When a doorbell came, host's CLOCK_TAI ns; None as long as it is not answered.
    fn answer(&self, number: u64) -> Option<i64> {
        let at = page::answer_at(number);
        (self.words.load(at) == number).then(|| self.word(at + 1))
    }

    fn unanswered(&self) -> bool {
        self.rung.iter().any(|rung| self.answer(rung.number).is_none())
    }

    /// The exchanges of the last doorbells, as far as they were answered.
    fn answers(&self) -> Vec<Exchange> {
        let exchange = |k: &Rung| Some(page::ring(k.before_tai_ns, self.answer(k.number)?, k.after_tai_ns));
        self.rung.iter().filter_map(exchange).collect()
    }

    /// The first look at another entry than now; None if `end` came first.
    fn spin(&self, end: i64) -> Option<Look> {
        let first = self.look().head;
        loop {
            let look = self.look();
            if look.head != first {
                return Some(look);
            }
            if look.after_tai_ns > end {
                return None;
            }
        }
    }

    /// The exchanges of a burst that has `begun`; none if the host stopped writing, or overwrote what was needed.
    fn exchanges(&self, begun: Look) -> Vec<Exchange> {
        let mut looks = [begun; LOOKS];
        for look in &mut looks[1..] {
            *look = self.look();
        }
        // The last looks' later entries are still to come; what does not come by the end of the burst is left out.
        let end = begun.after_tai_ns + self.word(page::BURST_AT);
        while self.words.load(page::HEAD_AT) < looks[LOOKS - 1].later_entry() && tai_ns() < end {}
        looks.iter().filter_map(|look| self.exchange(look)).collect()
    }

    fn look(&self) -> Look {
        let before_tai_ns = tai_ns();
        settle();
        let head = self.words.load(page::HEAD_AT);
        settle();
        Look { before_tai_ns, head, after_tai_ns: tai_ns() }
    }

    fn exchange(&self, look: &Look) -> Option<Exchange> {
        let later = look.later_entry();
        if self.words.load(page::HEAD_AT) < later {
            return None;
        }
        let (entry, after) = (self.word(page::entry_at(look.head)), self.word(page::entry_at(later)));
        // Entry 0 was never written: the first burst's first look may have seen it.
        let whole = look.head > 0 && page::still_there(look.head, self.words.load(page::HEAD_AT));
        whole.then(|| look.exchange(entry, after))
    }
}

/// The doorbell.
enum Bell {
    Port(IoPort),
    Datagrams(UdpSocket),
}

impl Bell {
    fn new(doorbell: Doorbell) -> Result<Self, Failure> {
        match doorbell {
            Doorbell::Port(port) => Self::port(port),
            Doorbell::Datagram { from, to } => {
                let opened = UdpSocket::bind(from).and_then(|socket| socket.connect(to).map(|()| socket));
                opened.map(Self::Datagrams).map_err(|error| Failure {
                    what: error.to_string(),
                    place: from.to_string(),
                    remedy: "name an address of this host's and a free port".into(),
                    errno: error.raw_os_error(),
                })
            }
        }
    }

    fn port(number: u16) -> Result<Self, Failure> {
        let place = format!("the I/O port {number:#x}");
        let port = IoPort::open(number).map_err(|error| failed(error, &place, "run as root, without lockdown"))?;
        if port.read() != DEBUG_CONSOLE {
            let remedy = "give the guest an `isa-debugcon` device there, or exchange timestamps over the network";
            return Err(Failure {
                what: "the device there is no doorbell".into(),
                place,
                remedy: remedy.into(),
                errno: None,
            });
        }
        Ok(Self::Port(port))
    }

    fn ring(&self, byte: u8) {
        match self {
            Self::Port(port) => port.write(byte),
            // Refused, it is not answered either.
            Self::Datagrams(socket) => drop(socket.send(&[byte])),
        }
    }
}

fn open(path: &Path) -> Result<SharedWords, Failure> {
    let place = path.to_string_lossy().into_owned();
    let failure = |what: String, errno: Option<i32>| Failure {
        what,
        place: place.clone(),
        remedy: "name the page's file, or give the guest an ivshmem-plain device of 1 MiB".into(),
        errno,
    };
    let trouble = |error: std::io::Error| failure(format!("the page: {error}"), error.raw_os_error());
    // Read and write: a device's memory is given to nobody who may only read.
    let file = File::options().read(true).write(true).open(path).map_err(trouble)?;
    let length = file.metadata().map_err(trouble)?.len();
    if length < page::WORDS as u64 * 8 {
        return Err(failure(format!("the page has {length} bytes, expected {}", page::FILE_BYTES), None));
    }
    SharedWords::map(&file, page::WORDS, true).map_err(|error| failed(error, &place, "run as root"))
}
