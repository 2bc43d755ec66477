//! Which kernel runs, and how it was built and started.

use super::tree::Tree;
use serde::Serialize;
use std::collections::BTreeMap;

/// Which kernel runs, and how it was built and started.
#[derive(Debug, Serialize)]
pub struct Kernel {
    /// `uname -r`.
    release: Option<String>,
    /// `uname -v`.
    version: Option<String>,
    /// `uname -m`.
    architecture: Option<String>,
    /// Random, made at boot.
    boot_id: Option<String>,
    /// Since boot.
    uptime_ns: Option<i64>,
    /// As it was started.
    command_line: Option<String>,
    /// Built with PREEMPT_RT.
    preempt_rt: Option<bool>,
    /// `rt`, `full`, `lazy`, `voluntary` or `none`.
    preemption: Option<String>,
    /// Build options.
    config: BTreeMap<&'static str, Option<String>>,
    /// Settings that move latencies, by their own names and in their own units.
    sysctl: BTreeMap<&'static str, Option<String>>,
    /// Loaded modules.
    modules: Option<Vec<String>>,
    /// How often its log complains of what makes packets late, by complaint.
    complaints: BTreeMap<&'static str, usize>,
}

/// What the kernel says of itself when something held it up, and how it says it.
const COMPLAINTS: &[(&str, &[&str])] = &[
    ("clock_unstable", &["Marking clocksource "]),
    ("hard_lockup", &["detected hard LOCKUP"]),
    ("hardware_error", &["[Hardware Error]"]),
    ("hrtimer_interrupt", &["hrtimer: interrupt took"]),
    ("hung_task", &["blocked for more than"]),
    ("oops", &["Oops:", "kernel BUG at"]),
    ("out_of_memory", &["Out of memory: Killed"]),
    ("rcu_stall", &["self-detected stall on CPU", "detected stalls on CPUs/tasks"]),
    ("scheduling_while_atomic", &["BUG: scheduling while atomic"]),
    ("soft_lockup", &["BUG: soft lockup"]),
    ("softirq_pending", &["NOHZ tick-stop error"]),
    ("throttled_by_heat", &["cpu clock throttled"]),
    ("transmit_queue_stuck", &["NETDEV WATCHDOG"]),
    ("tx_timestamp_hang", &["clearing Tx timestamp hang"]),
    ("warning", &["WARNING: CPU:"]),
    ("workqueue_lockup", &["BUG: workqueue lockup"]),
];

/// Build options that decide what real-time work this kernel can do.
const CONFIG: &[&str] = &[
    "CONFIG_HIGH_RES_TIMERS",
    "CONFIG_HZ",
    "CONFIG_NET_ACT_GATE",
    "CONFIG_NET_SCH_CBS",
    "CONFIG_NET_SCH_ETF",
    "CONFIG_NET_SCH_MQPRIO",
    "CONFIG_NET_SCH_TAPRIO",
    "CONFIG_NO_HZ_FULL",
    "CONFIG_PREEMPT",
    "CONFIG_PREEMPT_DYNAMIC",
    "CONFIG_PREEMPT_LAZY",
    "CONFIG_PREEMPT_NONE",
    "CONFIG_PREEMPT_RT",
    "CONFIG_PREEMPT_VOLUNTARY",
    "CONFIG_RCU_NOCB_CPU",
    "CONFIG_RT_GROUP_SCHED",
    "CONFIG_XDP_SOCKETS",
];

/// Settings under /proc/sys that move latencies.
const SYSCTL: &[&str] = &[
    "kernel.numa_balancing",
    "kernel.sched_autogroup_enabled",
    "kernel.sched_rr_timeslice_ms",
    "kernel.split_lock_mitigate",
    "kernel.timer_migration",
    "kernel.watchdog",
    "net.core.bpf_jit_enable",
    "net.core.busy_poll",
    "net.core.busy_read",
    "net.core.default_qdisc",
    "net.core.dev_weight",
    "net.core.netdev_budget",
    "net.core.netdev_budget_usecs",
    "net.core.netdev_max_backlog",
    "net.core.rmem_default",
    "net.core.rmem_max",
    "net.core.wmem_default",
    "net.core.wmem_max",
    "vm.stat_interval",
    "vm.swappiness",
];

