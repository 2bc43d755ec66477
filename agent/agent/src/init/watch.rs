//! Whether a board's ordinary threads still run. In virtual time only the board can tell how long they have not.
//!
//! Who takes turns is an ordinary thread. A thread above all others asks it every other second whether it runs: some
//! microseconds for the one, and for the other a wake-up beside the hundreds that agents have. Where an answer took long, it
//! looks who has the CPU. That the machine says something now and then tells nothing: from Linux 6.12 on ordinary threads get
//! a twentieth of the CPU however much others want, which is too little for anything to come to its end.
//!
//! It sleeps in clock_nanosleep: for a real-time thread the kernel wakes it from the timer's interrupt. With PREEMPT_RT a
//! timerfd fires in a thread of its own (ktimers), which starves with the others.

use crate::facts::Tree;
use crate::facts::threads::Stat;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use sys::Error;
use sys::clock::{Clock, now_ns, tai_ns};
use sys::halt::Halt;
use sys::order::settle;
use sys::shared::SharedWords;
use wire::turns::{self, Holder, Starved};

/// So often the watch asks. No multiple of the fair server's period (1 s), so that it does not ask at the same instant of each.
const PERIOD: Duration = Duration::from_millis(2300);
/// An ordinary thread that is woken and does not run for so long is kept from it.
const ANSWER_NS: i64 = 200_000_000;
/// So long the watch then looks: a burst of work is over by then.
const WINDOW: Duration = Duration::from_secs(2);
/// The part of the CPUs' time that real-time threads take of the window where others starve. The kernel leaves those 5 %, by
/// its fair server or, before Linux 6.12, by sched_rt_runtime_us.
const SHARE: f64 = 0.9;
/// Threads that are told of.
const TOLD: usize = 4;
const FIFO: u8 = 99;

/// The ordinary thread's side of the watch.
pub struct Watch {
    answered_ns: Arc<AtomicI64>,
    question: UnixStream,
}

impl Watch {
    /// The watch of the calling thread, begun. `words`: where it tells the host what it finds.
    ///
    /// # Errors
    /// Why there can be none.
    pub fn start(words: SharedWords) -> Result<Self, String> {
        let (question, asking) = UnixStream::pair().map_err(|error| error.to_string())?;
        for end in [&question, &asking] {
            end.set_nonblocking(true).map_err(|error| error.to_string())?;
        }
        let answered_ns = Arc::new(AtomicI64::new(0));
        let watch = Self { answered_ns: Arc::clone(&answered_ns), question };
        let (ready, started) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            // Of the thread: who else may use the device does not matter.
            let prepared = sys::thread::set_fifo(FIFO).and_then(|()| Halt::open());
            let halt = match prepared {
                Ok(halt) => halt,
                Err(error) => return drop(ready.send(Err(error))),
            };
            drop(ready.send(Ok(())));
            let mut keeper = Keeper { words, halt, answered_ns, asking };
            let Err(error) = keeper.keep();
            super::say(&format!("turns: nobody watches whether ordinary threads run: {error}"));
        });
        started.recv().map_err(|error| error.to_string())?.map_err(|error: Error| error.to_string())?;
        Ok(watch)
    }

    /// What can be read when the watch asks.
    pub fn question(&self) -> BorrowedFd<'_> {
        self.question.as_fd()
    }

    /// Tells the watch, which has asked, that the calling thread runs.
    pub fn answer(&mut self) {
        // Several questions may wait; that there is none is as good.
        let _ = self.question.read(&mut [0; 64]);
        self.answered_ns.store(now_ns(Clock::Monotonic), Ordering::Release);
    }
}

struct Keeper {
    words: SharedWords,
    halt: Halt,
    /// When it was answered last, by CLOCK_MONOTONIC.
    answered_ns: Arc<AtomicI64>,
    asking: UnixStream,
}

