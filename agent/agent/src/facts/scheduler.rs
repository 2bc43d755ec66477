//! What the scheduler lets real-time threads do, and how busy it was.

use super::times::Stat;
use super::tree::Tree;
use serde::Serialize;
use std::collections::BTreeMap;

/// What the scheduler lets real-time threads do, and how busy it was.
#[derive(Debug, Serialize)]
pub struct Scheduler {
    /// What real-time threads may use of each period; −1: all of it.
    rt_runtime_us: Option<i64>,
    /// The period.
    rt_period_us: Option<i64>,
    /// Messages in the kernel's log that real-time threads were throttled.
    rt_throttled_count: Option<usize>,
    /// Time kept for ordinary threads on each CPU.
    fair_servers: BTreeMap<usize, FairServer>,
    /// CPUs of unbound workqueues.
    workqueue_cpus: Option<Vec<usize>>,
    /// Context switches since boot.
    context_switches: Option<u64>,
    /// Processes and threads created since boot.
    created: Option<u64>,
    /// Threads that wanted to run, on average over 1, 5 and 15 minutes.
    load_average: Option<[f64; 3]>,
}

/// The deadline server that runs ordinary threads when real-time threads would starve them (kernel 6.12 and newer).
#[derive(Debug, Serialize)]
pub struct FairServer {
    /// Time it gives them in each period; 0: none.
    runtime_ns: Option<u64>,
    /// The period.
    period_ns: Option<u64>,
}

/// What `kernel/sched/rt.c` says, once a boot.
const THROTTLED: &str = "sched: RT throttling activated";

impl Scheduler {
    /// The scheduler of `tree`; `stat` is what CPUs have done, `log` the kernel's log.
    pub fn read(tree: &Tree, stat: &Stat, log: Option<&str>) -> Self {
        let servers = "sys/kernel/debug/sched/fair_server";
        Self {
            rt_runtime_us: tree.value("proc/sys/kernel/sched_rt_runtime_us"),
            rt_period_us: tree.value("proc/sys/kernel/sched_rt_period_us"),
            rt_throttled_count: log.map(|log| log.matches(THROTTLED).count()),
            fair_servers: tree
                .numbered(servers, "cpu")
                .unwrap_or_default()
                .into_iter()
                .map(|cpu| (cpu, fair_server(tree, &format!("{servers}/cpu{cpu}"))))
                .collect(),
            workqueue_cpus: tree.cpu_mask("sys/devices/virtual/workqueue/cpumask"),
            context_switches: stat.context_switches,
            created: stat.created,
            load_average: tree.text("proc/loadavg").and_then(|text| load_average(&text)),
        }
    }
}

fn fair_server(tree: &Tree, path: &str) -> FairServer {
    FairServer { runtime_ns: tree.value(format!("{path}/runtime")), period_ns: tree.value(format!("{path}/period")) }
}

fn load_average(text: &str) -> Option<[f64; 3]> {
    let mut values = text.split_whitespace().map(|word| word.parse().ok());
    Some([values.next()??, values.next()??, values.next()??])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::fixture::Fixture;

    #[test]
    fn throttling_that_is_switched_off_is_minus_one() {
        let scheduler = Scheduler::read(&Fixture::i225_board(), &Stat::default(), None);
        assert_eq!((scheduler.rt_runtime_us, scheduler.rt_period_us), (Some(-1), Some(1_000_000)));
        assert_eq!(scheduler.workqueue_cpus, Some(vec![0, 1]));
        assert_eq!(scheduler.rt_throttled_count, None);
    }

    #[test]
    fn throttling_that_happened_is_counted_from_the_log() {
        let count = |log| Scheduler::read(&Fixture::empty(), &Stat::default(), Some(log)).rt_throttled_count;
        assert_eq!(count("<6>[    0.1] booting\n"), Some(0));
        assert_eq!(count("<4>[   93.8] sched: RT throttling activated\n"), Some(1));
    }

    #[test]
    fn fair_servers_are_told_where_debugfs_is_mounted() {
        let at = "=== sys/kernel/debug/sched/fair_server/cpu0";
        let tree = Fixture::from_text(&format!("{at}/runtime\n50000000\n{at}/period\n1000000000\n"));
        let scheduler = Scheduler::read(&tree, &Stat::default(), None);
        assert_eq!(scheduler.fair_servers[&0].runtime_ns, Some(50_000_000));
        assert_eq!(scheduler.fair_servers[&0].period_ns, Some(1_000_000_000));
    }

    #[test]
    fn the_load_is_three_averages() {
        assert_eq!(load_average("0.05 0.14 1.11 1/86 10196"), Some([0.05, 0.14, 1.11]));
        assert_eq!(load_average("0.05 0.14"), None);
    }
}
