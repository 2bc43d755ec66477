//! What an interface's driver says: what it can stamp, its queues, its offloads, its own counters.

use serde::Serialize;
use std::collections::BTreeMap;
use sys::ethtool::{self, Ethtool};

/// What an interface's driver says; what it does not answer is None.
#[derive(Debug, Default, Serialize)]
pub struct Nic {
    driver: Option<Driver>,
    timestamping: Option<Timestamping>,
    channels: Option<Channels>,
    rings: Option<Rings>,
    coalescing: Option<Coalescing>,
    pause: Option<Pause>,
    energy_efficient_ethernet: Option<Eee>,
    /// Offloads by the kernel's names, and whether each is on.
    features: Option<BTreeMap<String, bool>>,
    /// The driver's own counters.
    driver_statistics: Option<BTreeMap<String, u64>>,
}

/// The driver: [`ethtool::Driver`].
#[derive(Debug, Serialize)]
pub struct Driver {
    name: Option<String>,
    version: Option<String>,
    firmware: Option<String>,
    bus: Option<String>,
}

/// What the NIC and its driver can stamp, and what the NIC stamps now: [`ethtool::Timestamping`].
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Timestamping {
    flags: Vec<String>,
    phc_index: Option<u32>,
    tx_types: Vec<String>,
    rx_filters: Vec<String>,
    tx_type_now: Option<String>,
    rx_filter_now: Option<String>,
}

/// Queues as the driver groups them, in use and at most: [`ethtool::Channels`].
#[derive(Debug, Serialize)]
pub struct Channels {
    rx: u32,
    tx: u32,
    other: u32,
    combined: u32,
    rx_most: u32,
    tx_most: u32,
    other_most: u32,
    combined_most: u32,
}

/// Descriptors of each ring: [`ethtool::Rings`].
#[derive(Debug, Serialize)]
pub struct Rings {
    rx_descriptors: u32,
    rx_descriptors_most: u32,
    tx_descriptors: u32,
    tx_descriptors_most: u32,
}

/// How packets are gathered before an interrupt: [`ethtool::Coalescing`].
#[derive(Debug, Serialize)]
pub struct Coalescing {
    rx_us: u32,
    rx_frames: u32,
    tx_us: u32,
    tx_frames: u32,
    adaptive_rx: bool,
    adaptive_tx: bool,
}

/// IEEE 802.3 flow control: [`ethtool::Pause`].
#[derive(Debug, Serialize)]
pub struct Pause {
    autonegotiated: bool,
    rx: bool,
    tx: bool,
}

/// Energy-Efficient Ethernet: [`ethtool::Eee`].
#[derive(Debug, Serialize)]
pub struct Eee {
    enabled: bool,
    active: bool,
    tx_idle: bool,
    tx_idle_us: u32,
}

/// SOF_TIMESTAMPING_* from bit 0 on (`include/uapi/linux/net_tstamp.h`).
const FLAGS: &[&str] = &[
    "TX_HARDWARE",
    "TX_SOFTWARE",
    "RX_HARDWARE",
    "RX_SOFTWARE",
    "SOFTWARE",
    "SYS_HARDWARE",
    "RAW_HARDWARE",
    "OPT_ID",
    "TX_SCHED",
    "TX_ACK",
    "OPT_CMSG",
    "OPT_TSONLY",
    "OPT_STATS",
    "OPT_PKTINFO",
    "OPT_TX_SWHW",
    "BIND_PHC",
    "OPT_ID_TCP",
    "OPT_RX_FILTER",
    "TX_COMPLETION",
];

/// `enum hwtstamp_tx_types` from 0 on.
const TX_TYPES: &[&str] = &["OFF", "ON", "ONESTEP_SYNC", "ONESTEP_P2P"];

