//! Showing this host's clock to its guests on a page of shared memory: the role `page-writer`.

use super::{Thread, ready};
use crate::session::{Session, emit, failed};
use std::fs::File;
use std::net::SocketAddr;
use sys::clock::tai_ns;
use sys::order::settle;
use sys::receive::{Buffer, Wait};
use sys::shared::SharedWords;
use sys::socket::{Socket, Timestamping};
use wire::event::{Done, Event, Failure};
use wire::page;

/// How long it stays on a CPU in a burst: a look takes a guest less than a microsecond, an emulated one three.
const TURN_NS: i64 = 100_000;
const RECEIVE_TIMEOUT_MS: i64 = 50;
const NS_PER_S: i64 = 1_000_000_000;

/// Where a page is and who rings for it.
pub struct Page<'a> {
    /// Its file; made if there is none.
    pub path: &'a str,
    /// Where doorbells come to.
    pub listen: SocketAddr,
    /// Where they come from.
    pub peer: SocketAddr,
    /// How long CLOCK_TAI is shown after a doorbell, at most, ns.
    pub burst_ns: i64,
}

/// Answers doorbells, and shows CLOCK_TAI after each, until stopped. `done` says how many doorbells were answered, and how many were
/// not, because they had no stamp or were too old.
///
/// # Errors
/// The page or the socket cannot be had.
pub fn write(run_id: u64, page: &Page, thread: &Thread, session: &Session) -> Result<(), Failure> {
    let (_held, words) = open(page.path)?;
    let trouble = |error| failed(error, &page.listen.to_string(), "end what else uses this address, or bring `lo` up");
    let mut rings = Rings { socket: listen(page).map_err(trouble)?, buffer: Buffer::default(), words: &words };
    // Whoever still looks at an earlier writer's page finds none from here on.
    words.store(page::IDENTITY_AT, 0);
    settle();
    for (at, value) in [
        (page::HEAD_AT, 0),
        (page::LOOKING_AT, 0),
        (page::RUN_ID_AT, run_id),
        (page::BEGAN_AT, tai_ns() as u64),
        (page::BURST_AT, page.burst_ns as u64),
        (page::IDENTITY_AT, page::IDENTITY),
    ] {
        words.store(at, value);
    }
    ready(thread.prepare()?, None, None)?;
    let cpus = sys::thread::affinity().unwrap_or_default();
    let mut turns = cpus.iter().cycle().copied();
    let (mut answered, mut lost, mut head) = (0, 0, 0);
    while !session.stopped() {
        let mut wait = Wait::Block;
        while let Some(known) = rings.answer(wait).map_err(trouble)? {
            (answered, lost) = if known { (answered + 1, lost) } else { (answered, lost + 1) };
            head = burst(&words, head, page.burst_ns, &mut turns);
            wait = Wait::Never;
        }
    }
    // A page that says nothing more is no page: the next run's reader must not wait for it.
    words.store(page::IDENTITY_AT, 0);
    emit(&Event::Done(Done::Clock { exchanges: answered, lost, bound: None, windows: Vec::new() }));
    Ok(())
}

struct Rings<'a> {
    socket: Socket,
    buffer: Buffer,
    words: &'a SharedWords,
}

impl Rings<'_> {
    /// Answers the next doorbell: whether it could be; None if there was none.
    fn answer(&mut self, wait: Wait) -> Result<Option<bool>, sys::Error> {
        let packet = match self.buffer.receive(&self.socket, wait) {
            Ok(Some(packet)) => packet,
            Ok(None) => return Ok(None),
            // An ICMP answer to nothing of ours: the guest that rings is not there yet, or not any more.
            Err(error) if error.may_be_icmp() => return Ok(None),
            Err(error) => return Err(error),
        };
        let last = self.words.load(page::DOORBELL_AT);
        let (&[byte], Some(real_ns)) = (packet.bytes, packet.software_ns) else { return Ok(Some(false)) };
        let Ok(offset_s) = sys::clock::tai_offset_s() else { return Ok(Some(false)) };
        let came = real_ns + i64::from(offset_s) * NS_PER_S;
        let Some(number) = page::ring_number(byte, last).filter(|_| tai_ns() - came < page::RING_AGE_NS) else {
            return Ok(Some(false));
        };
        // The number last: a guest that sees it sees what belongs to it.
        let at = page::answer_at(number);
        self.words.store(at, 0);
        settle();
        self.words.store(at + 1, came as u64);
        self.words.store(at, number);
        Ok(Some(true))
    }
}

fn listen(page: &Page) -> Result<Socket, sys::Error> {
    let socket = Socket::udp(page.listen, None)?;
    socket.set_timestamping(Timestamping { rx_software: true, ..Timestamping::default() })?;
    socket.set_receive_timeout_ms(RECEIVE_TIMEOUT_MS)?;
    socket.connect(page.peer)?;
    Ok(socket)
}

/// The last entry's number, after entries from `head` + 1 on until the guest has seen enough, `burst_ns` at most.
///
/// They say nothing to a guest whose CPU this thread is on, and where that is only the lab's tuning could tell. So it goes
/// from one of its CPUs to the next until it has found one next to the guest's.
fn burst(words: &SharedWords, mut head: u64, burst_ns: i64, cpus: &mut impl Iterator<Item = usize>) -> u64 {
    let end = tai_ns() + burst_ns;
    while words.load(page::LOOKING_AT) != 0 && tai_ns() < end {
        head = entries(words, head, end.min(tai_ns() + TURN_NS));
        let next = if words.load(page::LOOKING_AT) != 0 { cpus.next() } else { None };
        if let Some(cpu) = next {
            // Refused, it runs where it is.
            let _ = sys::thread::set_affinity(&[cpu]);
        }
    }
    head
}

/// The last entry's number, after entries from `head` + 1 on until `end` or until the guest has seen enough. Nothing here may
/// be reordered: the proof in [`page`] needs the entry before the head, and the head visible before the clock is read again.
fn entries(words: &SharedWords, mut head: u64, end: i64) -> u64 {
    loop {
        let now = tai_ns();
        head += 1;
        words.store(page::entry_at(head), now as u64);
        words.store(page::HEAD_AT, head);
        settle();
        if now >= end || words.load(page::LOOKING_AT) == 0 {
            return head;
        }
    }
}

/// The page's file, locked against a second writer as long as it is open, and its words.
fn open(path: &str) -> Result<(File, SharedWords), Failure> {
    let failure = |what: String, errno: Option<i32>, remedy: &str| Failure {
        what,
        place: path.into(),
        remedy: remedy.into(),
        errno,
    };
    let trouble = |error: std::io::Error| {
        failure(format!("the page: {error}"), error.raw_os_error(), "name a file that can be made and written")
    };
    let file = File::options().read(true).write(true).create(true).truncate(false).open(path).map_err(trouble)?;
    sys::shared::lock(&file)
        .map_err(|error| failed(error, path, "end the other agent that shows its clock on this page"))?;
    let length = file.metadata().map_err(trouble)?.len();
    if length == 0 {
        file.set_len(page::FILE_BYTES).map_err(trouble)?;
    } else if length < page::WORDS as u64 * 8 {
        let what = format!("the page has {length} bytes, expected {}", page::FILE_BYTES);
        return Err(failure(what, None, "make the file and the device that shows it as large as that"));
    }
    let words = SharedWords::map(&file, page::WORDS, true)
        .map_err(|error| failed(error, path, "name a file on a file system that can be mapped, such as tmpfs"))?;
    Ok((file, words))
}
