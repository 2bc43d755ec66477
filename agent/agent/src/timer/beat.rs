//! The waiting thread: comes to every instant of a period, and notes when.
//!
//! Nothing in [`Beat::run`] allocates, locks, formats or prints.

use super::wait::Wait;
use crate::recording::Tap;
use rtrb::Producer;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;
use sys::clock::tai_ns;
use wire::lateness::Latenesses;
use wire::record::Woken;
use wire::schedule::Schedule;
use wire::spec::Timer;

/// Longest single sleep, so that a request to stop is seen whatever the period.
const LONGEST_SLEEP_NS: i64 = 100_000_000;
/// How long a thread that is behind leaves its CPU to the writer at a time: some thousand rows' worth.
const WRITERS_TURN: Duration = Duration::from_millis(1);

/// What the waiting thread has done, readable by the others at any time.
#[derive(Default)]
pub struct Counts {
    /// Instants come to.
    pub events: AtomicU64,
    /// Such among them that had passed when their turn came.
    pub overdue: AtomicU64,
    /// How long it waited in all for its rows to be written, ns.
    pub held_up_ns: AtomicI64,
}

/// What came of the instants in a interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// They were due from then on.
    pub from_tai_ns: i64,
    /// And before then.
    pub to_tai_ns: i64,
    /// How late they were come to.
    pub latenesses: Latenesses,
    /// Such among them that had passed when their turn came.
    pub overdue: u64,
}

/// Everything the waiting thread owns.
pub struct Beat<W> {
    wait: W,
    stream: u16,
    schedule: Schedule,
    window_ns: i64,
    threshold_ns: i64,
    tap: Tap<Woken>,
    windows: Producer<Window>,
    counts: Arc<Counts>,
}

impl<W: Wait> Beat<W> {
    /// For the instants of `spec` if they begin at `first_tai_ns`.
    pub fn new(
        spec: &Timer,
        first_tai_ns: i64,
        wait: W,
        tap: Tap<Woken>,
        windows: Producer<Window>,
        counts: Arc<Counts>,
    ) -> Self {
        let schedule = Schedule {
            first_launch_tai_ns: first_tai_ns,
            period_ns: spec.period_ns,
            count: spec.count,
            lead_ns: 0,
            batch: 1,
        };
        let (window_ns, threshold_ns) = (spec.window_ns, spec.threshold_ns);
        Self { wait, stream: spec.stream, schedule, window_ns, threshold_ns, tap, windows, counts }
    }

    /// Comes to every instant, to one that has passed at once, until all are done or it is asked to stop. Returns the window
    /// that was not yet handed over, and whether a way of waiting failed.
    ///
    /// Rows that come faster than they are written would be lost, and a real-time thread that is always behind may keep the
    /// writer from ever running: for an instant that has passed it waits for room. It never does so for one that is to come.
    pub fn run(&mut self, stop: &AtomicBool) -> (Window, Result<(), sys::Error>) {
        let first = self.schedule.first_launch_tai_ns;
        let mut window = self.window_of(first);
        let (mut events, mut overdue, mut held_up_ns) = (0, 0, 0);
        for sequence in 0..self.schedule.count {
            let due_tai_ns = self.schedule.launch(sequence);
            let mut now_tai_ns = tai_ns();
            let has_passed = now_tai_ns >= due_tai_ns;
            if has_passed && self.tap.crowded() {
                held_up_ns += self.wait_for_room(stop);
                self.counts.held_up_ns.store(held_up_ns, Ordering::Relaxed);
                now_tai_ns = tai_ns();
            }
            loop {
                if stop.load(Ordering::Relaxed) {
                    return (window, Ok(()));
                }
                if now_tai_ns >= due_tai_ns {
                    break;
                }
                if let Err(error) = self.wait.until(due_tai_ns.min(now_tai_ns + LONGEST_SLEEP_NS)) {
                    return (window, Err(error));
                }
                now_tai_ns = tai_ns();
            }
            if due_tai_ns >= window.to_tai_ns {
                self.hand_over(&mut window, due_tai_ns);
            }
            window.latenesses.add(now_tai_ns.saturating_sub(due_tai_ns), self.threshold_ns);
            window.overdue += u64::from(has_passed);
            self.tap.push(Woken {
                stream: self.stream,
                sequence,
                due_tai_ns,
                irq_tai_ns: None,
                woke_tai_ns: now_tai_ns,
                overdue: has_passed,
            });
            events += 1;
            overdue += u64::from(has_passed);
            // This thread alone writes them.
            self.counts.overdue.store(overdue, Ordering::Relaxed);
            self.counts.events.store(events, Ordering::Relaxed);
        }
        (window, Ok(()))
    }

