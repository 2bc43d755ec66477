//! On which CPUs the measuring thread was, where its CPUs are not all alike (big.LITTLE, hybrid processors).
//!
//! The thread itself notes its CPU with each row it records: a system call on ARM, so it does that only if it may run on CPUs of
//! several kinds. Everywhere else a row costs a look at a flag of the thread's.

use crate::facts::{Tree, cpu};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};

/// CPUs beyond these are not told apart from the last.
const MOST_CPUS: usize = 1024;

/// Rows by CPU.
static ROWS: [AtomicU64; MOST_CPUS] = [const { AtomicU64::new(0) }; MOST_CPUS];

thread_local! {
    static NOTES: Cell<bool> = const { Cell::new(false) };
}

/// Has the calling thread, which may run on `cpus`, note its CPU from now on if they are of several kinds.
pub fn note_if_several(tree: &Tree, cpus: &[usize]) {
    NOTES.set(are_several(tree, cpus));
}

/// Notes on which CPU the calling thread records a row, if it is to.
#[inline]
pub fn note() {
    if NOTES.get() {
        note_cpu(sys::thread::cpu());
    }
}

#[cold]
fn note_cpu(cpu: Option<usize>) {
    if let Some(cpu) = cpu {
        ROWS[cpu.min(MOST_CPUS - 1)].fetch_add(1, Ordering::Relaxed);
    }
}

/// How many rows the measuring thread recorded on each CPU; none where its CPUs are alike.
pub fn noted() -> BTreeMap<usize, u64> {
    let rows = ROWS.iter().map(|rows| rows.load(Ordering::Relaxed)).enumerate();
    rows.filter(|(_, rows)| *rows > 0).collect()
}

/// Whether these CPUs are of several kinds, as far as the kernel says what they are.
fn are_several(tree: &Tree, cpus: &[usize]) -> bool {
    cpus.len() > 1 && {
        let types = cpu::Types::read(tree);
        cpus.iter().map(|cpu| (types.of(tree, *cpu), cpu::capacity(tree, *cpu))).collect::<BTreeSet<_>>().len() > 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::fixture::Fixture;
    use crate::recording::Recorder;

    /// Two small cores and two large ones, as an i.MX8QuadMax' kernel describes them.
    fn big_little() -> Fixture {
        let cpu = |number: usize, midr: &str, capacity: u32| {
            format!(
                "=== sys/devices/system/cpu/cpu{number}/regs/identification/midr_el1\n{midr}\n\
                 === sys/devices/system/cpu/cpu{number}/cpu_capacity\n{capacity}\n"
            )
        };
        let (small, large) = ("0x00000000410fd034", "0x00000000410fd082");
        Fixture::from_text(&[cpu(0, small, 446), cpu(1, small, 446), cpu(4, large, 1024), cpu(5, large, 1024)].concat())
    }

    #[test]
    fn cpus_are_of_several_kinds_if_their_type_or_their_capacity_differs() {
        let tree = big_little();
        assert!(are_several(&tree, &[0, 1, 4, 5]) && are_several(&tree, &[1, 4]));
        assert!(!are_several(&tree, &[0, 1]) && !are_several(&tree, &[4, 5]) && !are_several(&tree, &[4]));
        // The same type, but one cluster may be clocked higher.
        let clocked = Fixture::from_text(
            "=== sys/devices/system/cpu/cpu0/cpu_capacity\n800\n=== sys/devices/system/cpu/cpu1/cpu_capacity\n1024\n",
        );
        assert!(are_several(&clocked, &[0, 1]));
        assert!(!are_several(&Fixture::empty(), &[0, 1, 2, 3]));
    }

    #[test]
    fn a_thread_that_may_run_on_several_kinds_notes_where_it_records_and_no_other_does() {
        let recorder = Recorder::new("unused", 0xab);
        let (mut tap, _rows) = recorder.ring(64);
        let pushed = |cpus: &'static [usize], tap: &mut crate::recording::Tap<u8>| {
            let before: u64 = noted().values().sum();
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    note_if_several(&big_little(), cpus);
                    (0..10).for_each(|row| tap.push(row));
                });
            });
            noted().values().sum::<u64>() - before
        };
        assert_eq!(pushed(&[0, 4], &mut tap), 10);
        assert_eq!(pushed(&[0, 1], &mut tap), 0);
        let here = sys::thread::affinity().unwrap();
        assert!(noted().keys().all(|cpu| here.contains(cpu)), "{:?} of {here:?}", noted());
    }
}
