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

impl Stamp {
    fn ns(&self) -> i64 {
        self.sec * 1_000_000_000 + i64::from(self.nsec)
    }
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

/// `struct ptp_sys_offset_precise`.
#[repr(C)]
struct SysOffsetPrecise {
    device: Stamp,
    sys_realtime: Stamp,
    sys_monoraw: Stamp,
    rsv: [u32; 4],
}

/// `_IOWR('=', 8, struct ptp_sys_offset_precise)`.
const PTP_SYS_OFFSET_PRECISE: u32 = 3 << 30 | (size_of::<SysOffsetPrecise>() as u32) << 16 | (b'=' as u32) << 8 | 8;

/// One instant on two clocks, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cross {
    /// The PTP clock.
    pub clock_ns: i64,
    /// CLOCK_REALTIME.
    pub real_ns: i64,
}

/// The clock `device` (/dev/ptpN) is and the system's clock, both of one value of a counter that both are made from.
///
/// # Errors
/// It is no PTP clock; its driver has no such counter (EOPNOTSUPP), or the system's clock is not made from it (ENODEV:
/// KVM's on x86, where the guest's clocksource is not kvm-clock); or the driver failed.
pub fn cross(device: &File) -> Result<Cross, Error> {
    let none = Stamp { sec: 0, nsec: 0, reserved: 0 };
    let mut asked = SysOffsetPrecise { device: none, sys_realtime: none, sys_monoraw: none, rsv: [0; 4] };
    // SAFETY: `asked` is the structure of this request, valid for reading and writing.
    let result = unsafe { libc::ioctl(device.as_raw_fd(), PTP_SYS_OFFSET_PRECISE as _, &raw mut asked) };
    check(result, "ioctl PTP_SYS_OFFSET_PRECISE")?;
    Ok(Cross { clock_ns: asked.device.ns(), real_ns: asked.sys_realtime.ns() })
}

/// Stamps of the system's and the PTP clock alternately, beginning and ending with the system's.
fn in_brackets(stamps: &[Stamp]) -> Vec<Reading> {
    stamps
        .windows(3)
        .step_by(2)
        .map(|three| Reading { before_real_ns: three[0].ns(), clock_ns: three[1].ns(), after_real_ns: three[2].ns() })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_is_the_kernels() {
        assert_eq!(PTP_SYS_OFFSET, 0x4340_3d05);
        assert_eq!(PTP_SYS_OFFSET_PRECISE, 0xc040_3d08);
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
        let none = File::open("/dev/null").unwrap();
        let error = readings(&none).unwrap_err();
        assert_eq!((error.call.as_str(), error.errno), ("ioctl PTP_SYS_OFFSET", libc::ENOTTY));
        let error = cross(&none).unwrap_err();
        assert_eq!((error.call.as_str(), error.errno), ("ioctl PTP_SYS_OFFSET_PRECISE", libc::ENOTTY));
    }
}