    /// Returns how long it took, ns; a request to stop ends it.
    #[cold]
    fn wait_for_room(&self, stop: &AtomicBool) -> i64 {
        let from_tai_ns = tai_ns();
        while self.tap.crowded() && !stop.load(Ordering::Relaxed) {
            std::thread::sleep(WRITERS_TURN);
        }
        tai_ns() - from_tai_ns
    }

    /// Begins the window of `due_tai_ns`, once the one before it is handed over. Where there is no room for that it goes on
    /// until then: nothing is left out of the sums.
    fn hand_over(&mut self, window: &mut Window, due_tai_ns: i64) {
        let next = self.window_of(due_tai_ns);
        if self.windows.push(*window).is_ok() {
            *window = next;
        } else {
            window.to_tai_ns = next.to_tai_ns;
        }
    }

    /// The window in which this instant is, empty. The last ends a period after the last instant.
    fn window_of(&self, due_tai_ns: i64) -> Window {
        let first = self.schedule.first_launch_tai_ns;
        let from_tai_ns = due_tai_ns - (due_tai_ns - first) % self.window_ns;
        let end_tai_ns = self.schedule.launch(self.schedule.count);
        let to_tai_ns = from_tai_ns.saturating_add(self.window_ns).min(end_tai_ns);
        Window { from_tai_ns, to_tai_ns, latenesses: Latenesses::default(), overdue: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::super::wait::{Nanosleep, Reading};
    use super::*;
    use crate::recording::Recorder;
    use rtrb::{Consumer, RingBuffer};
    use serde_json::json;

    const COUNT: u64 = 20;
    const ROWS: usize = 64;
    const MS: i64 = 1_000_000;

    struct Bench {
        rows: Consumer<Woken>,
        windows: Consumer<Window>,
        counts: Arc<Counts>,
    }

    fn bench<W: Wait>(wait: W, first_tai_ns: i64, windows: usize, rows: usize) -> (Beat<W>, Bench) {
        let spec: Timer = serde_json::from_value(json!({"run_id": "00000000000000ab", "recording": "unused",
            "realtime": {}, "stream": 3, "name": "irq", "period_ns": MS, "count": COUNT, "offset_ns": 0, "how": "nanosleep",
            "threshold_ns": 1_000_000_000, "window_ns": 5 * MS}))
        .unwrap();
        let (tap, rows) = Recorder::new("unused", 0xab).ring(rows);
        let (producer, consumer) = RingBuffer::new(windows);
        let counts = Arc::<Counts>::default();
        let beat = Beat::new(&spec, first_tai_ns, wait, tap, producer, Arc::clone(&counts));
        (beat, Bench { rows, windows: consumer, counts })
    }

    fn drained<R>(mut ring: Consumer<R>) -> Vec<R> {
        std::iter::from_fn(|| ring.pop().ok()).collect()
    }

    fn comes_to_all_without_allocating(wait: impl Wait, first_tai_ns: i64) {
        let (mut beat, bench) = bench(wait, first_tai_ns, 8, ROWS);
        let before = sys::allocations::made_by_this_thread();
        assert!(before > 0, "the counting allocator is not in use");
        let (rest, result) = beat.run(&AtomicBool::new(false));
        assert_eq!(sys::allocations::made_by_this_thread(), before);
        result.unwrap();
        let rows = drained(bench.rows);
        assert_eq!(rows.iter().map(|row| row.sequence).collect::<Vec<_>>(), (0..COUNT).collect::<Vec<_>>());
        for row in &rows {
            assert_eq!((row.stream, row.due_tai_ns), (3, first_tai_ns + row.sequence as i64 * MS));
            assert!(row.woke_tai_ns >= row.due_tai_ns && row.irq_tai_ns.is_none());
        }
        let overdue = rows.iter().filter(|row| row.overdue).count() as u64;
        assert_eq!(bench.counts.events.load(Ordering::Relaxed), COUNT);
        assert_eq!(bench.counts.overdue.load(Ordering::Relaxed), overdue);
        let mut all = rest.latenesses;
        let windows = drained(bench.windows);
        assert_eq!(windows.len(), 3);
        windows.iter().for_each(|window| all.merge(&window.latenesses));
        assert_eq!(windows.iter().map(|window| window.overdue).sum::<u64>() + rest.overdue, overdue);
        let mut expected = Latenesses::default();
        rows.iter().for_each(|row| expected.add(row.woke_tai_ns - row.due_tai_ns, 1_000_000_000));
        assert_eq!((all.n(), all.above(), all.statistics()), (COUNT, expected.above(), expected.statistics()));
    }

    #[test]
    fn every_instant_is_come_to_once_and_in_order_and_nothing_is_allocated() {
        comes_to_all_without_allocating(Nanosleep, tai_ns() + 5 * MS);
        comes_to_all_without_allocating(Reading::new().unwrap(), tai_ns() + 5 * MS);
    }

    #[test]
    fn instants_that_have_passed_are_come_to_all_the_same() {
        comes_to_all_without_allocating(Nanosleep, tai_ns() - 3_600_000_000_000);
    }

    #[test]
    fn windows_are_of_the_instants_due_in_them_however_late() {
        let first = tai_ns() - 3_600_000_000_000;
        let (mut beat, bench) = bench(Nanosleep, first, 8, ROWS);
        let (rest, _) = beat.run(&AtomicBool::new(false));
        let windows = [drained(bench.windows), vec![rest]].concat();
        let found: Vec<_> =
            windows.iter().map(|w| (w.from_tai_ns - first, w.to_tai_ns - first, w.latenesses.n())).collect();
        assert_eq!(found, [0, 5, 10, 15].map(|n| (n * MS, (n + 5) * MS, 5)));
    }

    #[test]
    fn the_last_window_ends_with_the_schedule() {
        let first = tai_ns() - 3_600_000_000_000;
        for (window_ns, expected) in [(8 * MS, vec![(0, 8, 8), (8, 16, 8), (16, 20, 4)]), (i64::MAX, vec![(0, 20, 20)])]
        {
            let (mut beat, bench) = bench(Nanosleep, first, 8, ROWS);
            beat.window_ns = window_ns;
            let (rest, _) = beat.run(&AtomicBool::new(false));
            let windows = [drained(bench.windows), vec![rest]].concat();
            let found: Vec<_> = windows
                .iter()
                .map(|w| ((w.from_tai_ns - first) / MS, (w.to_tai_ns - first) / MS, w.latenesses.n()))
                .collect();
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn a_window_that_finds_no_room_goes_on_and_nothing_is_left_out() {
        let first = tai_ns() - 3_600_000_000_000;
        let (mut beat, bench) = bench(Nanosleep, first, 1, ROWS);
        let (rest, _) = beat.run(&AtomicBool::new(false));
        let windows = [drained(bench.windows), vec![rest]].concat();
        let found: Vec<_> =
            windows.iter().map(|w| (w.from_tai_ns - first, w.to_tai_ns - first, w.latenesses.n())).collect();
        assert_eq!(found, [(0, 5 * MS, 5), (5 * MS, 20 * MS, 15)]);
    }

    #[test]
    fn one_that_is_behind_waits_for_its_rows_to_be_written_and_none_is_lost() {
        let first = tai_ns() - 3_600_000_000_000;
        let (mut beat, Bench { mut rows, windows: _windows, counts }) = bench(Nanosleep, first, 8, 4);
        let thread = std::thread::spawn(move || beat.run(&AtomicBool::new(false)).1);
        let mut sequences = Vec::new();
        while sequences.len() < COUNT as usize {
            match rows.pop() {
                Ok(row) => sequences.push(row.sequence),
                Err(_) => std::thread::sleep(Duration::from_millis(1)),
            }
        }
        thread.join().unwrap().unwrap();
        assert_eq!(sequences, (0..COUNT).collect::<Vec<_>>());
        assert!(counts.held_up_ns.load(Ordering::Relaxed) > 0);
    }

    #[test]
    fn a_request_to_stop_ends_the_wait_for_the_writer() {
        let (mut beat, bench) = bench(Nanosleep, tai_ns() - 3_600_000_000_000, 8, 1);
        let stop = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&stop);
        let thread = std::thread::spawn(move || beat.run(&asked).1);
        while bench.counts.events.load(Ordering::Relaxed) == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        stop.store(true, Ordering::Relaxed);
        thread.join().unwrap().unwrap();
        assert_eq!(drained(bench.rows).len(), 1);
    }

    #[test]
    fn a_request_to_stop_ends_a_long_wait_and_an_overload_alike() {
        for first in [tai_ns() + 3_600_000_000_000, tai_ns() - 3_600_000_000_000] {
            let (mut beat, bench) = bench(Nanosleep, first, 8, ROWS);
            beat.run(&AtomicBool::new(true)).1.unwrap();
            assert_eq!(bench.counts.events.load(Ordering::Relaxed), 0);
        }
    }
}
