//! Who the threads are that a trace names: it has their numbers only.

use crate::recording::{Recorder, Recording, Tap};
use std::collections::HashSet;
use sys::clock::tai_ns;
use wire::event::Failure;
use wire::record::{Task, Traced};
use wire::traceable::{Filtered, TRACEABLE};

/// Threads that are seen between two looks, at most, before the writer is waited for.
const RING_ROWS: usize = 1024;
/// The first namespace of process ids (PROC_PID_INIT_INO, include/linux/proc_ns.h): tracepoints show numbers in it.
const FIRST_NAMESPACE: &str = "pid:[4026531836]";
/// A thread of the kernel's own (PF_KTHREAD, include/linux/sched.h).
const KERNEL_THREAD: u64 = 0x0020_0000;

/// The `tasks` table.
pub struct Tasks {
    tap: Tap<Task>,
    known: HashSet<i32>,
    new: Vec<i32>,
    /// Whether /proc has the numbers that tracepoints show.
    readable: bool,
}

impl Tasks {
    /// Adds the table to `recorder`. `chosen`: threads have been asked for by their numbers.
    ///
    /// # Errors
    /// Its file cannot be made; or threads were chosen, and their numbers are others here than those that tracepoints show.
    pub fn new(recorder: &mut Recorder, chosen: bool) -> Result<Self, Failure> {
        let namespace = std::fs::read_link("/proc/self/ns/pid").ok();
        let readable = namespace.is_none_or(|name| name.to_str() == Some(FIRST_NAMESPACE));
        if chosen && !readable {
            return Err(Failure {
                what: "threads have other numbers here than in the kernel's tracepoints: this is a namespace of process ids".into(),
                place: "threads".into(),
                remedy: "run it outside of the container (docker run --pid=host), or trace all threads".into(),
                errno: None,
            });
        }
        Ok(Self { tap: recorder.table(RING_ROWS)?, known: HashSet::from([0]), new: Vec::new(), readable })
    }

    /// Notes whom the row names, if nobody did before.
    pub fn named_by(&mut self, row: &Traced) {
        let subject = row.subject.filter(|_| is_thread(row.event)).and_then(|number| i32::try_from(number).ok());
        for pid in [Some(row.pid), subject].into_iter().flatten() {
            if self.known.insert(pid) {
                self.new.push(pid);
            }
        }
    }

    /// Looks up who they are.
    pub fn look_up(&mut self, recording: &Recording) {
        for pid in self.new.drain(..) {
            let stat = Some(format!("/proc/{pid}/stat")).filter(|_| self.readable);
            let found = stat.and_then(|path| std::fs::read(path).ok()).and_then(|stat| who(&stat));
            let (comm, kernel) = found.unzip();
            self.tap.push_when_room(Task { tai_ns: tai_ns(), pid, comm, kernel }, || !recording.broken());
        }
    }
}

/// Whether what this event is of is a thread.
fn is_thread(event: u8) -> bool {
    TRACEABLE.iter().any(|point| {
        point.number == event
            && matches!(point.filtered, Filtered::ByThread(fields) if point.subject.iter().any(|name| fields.contains(name)))
    })
}

/// The name in a `/proc/PID/stat`, and whether it is a thread of the kernel's; None: that is none. The name may have anything in
/// it, brackets too (proc_pid_stat(5)).
fn who(stat: &[u8]) -> Option<([u8; 16], bool)> {
    let begin = stat.iter().position(|byte| *byte == b'(')? + 1;
    let end = stat.iter().rposition(|byte| *byte == b')').filter(|end| *end >= begin)?;
    let name = &stat[begin..end.min(begin + 15)];
    let mut comm = [0; 16];
    comm[..name.len()].copy_from_slice(name);
    // After it: state, ppid, pgrp, session, tty_nr, tpgid, flags.
    let rest = std::str::from_utf8(&stat[end + 1..]).ok()?;
    let flags: u64 = rest.split_whitespace().nth(6)?.parse().ok()?;
    Some((comm, flags & KERNEL_THREAD != 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(comm: &str) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..comm.len()].copy_from_slice(comm.as_bytes());
        bytes
    }

    #[test]
    fn a_name_is_all_between_the_first_bracket_and_the_last() {
        let stat = b"17 (ksoftirqd/0) S 2 0 0 0 -1 69238848 0 0 0 0";
        assert_eq!(who(stat), Some((named("ksoftirqd/0"), true)));
        assert_eq!(who(b"99 (a) b (c) R 1 99 99 0 -1 4194304 1 2"), Some((named("a) b (c"), false)));
        assert_eq!(
            who(b"99 (kworker/u8:3-events_unbound) I 2 0 0 0 -1 69238880 0"),
            Some((named("kworker/u8:3-ev"), true))
        );
        for none in [&b""[..], b"99", b"99 (", b"99 )(", b"99 (a) R 1 2", b"99 (a) R 1 99 99 0 -1 x"] {
            assert_eq!(who(none), None);
        }
    }

    #[test]
    fn this_process_is_found_under_its_number() {
        let (comm, kernel) = who(&std::fs::read("/proc/self/stat").unwrap()).unwrap();
        let own = std::fs::read_to_string("/proc/self/comm").unwrap();
        assert_eq!((comm, kernel), (named(own.trim_end_matches('\n')), false));
    }

    #[test]
    fn whoever_is_woken_or_switched_to_is_a_thread() {
        let threads: Vec<_> = TRACEABLE.iter().filter(|p| is_thread(p.number)).map(|p| p.name).collect();
        assert_eq!(threads, ["sched_waking", "sched_switch"]);
    }
}
