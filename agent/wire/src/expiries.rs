//! Which interrupt ran the timer for which instant: what the kernel's tracepoints show of timers, compared with what the
//! waiting thread knows.
//!
//! `hrtimer_start` tells where the timer is that the thread arms, and for when it is: to the nanosecond the instant that the
//! thread waits for. `hrtimer_expire_entry` reports every timer that is run where it is, and what its clock had read when
//! the interrupt's handler began. So an instant has its timer, and the timer, between the instant and the thread's waking, its
//! interrupt. Others' timers that run meanwhile are at other places; the same place may hold the next instant's, later.

use std::collections::BTreeSet;

/// Timers armed and run, as far as instants may still ask for them. All instants are of one clock.
#[derive(Debug, Default)]
pub struct Expiries {
    /// For when, and where.
    armed: BTreeSet<(i64, u64)>,
    /// When the interrupt began, and where.
    run: BTreeSet<(i64, u64)>,
}

impl Expiries {
    /// The timer at this address was armed for `due_ns`.
    pub fn arm(&mut self, timer: u64, due_ns: i64) {
        self.armed.insert((due_ns, timer));
    }

    /// The timer at this address was run by an interrupt whose handler began at `irq_ns`.
    pub fn run(&mut self, timer: u64, irq_ns: i64) {
        self.run.insert((irq_ns, timer));
    }

    /// When the interrupt's handler began that woke the thread at `woke_ns` for `due_ns`; None: that was unknown.
    pub fn irq(&self, due_ns: i64, woke_ns: i64) -> Option<i64> {
        if woke_ns < due_ns {
            return None;
        }
        let between = self.run.range((due_ns, 0)..=(woke_ns, u64::MAX));
        between.copied().find(|(_, timer)| self.armed.contains(&(due_ns, *timer))).map(|(irq_ns, _)| irq_ns)
    }

    /// Forgets what no instant from `due_ns` on can ask for.
    pub fn forget_before(&mut self, due_ns: i64) {
        self.armed = self.armed.split_off(&(due_ns, 0));
        self.run = self.run.split_off(&(due_ns, 0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: u64 = 0xffff_c900_0012_3d80;
    const OTHER: u64 = 0xffff_c900_0045_6d80;

    #[test]
    fn an_instant_finds_its_own_timers_interrupt_among_others() {
        let mut expiries = Expiries::default();
        expiries.arm(OURS, 1_000);
        for (timer, irq_ns) in [(OTHER, 1_001), (OURS, 1_002), (OTHER, 1_003)] {
            expiries.run(timer, irq_ns);
        }
        assert_eq!(expiries.irq(1_000, 1_010), Some(1_002));
    }

    #[test]
    fn one_place_holds_one_instants_timer_after_the_other() {
        let mut expiries = Expiries::default();
        for due_ns in [1_000, 2_000, 3_000] {
            expiries.arm(OURS, due_ns);
        }
        // What was told of the second was lost.
        expiries.run(OURS, 1_005);
        expiries.run(OURS, 3_005);
        assert_eq!([1_000, 2_000, 3_000].map(|due| expiries.irq(due, due + 10)), [Some(1_005), None, Some(3_005)]);
    }

    #[test]
    fn a_timer_armed_anew_for_the_same_instant_is_found_wherever_it_is() {
        let mut expiries = Expiries::default();
        // A signal ended the first wait: its timer was never run.
        expiries.arm(OURS, 1_000);
        expiries.arm(OTHER, 1_000);
        expiries.run(OTHER, 1_004);
        assert_eq!(expiries.irq(1_000, 1_010), Some(1_004));
    }

    #[test]
    fn an_interrupt_is_neither_before_its_instant_nor_after_the_waking() {
        let mut expiries = Expiries::default();
        expiries.arm(OURS, 1_000);
        expiries.run(OURS, 999);
        expiries.run(OURS, 1_011);
        assert_eq!(expiries.irq(1_000, 1_010), None);
        assert_eq!(expiries.irq(1_000, 1_011), Some(1_011));
        // A clock that was set back between.
        assert_eq!(expiries.irq(1_000, 900), None);
    }

    #[test]
    fn what_is_forgotten_is_not_found_and_the_rest_is() {
        let mut expiries = Expiries::default();
        for due_ns in [1_000, 2_000] {
            expiries.arm(OURS, due_ns);
            expiries.run(OURS, due_ns);
        }
        expiries.forget_before(2_000);
        assert_eq!((expiries.irq(1_000, 1_500), expiries.irq(2_000, 2_500)), (None, Some(2_000)));
        assert_eq!((expiries.armed.len(), expiries.run.len()), (1, 1));
    }
}
