//! Launch times: what becomes of a packet that is late for its own, and the same instant on another clock.

use crate::record::Late;
use crate::spec::{LatePolicy, LaunchTime};

impl LaunchTime {
    /// What to do now with a packet meant to leave at `launch_tai_ns`, and the launch time to hand it over with.
    ///
    /// An ETF qdisc refuses a launch time that has passed, and one earlier than that of the last packet it sent
    /// (`is_packet_valid`, net/sched/sch_etf.c). What [`LatePolicy::Send`] hands over never is the first, and as now + margin
    /// only grows it is not the second after another packet of its kind.
    #[inline]
    pub fn decide(&self, launch_tai_ns: i64, now_tai_ns: i64) -> (Late, i64) {
        match self.late {
            LatePolicy::Report if launch_tai_ns < now_tai_ns => (Late::Reported, launch_tai_ns),
            LatePolicy::Drop if launch_tai_ns < now_tai_ns => (Late::Dropped, launch_tai_ns),
            LatePolicy::Send if launch_tai_ns < now_tai_ns.saturating_sub(self.allowed_lateness_ns) => {
                (Late::Dropped, launch_tai_ns)
            }
            LatePolicy::Send if launch_tai_ns < now_tai_ns.saturating_add(self.margin_ns) => {
                (Late::Moved, now_tai_ns.saturating_add(self.margin_ns))
            }
            _ => (Late::No, launch_tai_ns),
        }
    }
}

/// By how much CLOCK_TAI is ahead of another clock of the same machine: between two bounds, ns.
///
/// The kernel keeps these differences, it does not measure them: TAI − REALTIME is whole seconds, and TAI − MONOTONIC the sum of
/// what `timekeeping` adds to one reading of the hardware (`tk_core`, kernel/time/timekeeping.c). Steering slews all three
/// alike, and changes neither; only setting a clock, or the TAI offset, does. So readings that agree narrow the bounds down
/// to the shortest bracket there was, and one that agrees with none before shows a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ahead {
    lower_ns: i64,
    upper_ns: i64,
}

const SECOND_NS: i64 = 1_000_000_000;

impl Ahead {
    /// What reading the other clock, TAI, and the other clock again proves.
    pub fn read(before_ns: i64, tai_ns: i64, after_ns: i64) -> Self {
        Self { lower_ns: tai_ns - after_ns, upper_ns: tai_ns - before_ns }
    }

    /// What this and a later reading prove together: the later alone, if a clock was stepped between them.
    #[must_use]
    pub fn then(self, later: Self) -> Self {
        let both = Self { lower_ns: self.lower_ns.max(later.lower_ns), upper_ns: self.upper_ns.min(later.upper_ns) };
        if both.lower_ns <= both.upper_ns { both } else { later }
    }

    /// The middle: wrong by half the bounds' distance at most.
    pub fn middle_ns(self) -> i64 {
        self.lower_ns + (self.upper_ns - self.lower_ns) / 2
    }

    /// The whole seconds between the bounds, in ns: exact. None where there is not exactly one: the other clock was stepped
    /// between its two readings, or the thread was away for a second.
    pub fn whole_seconds_ns(self) -> Option<i64> {
        let last = self.upper_ns.div_euclid(SECOND_NS) * SECOND_NS;
        (last >= self.lower_ns && last - SECOND_NS < self.lower_ns && self.lower_ns <= self.upper_ns).then_some(last)
    }
}