impl Kernel {
    /// The kernel of `tree`, and its log.
    pub fn read(tree: &Tree, log: Option<&str>) -> Self {
        let release = tree.text("proc/sys/kernel/osrelease");
        let version = tree.text("proc/sys/kernel/version");
        let command_line = tree.text("proc/cmdline");
        let says_rt = version.as_deref().map(|version| flavour(version) == Some("PREEMPT_RT"));
        let preempt_rt = tree.switch("sys/kernel/realtime").or(says_rt);
        Self {
            // Kernels before 6.1 do not report it; the agent would not run on another kind of machine.
            architecture: tree.text("proc/sys/kernel/arch").or_else(|| Some(std::env::consts::ARCH.to_owned())),
            boot_id: tree.text("proc/sys/kernel/random/boot_id"),
            uptime_ns: tree.text("proc/uptime").and_then(|text| uptime_ns(&text)),
            preemption: preemption(tree, preempt_rt, version.as_deref(), command_line.as_deref()),
            config: config(tree, release.as_deref()),
            sysctl: SYSCTL.iter().map(|name| (*name, tree.text(sysctl_path(name)))).collect(),
            modules: tree.text("proc/modules").map(|text| modules(&text)),
            complaints: log.map(complaints).unwrap_or_default(),
            release,
            version,
            command_line,
            preempt_rt,
        }
    }
}

/// The value of `name=VALUE` on a command line, the last one if there are several.
pub fn parameter<'a>(command_line: &'a str, name: &str) -> Option<&'a str> {
    command_line.split_whitespace().filter_map(|word| word.strip_prefix(name)?.strip_prefix('=')).next_back()
}

/// The word in `uname -v` that tells how the kernel preempts.
fn flavour(version: &str) -> Option<&str> {
    version.split_whitespace().find(|word| word.starts_with("PREEMPT"))
}

/// How the kernel preempts, as far as it tells.
fn preemption(tree: &Tree, rt: Option<bool>, version: Option<&str>, command_line: Option<&str>) -> Option<String> {
    if rt? {
        return Some("rt".to_owned());
    }
    match flavour(version?) {
        // Chosen at boot or since; without debugfs only the command line tells, and what was built in stays unknown.
        Some("PREEMPT_DYNAMIC") => tree
            .choice("sys/kernel/debug/sched/preempt", ('(', ')'))
            .or_else(|| parameter(command_line?, "preempt").map(str::to_owned)),
        Some("PREEMPT") => Some("full".to_owned()),
        // `none` and `voluntary` are not distinguished by uname.
        _ => None,
    }
}

fn config(tree: &Tree, release: Option<&str>) -> BTreeMap<&'static str, Option<String>> {
    let text = release.and_then(|release| {
        tree.text(format!("boot/config-{release}")).or_else(|| tree.text(format!("lib/modules/{release}/config")))
    });
    let set: BTreeMap<&str, &str> =
        text.iter().flat_map(|text| text.lines()).filter_map(|l| l.split_once('=')).collect();
    let value = |name: &str| match set.get(name) {
        Some(value) => Some((*value).to_owned()),
        // An option that is not mentioned is off; without a file nothing is known.
        None => text.is_some().then(|| "n".to_owned()),
    };
    CONFIG.iter().map(|name| (*name, value(name))).collect()
}

fn sysctl_path(name: &str) -> String {
    format!("proc/sys/{}", name.replace('.', "/"))
}

fn uptime_ns(text: &str) -> Option<i64> {
    let seconds: f64 = text.split_whitespace().next()?.parse().ok()?;
    Some((seconds * 1e9).round() as i64)
}

