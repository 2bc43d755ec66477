//! What passes between `watch` and its BPF programs (`agent/bpf/watch.bpf.c`): tests that say which packets are recorded, and
//! records of these.

use crate::drops::{PLACE_BYTES, Place, known};
use crate::in_c::defined;
use crate::spec::{Flow, MAX_INSTRUCTIONS, MAX_TESTS, Macs, Network, Rule, WatchPoint};
use schemars::JsonSchema;
use serde::Serialize;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const SOURCE_FILE: &str = include_str!("../../bpf/watch.bpf.c");
const TESTS: &str = include_str!("../../bpf/watch_tests.h");

/// Bytes of a record before those of its packet.
pub const RECORD_BYTES: usize = 24;
/// The same of a packet that is dropped.
pub const DROP_BYTES: usize = RECORD_BYTES + 16 + PLACE_BYTES;
/// Bytes of a test.
const TEST_BYTES: usize = 40;
/// Bytes of an instruction of a filter.
const INSTRUCTION_BYTES: usize = 8;
/// Slots for points: more than there may be points.
const SLOTS: usize = defined(SOURCE_FILE, "SLOTS") as usize;
/// With the number of a tap in its slot: what is read from it.
const READ_FROM: u32 = defined(SOURCE_FILE, "READ_FROM");
/// Bytes of a flow that the tests reject.
pub const OTHER_BYTES: usize = 52;

const TYPE_IPV4: u16 = 0x0800;
const TYPE_IPV6: u16 = 0x86dd;
const VID: u16 = 0x0fff;
const PCP_SHIFT: u32 = 13;

const ANYTHING: u8 = 0;
const TYPE: u8 = 1;
const VLAN: u8 = 2;
const VID_OF: u8 = 3;
const PCP: u8 = 4;
const PROTOCOL: u8 = 5;
const DSCP: u8 = 6;
const SOURCE_PORT: u8 = 7;
const DESTINATION_PORT: u8 = 8;
const SOURCE: u8 = 9;
const DESTINATION: u8 = 10;
const SOURCE_MAC: u8 = 11;
const DESTINATION_MAC: u8 = 12;

/// Where the tests lead to in the end.
const ACCEPT: u8 = defined(TESTS, "ACCEPT") as u8;
const REJECT: u8 = defined(TESTS, "REJECT") as u8;

const FLAG_OUT: u8 = defined(SOURCE_FILE, "FLAG_OUT") as u8;
const FLAG_NO_ETHERNET: u8 = defined(SOURCE_FILE, "FLAG_NO_ETHERNET") as u8;
const FLAG_DROPPED: u8 = defined(SOURCE_FILE, "FLAG_DROPPED") as u8;

/// Where and why a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drop {
    /// The kernel's instruction that had it freed.
    pub location: u64,
    /// Where it was.
    pub place: Place,
    /// As `enum skb_drop_reason` has it; None: the kernel gives none.
    pub reason: Option<u32>,
}

/// A packet was seen at a point, or dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// When, ns, on the clock the program was told to use.
    pub ns: i64,
    /// Where and why it was dropped; None: it was not, and is at a point.
    pub dropped: Option<Drop>,
    /// Number of the point.
    pub point: u8,
    /// It left there; else it came in.
    pub out: bool,
    /// It begins with an Ethernet header; else with an IP header.
    pub ethernet: bool,
    /// Bytes of the packet.
    pub length: u32,
    /// Packets of the wire that it stands for: those that a card cuts it into, or that were put together.
    pub segments: u16,
    /// The first of its bytes.
    pub bytes: &'a [u8],
}

impl<'a> Record<'a> {
    /// The record as the program lays it out; None: these bytes are none.
    pub fn read(record: &'a [u8]) -> Option<Self> {
        let (head, mut bytes) = record.split_at_checked(RECORD_BYTES)?;
        let mut dropped = None;
        if head[15] & FLAG_DROPPED != 0 {
            let (drop, behind) = bytes.split_at_checked(DROP_BYTES - RECORD_BYTES)?;
            dropped = Some(Drop {
                location: u64::from_ne_bytes(drop[..8].try_into().ok()?),
                place: Place::read(drop[8..32].try_into().ok()?),
                reason: known(u32::from_ne_bytes(drop[32..36].try_into().ok()?)),
            });
            bytes = behind;
        }
        let captured = usize::from(u16::from_ne_bytes([head[12], head[13]]));
        Some(Self {
            ns: i64::from_ne_bytes(head[..8].try_into().ok()?),
            length: u32::from_ne_bytes(head[8..12].try_into().ok()?),
            segments: u16::from_ne_bytes([head[16], head[17]]).max(1),
            dropped,
            point: head[14],
            out: head[15] & FLAG_OUT != 0,
            ethernet: head[15] & FLAG_NO_ETHERNET == 0,
            bytes: bytes.get(..captured)?,
        })
    }
}