/// The first instant at or after `not_before_ns` that is a whole number of cycles after `shift_ns`, all of one clock.
/// None: it is later than a signed 64-bit count of nanoseconds can say, or the cycle is not above 0.
pub fn next_of_cycle(not_before_ns: i64, cycle_ns: i64, shift_ns: i64) -> Option<i64> {
    let (not_before, cycle, shift) = (i128::from(not_before_ns), i128::from(cycle_ns), i128::from(shift_ns));
    if cycle < 1 {
        return None;
    }
    i64::try_from(not_before + (shift - not_before).rem_euclid(cycle)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::LaunchClock;
    use proptest::prelude::*;

    fn launched(late: LatePolicy) -> LaunchTime {
        LaunchTime {
            lead_ns: 300,
            clock: LaunchClock::Tai,
            deadline: false,
            late,
            allowed_lateness_ns: 100,
            margin_ns: 20,
        }
    }

    #[test]
    fn a_packet_in_time_is_left_alone_whatever_the_policy() {
        for late in [LatePolicy::Report, LatePolicy::Drop, LatePolicy::Send] {
            assert_eq!(launched(late).decide(1_020, 1_000), (Late::No, 1_020), "{late:?}");
        }
    }

    #[test]
    fn a_late_packet_is_reported_dropped_or_sent_as_asked() {
        let decided = |late, launch| launched(late).decide(launch, 1_000);
        assert_eq!(decided(LatePolicy::Report, 999), (Late::Reported, 999));
        assert_eq!(decided(LatePolicy::Report, 1_000), (Late::No, 1_000));
        assert_eq!(decided(LatePolicy::Drop, 999), (Late::Dropped, 999));
        assert_eq!(decided(LatePolicy::Drop, 1_000), (Late::No, 1_000));
        assert_eq!(decided(LatePolicy::Send, 1_019), (Late::Moved, 1_020));
        assert_eq!(decided(LatePolicy::Send, 900), (Late::Moved, 1_020));
        assert_eq!(decided(LatePolicy::Send, 899), (Late::Dropped, 899));
    }

    #[test]
    fn readings_that_agree_narrow_and_one_that_does_not_begins_anew() {
        let (wide, narrow) = (Ahead::read(0, 1_050, 100), Ahead::read(10, 1_025, 30));
        assert_eq!((wide.middle_ns(), narrow.middle_ns()), (1_000, 1_005));
        assert_eq!(wide.then(narrow), narrow);
        assert_eq!(narrow.then(wide), narrow);
        let stepped = Ahead::read(0, 500, 40);
        assert_eq!(narrow.then(stepped), stepped);
    }

    #[test]
    fn the_offset_to_utc_is_whole_seconds_or_unknown() {
        let whole = |before, tai, after| Ahead::read(before, tai, after).whole_seconds_ns();
        let s = SECOND_NS;
        assert_eq!(whole(100, 37 * s + 150, 200), Some(37 * s));
        assert_eq!(whole(100, 150, 200), Some(0));
        assert_eq!(whole(100, 150 - 3 * s, 200), Some(-3 * s));
        // Between these two a clock was stepped: by half a second, by two, and backwards.
        assert_eq!(whole(100, 37 * s + 150 + s / 2, 200), None);
        assert_eq!(whole(100, 37 * s + 150, 200 + 2 * s), None);
        assert_eq!(whole(100, 37 * s + 150, 100 - s), None);
    }

    #[test]
    fn the_next_of_a_cycle_is_never_before_and_less_than_a_cycle_after() {
        assert_eq!(next_of_cycle(1_000, 503, 0), Some(1_006));
        assert_eq!(next_of_cycle(1_006, 503, 0), Some(1_006));
        assert_eq!(next_of_cycle(1_000, 503, 10), Some(1_016));
        assert_eq!(next_of_cycle(1_000, 503, -10), Some(1_499));
        assert_eq!(next_of_cycle(-1_000, 503, 0), Some(-503));
        assert_eq!(next_of_cycle(0, 1, 7), Some(0));
        assert_eq!(next_of_cycle(5, 0, 0), None);
        assert_eq!(next_of_cycle(5, -503, 0), None);
        assert_eq!(next_of_cycle(i64::MAX, i64::MAX, 0), Some(i64::MAX));
        assert_eq!(next_of_cycle(i64::MAX, 2, 0), None);
        assert_eq!(next_of_cycle(i64::MIN, i64::MAX, i64::MAX), Some(-i64::MAX));
    }

    proptest! {
        #[test]
        fn what_is_handed_over_late_is_never_refused_as_passed(launch: i64, now: i64, allowed in 0i64..i64::MAX, margin in 0i64..i64::MAX) {
            let policy = LaunchTime { allowed_lateness_ns: allowed, margin_ns: margin, ..launched(LatePolicy::Send) };
            let (late, asked) = policy.decide(launch, now);
            prop_assert!(late == Late::Dropped || asked >= now.saturating_add(margin).min(launch.max(now)));
            prop_assert_eq!(late == Late::No, asked == launch && late != Late::Dropped);
        }

        #[test]
        fn the_true_difference_is_always_within(ahead in -1_000_000i64..1_000_000, starts in proptest::collection::vec((0i64..100, 0i64..100), 1..20)) {
            let readings = starts.iter().enumerate().map(|(n, (first, second))| {
                let at = n as i64 * 1_000;
                Ahead::read(at, at + first + ahead, at + first + second)
            });
            let found = readings.reduce(Ahead::then).unwrap();
            prop_assert!(found.lower_ns <= ahead && ahead <= found.upper_ns);
        }

        #[test]
        fn the_next_of_any_cycle_is_in_step(at: i64, cycle in 1i64..i64::MAX, shift: i64) {
            if let Some(next) = next_of_cycle(at, cycle, shift) {
                prop_assert!(next >= at);
                prop_assert!(i128::from(next) - i128::from(at) < i128::from(cycle));
                prop_assert_eq!((i128::from(next) - i128::from(shift)).rem_euclid(i128::from(cycle)), 0);
            } else {
                prop_assert!(i128::from(at) + i128::from(cycle) > i128::from(i64::MAX));
            }
        }
    }
}
