//! Looking at the host's clock on a page of shared memory: the role `page-reader`.
//!
//! Both sides must see the same memory. An emulated guest's loads are the emulator's own. KVM on x86 gives a guest's mapping
//! of the host's memory the host's type, write-back, unless a device whose DMA bypasses the caches is passed through; mappings
//! of two types then agree on processors that snoop themselves (Intel SDM vol. 3, "Programming the PAT"). Elsewhere a guest's
//! mapping of a PCI device's memory is not coherent with the host's cache, and the device is refused.

use super::{Comparison, sleep_until};
use crate::session::{Session, failed};
use std::fs::File;
use std::path::{Path, PathBuf};
use sys::clock::{sleep_until_tai, tai_ns};
use sys::order::settle;
use sys::shared::SharedWords;
use wire::event::Failure;
use wire::page::{self, Look};
use wire::record::Exchange;

/// Looks in a burst. More hardly tighten the bound, and the guest has other things to do.
const LOOKS: usize = 64;
/// How long before a burst the reader wakes, at least and at most: a virtual machine's timers are late, an emulated one's by a
/// millisecond. It learns which: a burst that was missed doubles the lead, one that was met takes a little off it.
const LEAD_NS: (i64, i64) = (50_000, 2_000_000);
/// How often it asks for a page that is not there yet.
const ABSENT_NS: i64 = 5_000_000;
/// Bursts missed one after another until it no longer believes its idea of the offset.
const LOST_TRACK: u64 = 50;
/// How long a look for a burst that has already begun goes on: entries follow each other within far less.
const GLANCE_NS: i64 = 20_000;
/// Looks between two questions whether the lab wants it to stop, while it spins.
const BETWEEN_STOPS: u32 = 256;

const PCI_DEVICES: &str = "/sys/bus/pci/devices";
/// QEMU's inter-VM shared memory device (docs/specs/ivshmem-spec.rst): vendor and device.
const SHARED_MEMORY: (&str, &str) = ("0x1af4", "0x1110");

/// Looks at the page in `count` bursts or until stopped, and says what the looks prove.
///
/// # Errors
/// There is no page, or the recording failed.
pub fn read(comparison: &Comparison, device: &str) -> Result<(), Failure> {
    let &Comparison { run_id, count, session, .. } = comparison;
    let path = if device == "auto" { find_device(Path::new(PCI_DEVICES))? } else { device.into() };
    let mut reader = Reader { words: open(&path)?, run_id, lead_ns: LEAD_NS.0, session };
    let mut log = comparison.begin(None)?;
    let (mut bursts, mut lost, mut lost_in_a_row, mut track) = (0, 0, 0, None);
    while bursts < count && !session.stopped() {
        let burst = match track {
            None => reader.wait_for_any(),
            Some(next) => reader.wait_for(next),
        };
        if session.stopped() {
            break;
        }
        match burst.map(|begun| reader.burst(begun)) {
            Some(rows) if !rows.is_empty() => {
                (bursts, lost_in_a_row) = (bursts + 1, 0);
                reader.lead_ns = (reader.lead_ns - reader.lead_ns / 32).max(LEAD_NS.0);
                track = page::tightest(&rows).last().map(|row| reader.next(&row));
                for row in page::tightest(&rows) {
                    log.push(Exchange { sequence: log.rows(), ..row });
                }
            }
            _ => {
                (bursts, lost, lost_in_a_row) = (bursts + 1, lost + 1, lost_in_a_row + 1);
                reader.lead_ns = (reader.lead_ns * 2).min(LEAD_NS.1);
                track = track.filter(|_| lost_in_a_row < LOST_TRACK).map(|missed| reader.after(missed));
            }
        }
        log.progress();
    }
    log.finish(lost)
}

/// The next burst, as far as is known.
#[derive(Clone, Copy)]
struct Next {
    /// Its beginning as the page says it, host's clock.
    host_tai_ns: i64,
    /// The same on this guest's clock.
    due_tai_ns: i64,
}

struct Reader<'a> {
    words: SharedWords,
    run_id: u64,
    lead_ns: i64,
    session: &'a Session,
}

