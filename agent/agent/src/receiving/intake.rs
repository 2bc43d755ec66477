//! What becomes of a packet that came in: recorded, or counted by the kind of its fault.
//!
//! Nothing in [`Intake::take_in`] allocates, locks, formats or prints.

use crate::recording::Tap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use sys::receive::Packet;
use wire::event::{ListenTotals, Refused};
use wire::probe::{Probe, Refusal};
use wire::prp::without_trailer;
use wire::record::Received;
use wire::sequence::{Arrival, Sequences};

/// Bytes of the shortest frame, without its check sequence but with a VLAN tag (IEEE 802.3, 3.2.8; 802.1Q, 9.2).
const LEAST_FRAME: usize = 64;

/// A stream to be taken in.
#[derive(Clone, Copy, Debug)]
pub struct Expected {
    /// Its number.
    pub stream: u16,
    /// Its number in the packets: another one, if they are a copy of another stream's.
    pub carries: u16,
    /// The position of the socket it comes in at.
    pub port: usize,
    /// Bytes of the probe.
    pub size: usize,
    /// Packets in all; None: nobody knows.
    pub count: Option<u64>,
}

struct Stream {
    port: usize,
    carries: u16,
    size: u32,
    sequences: Sequences,
    totals: ListenTotals,
}

/// The listening thread's books.
pub struct Intake {
    run_id: u64,
    headers: Vec<usize>,
    streams: Vec<Stream>,
    refused: Refused,
    empty_wakeups: u64,
    tap: Tap<Received>,
    received: Arc<Vec<AtomicU64>>,
    complete: Arc<AtomicBool>,
    open_streams: usize,
}

impl Intake {
    /// For these streams of a run. `headers`: how many bytes stand before the probe, of each port.
    pub fn new(
        run_id: u64,
        headers: Vec<usize>,
        expected: &[Expected],
        tap: Tap<Received>,
        received: Arc<Vec<AtomicU64>>,
        complete: Arc<AtomicBool>,
    ) -> Self {
        let streams = expected.iter().map(|stream| Stream {
            port: stream.port,
            carries: stream.carries,
            size: stream.size as u32,
            sequences: stream.count.map_or_else(Sequences::endless, Sequences::new),
            totals: ListenTotals { stream: stream.stream, ..ListenTotals::default() },
        });
        Self {
            run_id,
            headers,
            streams: streams.collect(),
            refused: Refused::default(),
            empty_wakeups: 0,
            tap,
            received,
            complete,
            open_streams: expected.len(),
        }
    }

    /// Whether its rows are written more slowly than they come.
    pub fn crowded(&self) -> bool {
        self.tap.crowded()
    }

    /// Takes in a packet that the receive call returned at `rx_user_tai_ns`, from the socket of port `port`. Returns the probe
    /// if it was recorded.
    #[inline]
    pub fn take_in(&mut self, port: usize, packet: &Packet<'_>, rx_user_tai_ns: i64) -> Option<Probe> {
        let (probe, row) = self.admit(port, packet, rx_user_tai_ns)?;
        self.note(row);
        Some(probe)
    }

    /// As [`Self::take_in`], but for its row, which [`Self::note`] is to be given: what a packet calls for comes first.
    #[inline]
    pub fn admit(&mut self, port: usize, packet: &Packet<'_>, rx_user_tai_ns: i64) -> Option<(Probe, Received)> {
        let header = self.headers[port];
        let probe = match packet.bytes.get(header..).map_or(Err(Refusal::Truncated), Probe::read) {
            Ok(probe) if bytes_without_trailer(header, packet.bytes) > longest(header, probe.size as usize) => {
                return count(&mut self.refused.foreign);
            }
            Ok(probe) => probe,
            Err(Refusal::Foreign) => return count(&mut self.refused.foreign),
            Err(Refusal::Truncated) => return count(&mut self.refused.truncated),
        };
        if probe.run_id != self.run_id {
            return count(&mut self.refused.other_run);
        }
        let known =
            |stream: &Stream| stream.carries == probe.stream && stream.port == port && stream.size == probe.size;
        let Some(position) = self.streams.iter().position(known) else {
            return count(&mut self.refused.unknown_stream);
        };
        let stream = &mut self.streams[position];
        match stream.sequences.arrive(probe.sequence) {
            Arrival::OutOfRange => return count(&mut stream.totals.out_of_range),
            Arrival::Repeated => return count(&mut stream.totals.repeated),
            Arrival::Reordered => stream.totals.reordered += 1,
            Arrival::InOrder => {}
        }
        stream.totals.received += 1;
        self.received[position].store(stream.totals.received, Ordering::Relaxed);
        if stream.sequences.complete() {
            self.open_streams -= 1;
            if self.open_streams == 0 {
                self.complete.store(true, Ordering::Release);
            }
        }
        let row = Received {
            stream: self.streams[position].totals.stream,
            sequence: probe.sequence,
            launch_tai_ns: probe.launch_tai_ns,
            rx_hard_phc_ns: packet.hardware_ns,
            rx_soft_real_ns: packet.software_ns,
            rx_user_tai_ns,
        };
        Some((probe, row))
    }

    /// Records a packet that was admitted.
    #[inline]
    pub fn note(&mut self, row: Received) {
        self.tap.push(row);
    }

    /// Packets that have arrived, each once.
    pub fn received(&self) -> u64 {
        self.streams.iter().map(|stream| stream.totals.received).sum()
    }

    /// Whether every packet of every stream has arrived.
    pub fn complete(&self) -> bool {
        self.open_streams == 0
    }

    /// Forgets which packets have arrived: whoever sends them begins again.
    pub fn start_over(&mut self) {
        self.streams.iter_mut().for_each(|stream| stream.sequences.start_over());
    }

