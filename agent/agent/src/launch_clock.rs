//! The clock a stream's launch times are handed over in: its schedule, on CLOCK_TAI, as that clock will show it.

use sys::clock::{Clock, now_ns};
use wire::launch::Ahead;
use wire::spec::LaunchClock as Chosen;

/// So often both clocks are read before the first packet, so that its conversion is as sharp as the later ones.
const FIRST_READINGS: usize = 64;

/// A reading of CLOCK_REALTIME that a step of the clock fell into is taken again, this often at most.
const TRIES: usize = 4;

/// Converts launch times from CLOCK_TAI.
pub struct LaunchClock {
    chosen: Chosen,
    ahead: Ahead,
    ahead_ns: i64,
}

impl LaunchClock {
    /// For launch times in `chosen`.
    pub fn new(chosen: Chosen) -> Self {
        let mut clock = Self { chosen, ahead: read(chosen), ahead_ns: 0 };
        for _ in 0..FIRST_READINGS {
            clock.look();
        }
        clock
    }

    /// Reads the two clocks again. Done before every call that hands packets over: a clock stepped up to then is followed, and
    /// in between it would take a system call to change anything about them.
    #[inline]
    pub fn look(&mut self) {
        match self.chosen {
            Chosen::Tai => {}
            Chosen::Monotonic => {
                self.ahead = self.ahead.then(read(self.chosen));
                self.ahead_ns = self.ahead.middle_ns();
            }
            Chosen::Realtime => {
                if let Some(ns) = (0..TRIES).find_map(|_| read(self.chosen).whole_seconds_ns()) {
                    self.ahead_ns = ns;
                }
            }
        }
    }

    /// What this clock shows when CLOCK_TAI reads `tai_ns`.
    #[inline]
    pub fn at(&self, tai_ns: i64) -> i64 {
        tai_ns - self.ahead_ns
    }

    /// The clock itself.
    pub fn clock(&self) -> Clock {
        clock(self.chosen)
    }
}

fn clock(chosen: Chosen) -> Clock {
    match chosen {
        Chosen::Tai => Clock::Tai,
        Chosen::Monotonic => Clock::Monotonic,
        Chosen::Realtime => Clock::Realtime,
    }
}

fn read(chosen: Chosen) -> Ahead {
    let before = now_ns(clock(chosen));
    let tai = now_ns(Clock::Tai);
    Ahead::read(before, tai, now_ns(clock(chosen)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CLOCK_TAI cannot be before what it showed earlier, nor after what it shows later: on whichever clock.
    #[test]
    fn now_is_now_on_every_clock() {
        for chosen in [Chosen::Tai, Chosen::Monotonic, Chosen::Realtime] {
            let mut clock = LaunchClock::new(chosen);
            clock.look();
            let earlier = now_ns(Clock::Tai);
            let now = now_ns(clock.clock());
            let later = now_ns(Clock::Tai);
            // Half a bracket: on a machine that emulates, or is busy, the shortest of many is still short.
            let slack = 10_000;
            assert!(clock.at(earlier) - slack <= now && now <= clock.at(later) + slack, "{chosen:?}");
        }
    }

    #[test]
    fn tai_and_utc_are_whole_seconds_apart() {
        assert_eq!(LaunchClock::new(Chosen::Tai).at(5), 5);
        assert_eq!(LaunchClock::new(Chosen::Realtime).at(0) % 1_000_000_000, 0);
    }
}
