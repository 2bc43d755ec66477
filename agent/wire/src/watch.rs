//! What passes between `watch` and its BPF programs (`agent/bpf/watch.bpf.c`): rules that say which packets are recorded, and
//! records of these.

use crate::spec::{Network, Rule};
use schemars::JsonSchema;
use serde::Serialize;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Most points, of which each is an interface.
pub const MAX_POINTS: usize = 64;
/// Most rules.
pub const MAX_RULES: usize = 8;
/// Most bytes of a packet that are kept.
pub const MAX_SNAP: usize = 256;
/// Bytes of a record before those of its packet.
pub const RECORD_BYTES: usize = 16;
/// Bytes of a rule.
pub const RULE_BYTES: usize = 120;
/// Bytes of a flow that no rule fits.
pub const OTHER_BYTES: usize = 52;

const TYPE_IPV4: u16 = 0x0800;
const TYPE_IPV6: u16 = 0x86dd;
const VID: u16 = 0x0fff;
const PCP_SHIFT: u32 = 13;

const HAS_TYPE: u32 = 1;
const HAS_VLAN: u32 = 2;
const HAS_VID: u32 = 4;
const HAS_PCP: u32 = 8;
const HAS_PROTOCOL: u32 = 16;
const HAS_DSCP: u32 = 32;
const HAS_SOURCE_PORT: u32 = 64;
const HAS_DESTINATION_PORT: u32 = 128;
const HAS_ANY_PORT: u32 = 256;
const HAS_SOURCE: u32 = 512;
const HAS_DESTINATION: u32 = 1024;
const HAS_ANY_ADDRESS: u32 = 2048;

const FLAG_OUT: u8 = 1;
const FLAG_NO_ETHERNET: u8 = 2;

/// A packet was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// When, ns, on the clock the program was told to use.
    pub ns: i64,
    /// Number of the point.
    pub point: u8,
    /// It left there; else it came in.
    pub out: bool,
    /// It begins with an Ethernet header; else with an IP header.
    pub ethernet: bool,
    /// Bytes of the packet.
    pub length: u32,
    /// The first of them.
    pub bytes: &'a [u8],
}

impl<'a> Record<'a> {
    /// The record as the program lays it out; None: these bytes are none.
    pub fn read(record: &'a [u8]) -> Option<Self> {
        let (head, bytes) = record.split_at_checked(RECORD_BYTES)?;
        let captured = usize::from(u16::from_ne_bytes([head[12], head[13]]));
        Some(Self {
            ns: i64::from_ne_bytes(head[..8].try_into().ok()?),
            length: u32::from_ne_bytes(head[8..12].try_into().ok()?),
            point: head[14],
            out: head[15] & FLAG_OUT != 0,
            ethernet: head[15] & FLAG_NO_ETHERNET == 0,
            bytes: bytes.get(..captured)?,
        })
    }
}

impl Rule {
    /// The rule as the program reads it.
    pub fn bytes(&self) -> [u8; RULE_BYTES] {
        let networks = [self.source, self.destination, self.any_address];
        // An address is of one version: where no type is asked for it says which.
        let of_address = networks.iter().flatten().next().map(|network| match network.address {
            IpAddr::V4(_) => TYPE_IPV4,
            IpAddr::V6(_) => TYPE_IPV6,
        });
        let ether_type = self.ether_type.or(of_address);
        let tagged = self.vlan || self.vid.is_some() || self.pcp.is_some();
        let looks_at = [
            (ether_type.is_some(), HAS_TYPE),
            (tagged, HAS_VLAN),
            (self.vid.is_some(), HAS_VID),
            (self.pcp.is_some(), HAS_PCP),
            (self.protocol.is_some(), HAS_PROTOCOL),
            (self.dscp.is_some(), HAS_DSCP),
            (self.source_port.is_some(), HAS_SOURCE_PORT),
            (self.destination_port.is_some(), HAS_DESTINATION_PORT),
            (self.any_port.is_some(), HAS_ANY_PORT),
            (self.source.is_some(), HAS_SOURCE),
            (self.destination.is_some(), HAS_DESTINATION),
            (self.any_address.is_some(), HAS_ANY_ADDRESS),
        ];
        let looks_at: u32 = looks_at.iter().filter(|(is, _)| *is).map(|(_, flag)| flag).sum();
        let mut bytes = Vec::with_capacity(RULE_BYTES);
        bytes.extend(looks_at.to_ne_bytes());
        bytes.extend(ether_type.unwrap_or_default().to_ne_bytes());
        bytes.extend(self.vid.unwrap_or_default().to_ne_bytes());
        bytes.extend([self.pcp, self.protocol, self.dscp, None].map(Option::unwrap_or_default));
        for (from, to) in [self.source_port, self.destination_port, self.any_port].map(Option::unwrap_or_default) {
            bytes.extend(from.to_ne_bytes());
            bytes.extend(to.to_ne_bytes());
        }
        for network in networks {
            let (value, mask) = network.map(|network| network.masked()).unwrap_or_default();
            bytes.extend(value);
            bytes.extend(mask);
        }
        let mut whole = [0; RULE_BYTES];
        whole.copy_from_slice(&bytes);
        whole
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

/// Packets of one flow that no rule fitted.
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

    fn rule(json: serde_json::Value) -> [u8; RULE_BYTES] {
        serde_json::from_value::<Rule>(json).unwrap().bytes()
    }

    #[test]
    fn a_record_is_read_as_the_program_lays_it_out() {
        let mut bytes = Vec::from(5_u64.to_ne_bytes());
        bytes.extend(1514_u32.to_ne_bytes());
        bytes.extend(3_u16.to_ne_bytes());
        bytes.extend([7, FLAG_OUT]);
        bytes.extend([1, 2, 3, 4]);
        let read = Record::read(&bytes).unwrap();
        assert_eq!((read.ns, read.length, read.point), (5, 1514, 7));
        assert_eq!((read.out, read.ethernet, read.bytes), (true, true, &[1, 2, 3][..]));
        assert_eq!(Record::read(&bytes[..18]), None);
        assert_eq!(Record::read(&bytes[..8]), None);
    }

    #[test]
    fn a_rule_is_laid_out_as_the_program_reads_it() {
        let bytes = rule(
            serde_json::json!({"protocol": 17, "any_port": [5000, 5009], "source": {"address": "10.1.2.3", "prefix": 8}}),
        );
        assert_eq!(bytes[..4], (HAS_TYPE | HAS_PROTOCOL | HAS_ANY_PORT | HAS_SOURCE).to_ne_bytes());
        assert_eq!(bytes[4..6], TYPE_IPV4.to_ne_bytes());
        assert_eq!(bytes[9], 17);
        assert_eq!(bytes[20..24], [5000_u16.to_ne_bytes(), 5009_u16.to_ne_bytes()].concat());
        assert_eq!(bytes[24..28], [10, 0, 0, 0]);
        assert_eq!(bytes[40..44], [255, 0, 0, 0]);
        // A priority is one of a tag.
        assert_eq!(rule(serde_json::json!({"pcp": 5}))[..4], (HAS_VLAN | HAS_PCP).to_ne_bytes());
        assert_eq!(rule(serde_json::json!({}))[..4], [0; 4]);
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
