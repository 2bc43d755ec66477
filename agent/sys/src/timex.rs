//! How the kernel's clock is being steered (adjtimex(2)).

use crate::{Error, check};
use std::fs::File;
use std::os::fd::AsRawFd;

/// `struct timex`, the part that tells whether and how well the clock follows another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timex {
    /// STA_* bits.
    pub status: i32,
    /// The kernel calls the clock synchronised.
    pub synchronised: bool,
    /// Offset still to be worked off, ns.
    pub offset_ns: i64,
    /// Steering of the clock's rate, parts per 10⁹.
    pub frequency_ppb: i64,
    /// Largest error, µs: grows by 500 ppm until a clock daemon sets it again.
    pub max_error_us: i64,
    /// Estimated error, µs.
    pub estimated_error_us: i64,
    /// TAI − UTC, s: 0 until something has told the kernel.
    pub tai_offset_s: i32,
}

/// Status bits by their names in `include/uapi/linux/timex.h`.
pub const STATUS_BITS: [(&str, i32); 16] = [
    ("STA_PLL", libc::STA_PLL),
    ("STA_PPSFREQ", libc::STA_PPSFREQ),
    ("STA_PPSTIME", libc::STA_PPSTIME),
    ("STA_FLL", libc::STA_FLL),
    ("STA_INS", libc::STA_INS),
    ("STA_DEL", libc::STA_DEL),
    ("STA_UNSYNC", libc::STA_UNSYNC),
    ("STA_FREQHOLD", libc::STA_FREQHOLD),
    ("STA_PPSSIGNAL", libc::STA_PPSSIGNAL),
    ("STA_PPSJITTER", libc::STA_PPSJITTER),
    ("STA_PPSWANDER", libc::STA_PPSWANDER),
    ("STA_PPSERROR", libc::STA_PPSERROR),
    ("STA_CLOCKERR", libc::STA_CLOCKERR),
    ("STA_NANO", libc::STA_NANO),
    ("STA_MODE", libc::STA_MODE),
    ("STA_CLK", libc::STA_CLK),
];

/// The state of the kernel's clock.
///
/// # Errors
/// `adjtimex` failed.
pub fn timex() -> Result<Timex, Error> {
    // SAFETY: all-zero is a valid timex (modes 0: read only).
    let mut timex: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: `timex` is valid for reading and writing.
    let state = check(unsafe { libc::adjtimex(&raw mut timex) }, "adjtimex")?;
    let to_ns = if timex.status & libc::STA_NANO == 0 { 1000 } else { 1 };
    Ok(Timex {
        status: timex.status,
        synchronised: state != libc::TIME_ERROR,
        offset_ns: timex.offset * to_ns,
        // Parts per million with 16 bits of fraction.
        frequency_ppb: timex.freq * 1000 / 65_536,
        max_error_us: timex.maxerror,
        estimated_error_us: timex.esterror,
        tai_offset_s: timex.tai,
    })
}

/// How the rate of a clock is steered, parts per 10¹² of it, rounded: of the PTP clock `device` (/dev/ptpN) is, or of
/// CLOCK_REALTIME. It is only read (modes 0).
///
/// # Errors
/// `clock_adjtime` failed: it is no PTP clock, or is open for reading only, which not every kernel takes.
pub fn frequency_ppt(device: Option<&File>) -> Result<i64, Error> {
    // FD_TO_CLOCKID of clock_gettime(2).
    let clock = device.map_or(libc::CLOCK_REALTIME, |device| !device.as_raw_fd() << 3 | 3);
    // SAFETY: all-zero is a valid timex (modes 0: read only).
    let mut timex: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: `timex` is valid for reading and writing.
    check(unsafe { libc::clock_adjtime(clock, &raw mut timex) }, "clock_adjtime")?;
    Ok(ppt(timex.freq))
}

/// Parts per million with 16 bits of fraction as parts per 10¹², halves rounded up.
fn ppt(frequency: i64) -> i64 {
    (frequency * 1_000_000 + (1 << 15)) >> 16
}

/// `MAX_TAI_OFFSET` (kernel/time/ntp.c): more is passed over without an error.
pub const MAX_TAI_OFFSET_S: i32 = 100_000;

/// Tells the kernel what TAI − UTC is (ADJ_TAI). CLOCK_TAI moves by the difference, for every program of the machine;
/// CLOCK_REALTIME and CLOCK_MONOTONIC stay.
///
/// # Errors
/// EPERM without CAP_SYS_TIME; EINVAL for what the kernel would pass over: less than 0, or above [`MAX_TAI_OFFSET_S`].
pub fn set_tai_offset_s(seconds: i32) -> Result<(), Error> {
    let call = format!("adjtimex ADJ_TAI {seconds}");
    if !(0..=MAX_TAI_OFFSET_S).contains(&seconds) {
        return Err(Error { call, errno: libc::EINVAL });
    }
    // SAFETY: all-zero is a valid timex.
    let mut timex: libc::timex = unsafe { std::mem::zeroed() };
    timex.modes = libc::ADJ_TAI;
    timex.constant = seconds.into();
    // SAFETY: `timex` is valid for reading and writing.
    check(unsafe { libc::adjtimex(&raw mut timex) }, &call).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_the_kernel_would_pass_over_is_an_error() {
        for seconds in [-1, MAX_TAI_OFFSET_S + 1, i32::MIN, i32::MAX] {
            assert_eq!(set_tai_offset_s(seconds).unwrap_err().errno, libc::EINVAL, "{seconds}");
        }
    }

    #[test]
    fn a_frequency_is_read_of_the_systems_clock_and_of_no_other_file() {
        let ppt = frequency_ppt(None).unwrap();
        assert!((timex().unwrap().frequency_ppb - ppt / 1000).abs() <= 1, "{ppt}");
        let null = File::open("/dev/null").unwrap();
        assert_eq!(frequency_ppt(Some(&null)).unwrap_err().call, "clock_adjtime");
    }

    #[test]
    fn scaled_parts_per_million_are_rounded() {
        assert_eq!([ppt(65_536), ppt(-65_536), ppt(500 << 16)], [1_000_000, -1_000_000, 500_000_000]);
        assert_eq!([ppt(1), ppt(-1), ppt(0)], [15, -15, 0]);
    }

    #[test]
    fn the_tai_offset_is_the_one_between_the_two_clocks() {
        use crate::clock::{Clock, now_ns};
        let before = now_ns(Clock::Realtime);
        let tai = now_ns(Clock::Tai);
        let offset = i64::from(timex().unwrap().tai_offset_s) * 1_000_000_000;
        assert!(tai - before >= offset, "{tai} − {before} < {offset}");
        assert!(tai - offset <= now_ns(Clock::Realtime));
    }
}
