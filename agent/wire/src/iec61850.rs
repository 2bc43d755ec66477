//! Frames of IEC 61850 that carry a probe: sampled values (9-2) with the probe as their samples, and GOOSE (8-1) with the probe
//! as its data. What stands before the probe is the same in all frames of a stream, but for the number that the protocol counts.

use crate::in_c::defined;
use crate::probe::HEADER_BYTES;
use schemars::JsonSchema;
use serde::Deserialize;

/// Bytes of the samples of one frame: four currents and four voltages, each with its quality (9-2 LE, 7.1.3).
pub const SAMPLES_BYTES: usize = 64;
/// Most bytes of a probe in GOOSE: with all before it, it fits into a frame.
pub const MOST_GOOSE_BYTES: usize = 1000;
/// Most bytes of a prefix.
pub const MOST_PREFIX_BYTES: usize = 132;
/// How long GOOSE's receivers are told to wait for the next one, in periods.
const ALLOWED_PERIODS: i64 = 3;

const SV_APPID: u16 = 0x4000;
const GOOSE_APPID: u16 = 0x0001;
/// APPID, length, two reserved words (IEC 61850-8-1, annex C).
const APPID_BYTES: usize = 8;

/// A protocol whose frames carry the probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Deserialize)]
pub enum Payload {
    /// Sampled values: the probe stands for the samples.
    #[serde(rename = "iec61850-sv")]
    SampledValues,
    /// GOOSE: the probe is its data.
    #[serde(rename = "iec61850-goose")]
    Goose,
}

/// So many lengths of prefixes BPF programs look for.
const MAX_PREFIXES: usize = defined(include_str!("../../bpf/probe.h"), "MAX_PREFIXES") as usize;
/// Lengths of prefixes; 0: no such frames.
pub type Prefixes = [u32; MAX_PREFIXES];

/// These lengths, each once; None: there are more than programs look for.
pub fn prefixes_of(lengths: impl Iterator<Item = usize>) -> Option<Prefixes> {
    let mut found: Vec<u32> = lengths.filter(|length| *length > 0).map(|length| length as u32).collect();
    found.sort_unstable();
    found.dedup();
    found.resize(found.len().max(MAX_PREFIXES), 0);
    found.try_into().ok()
}

/// What stands between EtherType and probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prefix {
    payload: Payload,
    /// Its bytes, as they are in the first frame.
    pub bytes: Vec<u8>,
    /// Where the counted number begins.
    number_at: usize,
    /// Samples in a second; the counter begins again then.
    per_second: u64,
}

impl Prefix {
    /// Of a stream with probes of `size` bytes, one every `period_ns`.
    pub fn new(payload: Payload, stream: u16, size: usize, period_ns: i64) -> Self {
        let name = format!("latlab{:04}", stream % 10_000);
        let per_second = (1_000_000_000 + period_ns.max(1) / 2) / period_ns.max(1);
        let (appid, pdu, number_from_end) = match payload {
            Payload::SampledValues => sampled_values(&name, size),
            Payload::Goose => goose(&name, size, period_ns),
        };
        let mut bytes = Vec::from(appid.to_be_bytes());
        bytes.extend(((APPID_BYTES + pdu.len() + size) as u16).to_be_bytes());
        bytes.extend([0; 4]);
        bytes.extend(pdu);
        let number_at = bytes.len() - number_from_end;
        Self { payload, bytes, number_at, per_second: per_second.max(1) as u64 }
    }

    /// How many bytes a prefix has.
    pub fn length(payload: Payload, size: usize) -> usize {
        Self::new(payload, 0, size, 1).bytes.len()
    }

    /// Writes the number of packet `sequence` into a prefix.
    #[inline]
    pub fn number(&self, prefix: &mut [u8], sequence: u64) {
        match self.payload {
            // smpCnt: from 0 in each second (9-2, 8.5).
            Payload::SampledValues => {
                let count = (sequence % self.per_second) as u16;
                prefix[self.number_at..][..2].copy_from_slice(&count.to_be_bytes());
            }
            // sqNum: 0 with a new state, then from 1 on (8-1, 18.2.3); four bytes behind one for the sign (8-1, annex A).
            Payload::Goose => {
                let count = if sequence == 0 { 0 } else { ((sequence - 1) % u64::from(u32::MAX)) as u32 + 1 };
                prefix[self.number_at..][..4].copy_from_slice(&count.to_be_bytes());
            }
        }
    }
}

/// Checks the size of a probe that is to be so carried: an error says what is expected.
pub fn check_size(payload: Payload, size: usize) -> Result<(), String> {
    match payload {
        Payload::SampledValues if size != SAMPLES_BYTES => Err(format!("expected {SAMPLES_BYTES}: eight samples")),
        Payload::Goose if !(HEADER_BYTES..=MOST_GOOSE_BYTES).contains(&size) => {
            Err(format!("expected {HEADER_BYTES} to {MOST_GOOSE_BYTES}"))
        }
        _ => Ok(()),
    }
}

/// APPID, the APDU as far as the probe, and how far from its end smpCnt begins.
fn sampled_values(name: &str, size: usize) -> (u16, Vec<u8>, usize) {
    let samples = head(0x87, size);
    let behind = [&item(0x83, &[0, 0, 0, 1])[..], &item(0x85, &[0]), &samples].concat(); // confRev, smpSynch: not synchronised
    let asdu = [&item(0x80, name.as_bytes())[..], &item(0x82, &[0, 0]), &behind].concat();
    let asdu = [head(0x30, asdu.len() + size), asdu].concat();
    let asdus = [head(0xa2, asdu.len() + size), asdu].concat();
    let pdu = [item(0x80, &[1]), asdus].concat();
    (SV_APPID, [head(0x60, pdu.len() + size), pdu].concat(), behind.len() + 2)
}