/// How often each complaint stands in the log.
fn complaints(log: &str) -> BTreeMap<&'static str, usize> {
    let count = |said: &[&str]| log.lines().filter(|line| said.iter().any(|words| line.contains(words))).count();
    COMPLAINTS.iter().map(|(name, said)| (*name, count(said))).collect()
}

fn modules(text: &str) -> Vec<String> {
    let mut names: Vec<String> =
        text.lines().filter_map(|line| Some(line.split_whitespace().next()?.to_owned())).collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::fixture::Fixture;

    #[test]
    fn a_real_time_kernel_is_recognised() {
        let kernel = Kernel::read(&Fixture::i225_board(), None);
        assert_eq!(kernel.preempt_rt, Some(true));
        assert_eq!(kernel.preemption.as_deref(), Some("rt"));
        assert_eq!(kernel.release.as_deref(), Some("6.1.0-26-rt-amd64"));
        assert_eq!(kernel.uptime_ns, Some(5_025_180_000_000));
    }

    #[test]
    fn the_version_tells_of_preempt_rt_where_the_kernel_has_no_file_for_it() {
        let rt = Fixture::from_text("=== proc/sys/kernel/version\n#1 SMP PREEMPT_RT Debian 6.12.48-1\n");
        assert_eq!(Kernel::read(&rt, None).preempt_rt, Some(true));
        assert_eq!(Kernel::read(&Fixture::virtio_guest(), None).preempt_rt, Some(false));
        assert_eq!(Kernel::read(&Fixture::empty(), None).preempt_rt, None);
    }

    #[test]
    fn dynamic_preemption_is_what_was_chosen() {
        let read = |extra: &str| {
            let text = format!("=== proc/sys/kernel/version\n#1 SMP PREEMPT_DYNAMIC Debian\n{extra}");
            Kernel::read(&Fixture::from_text(&text), None).preemption
        };
        assert_eq!(read("=== sys/kernel/debug/sched/preempt\nnone voluntary (full) lazy\n").as_deref(), Some("full"));
        assert_eq!(read("=== proc/cmdline\nquiet preempt=lazy ro\n").as_deref(), Some("lazy"));
        assert_eq!(read(""), None);
    }

    #[test]
    fn an_option_the_configuration_does_not_mention_is_off() {
        let kernel = Kernel::read(&Fixture::i225_board(), None);
        assert_eq!(kernel.config["CONFIG_NET_SCH_TAPRIO"].as_deref(), Some("m"));
        assert_eq!(kernel.config["CONFIG_RT_GROUP_SCHED"].as_deref(), Some("n"));
        assert_eq!(Kernel::read(&Fixture::virtio_guest(), None).config["CONFIG_HZ"], None);
    }

    #[test]
    fn loaded_modules_are_listed_by_name() {
        let modules = Kernel::read(&Fixture::i225_board(), None).modules.unwrap();
        assert_eq!(modules, ["igc", "sch_etf", "sch_taprio"]);
        assert_eq!(Kernel::read(&Fixture::virtio_guest(), None).modules, None);
    }

    #[test]
    fn complaints_are_counted_and_a_log_that_cannot_be_read_has_none() {
        let log = "<4>[ 7.1] hrtimer: interrupt took 92843 ns\n<3>[ 9.0] watchdog: BUG: soft lockup - CPU#1 stuck\n\
                   <3>[ 33.2] watchdog: BUG: soft lockup - CPU#1 stuck\n<6>[ 40.0] igb: all is well\n";
        let complaints = Kernel::read(&Fixture::empty(), Some(log)).complaints;
        assert_eq!((complaints["hrtimer_interrupt"], complaints["soft_lockup"], complaints["oops"]), (1, 2, 0));
        assert!(Kernel::read(&Fixture::empty(), None).complaints.is_empty());
    }

    #[test]
    fn the_last_of_repeated_parameters_counts() {
        assert_eq!(parameter("isolcpus=1 quiet isolcpus=2-3", "isolcpus"), Some("2-3"));
        assert_eq!(parameter("nohz_full=1", "nohz"), None);
    }
}
