//! Which running programs move interrupts or clocks, and how the kernel's own threads are scheduled.

use super::tree::Tree;
use serde::Serialize;
use std::collections::BTreeMap;
use sys::thread::Scheduling;

/// Which running programs move interrupts or clocks, and how the kernel's own threads are scheduled.
#[derive(Debug, Serialize)]
pub struct Processes {
    /// irqbalance runs: it moves interrupts while one measures.
    irqbalance: Option<bool>,
    /// Programs that steer clocks.
    clock_daemons: Option<Vec<String>>,
    /// Kernel threads on a packet's way, by name.
    kernel_threads: BTreeMap<String, KernelThread>,
}

/// A kernel thread on a packet's way.
#[derive(Debug, Serialize)]
pub struct KernelThread {
    /// Its number.
    pid: u32,
    /// How it is scheduled.
    policy: Option<&'static str>,
    /// Its real-time priority; 0 if it is an ordinary thread.
    priority: Option<i32>,
    /// Its nice value.
    nice: Option<i32>,
    /// CPUs it may run on.
    cpus: Option<Vec<usize>>,
}

/// Programs that steer clocks, as /proc names them: at most 15 characters.
const CLOCK_DAEMONS: &[&str] =
    &["chronyd", "ntp-daemon", "ntpd", "openntpd", "phc2sys", "ptp4l", "statime-linux", "systemd-timesyn", "ts2phc"];

/// How the names of kernel threads on a packet's way begin.
const ON_THE_WAY: &[&str] =
    &["irq/", "ksoftirqd/", "ktimers/", "napi/", "ptp", "rcuc/", "rcuog/", "rcuop/", "rcu_preempt", "vhost-"];

impl Processes {
    /// The processes of `tree`.
    pub fn read(tree: &Tree) -> Self {
        let named: Option<Vec<(usize, String)>> = tree.numbered("proc", "").map(|pids| {
            pids.into_iter().filter_map(|pid| Some((pid, tree.text(format!("proc/{pid}/comm"))?))).collect()
        });
        let running = |name: &str| named.as_ref().map(|named| named.iter().any(|(_, comm)| comm == name));
        Self {
            irqbalance: running("irqbalance"),
            clock_daemons: named.as_ref().map(|_| {
                CLOCK_DAEMONS.iter().filter(|name| running(name) == Some(true)).map(|name| (*name).to_owned()).collect()
            }),
            kernel_threads: named
                .iter()
                .flatten()
                .filter(|(_, comm)| ON_THE_WAY.iter().any(|prefix| comm.starts_with(prefix)))
                .filter_map(|(pid, comm)| Some((comm.clone(), kernel_thread(tree, *pid)?)))
                .collect(),
        }
    }
}

/// How a kernel thread is scheduled; None if `pid` is a program, or gone.
fn kernel_thread(tree: &Tree, pid: usize) -> Option<KernelThread> {
    let stat = Stat::parse(&tree.text(format!("proc/{pid}/stat"))?)?;
    if !stat.of_kernel {
        return None;
    }
    let status = tree.text(format!("proc/{pid}/status"));
    let allowed = status.as_deref().and_then(|s| s.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")));
    Some(KernelThread {
        pid: u32::try_from(pid).ok()?,
        policy: stat.scheduling.map(|scheduling| scheduling.name()),
        priority: stat.scheduling.map(|scheduling| scheduling.priority),
        nice: stat.nice,
        cpus: allowed.and_then(super::cpus::list),
    })
}

/// What /proc/PID/stat tells of a thread's scheduling (proc_pid_stat(5)).
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    of_kernel: bool,
    nice: Option<i32>,
    scheduling: Option<Scheduling>,
}

impl Stat {
    fn parse(text: &str) -> Option<Self> {
        const PF_KTHREAD: u32 = 0x0020_0000;
        // The name, in parentheses, may hold anything; what follows its end begins with field 3.
        let (_, after) = text.rsplit_once(')')?;
        let fields: Vec<&str> = after.split_whitespace().collect();
        let field = |number: usize| fields.get(number - 3).copied();
        let flags: u32 = field(9)?.parse().ok()?;
        let number = |at: usize| field(at)?.parse::<i32>().ok();
        Some(Self {
            of_kernel: flags & PF_KTHREAD != 0,
            nice: number(19),
            scheduling: number(41).zip(number(40)).map(|(policy, priority)| Scheduling { policy, priority }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::fixture::Fixture;

    #[test]
    fn an_interrupts_thread_tells_its_priority_and_cpus() {
        let processes = Processes::read(&Fixture::i225_board());
        let thread = &processes.kernel_threads["irq/126-enp3s0-TxRx-0"];
        assert_eq!((thread.pid, thread.policy, thread.priority), (412, Some("SCHED_FIFO"), Some(50)));
        assert_eq!(thread.cpus, Some(vec![2]));
    }

    #[test]
    fn programs_that_disturb_a_measurement_are_found() {
        let processes = Processes::read(&Fixture::i225_board());
        assert_eq!(processes.irqbalance, Some(true));
        assert_eq!(processes.clock_daemons.unwrap(), ["phc2sys", "ptp4l"]);
        // ptp4l is a program, though its name begins like that of a kernel thread.
        assert!(!processes.kernel_threads.contains_key("ptp4l"));
    }

    #[test]
    fn a_machine_without_them_says_so() {
        let processes = Processes::read(&Fixture::virtio_guest());
        assert_eq!((processes.irqbalance, processes.clock_daemons), (Some(false), Some(vec![])));
        assert_eq!(Processes::read(&Fixture::from_text("=== etc/x\n1\n")).irqbalance, None);
    }

    #[test]
    fn a_name_with_parentheses_and_spaces_does_not_shift_the_fields() {
        let mut fields = ["0"; 50];
        for (number, value) in [(3, "S"), (9, "2129984"), (19, "-5"), (40, "50"), (41, "1")] {
            fields[number - 3] = value;
        }
        let stat = Stat::parse(&format!("7 (a ) 1 (b) {}", fields.join(" "))).unwrap();
        assert!(stat.of_kernel);
        assert_eq!((stat.nice, stat.scheduling), (Some(-5), Some(Scheduling { policy: 1, priority: 50 })));
        assert_eq!(Stat::parse("7 (a"), None);
        assert_eq!(Stat::parse("7 (a) S"), None);
    }
}