impl Keeper {
    fn keep(&mut self) -> Result<std::convert::Infallible, Error> {
        loop {
            let asked_ns = now_ns(Clock::Monotonic);
            // Where nobody has read the last ones there may be no room, and no need for another.
            let _ = self.asking.write(&[1]);
            std::thread::sleep(PERIOD);
            self.looked();
            let answered_ns = self.answered_ns.load(Ordering::Acquire);
            if answered_ns >= asked_ns && answered_ns - asked_ns <= ANSWER_NS {
                continue;
            }
            let tree = Tree::machine();
            let first = realtime_threads(&tree);
            std::thread::sleep(WINDOW);
            self.looked();
            let cpus = sys::thread::affinity()?;
            if let Some(starved) = starved(&first, realtime_threads(&tree), WINDOW, cpus) {
                self.tell(&starved);
            }
        }
    }

    fn looked(&self) {
        self.words.store(turns::WATCHED_TAI_NS_AT, tai_ns() as u64);
    }

    /// Tells the host in the middle of the board's turn, which does not come to its end.
    fn tell(&self, starved: &Starved) {
        let text = serde_json::to_vec(starved).unwrap_or_default();
        let text = &text[..text.len().min(turns::STARVED_BYTES)];
        for (n, piece) in text.chunks(8).enumerate() {
            let mut word = [0; 8];
            word[..piece.len()].copy_from_slice(piece);
            self.words.store(turns::STARVED_AT + n, u64::from_ne_bytes(word));
        }
        self.words.store(turns::STARVED_LENGTH_AT, text.len() as u64);
        settle();
        self.halt.halt();
        settle();
    }
}

/// Every real-time thread but the caller's, by its number; `ran_ns` since it began.
fn realtime_threads(tree: &Tree) -> BTreeMap<usize, Holder> {
    let mut found = BTreeMap::new();
    for pid in tree.numbered("proc", "").unwrap_or_default() {
        for tid in tree.numbered(format!("proc/{pid}/task"), "").unwrap_or_default() {
            if tid != sys::thread::id() as usize {
                found.extend(realtime_thread(tree, pid, tid).map(|thread| (tid, thread)));
            }
        }
    }
    found
}

/// The thread; None if it is an ordinary one, or gone.
fn realtime_thread(tree: &Tree, pid: usize, tid: usize) -> Option<Holder> {
    let path = format!("proc/{pid}/task/{tid}");
    let stat = Stat::parse(&tree.text(format!("{path}/stat"))?)?;
    let scheduling = stat.scheduling.filter(|scheduling| scheduling.is_realtime())?;
    let name = tree.text(format!("{path}/comm"))?;
    // Before Linux 6.4 vhost's threads are the kernel's own, named by the process they work for.
    let pid = name.strip_prefix("vhost-").and_then(|pid| pid.parse().ok()).unwrap_or(pid);
    Some(Holder {
        tid,
        pid,
        machine: machine(tree, pid),
        name,
        policy: scheduling.name().to_owned(),
        priority: scheduling.priority,
        cpu: stat.last_cpu?,
        ran_ns: tree.text(format!("{path}/schedstat"))?.split(' ').next()?.parse().ok()?,
    })
}

/// The name of the virtual machine that a process runs: the first value of its `-name`.
fn machine(tree: &Tree, pid: usize) -> Option<String> {
    let command = tree.bytes(format!("proc/{pid}/cmdline"))?;
    let mut words = command.split(|byte| *byte == 0);
    words.find(|word| *word == b"-name")?;
    let name = words.next()?.split(|byte| *byte == b',').next()?;
    Some(String::from_utf8_lossy(name).into_owned())
}

