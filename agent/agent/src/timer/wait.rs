//! How the thread waits for an instant: a type a way, so that the hot loop does not ask which.

use crate::launch_clock::LaunchClock;
use sys::Error;
use sys::clock::{Clock, sleep_until_tai, tai_ns};
use sys::timerfd::Timerfd;
use wire::spec::LaunchClock as Chosen;

/// A way to wait.
pub trait Wait: Send + 'static {
    /// Sleeps until CLOCK_TAI reads `tai_ns`; it may return earlier.
    ///
    /// # Errors
    /// A system call failed.
    fn until(&mut self, tai_ns: i64) -> Result<(), Error>;
}

/// `clock_nanosleep` on CLOCK_TAI.
pub struct Nanosleep;

impl Wait for Nanosleep {
    #[inline]
    fn until(&mut self, tai_ns: i64) -> Result<(), Error> {
        sleep_until_tai(tai_ns);
        Ok(())
    }
}

/// A blocking read of a timerfd on CLOCK_REALTIME, armed each time. The two clocks are whole seconds apart, which are read
/// again before: no instant is moved by the conversion.
pub struct Reading {
    timer: Timerfd,
    clock: LaunchClock,
}

impl Reading {
    /// A timer that is not armed.
    ///
    /// # Errors
    /// There can be no more descriptors.
    pub fn new() -> Result<Self, Error> {
        Ok(Self { timer: Timerfd::new(Clock::Realtime)?, clock: LaunchClock::new(Chosen::Realtime) })
    }
}

impl Wait for Reading {
    #[inline]
    fn until(&mut self, tai_ns: i64) -> Result<(), Error> {
        self.clock.look();
        self.timer.sleep_until(self.clock.at(tai_ns))
    }
}

/// Waits for one instant shortly ahead, and returns it and when the thread woke for it.
///
/// # Errors
/// A system call failed.
pub fn once(wait: &mut impl Wait) -> Result<(i64, i64), Error> {
    const AHEAD_NS: i64 = 2_000_000;
    let due_tai_ns = tai_ns() + AHEAD_NS;
    loop {
        wait.until(due_tai_ns)?;
        let now_tai_ns = tai_ns();
        if now_tai_ns >= due_tai_ns {
            return Ok((due_tai_ns, now_tai_ns));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_way_of_waiting_ends_before_the_instant() {
        for (due, woke) in [once(&mut Nanosleep).unwrap(), once(&mut Reading::new().unwrap()).unwrap()] {
            assert!(due <= woke, "{due} {woke}");
        }
    }
}
