//! Which packets took longer from one point of a kernel to another than a trigger says: the join of both points' records, as they
//! come.
//!
//! A packet is recognised by a digest of its payload, which address translation and a relay leave alone. Of packets with the same
//! digest none is judged: one must not keep a window for the other's delay.

use crate::flight::{JudgedTotals, Waiting, Window};
use crate::prp::without_trailer;
use crate::record::Watched;
use crate::spec::{HOLD_NS, Sight, WatchTrigger};
use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Packets that were seen first, and are remembered for `HOLD_NS`, at most.
const MOST: usize = 1 << 16;

/// What is known of packets with one digest.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Known {
    /// One was seen at the first point, then.
    Once(i64),
    /// It has come to the second.
    Came,
    /// Several were seen at the first point, or another one at the second.
    Ambiguous,
}

/// Judges packets by when two points saw them.
pub struct Passing {
    trigger: WatchTrigger,
    /// So many bytes of the payload are in the digest.
    payload: usize,
    /// By digest, and when the first point saw it last.
    known: HashMap<u64, (Known, i64)>,
    /// When the first point saw which digest.
    order: VecDeque<(i64, u64)>,
    windows: Waiting,
    totals: JudgedTotals,
}

impl Passing {
    /// `payload`: so many bytes of it are recorded at both points.
    pub fn new(trigger: WatchTrigger, payload: usize) -> Self {
        let (known, order) = (HashMap::with_capacity(MOST), VecDeque::with_capacity(MOST));
        Self { trigger, payload, known, order, windows: Waiting::new(), totals: JudgedTotals::default() }
    }

    /// A packet was seen at a point.
    pub fn seen(&mut self, row: &Watched) {
        let is_at = |sight: Sight| row.point == sight.point && row.out == sight.out;
        let (first, second) = (is_at(self.trigger.from), is_at(self.trigger.to));
        if !(first || second) {
            return;
        }
        let bytes = row.bytes.bytes();
        // One of the points may be in a LAN of PRP, and the other in none.
        let is_whole_frame = row.ethernet && row.length as usize == bytes.len();
        let bytes = if is_whole_frame { without_trailer(bytes) } else { bytes };
        match digest(bytes, row.ethernet, self.payload) {
            Some(digest) if first => self.began(digest, row.tai_ns),
            Some(digest) => self.came(digest, row.tai_ns),
            None if second => self.totals.unjudged += 1,
            None => {}
        }
    }

    /// The windows that have come about since this was asked before, in order.
    pub fn take(&mut self) -> Vec<Window> {
        self.windows.take()
    }

    /// What became of the packets at the second point so far.
    pub fn totals(&self) -> JudgedTotals {
        self.totals
    }

    fn began(&mut self, digest: u64, tai_ns: i64) {
        while let Some(&(since_ns, old)) = self.order.front() {
            if self.order.len() < MOST && since_ns >= tai_ns.saturating_sub(HOLD_NS) {
                break;
            }
            self.order.pop_front();
            // Of packets that are alike the last one counts: until then any of them may come.
            if self.known.get(&old).is_some_and(|(_, last_ns)| *last_ns == since_ns) {
                self.known.remove(&old);
            }
        }
        let found = if self.known.contains_key(&digest) { Known::Ambiguous } else { Known::Once(tai_ns) };
        self.known.insert(digest, (found, tai_ns));
        self.order.push_back((tai_ns, digest));
    }

    fn came(&mut self, digest: u64, tai_ns: i64) {
        let found = self.known.get_mut(&digest).map(|(known, _)| known);
        let Some(known @ &mut Known::Once(since_ns)) = found else {
            self.totals.unjudged += 1;
            return;
        };
        let took_ns = tai_ns.saturating_sub(since_ns);
        if !(0..=HOLD_NS).contains(&took_ns) {
            // None takes less than no time: it is another one, and so may the next be.
            *known = Known::Ambiguous;
            self.totals.unjudged += 1;
            return;
        }
        *known = Known::Came;
        self.totals.judged += 1;
        if took_ns > self.trigger.above_ns {
            self.totals.late += 1;
            self.windows.keep(since_ns, tai_ns, self.trigger.margin_ns);
        }
    }
}

