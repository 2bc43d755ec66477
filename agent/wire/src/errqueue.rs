//! What the messages of a socket's error queue mean.
//!
//! Sources: `Documentation/networking/timestamping.rst`, `include/uapi/linux/errqueue.h`,
//! `net/sched/sch_etf.c` (launch-time errors carry the launch time in `ee_data` and `ee_info`).

use crate::probe::Probe;
use crate::record::StampKind;

const ORIGIN_TIMESTAMPING: u8 = 4;
const ORIGIN_TXTIME: u8 = 6;
const CODE_INVALID: u8 = 1;
const CODE_MISSED: u8 = 2;
const INFO_SENT: u32 = 0;
const INFO_SCHED: u32 = 1;

/// One message as the kernel gave it: `struct sock_extended_err` and the timestamps next to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// `ee_origin`.
    pub origin: u8,
    /// `ee_code`.
    pub code: u8,
    /// `ee_info`.
    pub info: u32,
    /// `ee_data`.
    pub data: u32,
    /// Software timestamp, CLOCK_REALTIME ns.
    pub software_ns: Option<i64>,
    /// Raw hardware timestamp, NIC clock ns.
    pub hardware_ns: Option<i64>,
}

/// How a timestamp finds its packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// The id given with the packet (SCM_TS_OPT_ID): the low half of its sequence.
    Id(u32),
    /// The packet itself, returned by the kernel: its probe header.
    Packet,
}

/// What a message says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meaning {
    /// Which stamp or error it is.
    pub kind: StampKind,
    /// The instant it carries, on the clock of `kind`.
    pub stamp_ns: i64,
    /// How to find the packet it speaks of.
    pub key: Key,
}

/// What `message` says; None if it speaks neither of a transmit timestamp nor of a launch time.
pub fn meaning(message: &Message, ids_in_use: bool) -> Option<Meaning> {
    match message.origin {
        ORIGIN_TIMESTAMPING => {
            let key = if ids_in_use { Key::Id(message.data) } else { Key::Packet };
            let (kind, stamp_ns) = match (message.info, message.software_ns, message.hardware_ns) {
                (INFO_SENT, _, Some(hardware)) => (StampKind::TxHard, hardware),
                (INFO_SENT, Some(software), None) => (StampKind::TxSoft, software),
                (INFO_SCHED, Some(software), _) => (StampKind::TxSched, software),
                _ => return None,
            };
            Some(Meaning { kind, stamp_ns, key })
        }
        ORIGIN_TXTIME => {
            let kind = match message.code {
                CODE_INVALID => StampKind::LaunchInvalid,
                CODE_MISSED => StampKind::LaunchMissed,
                _ => return None,
            };
            let stamp_ns = (u64::from(message.data) << 32 | u64::from(message.info)) as i64;
            // These always bring the dropped packet with them.
            Some(Meaning { kind, stamp_ns, key: Key::Packet })
        }
        _ => None,
    }
}

/// The probe at the end of a returned frame, whatever headers stand before it.
///
/// `sizes` are those of the streams on this socket. None when no probe of `run_id` stands there.
pub fn probe_in(frame: &[u8], run_id: u64, sizes: impl IntoIterator<Item = usize>) -> Option<Probe> {
    sizes.into_iter().find_map(|size| {
        let start = frame.len().checked_sub(size)?;
        Probe::read(&frame[start..]).ok().filter(|probe| probe.run_id == run_id && probe.size as usize == size)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn each_transmit_stamp_is_recognised_with_its_key() {
        let sched = Message { origin: 4, info: 1, data: 77, software_ns: Some(5), ..Message::default() };
        let soft = Message { origin: 4, info: 0, data: 78, software_ns: Some(6), ..Message::default() };
        let hard = Message { origin: 4, info: 0, data: 79, hardware_ns: Some(7), ..Message::default() };
        assert_eq!(meaning(&sched, true), Some(Meaning { kind: StampKind::TxSched, stamp_ns: 5, key: Key::Id(77) }));
        assert_eq!(meaning(&soft, true), Some(Meaning { kind: StampKind::TxSoft, stamp_ns: 6, key: Key::Id(78) }));
        assert_eq!(meaning(&hard, false), Some(Meaning { kind: StampKind::TxHard, stamp_ns: 7, key: Key::Packet }));
    }

    #[test]
    fn a_launch_time_is_put_together_from_its_two_halves() {
        let launch: u64 = 1_700_000_000_123_456_789;
        let missed =
            Message { origin: 6, code: 2, info: launch as u32, data: (launch >> 32) as u32, ..Message::default() };
        let said = meaning(&missed, true).unwrap();
        assert_eq!((said.kind, said.stamp_ns, said.key), (StampKind::LaunchMissed, launch as i64, Key::Packet));
        let invalid = Message { code: 1, ..missed };
        assert_eq!(meaning(&invalid, true).unwrap().kind, StampKind::LaunchInvalid);
    }

    #[test]
    fn the_probe_is_found_behind_any_headers() {
        let probe = Probe { stream: 3, run_id: 9, sequence: 4, launch_tai_ns: 1, size: 64, crowded: false };
        let mut frame = vec![0xaa; 42 + 64];
        probe.write(&mut frame[42..]);
        assert_eq!(probe_in(&frame, 9, [48, 64]), Some(probe));
        assert_eq!(probe_in(&frame, 8, [48, 64]), None);
        assert_eq!(probe_in(&frame[..50], 9, [64]), None);
    }

    proptest! {
        #[test]
        fn no_message_makes_it_panic(origin: u8, code: u8, info: u32, data: u32, software_ns: Option<i64>, hardware_ns: Option<i64>, ids: bool) {
            let _ = meaning(&Message { origin, code, info, data, software_ns, hardware_ns }, ids);
        }
    }
}