/// One question about a packet, and where its answer leads: to a later test, or to the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Test {
    looks_at: u8,
    yes: u8,
    no: u8,
    from: u16,
    to: u16,
    value: [u8; 16],
    mask: [u8; 16],
}

impl Test {
    fn number(looks_at: u8, (from, to): (u16, u16)) -> Self {
        Self { looks_at, from, to, ..Self::default() }
    }

    fn address(looks_at: u8, network: Network) -> Self {
        let (value, mask) = network.masked();
        Self { looks_at, value, mask, ..Self::default() }
    }

    fn mac(looks_at: u8, Macs { address, mask }: Macs) -> Self {
        let mut test = Self { looks_at, ..Self::default() };
        test.mask[..6].copy_from_slice(&mask.0);
        test.value.iter_mut().zip(address.0).zip(mask.0).for_each(|((value, byte), mask)| *value = byte & mask);
        test
    }

    /// The test as the program reads it.
    fn bytes(&self) -> [u8; TEST_BYTES] {
        let mut bytes = [0; TEST_BYTES];
        bytes[..3].copy_from_slice(&[self.looks_at, self.yes, self.no]);
        bytes[4..6].copy_from_slice(&self.from.to_ne_bytes());
        bytes[6..8].copy_from_slice(&self.to.to_ne_bytes());
        bytes[8..24].copy_from_slice(&self.value);
        bytes[24..].copy_from_slice(&self.mask);
        bytes
    }
}

/// The tests of a flow as the programs have them.
pub fn test_table(flow: &Flow) -> Vec<u8> {
    let mut table: Vec<u8> = flow.tests().iter().flat_map(Test::bytes).collect();
    table.resize(MAX_TESTS * TEST_BYTES, 0);
    table
}

/// The filter of a flow as the programs have it, and how many instructions it has; 0: the flow is none.
pub fn filter_table(flow: &Flow) -> (u32, Vec<u8>) {
    let filter = if let Flow::Pcap(filter) = flow { filter.as_slice() } else { &[] };
    let mut table: Vec<u8> = Vec::with_capacity(MAX_INSTRUCTIONS * INSTRUCTION_BYTES);
    for (code, yes, no, k) in filter {
        table.extend(code.to_ne_bytes());
        table.extend([*yes, *no]);
        table.extend(k.to_ne_bytes());
    }
    table.resize(MAX_INSTRUCTIONS * INSTRUCTION_BYTES, 0);
    (filter.len() as u32, table)
}

/// Points as the programs look them up: each in the slot that the sum of its two numbers leads to, or in the next free one.
pub fn slot_table(points: &[WatchPoint]) -> Vec<u8> {
    let mut slots: Vec<Option<[u32; 3]>> = vec![None; SLOTS];
    for (number, WatchPoint { netns, ifindex, read }) in (0..).zip(points) {
        let place = if *read { *ifindex | READ_FROM } else { *ifindex };
        let mut at = netns.wrapping_add(place) as usize % SLOTS;
        while slots[at].is_some() {
            at = (at + 1) % SLOTS;
        }
        slots[at] = Some([*netns, place, number]);
    }
    slots.iter().flat_map(|slot| slot.unwrap_or_default().into_iter().flat_map(u32::to_ne_bytes)).collect()
}

/// An expression in terms of tests.
enum Node {
    All(Vec<Node>),
    Any(Vec<Node>),
    Not(Box<Node>),
    Ask(Test),
}

impl Flow {
    /// The tests of a packet, in the order in which they are asked.
    pub fn tests(&self) -> Vec<Test> {
        let mut tests = Vec::new();
        self.node().append(&mut tests, usize::from(ACCEPT), usize::from(REJECT));
        tests
    }