    /// Notes that the kernel announced a packet and there was none.
    pub fn note_empty_wakeup(&mut self) {
        self.empty_wakeups += 1;
    }

    /// Totals by stream, what was refused, and how often there was nothing where a packet was announced.
    pub fn totals(self) -> (Vec<ListenTotals>, Refused, u64) {
        (self.streams.into_iter().map(|stream| stream.totals).collect(), self.refused, self.empty_wakeups)
    }
}

/// Of how many bytes a packet is at most that holds a probe of this size behind a header: a datagram is the probe, a frame may
/// be padded to the least that Ethernet carries, with a VLAN tag or without.
const fn longest(header: usize, size: usize) -> usize {
    let padded = if header == 0 { 0 } else { LEAST_FRAME };
    if header + size > padded { header + size } else { padded }
}

/// How long a packet is that came in behind a header of so many bytes, without what PRP puts behind a frame.
#[inline]
fn bytes_without_trailer(header: usize, bytes: &[u8]) -> usize {
    if header == 0 { bytes.len() } else { without_trailer(bytes).len() }
}

/// None, and one more of these.
fn count<T>(counter: &mut u64) -> Option<T> {
    *counter += 1;
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::receiving::ETHERNET_HEADER;
    use crate::recording::Recorder;

    const RUN: u64 = 0xab;

    fn intake(header: usize) -> Intake {
        let folder = std::env::temp_dir().join(format!("latlab-intake-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let tap = Recorder::new(&folder.join("x").to_string_lossy(), RUN).table(64).unwrap();
        let expected = [Expected { stream: 1, carries: 1, port: 0, size: 64, count: Some(3) }];
        Intake::new(RUN, vec![header], &expected, tap, Arc::new(vec![AtomicU64::new(0)]), Arc::default())
    }

    fn probe(change: impl FnOnce(&mut Probe)) -> Vec<u8> {
        let mut probe = Probe { stream: 1, run_id: RUN, sequence: 0, launch_tai_ns: 5, size: 64, crowded: false };
        change(&mut probe);
        let mut bytes = vec![0; 64];
        probe.write(&mut bytes);
        bytes
    }

    fn packet(bytes: &[u8]) -> Packet<'_> {
        Packet { bytes, software_ns: Some(1), hardware_ns: None }
    }

    #[test]
    fn each_fault_is_counted_under_its_own_kind() {
        let mut intake = intake(0);
        for bytes in [
            probe(|_| {}),
            probe(|p| p.sequence = 2),
            probe(|p| p.sequence = 1),
            probe(|_| {}),
            probe(|p| p.sequence = 3),
            probe(|p| p.run_id = 1),
            probe(|p| p.stream = 9),
            probe(|p| p.size = 65),
            probe(|_| {})[..39].to_vec(),
            b"something else entirely, of the right length or more........".to_vec(),
            Vec::new(),
        ] {
            intake.take_in(0, &packet(&bytes), 10);
        }
        assert!(intake.complete.load(Ordering::Relaxed));
        let (streams, refused, _) = intake.totals();
        let s = streams[0];
        assert_eq!((s.received, s.repeated, s.reordered, s.out_of_range), (3, 1, 1, 1));
        assert_eq!((refused.foreign, refused.truncated, refused.other_run, refused.unknown_stream), (1, 3, 1, 1));
    }

    #[test]
    fn the_probe_of_a_frame_stands_behind_its_header() {
        let mut intake = intake(ETHERNET_HEADER);
        intake.take_in(0, &packet(&[vec![0; ETHERNET_HEADER], probe(|_| {})].concat()), 10);
        intake.take_in(0, &packet(&[0; ETHERNET_HEADER - 1]), 10);
        let (streams, refused, _) = intake.totals();
        assert_eq!((streams[0].received, refused.truncated), (1, 1));
    }

    #[test]
    fn a_datagram_that_is_longer_than_its_probe_is_foreign_and_a_frame_may_be_padded() {
        for (header, size, refused) in [
            (0, 64, [false, true, true]),
            (ETHERNET_HEADER, 64, [false, true, true]),
            (ETHERNET_HEADER, 40, [false, false, true]),
        ] {
            assert_eq!([0, 10, 1000].map(|more| header + size + more > longest(header, size)), refused);
        }
        let mut intake = intake(0);
        intake.take_in(0, &packet(&[probe(|_| {}), vec![0]].concat()), 10);
        let (streams, refused, _) = intake.totals();
        assert_eq!((streams[0].received, refused.foreign), (0, 1));
    }

    #[test]
    fn a_packet_that_was_recorded_is_told_and_no_other_is() {
        let mut intake = intake(0);
        let mut told = |bytes: &[u8]| intake.take_in(0, &packet(bytes), 10).map(|probe| probe.sequence);
        assert_eq!(told(&probe(|p| p.sequence = 2)), Some(2));
        assert_eq!(told(&probe(|p| p.sequence = 2)), None);
        assert_eq!(told(&probe(|p| p.run_id = 1)), None);
        assert_eq!(told(b"nothing"), None);
        intake.start_over();
        assert!(intake.take_in(0, &packet(&probe(|p| p.sequence = 2)), 10).is_some());
    }

    #[test]
    fn taking_packets_in_allocates_nothing() {
        let mut intake = intake(0);
        let packets: Vec<Vec<u8>> = (0..6).map(|n| probe(|p| p.sequence = n % 4)).collect();
        let before = sys::allocations::made_by_this_thread();
        assert!(before > 0, "the counting allocator is not in use");
        for bytes in &packets {
            intake.take_in(0, &packet(bytes), 10);
        }
        assert_eq!(sys::allocations::made_by_this_thread(), before);
    }
}
