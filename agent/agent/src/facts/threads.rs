//! How the threads of a program are scheduled, where they may run, and where they ran last.

use super::tree::Tree;
use serde::Serialize;
use std::collections::BTreeMap;
use sys::thread::Scheduling;

/// A thread of a program.
#[derive(Debug, Serialize)]
pub struct Thread {
    /// Its number.
    id: usize,
    /// Its process.
    process: usize,
    /// How it is scheduled.
    pub policy: Option<&'static str>,
    /// Its real-time priority; 0 if it is an ordinary thread.
    pub priority: Option<i32>,
    /// CPUs it may run on.
    pub cpus: Option<Vec<usize>>,
    /// The CPU it ran on last.
    last_cpu: Option<usize>,
}

/// The threads of these processes (number and name of each), by `PROGRAM.K NAME`: the K-th process of that name, and
/// the thread's own name, with `#2` for the second that has it. Two runs of a machine have the same names.
pub fn of_programs<'a>(tree: &Tree, processes: impl Iterator<Item = &'a (usize, String)>) -> BTreeMap<String, Thread> {
    let mut found = BTreeMap::new();
    let mut running: BTreeMap<&str, usize> = BTreeMap::new();
    for (pid, program) in processes {
        let number = running.entry(program).and_modify(|count| *count += 1).or_insert(1);
        let mut called: BTreeMap<String, usize> = BTreeMap::new();
        for (name, thread) in of_process(tree, *pid) {
            let count = called.entry(name.clone()).and_modify(|count| *count += 1).or_insert(1);
            let which = if *count > 1 { format!("#{count}") } else { String::new() };
            found.insert(format!("{program}.{number} {name}{which}"), thread);
        }
    }
    found
}

/// The threads of a process with their names, in the order of their numbers; none of one that is gone.
pub fn of_process(tree: &Tree, process: usize) -> Vec<(String, Thread)> {
    let folder = format!("proc/{process}/task");
    let ids = tree.numbered(&folder, "").unwrap_or_default();
    ids.into_iter().filter_map(|id| thread(tree, &format!("{folder}/{id}"), id, process)).collect()
}

fn thread(tree: &Tree, path: &str, id: usize, process: usize) -> Option<(String, Thread)> {
    let stat = Stat::parse(&tree.text(format!("{path}/stat"))?)?;
    let thread = Thread {
        id,
        process,
        policy: stat.scheduling.map(|scheduling| scheduling.name()),
        priority: stat.scheduling.map(|scheduling| scheduling.priority),
        cpus: allowed(tree, path),
        last_cpu: stat.last_cpu,
    };
    Some((tree.text(format!("{path}/comm"))?, thread))
}

/// CPUs that the thread or process whose folder in /proc is `path` may run on.
pub fn allowed(tree: &Tree, path: &str) -> Option<Vec<usize>> {
    let status = tree.text(format!("{path}/status"))?;
    status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).and_then(super::cpus::list)
}

/// What /proc/PID/stat reports of a thread's scheduling (proc_pid_stat(5)).
#[derive(Debug, PartialEq, Eq)]
pub struct Stat {
    /// A thread of the kernel's own.
    pub of_kernel: bool,
    /// Its nice value.
    pub nice: Option<i32>,
    /// Its policy and priority.
    pub scheduling: Option<Scheduling>,
    /// The CPU it ran on last.
    pub last_cpu: Option<usize>,
}

impl Stat {
    /// What the file's text says.
    pub fn parse(text: &str) -> Option<Self> {
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
            last_cpu: field(39).and_then(|cpu| cpu.parse().ok()),
            scheduling: number(41).zip(number(40)).map(|(policy, priority)| Scheduling { policy, priority }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::fixture::Fixture;

    #[test]
    fn a_virtual_cpu_tells_where_it_may_run_and_where_it_ran() {
        let threads = of_programs(&Fixture::i225_board(), [(600, "qemu".to_owned())].iter());
        let vcpu = &threads["qemu.1 CPU 0/KVM"];
        assert_eq!((vcpu.id, vcpu.process), (604, 600));
        assert_eq!((vcpu.policy, vcpu.priority), (Some("SCHED_FIFO"), Some(1)));
        assert_eq!((vcpu.cpus.as_deref(), vcpu.last_cpu), (Some(&[2, 3][..]), Some(2)));
        assert!(of_programs(&Fixture::i225_board(), [(7, "gone".to_owned())].iter()).is_empty());
    }

    #[test]
    fn threads_of_one_name_are_told_apart() {
        let at = |pid: usize, tid: usize| {
            format!(
                "=== proc/{pid}/task/{tid}/comm\nworker\n=== proc/{pid}/task/{tid}/stat\n{tid} (worker) S 1 1 1 0 -1 0\n"
            )
        };
        let tree = Fixture::from_text(&[at(5, 5), at(5, 6), at(9, 9)].concat());
        let threads = of_programs(&tree, [(5, "qemu".to_owned()), (9, "qemu".to_owned())].iter());
        let found: Vec<_> = threads.iter().map(|(name, thread)| (name.as_str(), thread.id)).collect();
        assert_eq!(found, [("qemu.1 worker", 5), ("qemu.1 worker#2", 6), ("qemu.2 worker", 9)]);
    }

    #[test]
    fn a_name_with_parentheses_and_spaces_does_not_shift_the_fields() {
        let mut fields = ["0"; 50];
        for (number, value) in [(3, "S"), (9, "2129984"), (19, "-5"), (39, "3"), (40, "50"), (41, "1")] {
            fields[number - 3] = value;
        }
        let stat = Stat::parse(&format!("7 (a ) 1 (b) {}", fields.join(" "))).unwrap();
        assert!(stat.of_kernel);
        assert_eq!(stat.last_cpu, Some(3));
        assert_eq!((stat.nice, stat.scheduling), (Some(-5), Some(Scheduling { policy: 1, priority: 50 })));
        assert_eq!(Stat::parse("7 (a"), None);
        assert_eq!(Stat::parse("7 (a) S"), None);
    }
}