    fn node(&self) -> Node {
        match self {
            Self::All(parts) => Node::all(parts.iter().map(Self::node).collect()),
            Self::Any(parts) => Node::Any(parts.iter().map(Self::node).collect()),
            Self::Not(part) => Node::Not(Box::new(part.node())),
            Self::Is(rule) => rule.node(),
            // What it accepts is for the filter to say.
            Self::Pcap(_) => Node::all(Vec::new()),
        }
    }
}

impl Rule {
    fn node(&self) -> Node {
        let networks = [self.source, self.destination, self.any_address];
        // An address is of one version: where no type is asked for it says which.
        let of_address = networks.iter().flatten().next().map(|network| match network.address {
            IpAddr::V4(_) => TYPE_IPV4,
            IpAddr::V6(_) => TYPE_IPV6,
        });
        let one = |looks_at, value: u16| Node::Ask(Test::number(looks_at, (value, value)));
        let port = |looks_at, ports| Node::Ask(Test::number(looks_at, ports));
        let address = |looks_at, network| Node::Ask(Test::address(looks_at, network));
        let mac = |looks_at, mac| Node::Ask(Test::mac(looks_at, mac));
        let parts = [
            self.ether_type.or(of_address).map(|value| one(TYPE, value)),
            self.vlan.then(|| one(VLAN, 0)),
            self.vid.map(|value| one(VID_OF, value)),
            self.pcp.map(|value| one(PCP, value.into())),
            self.protocol.map(|value| one(PROTOCOL, value.into())),
            self.dscp.map(|value| one(DSCP, value.into())),
            self.source_port.map(|ports| port(SOURCE_PORT, ports)),
            self.destination_port.map(|ports| port(DESTINATION_PORT, ports)),
            self.any_port.map(|ports| Node::Any(vec![port(SOURCE_PORT, ports), port(DESTINATION_PORT, ports)])),
            self.source.map(|network| address(SOURCE, network)),
            self.destination.map(|network| address(DESTINATION, network)),
            self.any_address.map(|of| Node::Any(vec![address(SOURCE, of), address(DESTINATION, of)])),
            self.source_mac.map(|of| mac(SOURCE_MAC, of)),
            self.destination_mac.map(|of| mac(DESTINATION_MAC, of)),
            self.any_mac.map(|of| Node::Any(vec![mac(SOURCE_MAC, of), mac(DESTINATION_MAC, of)])),
        ];
        Node::all(parts.into_iter().flatten().collect())
    }
}

impl Node {
    fn all(parts: Vec<Self>) -> Self {
        if parts.is_empty() { Self::Ask(Test::number(ANYTHING, (0, 0))) } else { Self::All(parts) }
    }

    /// How many tests it takes.
    fn size(&self) -> usize {
        match self {
            Self::All(parts) | Self::Any(parts) => parts.iter().map(Self::size).sum(),
            Self::Not(part) => part.size(),
            Self::Ask(_) => 1,
        }
    }

    /// Appends its tests: they lead to `yes` where it holds, and to `no` where it does not.
    fn append(&self, tests: &mut Vec<Test>, yes: usize, no: usize) {
        match self {
            Self::Ask(test) => tests.push(Test { yes: yes as u8, no: no as u8, ..*test }),
            Self::Not(part) => part.append(tests, no, yes),
            Self::All(parts) | Self::Any(parts) => {
                for (n, part) in parts.iter().enumerate() {
                    let behind = tests.len() + part.size();
                    match self {
                        _ if n + 1 == parts.len() => part.append(tests, yes, no),
                        Self::All(_) => part.append(tests, behind, no),
                        _ => part.append(tests, yes, behind),
                    }
                }
            }
        }
    }
}

impl Network {
    /// Its address without what the mask leaves out, and the mask, as they stand in a packet.
    fn masked(self) -> ([u8; 16], [u8; 16]) {
        let mut value = [0; 16];
        match self.address {
            IpAddr::V4(address) => value[..4].copy_from_slice(&address.octets()),
            IpAddr::V6(address) => value = address.octets(),
        }
        let mask = u128::MAX.checked_shl(128 - u32::from(self.prefix)).unwrap_or(0).to_be_bytes();
        value.iter_mut().zip(mask).for_each(|(byte, mask)| *byte &= mask);
        (value, mask)
    }
}

