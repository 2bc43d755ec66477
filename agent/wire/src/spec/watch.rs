//! What `watch` is asked for.

use super::listen::TRIGGER_NS;
use super::{Mac, Realtime, Wrong, check_ring, default_ring_records, hexadecimal, wrong};
use crate::in_c::defined;
use crate::record::MAX_SNAP;
use schemars::JsonSchema;
use serde::Deserialize;
use std::net::IpAddr;

/// Most points.
const MAX_POINTS: usize = defined(include_str!("../../../bpf/watch.bpf.c"), "MAX_POINTS") as usize;
/// Most packets of which one is recorded.
pub(crate) const MAX_SAMPLE: u32 = 1_000_000;
/// Most tests of a packet.
pub(crate) const MAX_TESTS: usize = defined(include_str!("../../../bpf/watch_tests.h"), "MAX_TESTS") as usize;
const FILTER: &str = include_str!("../../../bpf/watch_filter.h");
/// Most instructions of a filter, and words of its memory.
pub(crate) const MAX_INSTRUCTIONS: usize = defined(FILTER, "MAX_INSTRUCTIONS") as usize;
const MEMORY_WORDS: u32 = defined(FILTER, "MEMORY_WORDS");
/// Bytes of a packet that are kept where nothing else is asked for.
pub(crate) const SNAP: usize = 128;
/// The headers of a UDP datagram over IPv6 with two VLAN tags.
pub(crate) const LEAST_SNAP: usize = 70;
/// Of so many bytes of their payload at least packets are told apart by a trigger.
pub(crate) const LEAST_PAYLOAD: usize = 16;
/// So long, ns, a trigger remembers a packet: one that takes longer is not judged.
pub(crate) const HOLD_NS: i64 = 10_000_000_000;

/// `latlab-agent watch`.
#[derive(Clone, Debug, JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Watch {
    /// Sixteen hexadecimal digits.
    #[serde(deserialize_with = "hexadecimal")]
    #[schemars(with = "String")]
    pub run_id: u64,
    /// Recordings are written to this path and `.watched.arrow`.
    pub recording: String,
    /// How the reading thread runs.
    pub realtime: Realtime,
    /// Where packets are looked at: the number of each is its place here.
    pub points: Vec<WatchPoint>,
    /// Which packets.
    pub flow: Flow,
    /// So many bytes of each packet are kept at most.
    #[serde(default = "default_snap")]
    pub snap: usize,
    /// Of so many packets one is recorded, on average: those whose digest is in the sample, the same ones at every point.
    #[serde(default = "every_packet")]
    pub sample: u32,
    /// Whether packets of the flow that this kernel drops are recorded, too, wherever it drops them.
    #[serde(default)]
    pub drops: bool,
    /// Which packets are late, so that the kernel's events around them are to be kept; None: none.
    #[serde(default)]
    pub trigger: Option<WatchTrigger>,
    /// Records that the programs' rings hold until they are read, and the ring to the writer.
    #[serde(default = "default_ring_records")]
    pub ring_records: usize,
}

/// An interface of this kernel, what is read from a tap, or the sockets of a network namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WatchPoint {
    /// Inode of its network namespace.
    pub netns: u32,
    /// Its number there; 0: what programs send by sockets of that namespace, and receive, but for connections.
    pub ifindex: u32,
    /// Not what passes the interface, a tap or macvtap, but what vhost-net or a program reads from it: it counts as `out`.
    #[serde(default)]
    pub read: bool,
}

impl WatchPoint {
    /// Whether it is the sockets of a namespace.
    pub fn is_sockets(&self) -> bool {
        self.ifindex == 0
    }
}

/// Packets that take longer than this from one point to another are late.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WatchTrigger {
    /// Where they are seen first.
    pub from: Sight,
    /// Where they are seen later.
    pub to: Sight,
    /// A packet that takes more than this, ns, is late.
    pub above_ns: i64,
    /// So much before it is seen first and after it is seen later is kept, ns.
    pub margin_ns: i64,
}

/// A point, and which way packets pass it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sight {
    /// Number of the point.
    pub point: u8,
    /// They leave there; else they come in.
    pub out: bool,
}

