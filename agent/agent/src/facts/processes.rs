//! Which running programs move interrupts or clocks, and how the kernel's own threads are scheduled.

use super::threads::{self, Stat, Thread};
use super::tree::Tree;
use serde::Serialize;
use std::collections::BTreeMap;

/// Which running programs move interrupts or clocks, and how the kernel's own threads are scheduled.
#[derive(Debug, Serialize)]
pub struct Processes {
    /// irqbalance runs: it moves interrupts while one measures.
    irqbalance: Option<bool>,
    /// Programs that steer clocks.
    clock_daemons: Option<Vec<String>>,
    /// Threads of virtual machines and of programs that steer clocks, by name.
    threads: BTreeMap<String, Thread>,
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

/// How the names of processes that run virtual machines begin.
const VIRTUAL_MACHINE: &str = "qemu";

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
            threads: threads::of_programs(
                tree,
                named
                    .iter()
                    .flatten()
                    .filter(|(_, comm)| comm.starts_with(VIRTUAL_MACHINE) || CLOCK_DAEMONS.contains(&comm.as_str())),
            ),
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
    Some(KernelThread {
        pid: u32::try_from(pid).ok()?,
        policy: stat.scheduling.map(|scheduling| scheduling.name()),
        priority: stat.scheduling.map(|scheduling| scheduling.priority),
        nice: stat.nice,
        cpus: threads::allowed(tree, &format!("proc/{pid}")),
    })
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
        let threads: Vec<&str> = processes.threads.keys().map(String::as_str).collect();
        assert_eq!(
            threads,
            ["phc2sys.1 phc2sys", "ptp4l.1 ptp4l", "qemu-system-x86.1 CPU 0/KVM", "qemu-system-x86.1 qemu-system-x86"]
        );
        // ptp4l is a program, though its name begins like that of a kernel thread.
        assert!(!processes.kernel_threads.contains_key("ptp4l"));
    }

    #[test]
    fn a_machine_without_them_says_so() {
        let processes = Processes::read(&Fixture::virtio_guest());
        assert_eq!((processes.irqbalance, processes.clock_daemons), (Some(false), Some(vec![])));
        assert_eq!(Processes::read(&Fixture::from_text("=== etc/x\n1\n")).irqbalance, None);
    }
}
