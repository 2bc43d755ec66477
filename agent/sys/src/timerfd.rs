//! A timer that is waited for by reading a descriptor (timerfd_create(2)).

use crate::clock::{Clock, timespec};
use crate::{Error, check};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// The timer.
pub struct Timerfd(OwnedFd);

impl Timerfd {
    /// One of this clock, not armed.
    ///
    /// # Errors
    /// EINVAL for CLOCK_TAI and CLOCK_MONOTONIC_RAW, for which the kernel has none.
    pub fn new(clock: Clock) -> Result<Self, Error> {
        // SAFETY: no pointer is passed.
        let fd = check(unsafe { libc::timerfd_create(clock.id(), libc::TFD_CLOEXEC) }, "timerfd_create")?;
        // SAFETY: just made, and owned by nobody else.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Arms it for the instant `ns` of its clock, above 0, and sleeps in read until it fires: at once if that has passed. A
    /// signal may end it early.
    ///
    /// # Errors
    /// `timerfd_settime` or `read` failed.
    pub fn sleep_until(&self, ns: i64) -> Result<(), Error> {
        self.arm(ns)?;
        self.wait()
    }

    /// Arms it for the instant `ns` of its clock, above 0, instead of any other: whoever waits goes on waiting.
    ///
    /// # Errors
    /// `timerfd_settime` failed.
    pub fn arm(&self, ns: i64) -> Result<(), Error> {
        let once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let armed = libc::itimerspec { it_interval: once, it_value: timespec(ns) };
        let fd = self.0.as_raw_fd();
        // SAFETY: `armed` is valid for reading; what was set before is not asked for.
        let set = unsafe { libc::timerfd_settime(fd, libc::TFD_TIMER_ABSTIME, &raw const armed, std::ptr::null_mut()) };
        check(set, "timerfd_settime").map(drop)
    }

    /// Sleeps in read until it fires. A signal may end it early.
    ///
    /// # Errors
    /// `read` failed.
    pub fn wait(&self) -> Result<(), Error> {
        let fd = self.0.as_raw_fd();
        let mut fired = 0_u64;
        // SAFETY: `fired` is valid for writing eight bytes, which is what a timer gives.
        let result = unsafe { libc::read(fd, (&raw mut fired).cast(), size_of::<u64>()) };
        if result >= 0 {
            return Ok(());
        }
        match Error::last("read of a timerfd") {
            error if error.errno == libc::EINTR => Ok(()),
            error => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::now_ns;

    #[test]
    fn it_sleeps_until_then_and_not_at_all_for_what_has_passed() {
        for clock in [Clock::Realtime, Clock::Monotonic] {
            let timer = Timerfd::new(clock).unwrap();
            timer.sleep_until(1).unwrap();
            let due = now_ns(clock) + 3_000_000;
            timer.sleep_until(due).unwrap();
            assert!(now_ns(clock) >= due, "{clock:?}");
        }
    }

    #[test]
    fn there_is_none_of_a_clock_that_has_no_timers() {
        let error = Timerfd::new(Clock::MonotonicRaw).err().unwrap();
        assert_eq!((error.call.as_str(), error.errno), ("timerfd_create", libc::EINVAL));
    }

    #[test]
    fn who_waits_sleeps_until_the_instant_that_was_set_last() {
        let timer = Timerfd::new(Clock::Monotonic).unwrap();
        let due = now_ns(Clock::Monotonic) + 50_000_000;
        timer.arm(due).unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| timer.wait().map(|()| now_ns(Clock::Monotonic)));
            timer.arm(due + 50_000_000).unwrap();
            assert!(waiting.join().unwrap().unwrap() >= due + 50_000_000);
        });
    }
}