/// An expression about packets: `{"all": [{"is": {"protocol": 17}}, {"not": {"is": {"any_port": [53, 53]}}}]}`.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Flow {
    /// All of these hold; of none: any packet.
    All(Vec<Flow>),
    /// At least one of these holds.
    Any(Vec<Flow>),
    /// This does not hold.
    Not(Box<Flow>),
    /// The packet is so.
    Is(Rule),
    /// This filter accepts the packet. It is the whole of an expression.
    Pcap(Vec<Instruction>),
}

/// An instruction of classic BPF (`struct sock_filter` of linux/filter.h), as libpcap compiles pcap-filter(7) for Ethernet: its code,
/// how many instructions are passed over if a comparison holds, how many if it does not, and its number.
pub type Instruction = (u16, u8, u8, u32);

/// What a packet is: all of these; what is None may be anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Rule {
    /// EtherType behind all tags.
    pub ether_type: Option<u16>,
    /// It has a VLAN tag.
    pub vlan: bool,
    /// VLAN id of its outermost tag.
    pub vid: Option<u16>,
    /// Priority in that tag.
    pub pcp: Option<u8>,
    /// IP protocol; of IPv6 the first header's next, or behind a fragment header its.
    pub protocol: Option<u8>,
    /// Code point (RFC 2474).
    pub dscp: Option<u8>,
    /// Of TCP, UDP and SCTP: first and last port. Of fragments the first one has ports.
    pub source_port: Option<(u16, u16)>,
    /// The same.
    pub destination_port: Option<(u16, u16)>,
    /// The same of either.
    pub any_port: Option<(u16, u16)>,
    /// Where it comes from.
    pub source: Option<Network>,
    /// Where it goes.
    pub destination: Option<Network>,
    /// Either of them.
    pub any_address: Option<Network>,
    /// The sender's MAC address.
    pub source_mac: Option<Macs>,
    /// The receiver's.
    pub destination_mac: Option<Macs>,
    /// Either of them.
    pub any_mac: Option<Macs>,
}

/// MAC addresses: those that are `address` in the bits of `mask`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Macs {
    /// One of them.
    pub address: Mac,
    /// Ones where the address counts.
    #[serde(default = "every_bit")]
    pub mask: Mac,
}

/// Addresses with a beginning in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// One of them.
    pub address: IpAddr,
    /// So many bits are in common.
    pub prefix: u8,
}

fn default_snap() -> usize {
    SNAP
}

fn every_packet() -> u32 {
    1
}

fn every_bit() -> Mac {
    Mac([0xff; 6])
}

impl WatchTrigger {
    fn check(&self, points: usize) -> Result<(), Wrong> {
        for (at, sight) in [("trigger.from.point", self.from), ("trigger.to.point", self.to)] {
            if usize::from(sight.point) >= points {
                return wrong(at, format!("{}; expected below {points}", sight.point));
            }
        }
        if self.from == self.to {
            return wrong("trigger.to", "is where packets are seen first");
        }
        for (at, ns, most) in
            [("trigger.above_ns", self.above_ns, HOLD_NS - 1), ("trigger.margin_ns", self.margin_ns, TRIGGER_NS)]
        {
            if !(0..=most).contains(&ns) {
                return wrong(at, format!("{ns}; expected 0 to {most}"));
            }
        }
        Ok(())
    }
}

impl Watch {
    /// So many bytes of a packet's payload are recorded at every point, whatever headers it has there.
    pub fn payload(&self) -> usize {
        self.snap.saturating_sub(LEAST_SNAP)
    }

    /// Packets whose digest is below this are recorded; 0: all.
    pub fn sampled_below(&self) -> u32 {
        if self.sample <= 1 { 0 } else { u32::MAX / self.sample }
    }

