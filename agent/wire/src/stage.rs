//! What the BPF programs at the kernel's tracepoints say of packets (`agent/bpf/stages.bpf.c`), and how it finds its rows.

use crate::in_c::defined;
use crate::record::{Received, Stamp, StampKind};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::HashMap;
use std::ops::Range;

/// Bytes of a record.
pub const RECORD_BYTES: usize = 16;

/// A stage of a packet's path through the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u16)]
pub enum Stage {
    /// `net_dev_queue`: entered the qdisc layer.
    TxSched = 0,
    /// `net_dev_start_xmit`: handed to the driver.
    TxSoft = 1,
    /// `netif_receive_skb`: taken in by the kernel.
    RxSoft = 2,
}

impl Stage {
    /// All of them, in a packet's order.
    pub const ALL: [Self; 3] = [Self::TxSched, Self::TxSoft, Self::RxSoft];

    /// The timestamp's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TxSched => "tx_sched",
            Self::TxSoft => "tx_soft",
            Self::RxSoft => "rx_soft",
        }
    }

    /// The kind of a row of `stamps`; None: a received packet has it in its own row.
    pub const fn kind(self) -> Option<StampKind> {
        match self {
            Self::TxSched => Some(StampKind::TxSched),
            Self::TxSoft => Some(StampKind::TxSoft),
            Self::RxSoft => None,
        }
    }

    /// That of a row of `stamps`; None: it is no stage of the kernel's.
    pub const fn of(kind: StampKind) -> Option<Self> {
        match kind {
            StampKind::TxSched => Some(Self::TxSched),
            StampKind::TxSoft => Some(Self::TxSoft),
            StampKind::TxHard | StampKind::LaunchInvalid | StampKind::LaunchMissed => None,
        }
    }
}

/// A packet: number of the stream, and position in it. Closed loops may go on beyond 32 bits; no two packets that are on
/// their way at once have the same lower half.
pub type Packet = (u16, u32);

/// The packet of this stream and sequence.
pub const fn packet(stream: u16, sequence: u64) -> Packet {
    (stream, sequence as u32)
}

/// A segment of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// TCP's number of the byte behind its last one.
    pub end: u32,
    /// Its bytes.
    pub length: u16,
    /// The connection begins with it (SYN).
    pub begins: bool,
}

/// What came to a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Came {
    /// A packet.
    Packet(Packet),
    /// So much of a stream of bytes.
    Bytes(Segment),
}

/// Something came to a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// When, ns, on the clock the programs were told to use.
    pub ns: i64,
    /// What.
    pub came: Came,
    /// To which stage.
    pub stage: Stage,
}

const SOURCE: &str = include_str!("../../bpf/stages.bpf.c");
/// In a record's kind beside the stage: it is of a stream of bytes; the connection begins.
const OF_BYTES: u16 = defined(SOURCE, "OF_BYTES") as u16;
const BEGINS: u16 = defined(SOURCE, "BEGINS") as u16;

impl Record {
    /// The record as the programs lay it out; None: these bytes are none.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; RECORD_BYTES] = bytes.try_into().ok()?;
        let (ns, rest) = bytes.split_first_chunk()?;
        let (sequence, rest) = rest.split_first_chunk()?;
        let (stream, kind) = rest.split_first_chunk()?;
        let kind = u16::from_ne_bytes(kind.try_into().ok()?);
        let (sequence, stream) = (u32::from_ne_bytes(*sequence), u16::from_ne_bytes(*stream));
        let came = if kind & OF_BYTES == 0 {
            Came::Packet((stream, sequence))
        } else {
            Came::Bytes(Segment { end: sequence, length: stream, begins: kind & BEGINS != 0 })
        };
        let stage = Stage::ALL.into_iter().find(|stage| *stage as u16 == kind & !(OF_BYTES | BEGINS))?;
        Some(Self { ns: i64::from_ne_bytes(*ns), came, stage })
    }
}

/// Messages of one size, one after the other in a stream of bytes, and how many have come to each stage.
///
/// A message is there with its last byte, as the kernel's own timestamps of streams have it
/// (Documentation/networking/timestamping.rst, 1.3.3). Segments that come again count once. Where one overtakes another, the
/// messages of both are there with the first.
#[derive(Debug)]
pub struct Messages {
    size: u64,
    at: [Option<Progress>; Stage::ALL.len()],
}

#[derive(Clone, Copy, Debug)]
struct Progress {
    /// TCP's number of the next byte.
    end: u32,
    bytes: u64,
    messages: u64,
}

impl Messages {
    /// Messages of so many bytes, none of which has come yet.
    pub fn new(size: usize) -> Self {
        Self { size: size.max(1) as u64, at: [None; Stage::ALL.len()] }
    }