impl Reader<'_> {
    fn word(&self, at: usize) -> i64 {
        self.words.load(at) as i64
    }

    /// Which writer's page it is; None if it is not this run's, or not there yet.
    fn writer(&self) -> Option<u64> {
        let known = self.words.load(page::IDENTITY_AT) == page::IDENTITY;
        (known && self.words.load(page::RUN_ID_AT) == self.run_id).then(|| self.words.load(page::BEGAN_AT))
    }

    fn look(&self) -> Look {
        let before_tai_ns = tai_ns();
        settle();
        let head = self.words.load(page::HEAD_AT);
        settle();
        Look { before_tai_ns, head, after_tai_ns: tai_ns() }
    }

    /// A look in a burst, whenever the page's writer comes to one; None if the session is over.
    fn wait_for_any(&self) -> Option<Look> {
        while self.writer().is_none() {
            if self.session.stopped() {
                return None;
            }
            sleep_until_tai(tai_ns() + ABSENT_NS);
        }
        self.spin(i64::MAX)
    }

    /// A look in the `next` burst; None if there was none.
    fn wait_for(&self, next: Next) -> Option<Look> {
        sleep_until(next.due_tai_ns - self.lead_ns, self.session);
        self.writer()?;
        // The page tells of the burst after as soon as one begins.
        let begun = self.word(page::NEXT_BURST_AT) != next.host_tai_ns;
        let late = next.due_tai_ns + self.word(page::BURST_AT) + self.lead_ns;
        self.spin(if begun { tai_ns() + GLANCE_NS } else { late })
    }

    /// The first look at another entry than now; None if `end` came first.
    fn spin(&self, end: i64) -> Option<Look> {
        let first = self.look().head;
        loop {
            for _ in 0..BETWEEN_STOPS {
                let look = self.look();
                if look.head != first {
                    return Some(look);
                }
                if look.after_tai_ns > end {
                    return None;
                }
            }
            if self.session.stopped() {
                return None;
            }
        }
    }

    /// The exchanges of a burst that has `begun`; empty if its writer went away or overwrote what was needed.
    fn burst(&self, begun: Look) -> Vec<Exchange> {
        let Some(writer) = self.writer() else { return Vec::new() };
        let mut looks = [begun; LOOKS];
        for look in &mut looks[1..] {
            *look = self.look();
        }
        // The last looks' later entries are still to come; what does not come by the end of the burst is left out.
        let end = begun.after_tai_ns + self.word(page::BURST_AT);
        while self.words.load(page::HEAD_AT) < looks[LOOKS - 1].later_entry() && tai_ns() < end {}
        let rows = looks.iter().filter_map(|look| self.exchange(look)).collect();
        // Entries of two writers prove nothing together.
        if self.writer() == Some(writer) { rows } else { Vec::new() }
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

    /// The next burst, as far as `row` tells the offset.
    fn next(&self, row: &Exchange) -> Next {
        let (above, below) = (row.t2_tai_ns - row.t1_tai_ns, row.t3_tai_ns - row.t4_tai_ns);
        let host_tai_ns = self.word(page::NEXT_BURST_AT);
        Next { host_tai_ns, due_tai_ns: host_tai_ns + below + (above - below) / 2 }
    }

    /// The burst after one that was missed.
    fn after(&self, missed: Next) -> Next {
        let told = self.word(page::NEXT_BURST_AT);
        let host_tai_ns = if told > missed.host_tai_ns { told } else { missed.host_tai_ns + self.word(page::EVERY_AT) };
        Next { host_tai_ns, due_tai_ns: missed.due_tai_ns + host_tai_ns - missed.host_tai_ns }
    }
}

/// The memory of the first shared-memory device among `devices`, ready to be mapped.
fn find_device(devices: &Path) -> Result<PathBuf, Failure> {
    let failure = |what: String, place: &Path, remedy: &str| Failure {
        what,
        place: place.to_string_lossy().into_owned(),
        remedy: remedy.into(),
        errno: None,
    };
    if !cfg!(target_arch = "x86_64") {
        let what = format!("a device's memory is not coherent with the host's on {}", std::env::consts::ARCH);
        return Err(failure(what, devices, "exchange timestamps over the network instead"));
    }
    let is = |path: &Path, name: &str, value: &str| {
        std::fs::read_to_string(path.join(name)).is_ok_and(|read| read.trim() == value)
    };
    let mut found: Vec<PathBuf> = std::fs::read_dir(devices)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok().map(|e| e.path()))
        .filter(|path| is(path, "vendor", SHARED_MEMORY.0) && is(path, "device", SHARED_MEMORY.1))
        .collect();
    found.sort();
    let Some(device) = found.into_iter().next() else {
        let what = format!("there is no shared-memory device ({}:{})", SHARED_MEMORY.0, SHARED_MEMORY.1);
        return Err(failure(what, devices, "give the guest an ivshmem-plain device"));
    };
    // Without a driver nobody has told the device yet to answer at its addresses.
    if is(&device, "enable", "0") {
        std::fs::write(device.join("enable"), "1")
            .map_err(|error| failure(format!("cannot be enabled: {error}"), &device, "run as root"))?;
    }
    Ok(device.join("resource2"))
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
    SharedWords::map(&file, page::WORDS, false).map_err(|error| failed(error, &place, "run as root"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn devices(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("latlab-pci-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn add(devices: &Path, address: &str, vendor: &str, device: &str) -> PathBuf {
        let path = devices.join(address);
        std::fs::create_dir_all(&path).unwrap();
        for (name, value) in [("vendor", vendor), ("device", device), ("enable", "0")] {
            std::fs::write(path.join(name), format!("{value}\n")).unwrap();
        }
        path
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn the_first_shared_memory_device_is_found_and_enabled() {
        let devices = devices("found");
        add(&devices, "0000:00:01.0", "0x1af4", "0x1041");
        let ours = add(&devices, "0000:00:02.0", "0x1af4", "0x1110");
        add(&devices, "0000:00:03.0", "0x1af4", "0x1110");
        assert_eq!(find_device(&devices).unwrap(), ours.join("resource2"));
        assert_eq!(std::fs::read_to_string(ours.join("enable")).unwrap(), "1");
    }

    #[test]
    fn without_a_device_the_error_says_what_the_guest_lacks() {
        let failure = find_device(&devices("none")).unwrap_err();
        assert!(!failure.what.is_empty() && !failure.remedy.is_empty());
    }
}