    /// Checks what the types cannot.
    ///
    /// # Errors
    /// The first value that cannot be done.
    pub fn check(&self) -> Result<(), Wrong> {
        self.realtime.check()?;
        check_ring(self.ring_records)?;
        if !(1..=MAX_POINTS).contains(&self.points.len()) {
            return wrong("points", format!("expected 1 to {MAX_POINTS}"));
        }
        if let Some(n) = (1..self.points.len()).find(|n| self.points[..*n].contains(&self.points[*n])) {
            return wrong(format!("points[{n}]"), "is there already");
        }
        if let Some(n) = self.points.iter().position(|point| point.read && point.is_sockets()) {
            return wrong(format!("points[{n}].read"), "is of an interface, and these are sockets");
        }
        if !(LEAST_SNAP..=MAX_SNAP).contains(&self.snap) {
            return wrong("snap", format!("expected {LEAST_SNAP} to {MAX_SNAP}"));
        }
        if !(1..=MAX_SAMPLE).contains(&self.sample) {
            return wrong("sample", format!("expected 1 to {MAX_SAMPLE}"));
        }
        if let Some(trigger) = &self.trigger {
            trigger.check(self.points.len())?;
            if self.snap < LEAST_SNAP + LEAST_PAYLOAD {
                return wrong("snap", format!("expected at least {} with a trigger", LEAST_SNAP + LEAST_PAYLOAD));
            }
        }
        match &self.flow {
            Flow::Pcap(filter) => check_filter(filter)?,
            flow => flow.check("flow")?,
        }
        let tests = self.flow.tests().len();
        if tests > MAX_TESTS {
            return wrong("flow", format!("{tests} tests of a packet, expected at most {MAX_TESTS}"));
        }
        Ok(())
    }
}

impl Flow {
    fn check(&self, at: &str) -> Result<(), Wrong> {
        match self {
            Self::Any(none) if none.is_empty() => wrong(format!("{at}.any"), "expected at least one".to_string()),
            Self::All(parts) => check_each(parts, &format!("{at}.all")),
            Self::Any(parts) => check_each(parts, &format!("{at}.any")),
            Self::Not(part) => part.check(&format!("{at}.not")),
            Self::Is(rule) => rule.check(&format!("{at}.is")),
            Self::Pcap(_) => wrong(format!("{at}.pcap"), "expected alone".to_string()),
        }
    }
}

fn check_each(parts: &[Flow], at: &str) -> Result<(), Wrong> {
    parts.iter().enumerate().try_for_each(|(n, part)| part.check(&format!("{at}[{n}]")))
}

/// Checks that each instruction is one, and that a filter ends.
fn check_filter(filter: &[Instruction]) -> Result<(), Wrong> {
    if !(1..=MAX_INSTRUCTIONS).contains(&filter.len()) {
        let found = filter.len();
        return wrong("flow.pcap", format!("{found} instructions, expected 1 to {MAX_INSTRUCTIONS}"));
    }
    for (n, (code, yes, no, k)) in filter.iter().enumerate() {
        let at = format!("flow.pcap[{n}]");
        let behind = filter.len() - n - 1;
        let inside = match code {
            // Loads of the packet and its length; of a number; what X is to be 4 times.
            0x20 | 0x28 | 0x30 | 0x40 | 0x48 | 0x50 | 0x80 | 0x81 | 0x00 | 0x01 | 0xb1 => behind > 0,
            // Loads and stores of memory.
            0x60 | 0x61 | 0x02 | 0x03 => behind > 0 && *k < MEMORY_WORDS,
            // Arithmetic, with a number or X, and moves between A and X.
            0x04 | 0x14 | 0x24 | 0x34 | 0x44 | 0x54 | 0x64 | 0x74 | 0x84 | 0x94 | 0xa4 => behind > 0,
            0x0c | 0x1c | 0x2c | 0x3c | 0x4c | 0x5c | 0x6c | 0x7c | 0x9c | 0xac | 0x07 | 0x87 => behind > 0,
            // Jumps: with a distance; if A and a number, or X, compare so.
            0x05 => (*k as usize) < behind,
            0x15 | 0x25 | 0x35 | 0x45 | 0x1d | 0x2d | 0x3d | 0x4d => usize::from(*yes.max(no)) < behind,
            // Ends: with a number, with A.
            0x06 | 0x16 => true,
            _ => return wrong(format!("{at}[0]"), format!("{code:#x} is no instruction of classic BPF")),
        };
        if !inside {
            return wrong(at, "leads behind the last instruction, or to memory that is not there".to_string());
        }
    }
    Ok(())
}

