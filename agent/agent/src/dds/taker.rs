//! What becomes of a sample that came in: recorded and acted upon, or counted by the kind of its fault.
//!
//! Nothing here allocates, formats or prints. It stands behind a lock that nobody else wants while samples come, as Cyclone
//! does not guarantee which of its threads takes them; what a sample costs in Cyclone itself is a hundred times that.

use crate::recording::Tap;
use cyclone::Reader;
use sys::clock::tai_ns;
use wire::dds::HELLO;
use wire::event::Taken;
use wire::probe::{Probe, Refusal};
use wire::record::Received;
use wire::sequence::{Arrival, Sequences};
use wire::spec::Dds;

/// Room beyond the expected size, so that a larger sample is seen to be larger.
const SPARE_BYTES: usize = 64;

/// What is done with samples that are neither faulty nor seen before.
pub trait Then: Send {
    /// A sample came that asks whether anybody is there.
    fn greeted(&mut self);
    /// The sample with this probe was taken at `rx_user_tai_ns`. `crowded`: such samples are written down more slowly than they come.
    fn came(&mut self, probe: &Probe, rx_user_tai_ns: i64, crowded: bool);
    /// Sequences from there on cannot have come.
    fn bound(&self) -> u64;
}

/// What one kind of samples must be, and which came.
pub struct Books {
    run_id: u64,
    stream: u16,
    size: u32,
    arrivals: Sequences,
    taken: Taken,
}

impl Books {
    /// For samples of this stream.
    pub fn new(spec: &Dds, stream: u16) -> Self {
        Self {
            run_id: spec.run_id,
            stream,
            size: u32::try_from(spec.size).unwrap_or(u32::MAX),
            arrivals: Sequences::endless(),
            taken: Taken::default(),
        }
    }

    /// The probe in a sample, unless it is faulty or was seen before. bound: sequences from there on cannot be.
    fn admit(&mut self, bytes: &[u8], bound: u64) -> Option<Probe> {
        let refused = &mut self.taken.refused;
        let probe = match Probe::read(bytes) {
            Ok(probe) if bytes.len() > probe.size as usize => {
                refused.foreign += 1;
                return None;
            }
            Ok(probe) => probe,
            Err(refusal) => {
                match refusal {
                    Refusal::Foreign => refused.foreign += 1,
                    Refusal::Truncated => refused.truncated += 1,
                }
                return None;
            }
        };
        if probe.run_id != self.run_id {
            refused.other_run += 1;
            return None;
        }
        if probe.stream != self.stream || probe.size != self.size {
            refused.unknown_stream += 1;
            return None;
        }
        if probe.sequence == HELLO {
            return Some(probe);
        }
        let arrival = if probe.sequence < bound { self.arrivals.arrive(probe.sequence) } else { Arrival::OutOfRange };
        match arrival {
            Arrival::OutOfRange => self.taken.out_of_range += 1,
            Arrival::Repeated => self.taken.repeated += 1,
            Arrival::Reordered => self.taken.reordered += 1,
            Arrival::InOrder => {}
        }
        let fresh = matches!(arrival, Arrival::InOrder | Arrival::Reordered);
        self.taken.received += u64::from(fresh);
        fresh.then_some(probe)
    }
}

/// Takes samples in.
pub struct Taker<T> {
    reader: Reader,
    room: Vec<u8>,
    books: Books,
    tap: Tap<Received>,
    then: T,
    empty_wakeups: u64,
    /// Why samples can be taken no more.
    trouble: Option<cyclone::Error>,
}

impl<T: Then> Taker<T> {
    /// Takes samples from `reader` that `books` admits, records them and does `then`.
    pub fn new(reader: Reader, size: usize, books: Books, tap: Tap<Received>, then: T) -> Self {
        let room = vec![0; size + SPARE_BYTES];
        Self { reader, room, books, tap, then, empty_wakeups: 0, trouble: None }
    }

