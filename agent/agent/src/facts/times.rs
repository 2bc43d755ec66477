//! How CPUs spent their time since boot (/proc/stat, proc(5)).

use serde::Serialize;
use std::collections::BTreeMap;

/// One tick of /proc/stat: 1/USER_HZ s. USER_HZ is 100 on every architecture the agent is built for.
const TICK_NS: i64 = 10_000_000;

/// How CPUs spent their time since boot. Guest time is contained in user and nice time as well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Times {
    /// Programs.
    user_ns: Option<i64>,
    /// Programs of low priority.
    nice_ns: Option<i64>,
    /// The kernel, for programs.
    system_ns: Option<i64>,
    /// Nothing to do.
    idle_ns: Option<i64>,
    /// Nothing to do but waiting for a disk.
    iowait_ns: Option<i64>,
    /// Interrupts.
    irq_ns: Option<i64>,
    /// Softirqs.
    softirq_ns: Option<i64>,
    /// Ready to run, but the hypervisor ran something else.
    pub steal_ns: Option<i64>,
    /// Guests.
    guest_ns: Option<i64>,
    /// Guests of low priority.
    guest_nice_ns: Option<i64>,
}

/// What /proc/stat shows.
#[derive(Debug, Default)]
pub struct Stat {
    /// All CPUs together.
    pub total: Times,
    /// Each CPU that is online.
    pub cpus: BTreeMap<usize, Times>,
    /// Context switches since boot.
    pub context_switches: Option<u64>,
    /// Processes and threads created since boot.
    pub created: Option<u64>,
}

/// What the text of /proc/stat shows.
pub fn stat(text: &str) -> Stat {
    let mut stat = Stat::default();
    for line in text.lines() {
        let Some((name, rest)) = line.split_once(' ') else { continue };
        match (name, name.strip_prefix("cpu")) {
            ("cpu", _) => stat.total = times(rest),
            ("ctxt", _) => stat.context_switches = rest.trim().parse().ok(),
            ("processes", _) => stat.created = rest.trim().parse().ok(),
            (_, Some(number)) => {
                if let Ok(cpu) = number.parse() {
                    stat.cpus.insert(cpu, times(rest));
                }
            }
            _ => {}
        }
    }
    stat
}

fn times(ticks: &str) -> Times {
    let mut ns = ticks.split_whitespace().map(|ticks| ticks.parse::<i64>().ok()?.checked_mul(TICK_NS));
    let mut next = || ns.next().flatten();
    // In the order of the file.
    Times {
        user_ns: next(),
        nice_ns: next(),
        system_ns: next(),
        idle_ns: next(),
        iowait_ns: next(),
        irq_ns: next(),
        softirq_ns: next(),
        steal_ns: next(),
        guest_ns: next(),
        guest_nice_ns: next(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "cpu  17848 0 3364 303848 776 0 204 20 0 0\ncpu0 9483 0 1697 151281 459 0 95 10 0 0\n\
        cpu1 8365 0 1667 152567 317 0 109 10 0 0\nintr 490809 0 0\nctxt 620138\nbtime 1795294257\nprocesses 9111\n";

    #[test]
    fn ticks_become_nanoseconds() {
        let stat = stat(TEXT);
        assert_eq!(stat.total.user_ns, Some(178_480_000_000));
        assert_eq!(stat.total.steal_ns, Some(200_000_000));
        assert_eq!(stat.cpus[&1].softirq_ns, Some(1_090_000_000));
        assert_eq!((stat.context_switches, stat.created), (Some(620_138), Some(9_111)));
    }

    #[test]
    fn times_an_old_kernel_does_not_count_are_unknown() {
        let stat = stat("cpu  1 2 3 4\n");
        assert_eq!((stat.total.idle_ns, stat.total.steal_ns), (Some(40_000_000), None));
    }

    #[test]
    fn no_text_makes_it_panic() {
        for text in ["", "cpu", "cpu \n", "cpux 1\n", "cpu 99999999999999999999\n", "ctxt x\n"] {
            assert_eq!(stat(text).total.steal_ns, None, "{text:?}");
        }
    }
}
