//! The data sets of a clock, as management answers carry them (IEEE 1588-2019, 15.5.3; linuxptp's ds.h and tlv.h).

use super::message::{port_at, u16_at, u64_at};
use super::{ClockIdentity, PortIdentity, PortState};

/// defaultDS, the part that is used (table 66).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DefaultDataSet {
    /// Ports of the clock.
    pub number_ports: u16,
}

/// currentDS (table 67).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CurrentDataSet {
    /// Communication paths from the grandmaster to this clock.
    pub steps_removed: u16,
    /// Of a slave whose port measures by request and response, ns; None: too large to be said, or 0, as it is until there
    /// is a measurement. After a change of master it is the last one's until there is another.
    pub mean_path_delay_ns: Option<i64>,
}

/// parentDS, the part that is used (table 68).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParentDataSet {
    /// The port it follows; of a clock that follows no other, its own, numbered 0.
    pub parent: PortIdentity,
    /// The clock itself where it follows no other.
    pub grandmaster: ClockIdentity,
}

/// timePropertiesDS (table 69).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimePropertiesDataSet {
    /// TAI − UTC as the grandmaster has it, s.
    pub utc_offset_s: i16,
    /// Whether it is known to be right.
    pub utc_offset_valid: bool,
    /// Whether the grandmaster's time comes from a primary reference.
    pub time_traceable: bool,
    /// Whether it counts TAI; if not, something of its own (ARB).
    pub ptp_timescale: bool,
}

/// How a port measures the delay of its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DelayMechanism {
    /// To its neighbour: P2P (2), COMMON_P2P (3).
    PeerToPeer,
    /// To its master, or not at all.
    Other,
}

/// portDS, the part that is used (table 72).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortDataSet {
    /// Which port.
    pub port: PortIdentity,
    /// What it is doing.
    pub state: PortState,
    /// meanLinkDelay (peerMeanPathDelay), ns; None as of [`CurrentDataSet::mean_path_delay_ns`].
    pub peer_delay_ns: Option<i64>,
    /// How it measures.
    pub delay_mechanism: DelayMechanism,
}

/// TIME_STATUS_NP, linuxptp's own (`struct time_status_np`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeStatus {
    /// The clock's time − a master's when it last measured that, ns: 0 if never, and of an earlier master until there is a
    /// delay to this one ([`super::Memory`]).
    pub master_offset_ns: i64,
    /// When the last Sync came in, by the clock itself; None before the first since it chose its master or was stepped.
    pub ingress_ns: Option<i64>,
    /// Whether another clock is the grandmaster.
    pub gm_present: bool,
}

impl DefaultDataSet {
    /// None: not as long as one.
    pub fn read(data: &[u8]) -> Option<Self> {
        let data: &[u8; 20] = data.try_into().ok()?;
        Some(Self { number_ports: u16_at(data, 2)? })
    }
}

impl CurrentDataSet {
    /// None: not as long as one.
    pub fn read(data: &[u8]) -> Option<Self> {
        let data: &[u8; 18] = data.try_into().ok()?;
        Some(Self { steps_removed: u16_at(data, 0)?, mean_path_delay_ns: measured_ns(u64_at(data, 10)?) })
    }
}

impl ParentDataSet {
    /// None: not as long as one.
    pub fn read(data: &[u8]) -> Option<Self> {
        let data: &[u8; 32] = data.try_into().ok()?;
        Some(Self { parent: port_at(data, 0)?, grandmaster: ClockIdentity(u64_at(data, 24)?) })
    }
}

impl TimePropertiesDataSet {
    /// None: not as long as one.
    pub fn read(data: &[u8]) -> Option<Self> {
        let data: &[u8; 4] = data.try_into().ok()?;
        let flag = |bit: u8| data[2] & 1 << bit != 0;
        Some(Self {
            utc_offset_s: u16_at(data, 0)? as i16,
            utc_offset_valid: flag(2),
            ptp_timescale: flag(3),
            time_traceable: flag(4),
        })
    }
}

impl PortDataSet {
    /// None: not as long as one, or a state there is none of.
    pub fn read(data: &[u8]) -> Option<Self> {
        let data: &[u8; 26] = data.try_into().ok()?;
        Some(Self {
            port: port_at(data, 0)?,
            state: PortState::of(data[10])?,
            peer_delay_ns: measured_ns(u64_at(data, 12)?),
            delay_mechanism: if matches!(data[23], 2 | 3) { DelayMechanism::PeerToPeer } else { DelayMechanism::Other },
        })
    }
}

impl TimeStatus {
    /// None: not as long as one.
    pub fn read(data: &[u8]) -> Option<Self> {
        let data: &[u8; 50] = data.try_into().ok()?;
        Some(Self {
            master_offset_ns: u64_at(data, 0)? as i64,
            ingress_ns: Some(u64_at(data, 8)? as i64).filter(|&instant| instant != 0),
            gm_present: data[38..42] != [0; 4],
        })
    }
}

