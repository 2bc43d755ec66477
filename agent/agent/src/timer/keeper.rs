//! From the waiting thread's rows to the recording: each is given the interrupt that belongs to it, where that is told.

use super::trace::Trace;
use crate::recording::Tap;
use rtrb::Consumer;
use std::time::{Duration, Instant};
use wire::record::Woken;

/// How long rows and what is told of interrupts may wait: that takes a system call for each CPU, and there may be many. Short
/// against what the kernel's buffers hold.
const REST: Duration = Duration::from_millis(50);

/// Completes rows.
pub struct Keeper {
    rows: Consumer<Woken>,
    tap: Tap<Woken>,
    period_ns: i64,
    /// The first instant of which no row has come.
    next_tai_ns: i64,
    passed: Instant,
    /// None: interrupts are not reported, and rows go on as they are.
    pub trace: Option<Trace>,
    lost: u64,
}

impl Keeper {
    /// Of the rows that come in `rows`, for `tap`; one instant is `period_ns` after the other.
    pub fn new(rows: Consumer<Woken>, tap: Tap<Woken>, period_ns: i64, trace: Trace) -> Self {
        Self { rows, tap, period_ns, next_tai_ns: i64::MIN, passed: Instant::now(), trace: Some(trace), lost: 0 }
    }

    /// Makes room for what is told of the instants from `first_tai_ns` on, which are about to begin.
    pub fn begin(&mut self, first_tai_ns: i64) {
        self.next_tai_ns = first_tai_ns;
        self.hand_on();
    }

    /// Hands on the rows that are there, if they are many or wait since long; to be called every few milliseconds.
    pub fn pass(&mut self) {
        if self.rows.slots() >= self.rows.buffer().capacity() / 4 || self.passed.elapsed() >= REST {
            self.hand_on();
        }
    }

    /// Hands on the rows that are there. What they would have the writer's ring lose stays for the next time.
    fn hand_on(&mut self) {
        self.passed = Instant::now();
        // Rows are counted before interrupts are taken in: those of rows that are there have been told by now.
        let there = self.rows.slots().min(self.tap.room());
        if let Some(trace) = &mut self.trace {
            trace.listen();
        }
        for _ in 0..there {
            let Ok(mut row) = self.rows.pop() else { break };
            if let Some(trace) = self.trace.as_ref().filter(|_| !row.overdue) {
                row.irq_tai_ns = trace.irq(row.due_tai_ns, row.woke_tai_ns);
                self.lost += u64::from(row.irq_tai_ns.is_none());
            }
            self.next_tai_ns = row.due_tai_ns.saturating_add(self.period_ns);
            self.tap.push(row);
        }
        if let Some(trace) = &mut self.trace {
            trace.forget_before(self.next_tai_ns);
        }
    }

    /// Hands on the last rows, once the thread is done, and returns for how many instants whose timers were set no interrupt
    /// was told; None: interrupts are not reported.
    pub fn finish(mut self) -> Option<u64> {
        while !self.rows.is_empty() {
            self.hand_on();
            std::thread::sleep(Duration::from_millis(1));
        }
        self.trace.map(|_| self.lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::Recorder;

    fn row(sequence: u64) -> Woken {
        let due_tai_ns = 1_000 * sequence as i64;
        Woken { stream: 3, sequence, due_tai_ns, irq_tai_ns: None, woke_tai_ns: due_tai_ns + 1, overdue: false }
    }

    #[test]
    fn rows_for_which_the_writer_has_no_room_wait_until_it_has() {
        let recorder = Recorder::new("unused", 0xab);
        let (mut hot, rows) = recorder.ring(8);
        let (tap, mut written) = recorder.ring(3);
        let mut keeper =
            Keeper { rows, tap, period_ns: 1_000, next_tai_ns: i64::MIN, passed: Instant::now(), trace: None, lost: 0 };
        (0..5).for_each(|sequence| hot.push(row(sequence)));
        let mut found = Vec::new();
        for _ in 0..2 {
            keeper.pass();
            found.extend(std::iter::from_fn(|| written.pop().ok()));
        }
        assert_eq!(found, (0..5).map(row).collect::<Vec<_>>());
        assert_eq!(recorder.start().finish().unwrap().ring_full, 0);
        assert_eq!(keeper.finish(), None);
    }
}