    /// The numbers of those that are whole with this segment.
    pub fn whole(&mut self, stage: Stage, segment: Segment) -> Range<u64> {
        let fresh = Progress { end: segment.end.wrapping_sub(u32::from(segment.length)), bytes: 0, messages: 0 };
        let at = self.at[stage as usize].get_or_insert(fresh);
        if segment.begins {
            *at = fresh;
        }
        let more = segment.end.wrapping_sub(at.end) as i32;
        let before = at.messages;
        if let Ok(more @ 1..) = u32::try_from(more) {
            at.end = segment.end;
            at.bytes += u64::from(more);
            at.messages = at.bytes / self.size;
        }
        before..at.messages
    }
}

/// When packets arrived that no row asked for yet.
#[derive(Debug, Default)]
pub struct Arrivals {
    at: HashMap<Packet, i64>,
    newest_ns: i64,
}

/// So many may be remembered: most of them of packets that nobody received.
const MOST_ARRIVALS: usize = 1 << 16;
/// So old an arrival is forgotten when there are too many: its packet was received long since, or will not be any more.
const OLD_NS: i64 = 1_000_000_000;

impl Arrivals {
    /// A packet arrived. Where it is reported twice, it was merged with others after the first time: that counts.
    pub fn note(&mut self, packet: Packet, real_ns: i64) {
        self.newest_ns = self.newest_ns.max(real_ns);
        self.at.entry(packet).or_insert(real_ns);
        if self.at.len() > MOST_ARRIVALS {
            let newest_ns = self.newest_ns;
            self.at.retain(|_, ns| newest_ns - *ns < OLD_NS);
            if self.at.len() > MOST_ARRIVALS {
                self.at.clear();
            }
        }
    }

    /// When the packet of this row arrived; None: unknown.
    pub fn take(&mut self, row: &Received) -> Option<i64> {
        self.at.remove(&packet(row.stream, row.sequence))
    }
}

/// By how much the timestamps of BPF programs differ from the socket's of the same packets.
#[derive(Debug, Default)]
pub struct Comparison {
    waiting: HashMap<(Stage, Packet), Side>,
    differences: [Vec<i64>; Stage::ALL.len()],
}

#[derive(Clone, Copy, Debug)]
enum Side {
    Ebpf(i64),
    Socket(i64),
}

/// So many packets are compared at most, of each stage.
const MOST_COMPARED: usize = 1 << 20;

impl Comparison {
    /// A packet's timestamp by a BPF program.
    pub fn ebpf(&mut self, stage: Stage, packet: Packet, ns: i64) {
        self.meet(stage, packet, Side::Ebpf(ns));
    }

    /// The same by the socket.
    pub fn socket(&mut self, stage: Stage, packet: Packet, ns: i64) {
        self.meet(stage, packet, Side::Socket(ns));
    }

    fn meet(&mut self, stage: Stage, packet: Packet, came: Side) {
        let difference = match (self.waiting.remove(&(stage, packet)), came) {
            (Some(Side::Ebpf(ebpf)), Side::Socket(socket)) | (Some(Side::Socket(socket)), Side::Ebpf(ebpf)) => {
                ebpf - socket
            }
            _ => {
                if self.waiting.len() < MOST_COMPARED {
                    self.waiting.insert((stage, packet), came);
                }
                return;
            }
        };
        let differences = &mut self.differences[stage as usize];
        if differences.len() < MOST_COMPARED {
            differences.push(difference);
        }
    }

    /// What came of it, of the stages that any packet has both timestamps of.
    pub fn figures(mut self) -> Vec<Compared> {
        let of = |stage: Stage| {
            let sorted = &mut self.differences[stage as usize];
            sorted.sort_unstable();
            let at = |share: f64| sorted[((sorted.len() - 1) as f64 * share).round() as usize];
            (!sorted.is_empty()).then(|| Compared {
                stamp: stage.name(),
                n: sorted.len(),
                min_ns: at(0.0),
                p1_ns: at(0.01),
                p50_ns: at(0.5),
                p99_ns: at(0.99),
                max_ns: at(1.0),
            })
        };
        Stage::ALL.into_iter().filter_map(of).collect()
    }
}

/// eBPF's timestamp less the socket's, of the same packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Compared {
    /// Which timestamp.
    pub stamp: &'static str,
    /// Of how many packets.
    pub n: usize,
    /// Least.
    pub min_ns: i64,
    /// 1st percentile.
    pub p1_ns: i64,
    /// Median.
    pub p50_ns: i64,
    /// 99th percentile.
    pub p99_ns: i64,
    /// Largest.
    pub max_ns: i64,
}

/// What came of the BPF programs' records.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
pub struct StageTotals {
    /// Records for which the programs' rings had no room; they are in `ring_full` as well.
    pub lost: u64,
    /// Where the socket took the same timestamps, to compare them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub compared: Vec<Compared>,
}