const TYPE_IPV4: [u8; 2] = [0x08, 0x00];
const TYPE_IPV6: [u8; 2] = [0x86, 0xdd];
const TCP: u8 = 6;
const UDP: u8 = 17;
/// A frame's payload is padded to that.
const PADDED: usize = 46;
/// EtherTypes of tags, and how long these are with the EtherType that follows: VLAN, 802.1CB's and HSR's.
const TAGS: [([u8; 2], usize); 6] =
    [([0x81, 0x00], 4), ([0x88, 0xa8], 4), ([0x91, 0x00], 4), ([0x92, 0x00], 4), ([0xf1, 0xc1], 6), ([0x89, 0x2f], 6)];

/// Of what stays the same on the packet's path, `most` bytes at most: of UDP its payload; of TCP what follows the ports, without
/// the checksum; of other IP what follows its header; of other frames what follows EtherType. None: its headers are not whole, or
/// there is nothing behind them.
fn digest(bytes: &[u8], ethernet: bool, most: usize) -> Option<u64> {
    let mut hasher = DefaultHasher::new();
    let (kind, packet) =
        if ethernet { untagged(bytes)? } else { (if bytes.first()? >> 4 == 6 { TYPE_IPV6 } else { TYPE_IPV4 }, bytes) };
    let (protocol, length, behind) = match kind {
        TYPE_IPV4 if packet.first()? >> 4 == 4 => {
            let header = usize::from(packet[0] & 0x0f) * 4;
            let fragment = u16::from_be_bytes([*packet.get(6)?, *packet.get(7)?]) & 0x3fff;
            if fragment != 0 {
                packet.get(4..8)?.hash(&mut hasher);
            }
            let protocol = if fragment == 0 { *packet.get(9)? } else { 0 };
            let total = usize::from(u16::from_be_bytes([packet[2], packet[3]]));
            (protocol, total.saturating_sub(header), packet.get(header.max(20)..)?)
        }
        TYPE_IPV6 if packet.first()? >> 4 == 6 => {
            let length = usize::from(u16::from_be_bytes([*packet.get(4)?, *packet.get(5)?]));
            (*packet.get(6)?, length, packet.get(40..)?)
        }
        _ => {
            let mut padded = [0; PADDED];
            let payload = if packet.len() < PADDED {
                padded[..packet.len()].copy_from_slice(packet);
                &padded[..]
            } else {
                packet
            };
            (kind, &payload[..most.min(payload.len())]).hash(&mut hasher);
            return Some(hasher.finish());
        }
    };
    // What follows is padding; a segment of 64 KiB and more has no length in its header.
    let behind = if length == 0 { behind } else { &behind[..length.min(behind.len())] };
    let payload = match protocol {
        UDP => behind.get(8..)?,
        TCP => {
            behind.get(4..16)?.hash(&mut hasher);
            behind.get(18..)?
        }
        _ => behind,
    };
    if payload.is_empty() {
        return None;
    }
    (protocol, length, &payload[..most.min(payload.len())]).hash(&mut hasher);
    Some(hasher.finish())
}