/// Packets of one flow that the tests rejected.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Other {
    /// Number of the point.
    pub point: u32,
    /// They left there.
    pub out: bool,
    /// The EtherType behind all tags.
    pub ether_type: u16,
    /// VLAN and priority of the outermost tag; None: without a tag.
    pub tag: Option<(u16, u8)>,
    /// Of IP, as below; None: no IP, or no whole header.
    pub protocol: Option<u8>,
    /// Its code point.
    pub dscp: Option<u8>,
    /// Where they come from.
    pub source: Option<IpAddr>,
    /// Where they go.
    pub destination: Option<IpAddr>,
    /// Source and destination port; None: the protocol has none.
    pub ports: Option<(u16, u16)>,
}

impl Other {
    /// The flow as the program lays it out.
    pub fn read(bytes: &[u8; OTHER_BYTES]) -> Self {
        let short = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        let word = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let ether_type = short(32);
        let address = |at: usize| {
            let octets: [u8; 16] = std::array::from_fn(|n| bytes[at + n]);
            match ether_type {
                TYPE_IPV4 => Some(IpAddr::V4(Ipv4Addr::new(octets[0], octets[1], octets[2], octets[3]))),
                TYPE_IPV6 => Some(IpAddr::V6(Ipv6Addr::from(octets))),
                _ => None,
            }
        };
        let of_ip = |value: u8| matches!(ether_type, TYPE_IPV4 | TYPE_IPV6).then_some(value);
        let tci = short(34);
        Self {
            point: word(44),
            out: word(48) != 0,
            ether_type,
            tag: (bytes[42] != 0).then_some((tci & VID, (tci >> PCP_SHIFT) as u8)),
            protocol: of_ip(bytes[40]),
            dscp: of_ip(bytes[41]),
            source: address(0),
            destination: address(16),
            ports: (bytes[43] != 0).then_some((short(36), short(38))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tests_look_at_has_the_numbers_of_the_programs() {
        let (_, names) = TESTS.split_once("enum looks_at {").unwrap();
        let names: Vec<&str> = names.split_once("};").unwrap().0.split(',').map(str::trim).collect();
        for (name, number) in [
            ("ANYTHING", ANYTHING),
            ("TYPE", TYPE),
            ("VLAN", VLAN),
            ("VID", VID_OF),
            ("PCP", PCP),
            ("PROTOCOL", PROTOCOL),
            ("DSCP", DSCP),
            ("SOURCE_PORT", SOURCE_PORT),
            ("DESTINATION_PORT", DESTINATION_PORT),
            ("SOURCE", SOURCE),
            ("DESTINATION", DESTINATION),
            ("SOURCE_MAC", SOURCE_MAC),
            ("DESTINATION_MAC", DESTINATION_MAC),
        ] {
            assert_eq!(names[usize::from(number)], name);
        }
        assert_eq!(names.len(), usize::from(DESTINATION_MAC) + 2, "a comma is behind the last");
    }
    use serde_json::json;

    /// Bytes of a slot.
    const SLOT_BYTES: usize = 12;

    fn tests_of(json: serde_json::Value) -> Vec<Test> {
        serde_json::from_value::<Flow>(json).unwrap().tests()
    }

    fn leads(tests: &[Test]) -> Vec<(u8, u8, u8)> {
        tests.iter().map(|test| (test.looks_at, test.yes, test.no)).collect()
    }

    #[test]
    fn the_tests_of_a_flow_are_followed_by_room_for_more() {
        let flow = serde_json::from_value::<Flow>(json!({"is": {"protocol": 17, "any_port": [5000, 5001]}})).unwrap();
        let (table, tests) = (test_table(&flow), flow.tests());
        assert_eq!((table.len(), tests.len()), (MAX_TESTS * TEST_BYTES, 3));
        let each: Vec<_> = table.chunks(TEST_BYTES).collect();
        assert_eq!(each[..3], tests.iter().map(|test| test.bytes()).collect::<Vec<_>>());
        assert!(each[3..].iter().all(|none| none.iter().all(|byte| *byte == 0)));
    }

    #[test]
    fn a_filter_is_laid_out_as_the_program_reads_it_and_no_test_is_asked_before() {
        let flow = serde_json::from_value::<Flow>(
            json!({"pcap": [[0x28, 0, 0, 12], [0x15, 0, 1, 0x88ba], [6, 0, 0, 65535], [6, 0, 0, 0]]}),
        )
        .unwrap();
        let (length, table) = filter_table(&flow);
        assert_eq!((length, table.len()), (4, MAX_INSTRUCTIONS * INSTRUCTION_BYTES));
        let comparison = [0x15_u16.to_ne_bytes().to_vec(), vec![0, 1], 0x88ba_u32.to_ne_bytes().to_vec()].concat();
        assert_eq!(table[INSTRUCTION_BYTES..2 * INSTRUCTION_BYTES], comparison);
        assert!(table[4 * INSTRUCTION_BYTES..].iter().all(|byte| *byte == 0));
        assert_eq!(leads(&flow.tests()), [(ANYTHING, ACCEPT, REJECT)]);
        assert_eq!(filter_table(&Flow::All(Vec::new())).0, 0);
    }

    #[test]
    fn a_point_is_in_the_slot_of_its_numbers_or_in_the_next_free_one() {
        let points = [(4_026_531_840, 2), (4_026_531_841, 1), (4_026_531_839, 3), (u32::MAX, 256), (255, 256)];
        let points = points.map(|(netns, ifindex)| WatchPoint { netns, ifindex, read: false });
        let table = slot_table(&points);
        let word = |slot: usize, n: usize| {
            let at = slot * SLOT_BYTES + 4 * n;
            u32::from_ne_bytes(table[at..at + 4].try_into().unwrap())
        };
        assert_eq!(table.len(), SLOTS * SLOT_BYTES);
        let first = 4_026_531_842_usize % SLOTS;
        let found: Vec<_> = [first, first + 1, first + 2, 255, 0].map(|at| [0, 1, 2].map(|n| word(at, n))).into();
        let wanted: Vec<_> = (0..).zip(points).map(|(number, point)| [point.netns, point.ifindex, number]).collect();
        assert_eq!(found, wanted);
        let taken = (0..SLOTS).filter(|at| word(*at, 0) != 0).count();
        assert_eq!(taken, points.len());
    }

    #[test]
    fn what_is_read_from_a_tap_is_a_point_of_its_own() {
        let points = [false, true].map(|read| WatchPoint { netns: 4_026_531_840, ifindex: 2, read });
        let slots: Vec<[u32; 3]> = slot_table(&points)
            .chunks(SLOT_BYTES)
            .map(|slot| [0, 4, 8].map(|at| u32::from_ne_bytes(slot[at..at + 4].try_into().unwrap())))
            .filter(|[netns, ..]| *netns != 0)
            .collect();
        assert_eq!(slots, [[4_026_531_840, 2, 0], [4_026_531_840, 2 | READ_FROM, 1]]);
    }

    #[test]
    fn a_record_is_read_as_the_program_lays_it_out() {
        let mut bytes = Vec::from(5_u64.to_ne_bytes());
        bytes.extend(1514_u32.to_ne_bytes());
        bytes.extend(3_u16.to_ne_bytes());
        bytes.extend([7, FLAG_OUT]);
        bytes.extend(2_u64.to_ne_bytes());
        bytes.extend([1, 2, 3, 4]);
        let read = Record::read(&bytes).unwrap();
        assert_eq!((read.ns, read.length, read.point, read.segments), (5, 1514, 7, 2));
        assert_eq!((read.out, read.ethernet, read.bytes), (true, true, &[1, 2, 3][..]));
        assert_eq!(Record::read(&bytes[..26]), None);
        assert_eq!(Record::read(&bytes[..8]), None);
    }

    #[test]
    fn a_drop_is_read_as_the_program_lays_it_out() {
        let mut bytes = Vec::from(5_u64.to_ne_bytes());
        bytes.extend(60_u32.to_ne_bytes());
        bytes.extend(2_u16.to_ne_bytes());
        bytes.extend([0, FLAG_DROPPED]);
        bytes.extend([0; 8]);
        bytes.extend(0xffff_ffff_8100_0010_u64.to_ne_bytes());
        bytes.extend([4_026_531_840_u32.to_ne_bytes(), 3_u32.to_ne_bytes()].concat());
        bytes.extend(*b"tap0\0\0\0\0\0\0\0\0\0\0\0\0");
        bytes.extend([6_u32.to_ne_bytes(), [0; 4]].concat());
        assert_eq!(bytes.len(), DROP_BYTES);
        bytes.extend([1, 2, 3]);
        let read = Record::read(&bytes).unwrap();
        let dropped = read.dropped.unwrap();
        assert_eq!((read.ns, read.length, read.bytes), (5, 60, &[1, 2][..]));
        assert_eq!((dropped.location, dropped.reason), (0xffff_ffff_8100_0010, Some(6)));
        assert_eq!((dropped.place.netns, dropped.place.ifindex), (Some(4_026_531_840), Some(3)));
        assert!(dropped.place.device.unwrap().starts_with(b"tap0\0"));
        assert_eq!(Record::read(&bytes[..DROP_BYTES - 1]), None);
    }

    #[test]
    fn a_test_is_laid_out_as_the_program_reads_it() {
        let tests = tests_of(json!({"is": {"any_port": [5000, 5009], "source": {"address": "10.1.2.3", "prefix": 8},
            "destination_mac": {"address": "01:02:03:04:05:06", "mask": "ff:00:00:00:00:0f"}}}));
        let [kind, port, _, source, mac] = tests[..] else { panic!("{tests:?}") };
        assert_eq!(kind.bytes()[..8], [vec![TYPE, 1, REJECT, 0], [TYPE_IPV4.to_ne_bytes(); 2].concat()].concat());
        assert_eq!(port.bytes()[4..8], [5000_u16.to_ne_bytes(), 5009_u16.to_ne_bytes()].concat());
        assert_eq!((&source.bytes()[8..12], &source.bytes()[24..28]), (&[10, 0, 0, 0][..], &[255, 0, 0, 0][..]));
        assert_eq!((&mac.bytes()[8..14], &mac.bytes()[24..30]), (&[1, 0, 0, 0, 0, 6][..], &[255, 0, 0, 0, 0, 15][..]));
    }

    #[test]
    fn tests_lead_on_until_the_expression_is_decided() {
        let udp_not_port = json!({"all": [{"is": {"protocol": 17}}, {"not": {"is": {"any_port": [5, 5]}}}]});
        assert_eq!(
            leads(&tests_of(udp_not_port.clone())),
            [(PROTOCOL, 1, REJECT), (SOURCE_PORT, REJECT, 2), (DESTINATION_PORT, REJECT, ACCEPT)]
        );
        assert_eq!(
            leads(&tests_of(json!({"any": [udp_not_port, {"not": {"is": {"vlan": true}}}]}))),
            [(PROTOCOL, 1, 3), (SOURCE_PORT, 3, 2), (DESTINATION_PORT, 3, ACCEPT), (VLAN, REJECT, ACCEPT)]
        );
        assert_eq!(leads(&tests_of(json!({"is": {}}))), [(ANYTHING, ACCEPT, REJECT)]);
        assert_eq!(leads(&tests_of(json!({"not": {"all": []}}))), [(ANYTHING, REJECT, ACCEPT)]);
    }

    #[test]
    fn a_flow_is_read_as_the_program_lays_it_out() {
        let mut bytes = [0; OTHER_BYTES];
        bytes[..4].copy_from_slice(&[10, 0, 0, 1]);
        bytes[16..20].copy_from_slice(&[10, 0, 0, 2]);
        bytes[32..34].copy_from_slice(&TYPE_IPV4.to_ne_bytes());
        bytes[34..36].copy_from_slice(&(5_u16 << 13 | 7).to_ne_bytes());
        bytes[36..38].copy_from_slice(&9_u16.to_ne_bytes());
        bytes[38..44].copy_from_slice(&[80, 0, 17, 46, 1, 1]);
        bytes[44..48].copy_from_slice(&3_u32.to_ne_bytes());
        bytes[48] = 1;
        let read = Other::read(&bytes);
        assert_eq!((read.point, read.out, read.tag, read.protocol), (3, true, Some((7, 5)), Some(17)));
        assert_eq!((read.dscp, read.ports), (Some(46), Some((9, 80))));
        assert_eq!(read.source, Some("10.0.0.1".parse().unwrap()));
    }
}