/// A row of `stamps`: a packet was at this stage at `real_ns` by CLOCK_REALTIME; None: it is of a received packet.
pub fn row(stage: Stage, (stream, sequence): Packet, real_ns: i64) -> Option<Stamp> {
    stage.kind().map(|kind| Stamp { stream, sequence: u64::from(sequence), kind, stamp_ns: real_ns })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn received(sequence: u64) -> Received {
        Received {
            stream: 1,
            sequence,
            launch_tai_ns: 0,
            rx_hard_phc_ns: None,
            rx_soft_real_ns: None,
            rx_user_tai_ns: 0,
        }
    }

    #[test]
    fn a_record_is_read_as_the_programs_write_it() {
        let mut bytes = 5_i64.to_ne_bytes().to_vec();
        bytes.extend(7_u32.to_ne_bytes());
        bytes.extend(1_u16.to_ne_bytes());
        bytes.extend(2_u16.to_ne_bytes());
        let read = |came| Some(Record { ns: 5, came, stage: Stage::RxSoft });
        assert_eq!(Record::read(&bytes), read(Came::Packet((1, 7))));
        bytes[14] = 2 + 4;
        assert_eq!(Record::read(&bytes), read(Came::Bytes(Segment { end: 7, length: 1, begins: false })));
        bytes[14] = 2 + 4 + 8;
        assert_eq!(Record::read(&bytes), read(Came::Bytes(Segment { end: 7, length: 1, begins: true })));
        bytes[14] = 3;
        assert_eq!(Record::read(&bytes), None);
        assert_eq!(Record::read(&bytes[1..]), None);
    }

    /// Bytes as the programs record them: so many behind those before.
    fn segment(end: u32, length: u16) -> Segment {
        Segment { end, length, begins: false }
    }

    #[test]
    fn a_message_is_whole_with_its_last_byte_and_once() {
        // The numbers wrap.
        let first = u32::MAX - 150;
        let mut messages = Messages::new(100);
        let stage = Stage::TxSoft;
        assert_eq!(messages.whole(stage, Segment { end: first, length: 0, begins: true }), 0..0);
        let at = |bytes: u32| first.wrapping_add(bytes);
        assert_eq!(messages.whole(stage, segment(at(100), 100)), 0..1);
        // A part, the rest with another message, both again.
        assert_eq!(messages.whole(stage, segment(at(160), 60)), 1..1);
        assert_eq!(messages.whole(stage, segment(at(300), 140)), 1..3);
        assert_eq!(messages.whole(stage, segment(at(300), 200)), 3..3);
        assert_eq!(messages.whole(stage, segment(at(160), 60)), 3..3);
        // The next overtakes one.
        assert_eq!(messages.whole(stage, segment(at(500), 100)), 3..5);
        assert_eq!(messages.whole(stage, segment(at(400), 100)), 5..5);
        // Other stages count for themselves, from the first segment that was seen.
        assert_eq!(messages.whole(Stage::RxSoft, segment(77, 100)), 0..1);
        // Another connection.
        assert_eq!(messages.whole(stage, Segment { end: 9, length: 0, begins: true }), 0..0);
        assert_eq!(messages.whole(stage, segment(109, 100)), 0..1);
    }

    proptest! {
        #[test]
        fn every_message_is_whole_once_and_in_order_however_bytes_are_cut(
            size in 1_usize..300, first: u32, cuts in prop::collection::vec((1_u16..700, any::<bool>()), 1..60),
        ) {
            let mut messages = Messages::new(size);
            let (mut end, mut total, mut told) = (first, 0, 0);
            messages.whole(Stage::TxSched, Segment { end, length: 0, begins: true });
            for (length, again) in cuts {
                end = end.wrapping_add(u32::from(length));
                total += u64::from(length);
                for _ in 0..=u8::from(again) {
                    let whole = messages.whole(Stage::TxSched, segment(end, length));
                    prop_assert_eq!(whole.start, told);
                    told = whole.end;
                }
                prop_assert_eq!(told, total / size as u64);
            }
        }
    }

    #[test]
    fn an_arrival_belongs_to_one_row_and_the_first_of_two_counts() {
        let mut arrivals = Arrivals::default();
        arrivals.note((1, 7), 100);
        arrivals.note((1, 7), 200);
        assert_eq!(arrivals.take(&received(8)), None);
        assert_eq!(arrivals.take(&received(7 + (1 << 32))), Some(100));
        assert_eq!(arrivals.take(&received(7)), None);
    }

    #[test]
    fn arrivals_that_nobody_asks_for_are_forgotten_and_young_ones_are_not() {
        let mut arrivals = Arrivals::default();
        (0..MOST_ARRIVALS as u32).for_each(|n| arrivals.note((1, n), i64::from(n)));
        arrivals.note((2, 0), OLD_NS + MOST_ARRIVALS as i64);
        assert_eq!(arrivals.at.len(), 1);
    }

    #[test]
    fn timestamps_of_the_same_packet_are_compared_whichever_comes_first() {
        let mut comparison = Comparison::default();
        comparison.ebpf(Stage::TxSoft, (1, 0), 90);
        comparison.socket(Stage::TxSoft, (1, 0), 100);
        comparison.socket(Stage::TxSoft, (1, 1), 100);
        comparison.ebpf(Stage::TxSoft, (1, 1), 120);
        comparison.ebpf(Stage::TxSched, (1, 2), 120);
        let found = comparison.figures();
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].stamp, found[0].n, found[0].min_ns, found[0].max_ns), ("tx_soft", 2, -10, 20));
    }
}
