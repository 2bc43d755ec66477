//! Which clocks there are, and whether they are steered.

use super::tree::Tree;
use serde::Serialize;
use std::collections::BTreeMap;
use sys::timex::{STATUS_BITS, Timex};

/// Which clocks there are, and whether they are steered.
#[derive(Debug, Serialize)]
pub struct Clock {
    /// What the kernel counts time with.
    source: Option<String>,
    /// What it could count with.
    available_sources: Option<Vec<String>>,
    /// Period of the timer tick.
    tick_ns: Option<i64>,
    /// TAI − UTC; 0 until something has told the kernel.
    tai_offset_s: Option<i32>,
    /// The kernel calls its clock synchronised.
    synchronised: Option<bool>,
    /// STA_* flags.
    status: Option<Vec<&'static str>>,
    /// Offset still to be worked off.
    offset_ns: Option<i64>,
    /// Steering of the rate.
    frequency_ppb: Option<i64>,
    /// Bound the clock daemon gave, growing since.
    max_error_us: Option<i64>,
    /// Estimate the clock daemon gave.
    estimated_error_us: Option<i64>,
    /// PTP hardware clocks, by number.
    phcs: BTreeMap<usize, Phc>,
}

/// A PTP hardware clock.
#[derive(Debug, Serialize)]
pub struct Phc {
    /// The driver's name for it.
    name: Option<String>,
    /// How far its rate can be steered.
    max_adjustment_ppb: Option<i64>,
    /// Interfaces whose packets it stamps.
    interfaces: Option<Vec<String>>,
}

impl Clock {
    /// The clocks of `tree`; `timex` is how the kernel's own is steered, `tick_ns` the period of its tick.
    pub fn read(tree: &Tree, timex: Option<Timex>, tick_ns: Option<i64>) -> Self {
        let source = |name: &str| tree.text(format!("sys/devices/system/clocksource/clocksource0/{name}"));
        Self {
            source: source("current_clocksource"),
            available_sources: source("available_clocksource")
                .map(|text| text.split_whitespace().map(str::to_owned).collect()),
            tick_ns,
            tai_offset_s: timex.map(|t| t.tai_offset_s),
            synchronised: timex.map(|t| t.synchronised),
            status: timex.map(|t| flags(t.status)),
            offset_ns: timex.map(|t| t.offset_ns),
            frequency_ppb: timex.map(|t| t.frequency_ppb),
            max_error_us: timex.map(|t| t.max_error_us),
            estimated_error_us: timex.map(|t| t.estimated_error_us),
            phcs: tree
                .numbered("sys/class/ptp", "ptp")
                .unwrap_or_default()
                .into_iter()
                .map(|n| (n, phc(tree, &format!("sys/class/ptp/ptp{n}"))))
                .collect(),
        }
    }
}

fn phc(tree: &Tree, path: &str) -> Phc {
    Phc {
        name: tree.text(format!("{path}/clock_name")),
        max_adjustment_ppb: tree.value(format!("{path}/max_adjustment")),
        interfaces: tree.names(format!("{path}/device/net")),
    }
}

fn flags(status: i32) -> Vec<&'static str> {
    STATUS_BITS.iter().filter(|(_, bit)| status & bit != 0).map(|(name, _)| *name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::fixture::Fixture;

    const STEERED: Timex = Timex {
        status: 0x2001,
        synchronised: true,
        offset_ns: -12,
        frequency_ppb: 4_500,
        max_error_us: 1_500,
        estimated_error_us: 0,
        tai_offset_s: 37,
    };

    #[test]
    fn a_steered_clock_says_how() {
        let clock = Clock::read(&Fixture::i225_board(), Some(STEERED), Some(4_000_000));
        assert_eq!(clock.tick_ns, Some(4_000_000));
        assert_eq!(clock.status, Some(vec!["STA_PLL", "STA_NANO"]));
        assert_eq!((clock.synchronised, clock.tai_offset_s), (Some(true), Some(37)));
        assert_eq!(clock.source.as_deref(), Some("tsc"));
        assert_eq!(clock.available_sources.unwrap(), ["tsc", "hpet", "acpi_pm"]);
    }

    #[test]
    fn a_hardware_clock_names_the_interface_it_stamps_for() {
        let clock = Clock::read(&Fixture::i225_board(), None, None);
        assert_eq!(clock.phcs[&0].max_adjustment_ppb, Some(62_499_999));
        assert_eq!(clock.phcs[&0].interfaces.as_deref(), Some(&["enp3s0".to_owned()][..]));
        assert!(Clock::read(&Fixture::virtio_guest(), None, None).phcs.is_empty());
    }
}
