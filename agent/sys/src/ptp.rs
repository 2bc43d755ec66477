//! Readings of a PTP hardware clock between two of the system's clock (`include/uapi/linux/ptp_clock.h`).

use crate::{Error, check};
use std::fs::File;
use std::os::fd::AsRawFd;

/// A PTP clock's reading and those of CLOCK_REALTIME before and after it, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// CLOCK_REALTIME just before.
    pub before_real_ns: i64,
    /// The PTP clock.
    pub clock_ns: i64,
    /// CLOCK_REALTIME just after.
    pub after_real_ns: i64,
}

/// Readings of one call; the kernel takes up to 25 (PTP_MAX_SAMPLES).
pub const READINGS: usize = 10;

const MAX_SAMPLES: usize = 25;
const STAMPS: usize = 2 * MAX_SAMPLES + 1;

/// `struct ptp_clock_time`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Stamp {
    sec: i64,
    nsec: u32,
    reserved: u32,
}

/// `struct ptp_sys_offset`.
#[repr(C)]
struct SysOffset {
    n_samples: u32,
    rsv: [u32; 3],
    ts: [Stamp; STAMPS],
}

/// `_IOW('=', 5, struct ptp_sys_offset)`. Every driver answers it; the extended form is refused by ptp_kvm, which has no
/// `gettimex64`.
const PTP_SYS_OFFSET: u32 = 1 << 30 | (size_of::<SysOffset>() as u32) << 16 | (b'=' as u32) << 8 | 5;

/// Readings of the clock `device` (/dev/ptpN) is.
///
/// # Errors
/// It is no PTP clock, or its driver failed.
pub fn readings(device: &File) -> Result<Vec<Reading>, Error> {
    let mut asked =
        SysOffset { n_samples: READINGS as u32, rsv: [0; 3], ts: [Stamp { sec: 0, nsec: 0, reserved: 0 }; STAMPS] };
    // SAFETY: `asked` is the structure of this request, valid for reading and writing.
    let result = unsafe { libc::ioctl(device.as_raw_fd(), PTP_SYS_OFFSET as _, &raw mut asked) };
    check(result, "ioctl PTP_SYS_OFFSET")?;
    Ok(in_brackets(&asked.ts[..=2 * READINGS]))
}

/// Stamps of the system's and the PTP clock by turns, beginning and ending with the system's.
fn in_brackets(stamps: &[Stamp]) -> Vec<Reading> {
    let ns = |stamp: &Stamp| stamp.sec * 1_000_000_000 + i64::from(stamp.nsec);
    stamps
        .windows(3)
        .step_by(2)
        .map(|three| Reading { before_real_ns: ns(&three[0]), clock_ns: ns(&three[1]), after_real_ns: ns(&three[2]) })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_is_the_kernels() {
        assert_eq!(PTP_SYS_OFFSET, 0x4340_3d05);
    }

    #[test]
    fn each_reading_stands_between_two_of_the_systems_clock() {
        let stamps: Vec<Stamp> = (0..5).map(|n| Stamp { sec: 2, nsec: n, reserved: 0 }).collect();
        let at = |n: i64| 2_000_000_000 + n;
        assert_eq!(
            in_brackets(&stamps),
            [
                Reading { before_real_ns: at(0), clock_ns: at(1), after_real_ns: at(2) },
                Reading { before_real_ns: at(2), clock_ns: at(3), after_real_ns: at(4) },
            ]
        );
    }

    #[test]
    fn what_is_no_ptp_clock_is_an_error_that_names_the_call() {
        let error = readings(&File::open("/dev/null").unwrap()).unwrap_err();
        assert_eq!((error.call.as_str(), error.errno), ("ioctl PTP_SYS_OFFSET", libc::ENOTTY));
    }
}