/// Who keeps ordinary threads from these CPUs; None where real-time threads left them time.
fn starved(
    first: &BTreeMap<usize, Holder>,
    second: BTreeMap<usize, Holder>,
    window: Duration,
    cpus: Vec<usize>,
) -> Option<Starved> {
    let ran = |thread: Holder| {
        let before = first.get(&thread.tid).map_or(0, |before| before.ran_ns);
        Holder { ran_ns: thread.ran_ns.saturating_sub(before), ..thread }
    };
    let mut threads: Vec<Holder> = second.into_values().map(ran).collect();
    threads.retain(|thread| thread.ran_ns > 0 && cpus.contains(&thread.cpu));
    threads.sort_by_key(|thread| std::cmp::Reverse(thread.ran_ns));
    let window_ns = window.as_nanos() as u64;
    let taken: u64 = threads.iter().map(|thread| thread.ran_ns).sum();
    let there = window_ns * cpus.len() as u64;
    threads.truncate(TOLD);
    (taken as f64 >= SHARE * there as f64).then_some(Starved { cpus, window_ns, threads })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::fixture::Fixture;

    const SECOND: u64 = 1_000_000_000;

    fn thread(tid: usize, cpu: usize, ran_ns: u64) -> Holder {
        let (name, policy) = (format!("thread {tid}"), "SCHED_FIFO".to_owned());
        Holder { tid, pid: tid, name, machine: None, policy, priority: 1, cpu, ran_ns }
    }

    fn look(threads: &[(usize, usize, u64)]) -> BTreeMap<usize, Holder> {
        threads.iter().map(|&(tid, cpu, ran)| (tid, thread(tid, cpu, ran))).collect()
    }

    fn told(
        first: &[(usize, usize, u64)],
        second: &[(usize, usize, u64)],
        cpus: &[usize],
    ) -> Option<Vec<(usize, u64)>> {
        let found = starved(&look(first), look(second), Duration::from_secs(2), cpus.to_vec())?;
        Some(found.threads.iter().map(|thread| (thread.tid, thread.ran_ns)).collect())
    }

    #[test]
    fn who_took_the_cpu_is_told_who_took_most_first() {
        let (first, second) =
            ([(7, 0, 5 * SECOND), (8, 0, 0)], [(7, 0, 5 * SECOND + SECOND / 2), (8, 0, 3 * SECOND / 2)]);
        assert_eq!(told(&first, &second, &[0]), Some(vec![(8, 3 * SECOND / 2), (7, SECOND / 2)]));
        // Of one that was not there before all of its time counts.
        assert_eq!(told(&[], &[(9, 0, 2 * SECOND)], &[0]), Some(vec![(9, 2 * SECOND)]));
    }

    #[test]
    fn nobody_starves_where_a_cpu_is_left() {
        assert_eq!(told(&[(7, 0, 0)], &[(7, 0, SECOND)], &[0]), None);
        assert_eq!(told(&[(7, 0, 0)], &[(7, 0, 2 * SECOND)], &[0, 1]), None);
        // An isolated CPU is none of theirs.
        assert_eq!(told(&[(7, 1, 0)], &[(7, 1, 2 * SECOND)], &[0]), None);
    }

    #[test]
    fn a_virtual_cpu_and_vhost_tell_whose_they_are_and_ordinary_threads_are_left_out() {
        let stat = |tid: usize, policy: &str| {
            let mut fields = ["0"; 50];
            for (number, value) in [(3, "R"), (39, "1"), (40, "1"), (41, policy)] {
                fields[number - 3] = value;
            }
            format!("{tid} (x) {}", fields.join(" "))
        };
        let thread = |pid: usize, tid: usize, name: &str, policy: &str| {
            let at = format!("proc/{pid}/task/{tid}");
            let stat = stat(tid, policy);
            format!("=== {at}/stat\n{stat}\n=== {at}/comm\n{name}\n=== {at}/schedstat\n{tid}000 5 6\n")
        };
        let tree = Fixture::from_text(
            &[
                thread(600, 604, "CPU 0/KVM", "1"),
                thread(600, 600, "qemu-system-x86", "0"),
                thread(605, 605, "vhost-600", "1"),
                "=== proc/600/cmdline\nqemu-system-x86_64\0-name\0vm1,debug-threads=on\0-m\n".to_owned(),
            ]
            .concat(),
        );
        let found = realtime_threads(&tree);
        assert_eq!(found.keys().copied().collect::<Vec<_>>(), [604, 605]);
        let (vcpu, vhost) = (&found[&604], &found[&605]);
        assert_eq!((vcpu.machine.as_deref(), vcpu.pid, vcpu.priority, vcpu.cpu), (Some("vm1"), 600, 1, 1));
        assert_eq!((vcpu.policy.as_str(), vcpu.ran_ns), ("SCHED_FIFO", 604_000));
        assert_eq!((vhost.machine.as_deref(), vhost.pid), (Some("vm1"), 600));
    }
}