/// `enum hwtstamp_rx_filters` from 0 on.
const RX_FILTERS: &[&str] = &[
    "NONE",
    "ALL",
    "SOME",
    "PTP_V1_L4_EVENT",
    "PTP_V1_L4_SYNC",
    "PTP_V1_L4_DELAY_REQ",
    "PTP_V2_L4_EVENT",
    "PTP_V2_L4_SYNC",
    "PTP_V2_L4_DELAY_REQ",
    "PTP_V2_L2_EVENT",
    "PTP_V2_L2_SYNC",
    "PTP_V2_L2_DELAY_REQ",
    "PTP_V2_EVENT",
    "PTP_V2_SYNC",
    "PTP_V2_DELAY_REQ",
    "NTP_ALL",
];

impl Nic {
    /// What the driver of `interface` says.
    pub fn ask(ethtool: &Ethtool, interface: &str) -> Self {
        let stamps_now = ethtool.stamping_now(interface).ok();
        Self {
            driver: ethtool.driver(interface).ok().map(Driver::from),
            timestamping: ethtool.timestamping(interface).ok().map(|can| Timestamping::new(can, stamps_now)),
            channels: ethtool.channels(interface).ok().map(Channels::from),
            rings: ethtool.rings(interface).ok().map(Rings::from),
            coalescing: ethtool.coalescing(interface).ok().map(Coalescing::from),
            pause: ethtool.pause(interface).ok().map(Pause::from),
            energy_efficient_ethernet: ethtool.eee(interface).ok().map(Eee::from),
            features: ethtool.features(interface).ok().map(|features| features.into_iter().collect()),
            driver_statistics: ethtool.statistics(interface).ok().map(|counters| counters.into_iter().collect()),
        }
    }
}

impl From<ethtool::Driver> for Driver {
    fn from(driver: ethtool::Driver) -> Self {
        let said = |text: String| (!text.is_empty() && text != "N/A").then_some(text);
        Self {
            name: said(driver.name),
            version: said(driver.version),
            firmware: said(driver.firmware),
            bus: said(driver.bus),
        }
    }
}

impl Timestamping {
    fn new(can: ethtool::Timestamping, now: Option<ethtool::StampingNow>) -> Self {
        Self {
            flags: bits(can.flags, FLAGS),
            phc_index: can.phc_index,
            tx_types: bits(can.tx_types, TX_TYPES),
            rx_filters: bits(can.rx_filters, RX_FILTERS),
            tx_type_now: now.map(|now| name(now.tx_type as usize, TX_TYPES)),
            rx_filter_now: now.map(|now| name(now.rx_filter as usize, RX_FILTERS)),
        }
    }
}

impl From<ethtool::Channels> for Channels {
    fn from(channels: ethtool::Channels) -> Self {
        let [rx, tx, other, combined] = channels.in_use;
        let [rx_most, tx_most, other_most, combined_most] = channels.most;
        Self { rx, tx, other, combined, rx_most, tx_most, other_most, combined_most }
    }
}

impl From<ethtool::Rings> for Rings {
    fn from(rings: ethtool::Rings) -> Self {
        Self {
            rx_descriptors: rings.rx,
            rx_descriptors_most: rings.rx_most,
            tx_descriptors: rings.tx,
            tx_descriptors_most: rings.tx_most,
        }
    }
}

impl From<ethtool::Coalescing> for Coalescing {
    fn from(coalescing: ethtool::Coalescing) -> Self {
        let ethtool::Coalescing { rx_us, rx_frames, tx_us, tx_frames, adaptive_rx, adaptive_tx } = coalescing;
        Self { rx_us, rx_frames, tx_us, tx_frames, adaptive_rx, adaptive_tx }
    }
}

impl From<ethtool::Pause> for Pause {
    fn from(ethtool::Pause { autonegotiated, rx, tx }: ethtool::Pause) -> Self {
        Self { autonegotiated, rx, tx }
    }
}

impl From<ethtool::Eee> for Eee {
    fn from(ethtool::Eee { enabled, active, tx_idle, tx_idle_us }: ethtool::Eee) -> Self {
        Self { enabled, active, tx_idle, tx_idle_us }
    }
}

/// The names of the bits that are set.
fn bits(set: u32, names: &[&str]) -> Vec<String> {
    (0..32).filter(|bit| set >> bit & 1 == 1).map(|bit| name(bit, names)).collect()
}