impl Rule {
    fn check(&self, at: &str) -> Result<(), Wrong> {
        let most =
            [("vid", self.vid, 0x0fff), ("pcp", self.pcp.map(u16::from), 7), ("dscp", self.dscp.map(u16::from), 63)];
        if let Some((name, _, most)) = most.iter().find(|(_, value, most)| value.is_some_and(|value| value > *most)) {
            return wrong(format!("{at}.{name}"), format!("expected 0 to {most}"));
        }
        let networks = [("source", self.source), ("destination", self.destination), ("any_address", self.any_address)];
        for (name, network) in networks.iter().filter_map(|(name, network)| Some((name, (*network)?))) {
            let bits = if network.address.is_ipv4() { 32 } else { 128 };
            if network.prefix > bits {
                return wrong(format!("{at}.{name}.prefix"), format!("expected 0 to {bits}"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_trigger_is_between_two_points_that_are_there_and_has_payload_to_tell_packets_apart_by() {
        let with = |snap: usize, from: u8, to: u8, above_ns: i64| {
            let sight = |point: u8| json!({"point": point, "out": false});
            let trigger = json!({"from": sight(from), "to": sight(to), "above_ns": above_ns, "margin_ns": 0});
            let spec = json!({"run_id": "8f3c5e0d12ab34cd", "recording": "/x/watch-ecu", "realtime": {}, "snap": snap,
                "points": [{"netns": 1, "ifindex": 2}, {"netns": 1, "ifindex": 3}], "flow": {"all": []},
                "trigger": trigger});
            serde_json::from_value::<Watch>(spec).unwrap().check().err().map(|wrong| wrong.at)
        };
        assert_eq!((with(86, 0, 1, 5), with(86, 0, 1, HOLD_NS - 1)), (None, None));
        for (found, at) in [
            (with(85, 0, 1, 5), "snap"),
            (with(128, 2, 1, 5), "trigger.from.point"),
            (with(128, 0, 2, 5), "trigger.to.point"),
            (with(128, 1, 1, 5), "trigger.to"),
            (with(128, 0, 1, -1), "trigger.above_ns"),
            (with(128, 0, 1, HOLD_NS), "trigger.above_ns"),
        ] {
            assert_eq!(found.as_deref(), Some(at));
        }
    }

    #[test]
    fn points_are_there_once_and_values_fit_into_their_headers() {
        let with = |name: &str, value: serde_json::Value| {
            let mut spec = json!({"run_id": "8f3c5e0d12ab34cd", "recording": "/x/watch-ecu", "realtime": {},
                "points": [{"netns": 1, "ifindex": 2}], "flow": {"is": {"protocol": 17}}});
            spec[name] = value;
            let spec = serde_json::from_value::<Watch>(spec).map_err(|error| error.to_string())?;
            spec.check().map_err(|wrong| wrong.at).map(|()| spec.snap)
        };
        let point = json!({"netns": 1, "ifindex": 2});
        assert_eq!(with("snap", json!(96)), Ok(96));
        assert_eq!(with("snap", json!(257)), Err("snap".into()));
        assert_eq!(with("sample", json!(1_000_000)), Ok(128));
        assert_eq!(with("sample", json!(0)), Err("sample".into()));
        assert_eq!(with("sample", json!(1_000_001)), Err("sample".into()));
        assert_eq!(with("points", json!([])), Err("points".into()));
        assert_eq!(with("points", json!([point, point])), Err("points[1]".into()));
        assert_eq!(with("flow", json!({"all": []})), Ok(128));
        assert_eq!(with("flow", json!({"any": [{"is": {}}, {"is": {"pcp": 8}}]})), Err("flow.any[1].is.pcp".into()));
        assert_eq!(with("flow", json!({"not": {"any": []}})), Err("flow.not.any".into()));
        let network = json!({"address": "10.0.0.0", "prefix": 33});
        assert_eq!(with("flow", json!({"is": {"source": network}})), Err("flow.is.source.prefix".into()));
        assert!(with("flow", json!({"is": {"port": 5}})).unwrap_err().contains("unknown field"));
        let many = |n: usize| json!({"any": vec![json!({"is": {"protocol": 17}}); n]});
        assert_eq!(with("points", json!([{"netns": 1, "ifindex": 0, "read": true}])), Err("points[0].read".into()));
        assert_eq!(with("flow", json!({"pcap": [[6, 0, 0, 1]]})), Ok(128));
        assert_eq!(with("flow", json!({"pcap": [[0x15, 0, 1, 5], [6, 0, 0, 1]]})), Err("flow.pcap[0]".into()));
        assert_eq!(with("flow", json!({"not": {"pcap": [[6, 0, 0, 1]]}})), Err("flow.not.pcap".into()));
        assert_eq!((with("flow", many(MAX_TESTS)), with("flow", many(MAX_TESTS + 1))), (Ok(128), Err("flow".into())));
    }
}