/// The EtherType of a frame behind all tags, and what follows it.
fn untagged(frame: &[u8]) -> Option<([u8; 2], &[u8])> {
    let mut at = 14;
    loop {
        let kind = [*frame.get(at - 2)?, *frame.get(at - 1)?];
        match TAGS.iter().find(|(tag, _)| *tag == kind) {
            Some((_, long)) => at += long,
            None => return Some((kind, frame.get(at..)?)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prp::trailer;
    use crate::record::{MAX_SNAP, Snap};
    use crate::spec::Lan;
    use proptest::prelude::*;

    const MS: i64 = 1_000_000;
    const FIRST: Sight = Sight { point: 0, out: false };
    const SECOND: Sight = Sight { point: 1, out: true };

    fn passing() -> Passing {
        Passing::new(WatchTrigger { from: FIRST, to: SECOND, above_ns: 5 * MS, margin_ns: MS }, 58)
    }

    /// A UDP datagram of IPv4 without a link's header.
    fn datagram(source: [u8; 4], ports: [u8; 4], payload: &[u8]) -> Vec<u8> {
        let total = (28 + payload.len()) as u16;
        let mut bytes = vec![0x45, 0, 0, 0, 1, 2, 0x40, 0, 64, UDP, 0, 0];
        bytes[2..4].copy_from_slice(&total.to_be_bytes());
        bytes.extend(source);
        bytes.extend([10, 0, 0, 9]);
        bytes.extend(ports);
        bytes.extend((total - 20).to_be_bytes());
        bytes.extend([7, 7]);
        bytes.extend(payload);
        bytes
    }

    fn framed(header: &[u8], packet: &[u8]) -> Vec<u8> {
        [&[0; 12], header, packet].concat()
    }

    fn row(sight: Sight, at_ms: i64, bytes: &[u8], ethernet: bool) -> Watched {
        Watched {
            tai_ns: at_ms * MS,
            point: sight.point,
            out: sight.out,
            ethernet,
            length: bytes.len() as u32,
            bytes: Snap::of(bytes).unwrap(),
            segments: 1,
        }
    }

    /// Packet `number` is seen.
    fn seen(passing: &mut Passing, sight: Sight, at_ms: i64, number: i64) {
        passing.seen(&row(sight, at_ms, &datagram([10, 0, 0, 1], [1, 2, 3, 4], &number.to_be_bytes()), false));
    }

    fn window(from: i64, to: i64) -> Window {
        Window { from_tai_ns: from * MS, to_tai_ns: to * MS }
    }

    #[test]
    fn a_packet_above_the_threshold_has_a_window_around_both_sights_and_others_have_none() {
        let mut passing = passing();
        for number in 0..4 {
            seen(&mut passing, FIRST, number * 100, number);
            seen(&mut passing, SECOND, number * 100 + if number == 2 { 6 } else { 5 }, number);
        }
        assert_eq!((passing.take(), passing.take()), (vec![window(199, 207)], vec![]));
        assert_eq!(passing.totals(), JudgedTotals { judged: 4, late: 1, typical: 0, unjudged: 0 });
    }

    #[test]
    fn packets_with_the_same_payload_are_never_judged() {
        let mut passing = passing();
        // One is lost or overtaken: whose delay the second point shows is unknown.
        seen(&mut passing, FIRST, 0, 7);
        seen(&mut passing, FIRST, 20, 7);
        seen(&mut passing, SECOND, 21, 7);
        // A copy that comes when the packet has come, and the same packet sent again.
        seen(&mut passing, FIRST, 30, 8);
        seen(&mut passing, SECOND, 31, 8);
        seen(&mut passing, SECOND, 51, 8);
        seen(&mut passing, FIRST, 60, 8);
        seen(&mut passing, SECOND, 80, 8);
        // One that the first point has not seen.
        seen(&mut passing, SECOND, 90, 9);
        assert_eq!(passing.take(), vec![]);
        assert_eq!(passing.totals(), JudgedTotals { judged: 1, late: 0, typical: 0, unjudged: 4 });
    }

    #[test]
    fn a_payload_that_comes_again_and_again_is_ambiguous_as_long_as_it_does() {
        let mut passing = passing();
        let hold = HOLD_NS / MS;
        for at in [0, hold - 1, 2 * hold - 2, 3 * hold - 3] {
            seen(&mut passing, FIRST, at, 7);
        }
        seen(&mut passing, SECOND, 3 * hold, 7);
        assert_eq!((passing.totals().judged, passing.totals().unjudged), (0, 1));
        // Alone again.
        seen(&mut passing, FIRST, 4 * hold, 7);
        seen(&mut passing, SECOND, 4 * hold + 6, 7);
        assert_eq!((passing.totals().late, passing.take()), (1, vec![window(4 * hold - 1, 4 * hold + 7)]));
    }

    #[test]
    fn a_packet_that_takes_longer_than_it_is_remembered_is_not_judged() {
        let mut passing = passing();
        let hold = HOLD_NS / MS;
        seen(&mut passing, FIRST, 0, 7);
        seen(&mut passing, FIRST, 0, 8);
        seen(&mut passing, SECOND, hold, 7);
        seen(&mut passing, SECOND, hold + 1, 8);
        // Of what happened the last second is kept.
        assert_eq!(passing.take(), vec![window(hold - 1_001, hold + 1)]);
        assert_eq!(passing.totals(), JudgedTotals { judged: 1, late: 1, typical: 0, unjudged: 1 });
    }

    #[test]
    fn what_the_second_point_saw_before_the_first_is_another_packet_and_so_may_the_next_be() {
        let mut passing = passing();
        seen(&mut passing, FIRST, 10, 7);
        seen(&mut passing, SECOND, 9, 7);
        seen(&mut passing, SECOND, 20, 7);
        assert_eq!(passing.take(), vec![]);
        assert_eq!(passing.totals(), JudgedTotals { judged: 0, late: 0, typical: 0, unjudged: 2 });
        // At one instant, as a clock that is coarse has it.
        seen(&mut passing, FIRST, 10, 8);
        seen(&mut passing, SECOND, 10, 8);
        assert_eq!(passing.totals().judged, 1);
    }

    #[test]
    fn other_points_and_the_way_back_are_not_judged() {
        let mut passing = passing();
        seen(&mut passing, SECOND, 0, 1);
        seen(&mut passing, Sight { out: true, ..FIRST }, 1, 1);
        seen(&mut passing, FIRST, 100, 1);
        seen(&mut passing, Sight { point: 2, ..SECOND }, 120, 1);
        seen(&mut passing, Sight { out: false, ..SECOND }, 120, 1);
        assert_eq!((passing.take(), passing.totals().judged), (vec![], 0));
    }

    #[test]
    fn what_is_remembered_is_bounded_in_number_and_in_time() {
        let mut passing = passing();
        let most = MOST as i64;
        (0..most + 5).for_each(|number| seen(&mut passing, FIRST, 0, number));
        assert_eq!((passing.known.len(), passing.order.len()), (MOST, MOST));
        (0..most + 5).for_each(|number| seen(&mut passing, SECOND, 1, number));
        assert_eq!((passing.totals().judged, passing.totals().unjudged), (MOST as u64, 5));
        seen(&mut passing, FIRST, HOLD_NS / MS + 1, 0);
        assert_eq!((passing.known.len(), passing.order.len()), (1, 1));
    }

    #[test]
    fn a_packet_is_recognised_behind_translation_and_tags_and_by_its_payload_alone() {
        let payload = [9; 100];
        let plain = datagram([10, 0, 0, 1], [1, 2, 3, 4], &payload);
        let of = |bytes: &[u8], ethernet| digest(bytes, ethernet, 58);
        let same = of(&plain, false);
        assert!(same.is_some());
        let translated = datagram([192, 168, 0, 1], [9, 9, 3, 4], &payload);
        assert_eq!(of(&framed(&TYPE_IPV4, &translated), true), same);
        assert_eq!(of(&framed(&[0x81, 0, 0, 5, 8, 0], &plain), true), same);
        // So much of it may be cut at one point.
        assert_eq!(of(&plain[..28 + 58], false), same);
        assert_ne!(of(&datagram([10, 0, 0, 1], [1, 2, 3, 4], &payload[1..]), false), same);
        let mut other = plain.clone();
        other[28] = 8;
        assert_ne!(of(&other, false), same);
        // Padding does not count, neither behind IP nor of another frame.
        let short = datagram([10, 0, 0, 1], [1, 2, 3, 4], &[5]);
        assert_eq!(of(&framed(&TYPE_IPV4, &[&short[..], &[0; 17]].concat()), true), of(&short, false));
        assert_eq!(
            of(&framed(&[0x88, 0xba], &[1, 2]), true),
            of(&framed(&[0x88, 0xba], &[&[1, 2][..], &[0; 44]].concat()), true)
        );
        assert_eq!(of(&datagram([10, 0, 0, 1], [1, 2, 3, 4], &[]), false), None);
    }

    #[test]
    fn a_frame_is_recognised_with_a_trailer_of_prp_and_without() {
        let plain = framed(&[0x88, 0xba], &[9; 50]);
        let with_trailer = [plain.clone(), trailer(Lan::A, 50).to_vec()].concat();
        let late = |first: &[u8], second: &[u8]| {
            let mut passing = passing();
            passing.seen(&row(FIRST, 0, first, true));
            passing.seen(&row(SECOND, 6, second, true));
            passing.totals().late
        };
        assert_eq!((late(&plain, &with_trailer), late(&with_trailer, &plain)), (1, 1));
        let mut passing = passing();
        // Where the frame goes on, it ends with no trailer.
        passing.seen(&Watched { length: 80, ..row(FIRST, 0, &with_trailer, true) });
        passing.seen(&row(SECOND, 6, &plain, true));
        assert_eq!(passing.totals(), JudgedTotals { judged: 0, late: 0, typical: 0, unjudged: 1 });
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..MAX_SNAP), ethernet: bool, tai_ns: i64) {
            let mut passing = passing();
            for sight in [FIRST, SECOND] {
                passing.seen(&Watched { tai_ns, ..row(sight, 0, &bytes, ethernet) });
            }
            let _ = passing.take();
        }
    }
}