/// The name of a number; one that newer kernels added is written as itself.
fn name(number: usize, names: &[&str]) -> String {
    names.get(number).map_or_else(|| number.to_string(), |name| (*name).to_owned())
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// What a driver that answers every question might say.
    pub fn answered() -> Nic {
        let driver = ethtool::Driver {
            name: "igc".to_owned(),
            version: "6.1.0".to_owned(),
            firmware: "1082:8770".to_owned(),
            bus: "0000:03:00.0".to_owned(),
        };
        let can = ethtool::Timestamping { flags: 0x5f, phc_index: Some(0), tx_types: 3, rx_filters: 3 };
        let coalescing = ethtool::Coalescing {
            rx_us: 3,
            rx_frames: 0,
            tx_us: 3,
            tx_frames: 0,
            adaptive_rx: false,
            adaptive_tx: false,
        };
        Nic {
            driver: Some(driver.into()),
            timestamping: Some(Timestamping::new(can, None)),
            channels: Some(ethtool::Channels { in_use: [0, 0, 1, 4], most: [0, 0, 1, 4] }.into()),
            rings: Some(ethtool::Rings { rx: 256, rx_most: 4096, tx: 256, tx_most: 4096 }.into()),
            coalescing: Some(coalescing.into()),
            pause: Some(ethtool::Pause { autonegotiated: true, rx: true, tx: false }.into()),
            energy_efficient_ethernet: Some(
                ethtool::Eee { enabled: false, active: false, tx_idle: false, tx_idle_us: 0 }.into(),
            ),
            features: Some(BTreeMap::new()),
            driver_statistics: Some(BTreeMap::new()),
        }
    }

    #[test]
    fn queues_in_use_are_not_mixed_up_with_those_there_could_be() {
        let channels = Channels::from(ethtool::Channels { in_use: [1, 2, 3, 4], most: [5, 6, 7, 8] });
        assert_eq!((channels.rx, channels.tx, channels.other, channels.combined), (1, 2, 3, 4));
        assert_eq!((channels.rx_most, channels.combined_most), (5, 8));
    }

    #[test]
    fn abilities_are_named() {
        // As igc reports them for an i225.
        let can = ethtool::Timestamping { flags: 0x5f, phc_index: Some(0), tx_types: 0b11, rx_filters: 0b11 };
        let now = ethtool::StampingNow { tx_type: 1, rx_filter: 12 };
        let expected = ["TX_HARDWARE", "TX_SOFTWARE", "RX_HARDWARE", "RX_SOFTWARE", "SOFTWARE", "RAW_HARDWARE"];
        let found = Timestamping::new(can, Some(now));
        assert_eq!(found.flags, expected);
        assert_eq!((found.tx_types, found.rx_filters), (bits(3, &["OFF", "ON"]), bits(3, &["NONE", "ALL"])));
        assert_eq!(found.tx_type_now.as_deref(), Some("ON"));
        assert_eq!(found.rx_filter_now.as_deref(), Some("PTP_V2_EVENT"));
    }

    #[test]
    fn a_bit_without_a_name_is_told_by_its_number() {
        assert_eq!(bits(1 << 31 | 1, TX_TYPES), ["OFF", "31"]);
    }

    #[test]
    fn the_loopback_interface_answers_what_it_can() {
        let nic = Nic::ask(&Ethtool::open().unwrap(), "lo");
        assert_eq!(nic.features.unwrap().get("loopback"), Some(&true));
        assert!(nic.timestamping.unwrap().flags.contains(&"RX_SOFTWARE".to_owned()));
        assert!(nic.channels.is_none() && nic.coalescing.is_none());
    }

    #[test]
    fn what_a_driver_leaves_empty_is_unknown() {
        let said = ethtool::Driver {
            name: "veth".to_owned(),
            version: "1.0".to_owned(),
            firmware: String::new(),
            bus: "N/A".to_owned(),
        };
        let driver = Driver::from(said);
        assert_eq!((driver.name.as_deref(), driver.firmware, driver.bus), (Some("veth"), None, None));
    }
}
