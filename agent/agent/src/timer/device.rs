//! What makes the timer's interrupt on this machine, and how finely it can.

use super::trace::clock_of;
use sys::clock::{Clock, resolution_ns};
use wire::event::TimerFound;
use wire::spec::How;

/// Counts by the TSC (arch/x86/kernel/apic/apic.c); `lapic` counts by the bus's clock, which nothing here tells.
const BY_TSC: &str = "lapic-deadline";
/// `arch_sys_timer`, `arch_mem_timer`: by the generic timer's counter (drivers/clocksource/arm_arch_timer.c).
const BY_GENERIC_TIMER: &str = "arch_";

/// The timer that is used on these CPUs, of which the first is looked at.
pub fn found(how: How, cpus: &[usize], traced: bool) -> TimerFound {
    let event_device = cpus.first().and_then(|cpu| {
        let path = format!("/sys/devices/system/clockevents/clockevent{cpu}/current_device");
        std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned()).filter(|name| !name.is_empty())
    });
    let counted = event_device.as_deref().is_some_and(|name| name == BY_TSC || name.starts_with(BY_GENERIC_TIMER));
    let clock = clock_of(how);
    TimerFound {
        clock: if clock == Clock::Tai { "CLOCK_TAI" } else { "CLOCK_REALTIME" },
        resolution_ns: resolution_ns(clock),
        event_device,
        tick_ns: sys::counter::hz().filter(|_| counted).map(|hz| 1e9 / hz as f64),
        traced,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_has_its_clock_and_one_that_is_fine() {
        for (how, clock) in [(How::Nanosleep, "CLOCK_TAI"), (How::Timerfd, "CLOCK_REALTIME")] {
            let found = found(how, &[0], false);
            assert_eq!(found.clock, clock);
            assert!(found.resolution_ns.is_some_and(|ns| ns >= 1));
            assert!(found.tick_ns.is_none_or(|ns| ns > 0.0 && found.event_device.is_some()));
        }
    }

    #[test]
    fn a_cpu_that_does_not_exist_has_no_device() {
        let found = found(How::Nanosleep, &[99_999], true);
        assert_eq!((found.event_device, found.tick_ns, found.traced), (None, None, true));
    }
}