/// A TimeInterval (5.3.2), ns scaled by 2¹⁶, as ns, halves rounded up. None for 0 and for the ends of its range, which say
/// that it is larger.
fn measured_ns(scaled: u64) -> Option<i64> {
    match scaled as i64 {
        0 | i64::MIN | i64::MAX => None,
        interval => Some((interval >> 16) + (interval >> 15 & 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::message::tests as captured;
    use super::*;
    use proptest::prelude::*;

    fn data(text: &str) -> Vec<u8> {
        captured::bytes(text)[54..].to_vec()
    }

    #[test]
    fn ptp4ls_answers_say_what_its_log_and_pmc_said() {
        assert_eq!(DefaultDataSet::read(&data(captured::DEFAULT)), Some(DefaultDataSet { number_ports: 1 }));
        let current = CurrentDataSet { steps_removed: 1, mean_path_delay_ns: Some(2315) };
        assert_eq!(CurrentDataSet::read(&data(captured::CURRENT)), Some(current));
        let grandmaster = ClockIdentity(0x6ebc_3bff_fe29_5eef);
        let parent = PortIdentity { clock: grandmaster, port: 1 };
        assert_eq!(ParentDataSet::read(&data(captured::PARENT)), Some(ParentDataSet { parent, grandmaster }));
        let times = TimePropertiesDataSet {
            utc_offset_s: 37,
            utc_offset_valid: false,
            time_traceable: false,
            ptp_timescale: false,
        };
        assert_eq!(TimePropertiesDataSet::read(&data(captured::TIME_PROPERTIES)), Some(times));
        let port = PortDataSet::read(&data(captured::PORT)).unwrap();
        assert_eq!((port.port.port, port.state), (1, PortState::Uncalibrated));
        assert_eq!((port.delay_mechanism, port.peer_delay_ns), (DelayMechanism::Other, None));
        let status =
            TimeStatus { master_offset_ns: 279, ingress_ns: Some(1_795_397_255_212_597_399), gm_present: true };
        assert_eq!(TimeStatus::read(&data(captured::TIME_STATUS)), Some(status));
    }

    #[test]
    fn a_port_that_measures_to_its_neighbour_says_so_with_the_delay() {
        // linuxptp 3.1.1, L2, P2P.
        let port = "a68cf3fffe51cbab000108fd0000000005b60000ff03fd020002";
        let port = PortDataSet::read(&captured::bytes(port)).unwrap();
        assert_eq!((port.delay_mechanism, port.peer_delay_ns), (DelayMechanism::PeerToPeer, Some(1462)));
    }

    #[test]
    fn flags_of_the_time_are_those_of_the_header() {
        let read = |flags: u8| TimePropertiesDataSet::read(&[0xff, 0xdb, flags, 0x20]).unwrap();
        assert_eq!(read(0x3c).utc_offset_s, -37);
        assert!(read(0x04).utc_offset_valid && !read(0xfb).utc_offset_valid);
        assert!(read(0x08).ptp_timescale && !read(0xf7).ptp_timescale);
        assert!(read(0x10).time_traceable && !read(0xef).time_traceable);
    }

    #[test]
    fn that_no_sync_has_come_in_is_told_as_0() {
        let mut status = data(captured::TIME_STATUS);
        status[8..16].fill(0);
        assert_eq!(TimeStatus::read(&status).map(|read| (read.master_offset_ns, read.ingress_ns)), Some((279, None)));
    }

    #[test]
    fn scaled_nanoseconds_are_rounded() {
        let ns = |scaled: i64| measured_ns(scaled as u64);
        assert_eq!([ns(0x1_7fff), ns(0x1_8000), ns(1), ns(-1)], [Some(1), Some(2), Some(0), Some(0)]);
        assert_eq!([ns(-0x1_8000), ns(-0x1_8001)], [Some(-1), Some(-2)]);
        assert_eq!([ns(0), ns(i64::MAX), ns(i64::MIN)], [None; 3]);
    }

    proptest! {
        #[test]
        fn only_data_of_the_right_length_are_read(data in proptest::collection::vec(any::<u8>(), 0..80)) {
            prop_assert_eq!(DefaultDataSet::read(&data).is_some(), data.len() == 20);
            prop_assert_eq!(CurrentDataSet::read(&data).is_some(), data.len() == 18);
            prop_assert_eq!(ParentDataSet::read(&data).is_some(), data.len() == 32);
            prop_assert_eq!(TimePropertiesDataSet::read(&data).is_some(), data.len() == 4);
            prop_assert_eq!(PortDataSet::read(&data).is_some(), data.len() == 26 && (1..=9).contains(&data[10]));
            prop_assert_eq!(TimeStatus::read(&data).is_some(), data.len() == 50);
        }

        #[test]
        fn a_measured_interval_is_less_than_half_a_nanosecond_off(scaled in i64::MIN + 1..i64::MAX) {
            prop_assume!(scaled != 0);
            let off = (i128::from(measured_ns(scaled as u64).unwrap()) << 16) - i128::from(scaled);
            prop_assert!((-0x7fff..=0x8000).contains(&off), "{}", off);
        }
    }
}
