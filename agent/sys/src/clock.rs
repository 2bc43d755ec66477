//! Reading clocks and sleeping until an instant.

use crate::{Error, check};

/// Clocks the agent reads; all in int64 ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// International Atomic Time: UTC plus the kernel's TAI offset. Launch times and gates count it.
    Tai,
    /// UTC: the kernel's software timestamps count it.
    Realtime,
    /// Never stepped, steered.
    Monotonic,
    /// Never stepped, never steered.
    MonotonicRaw,
}

impl Clock {
    pub(crate) fn id(self) -> libc::clockid_t {
        match self {
            Self::Tai => libc::CLOCK_TAI,
            Self::Realtime => libc::CLOCK_REALTIME,
            Self::Monotonic => libc::CLOCK_MONOTONIC,
            Self::MonotonicRaw => libc::CLOCK_MONOTONIC_RAW,
        }
    }
}

/// The clock's reading in ns.
pub fn now_ns(clock: Clock) -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for writing, and these clocks exist on every Linux the agent runs on.
    unsafe { libc::clock_gettime(clock.id(), &raw mut time) };
    nanoseconds(&time)
}

/// CLOCK_TAI in ns.
pub fn tai_ns() -> i64 {
    now_ns(Clock::Tai)
}

/// The period of the kernel's timer tick in ns, 1 / CONFIG_HZ: the resolution of its coarse clocks
/// (`posix_get_coarse_res`, kernel/time/posix-timers.c). None: the kernel does not report it.
pub fn tick_ns() -> Option<i64> {
    resolution(libc::CLOCK_MONOTONIC_COARSE)
}

/// How finely the clock's timers are set, ns: 1, or a tick of the kernel's where it has no high-resolution timers
/// (`hrtimer_get_res`, kernel/time/hrtimer.c). None: the kernel does not report it.
pub fn resolution_ns(clock: Clock) -> Option<i64> {
    resolution(clock.id())
}

fn resolution(clock: libc::clockid_t) -> Option<i64> {
    let mut resolution = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `resolution` is valid for writing.
    let result = unsafe { libc::clock_getres(clock, &raw mut resolution) };
    (result == 0).then(|| nanoseconds(&resolution))
}

pub(crate) fn nanoseconds(time: &libc::timespec) -> i64 {
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

pub(crate) fn timespec(ns: i64) -> libc::timespec {
    libc::timespec { tv_sec: ns.div_euclid(1_000_000_000), tv_nsec: ns.rem_euclid(1_000_000_000) }
}

/// Sleeps until CLOCK_TAI reads `tai_ns`; returns at once if it already does. A signal may end it early.
pub fn sleep_until_tai(tai_ns: i64) {
    let time = timespec(tai_ns);
    // SAFETY: `time` is a valid timespec; no remainder is asked for.
    unsafe { libc::clock_nanosleep(libc::CLOCK_TAI, libc::TIMER_ABSTIME, &raw const time, std::ptr::null_mut()) };
}

/// TAI − UTC in seconds, as the kernel knows it: 0 until something has told it.
///
/// # Errors
/// `adjtimex` failed.
pub fn tai_offset_s() -> Result<i32, Error> {
    // SAFETY: all-zero is a valid timex (modes 0: read only), and it is valid for writing.
    let mut timex: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    check(unsafe { libc::adjtimex(&raw mut timex) }, "adjtimex")?;
    Ok(timex.tai)
}