/// The same of GOOSE and sqNum.
fn goose(name: &str, size: usize, period_ns: i64) -> (u16, Vec<u8>, usize) {
    let data = head(0x89, size); // an octet string
    let data = [head(0xab, data.len() + size), data].concat();
    let behind = [&item(0x87, &[0])[..], &unsigned(0x88, 1), &item(0x89, &[0]), &unsigned(0x8a, 1), &data].concat();
    let allowed_ms = period_ns.saturating_mul(ALLOWED_PERIODS) / 1_000_000;
    let pdu = [
        &item(0x80, format!("{name}LD/LLN0$GO$cb").as_bytes())[..],
        &unsigned(0x81, u32::try_from(allowed_ms).unwrap_or(u32::MAX).max(1)),
        &item(0x82, format!("{name}LD/LLN0$data").as_bytes()),
        &item(0x83, name.as_bytes()),
        &item(0x84, &[0; 8]), // when the state changed: unknown
        &unsigned(0x85, 1),
        &unsigned(0x86, 0),
        &behind,
    ]
    .concat();
    (GOOSE_APPID, [head(0x61, pdu.len() + size), pdu].concat(), behind.len() + 4)
}

/// An unsigned number of fixed length (8-1, annex A).
fn unsigned(tag: u8, value: u32) -> Vec<u8> {
    item(tag, &[&[0][..], &value.to_be_bytes()].concat())
}

fn item(tag: u8, value: &[u8]) -> Vec<u8> {
    [&head(tag, value.len())[..], value].concat()
}

/// Tag and length (X.690, 8.1).
fn head(tag: u8, length: usize) -> Vec<u8> {
    match length {
        0..0x80 => vec![tag, length as u8],
        0x80..0x100 => vec![tag, 0x81, length as u8],
        _ => vec![tag, 0x82, (length >> 8) as u8, length as u8],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sampled_values_count_from_0_in_each_second() {
        let prefix = Prefix::new(Payload::SampledValues, 7, 64, 208_333);
        assert_eq!(prefix.bytes.len() + SAMPLES_BYTES, 108);
        assert_eq!(prefix.bytes[..8], [0x40, 0, 0, 108, 0, 0, 0, 0]);
        assert_eq!(prefix.bytes[8..13], [0x60, 98, 0x80, 1, 1]);
        let counted = |sequence| {
            let mut bytes = prefix.bytes.clone();
            prefix.number(&mut bytes, sequence);
            let at = bytes.windows(2).position(|two| two == [0x82, 2]).unwrap() + 2;
            u16::from_be_bytes([bytes[at], bytes[at + 1]])
        };
        assert_eq!([0, 1, 4799, 4800].map(counted), [0, 1, 4799, 0]);
    }

    #[test]
    fn goose_repeats_one_state_and_0_comes_once() {
        assert_eq!([40, 1000].map(|size| Prefix::length(Payload::Goose, size)), [127, MOST_PREFIX_BYTES]);
        let prefix = Prefix::new(Payload::Goose, 7, 40, 1_000_000);
        let counted = |sequence| {
            let mut bytes = prefix.bytes.clone();
            prefix.number(&mut bytes, sequence);
            let at = bytes.windows(3).position(|three| three == [0x86, 5, 0]).unwrap() + 3;
            u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap())
        };
        assert_eq!([0, 1, 70_000, 1 << 32].map(counted), [0, 1, 70_000, 1]);
    }

    proptest! {
        #[test]
        fn lengths_are_those_of_what_they_enclose(size in 40_usize..=1000, goose: bool) {
            let payload = if goose { Payload::Goose } else { Payload::SampledValues };
            let mut bytes = Prefix::new(payload, 1, size, 1_000_000).bytes;
            prop_assert_eq!(bytes.len(), Prefix::length(payload, size));
            bytes.extend(vec![0; size]);
            prop_assert_eq!(usize::from(u16::from_be_bytes([bytes[2], bytes[3]])), bytes.len());
            let (mut at, mut whole) = (8, 0);
            // From the APDU inwards, each last element ends where the frame does.
            while at < bytes.len() && whole < 20 {
                let (head, length) = match bytes[at + 1] {
                    0x81 => (3, usize::from(bytes[at + 2])),
                    0x82 => (4, usize::from(u16::from_be_bytes([bytes[at + 2], bytes[at + 3]]))),
                    length => (2, usize::from(length)),
                };
                prop_assert!(at + head + length <= bytes.len());
                let last = at + head + length == bytes.len();
                at += if last && matches!(bytes[at], 0x60 | 0x61 | 0xa2 | 0x30 | 0xab) { head } else { head + length };
                whole += 1;
            }
            prop_assert_eq!(at, bytes.len());
        }
    }

    #[test]
    fn as_many_lengths_of_prefixes_as_programs_look_for_are_told_once_each() {
        assert_eq!(prefixes_of([0, 42, 0, 42].into_iter()), Some([42, 0]));
        assert_eq!(prefixes_of([90, 42].into_iter()), Some([42, 90]));
        assert_eq!(prefixes_of([].into_iter()), Some([0, 0]));
        assert_eq!(prefixes_of([1, 2, 3].into_iter()), None);
    }
}