    /// Takes all there is; how many samples it was.
    pub fn drain(&mut self) -> u64 {
        let mut taken = 0;
        loop {
            match self.reader.take(&mut self.room) {
                Ok(Some(bytes)) => {
                    let rx_user_tai_ns = tai_ns();
                    taken += 1;
                    let Some(probe) = self.books.admit(bytes, self.then.bound()) else { continue };
                    if probe.sequence == HELLO {
                        self.then.greeted();
                        continue;
                    }
                    // What comes next is on its way before this is written down.
                    self.then.came(&probe, rx_user_tai_ns, self.tap.crowded());
                    self.tap.push(Received {
                        stream: probe.stream,
                        sequence: probe.sequence,
                        launch_tai_ns: probe.launch_tai_ns,
                        rx_hard_phc_ns: None,
                        rx_soft_real_ns: None,
                        rx_user_tai_ns,
                    });
                }
                Ok(None) => return taken,
                Err(error) => {
                    self.trouble.get_or_insert(error);
                    return taken;
                }
            }
        }
    }

    /// Notes that it was woken and there was nothing to take.
    pub fn note_empty_wakeup(&mut self) {
        self.empty_wakeups += 1;
    }

    /// The reader.
    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    /// Why samples could be taken no more; None: they could.
    pub fn trouble(&self) -> Option<&cyclone::Error> {
        self.trouble.as_ref()
    }

    /// What was taken in, and how often it was woken for nothing.
    pub fn totals(&self) -> (Taken, u64) {
        (self.books.taken, self.empty_wakeups)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const RUN: u64 = 0xab;

    fn books() -> Books {
        let spec: Dds = serde_json::from_value(json!({
            "role": "pong", "run_id": format!("{RUN:016x}"), "recording": "x", "realtime": {}, "mode": "block", "up": 1,
            "down": 2, "name": "dds", "interface": "eth0", "size": 64,
            "transport": {"kind": "dds", "domain": 0, "config": "", "reliable": true, "history": 1}}))
        .unwrap();
        Books::new(&spec, 1)
    }

    fn probe(change: impl FnOnce(&mut Probe)) -> Vec<u8> {
        let mut probe = Probe { stream: 1, run_id: RUN, sequence: 0, launch_tai_ns: 5, size: 64, crowded: false };
        change(&mut probe);
        let mut bytes = vec![0; 64];
        probe.write(&mut bytes);
        bytes
    }

    #[test]
    fn each_fault_is_counted_under_its_own_kind_and_a_hello_under_none() {
        let mut books = books();
        let admitted: Vec<bool> = [
            probe(|_| {}),
            probe(|p| p.sequence = 2),
            probe(|p| p.sequence = 1),
            probe(|_| {}),
            probe(|p| p.sequence = 3),
            probe(|p| p.sequence = HELLO),
            probe(|p| p.run_id = 1),
            probe(|p| p.stream = 2),
            probe(|p| p.size = 65),
            probe(|p| p.size = 63),
            probe(|_| {})[..39].to_vec(),
            b"something else entirely, of the right length or more........".to_vec(),
        ]
        .iter()
        .map(|bytes| books.admit(bytes, 3).is_some())
        .collect();
        assert_eq!(admitted.iter().filter(|admitted| **admitted).count(), 4);
        let taken = books.taken;
        assert_eq!((taken.received, taken.repeated, taken.reordered, taken.out_of_range), (3, 1, 1, 1));
        let refused = taken.refused;
        assert_eq!((refused.foreign, refused.truncated, refused.other_run, refused.unknown_stream), (2, 2, 1, 1));
    }

    #[test]
    fn a_sample_that_is_longer_than_its_probe_is_foreign() {
        let mut books = books();
        assert!(books.admit(&[probe(|_| {}), vec![0]].concat(), 3).is_none());
        assert_eq!((books.taken.received, books.taken.refused.foreign), (0, 1));
        assert!(books.admit(&probe(|_| {}), 3).is_some());
    }

    #[test]
    fn admitting_allocates_nothing() {
        let mut books = books();
        let samples: Vec<Vec<u8>> = (0..6).map(|n| probe(|p| p.sequence = n % 4)).collect();
        let before = sys::allocations::made_by_this_thread();
        assert!(before > 0, "the counting allocator is not in use");
        for bytes in &samples {
            books.admit(bytes, u64::MAX);
        }
        assert_eq!(sys::allocations::made_by_this_thread(), before);
    }
}
