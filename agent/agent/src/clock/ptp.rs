//! The VM host's clock as a PTP clock in the guest: the role `ptp`.

use super::Comparison;
use crate::session::{failed, kernels_tai_offset_s};
use std::fs::File;
use std::path::{Path, PathBuf};
use sys::ptp::{Cross, Reading, cross, readings};
use wire::event::Failure;
use wire::page::tightest;
use wire::record::Exchange;

const PTP_CLOCKS: &str = "/sys/class/ptp";
/// The name of the clock by which KVM shows a guest its host's CLOCK_REALTIME (drivers/ptp/ptp_kvm_common.c).
const KVM: &str = "KVM virtual PTP";
const NS_PER_S: i64 = 1_000_000_000;

const KVM_OPENED: &str = "load the module ptp_kvm, and run as root";
const KVM_READ: &str =
    "see whether this KVM host's own clocksource is the TSC, or exchange timestamps over the network instead";
const CARD_OPENED: &str = "see which clock the card has (ethtool -T INTERFACE: PTP Hardware Clock), and run as root";
const CARD_READ: &str =
    "check that the card's driver can read its time (phc_ctl DEVICE get), or use timestamps: software";

/// Reads the clock every `period_ns`, and says what the readings prove.
///
/// # Errors
/// There is no such clock, it cannot be read, or the recording failed.
pub fn read(comparison: &Comparison, device: &str, host_tai_offset_s: i32, period_ns: i64) -> Result<(), Failure> {
    let (path, to_open, to_read) = if device == "auto" {
        (find_clock(Path::new(PTP_CLOCKS))?, KVM_OPENED, KVM_READ)
    } else {
        (device.into(), CARD_OPENED, CARD_READ)
    };
    let place = path.to_string_lossy().into_owned();
    let clock = File::open(&path).map_err(|error| Failure {
        what: format!("the PTP clock: {error}"),
        place: place.clone(),
        remedy: to_open.into(),
        errno: error.raw_os_error(),
    })?;
    let offsets = (i64::from(host_tai_offset_s) * NS_PER_S, i64::from(kernels_tai_offset_s()?) * NS_PER_S);
    // KVM's clock and the guest's are of one counter, where the guest's clocksource is kvm-clock. Else the clock is read
    // between two readings of the system's. So is a card's, whose own way to one instant (PTM) is bounded by nothing here.
    let has_cross = device == "auto" && cross(&clock).is_ok();
    let read = || -> Result<Vec<Exchange>, Failure> {
        let rows = if has_cross {
            cross(&clock).map(|pair| vec![at_one_instant(&pair)])
        } else {
            readings(&clock).map(|all| tightest(&all.iter().map(exchange).collect::<Vec<_>>()).collect())
        };
        let rows = rows.map_err(|error| failed(error, &place, to_read))?;
        Ok(rows.iter().map(|row| on_tai(row, offsets.0, offsets.1)).collect())
    };
    // A clock that is there and cannot be read is told before anything is measured.
    let first = read()?;
    let mut log = comparison.begin(None, &first)?;
    for _ in comparison.rounds(period_ns) {
        for row in read()? {
            log.push(Exchange { sequence: log.rows(), ..row });
        }
        log.progress();
    }
    log.finish(0)
}

/// By how much two readings of one instant may be apart, ns. Either is rounded to 1 ns, and a clock whose rate is no
/// whole number of the kernel's units runs alternately too fast and too slow (timekeeping_adjust in
/// kernel/time/timekeeping.c), some ns about the straight line that a bound is.
const CROSS_NS: i64 = 50;

/// A reading as an exchange, host asking. The host's clock was read after the guest's first reading and before its second:
/// θ ≤ after − clock and θ ≥ before − clock. Both count UTC.
fn exchange(reading: &Reading) -> Exchange {
    Exchange {
        sequence: 0,
        t1_tai_ns: reading.clock_ns,
        t2_tai_ns: reading.after_real_ns,
        t3_tai_ns: reading.before_real_ns,
        t4_tai_ns: reading.clock_ns,
    }
}

/// The same of one instant.
fn at_one_instant(pair: &Cross) -> Exchange {
    let (before_real_ns, after_real_ns) = (pair.real_ns - CROSS_NS, pair.real_ns + CROSS_NS);
    exchange(&Reading { before_real_ns, clock_ns: pair.clock_ns, after_real_ns })
}

/// UTC becomes TAI by what either kernel knows of it.
fn on_tai(utc: &Exchange, host_tai_offset_ns: i64, guest_tai_offset_ns: i64) -> Exchange {
    Exchange {
        sequence: utc.sequence,
        t1_tai_ns: utc.t1_tai_ns + host_tai_offset_ns,
        t2_tai_ns: utc.t2_tai_ns + guest_tai_offset_ns,
        t3_tai_ns: utc.t3_tai_ns + guest_tai_offset_ns,
        t4_tai_ns: utc.t4_tai_ns + host_tai_offset_ns,
    }
}

/// The device of the clock that KVM offers among `clocks`.
fn find_clock(clocks: &Path) -> Result<PathBuf, Failure> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(clocks)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok().map(|e| e.path()))
        .filter(|path| std::fs::read_to_string(path.join("clock_name")).is_ok_and(|name| name.trim() == KVM))
        .collect();
    found.sort();
    let device = found.first().and_then(|path| path.file_name()).map(|name| Path::new("/dev").join(name));
    device.ok_or_else(|| Failure {
        what: format!("there is no PTP clock named {KVM:?}"),
        place: clocks.to_string_lossy().into_owned(),
        remedy: "load the module ptp_kvm in a guest of KVM; other guests have a shared page".into(),
        errno: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::envelope;

    #[test]
    fn readings_bound_the_offset_on_tai_whatever_either_kernel_adds_to_utc() {
        // The guest is 5 s ahead on UTC, and knows the TAI offset, which its host does not.
        let reading =
            Reading { before_real_ns: 5 * NS_PER_S + 990, clock_ns: 1_000, after_real_ns: 5 * NS_PER_S + 1_030 };
        let bound = envelope::bound(&[on_tai(&exchange(&reading), 0, 37 * NS_PER_S)]).unwrap();
        assert_eq!((bound.lower_ns, bound.upper_ns), (42 * NS_PER_S - 10, 42 * NS_PER_S + 30));
    }

    #[test]
    fn one_instant_on_both_clocks_bounds_the_offset_by_how_far_apart_its_readings_may_be() {
        let pair = Cross { clock_ns: 1_000, real_ns: 5 * NS_PER_S + 1_007 };
        let bound = envelope::bound(&[at_one_instant(&pair)]).unwrap();
        assert_eq!((bound.lower_ns, bound.upper_ns), (5 * NS_PER_S + 7 - CROSS_NS, 5 * NS_PER_S + 7 + CROSS_NS));
    }

    #[test]
    fn kvms_clock_is_found_among_others() {
        let clocks = std::env::temp_dir().join(format!("latlab-ptp-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&clocks);
        for (device, name) in [("ptp0", "Intel I225"), ("ptp1", KVM)] {
            std::fs::create_dir_all(clocks.join(device)).unwrap();
            std::fs::write(clocks.join(device).join("clock_name"), format!("{name}\n")).unwrap();
        }
        assert_eq!(find_clock(&clocks).unwrap(), Path::new("/dev/ptp1"));
        std::fs::remove_dir_all(clocks.join("ptp1")).unwrap();
        assert!(find_clock(&clocks).unwrap_err().what.contains(KVM));
    }
}
