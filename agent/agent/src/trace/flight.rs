//! The flight recorder: of what the kernel's buffers hold, only the windows are recorded that the lab asks for.
//!
//! Nothing is read until a window is asked for: the kernel has newer events take the place of older ones. What is read then is
//! held for a while, as the next window may overlap this one.

use crate::recording::{Recorder, Recording, Tap};
use std::collections::HashMap;
use wire::event::{Failure, KeptTotals};
use wire::flight::{Window, joined};
use wire::record::{Kept, Traced};
use wire::traceable::LOST;

/// How long events that were read are held.
const HOLD_NS: i64 = 2_000_000_000;
/// How many are, at most: 15 MB.
const HOLD_ROWS: usize = 1 << 18;
/// A window that ends later than this from now is not waited for.
const SOON_NS: i64 = 1_000_000_000;
/// Windows that are asked for before the writer is waited for.
const RING_ROWS: usize = 256;

/// What is held, what is to be kept of it, and what was.
pub struct Flight {
    tap: Tap<Kept>,
    held: Vec<Traced>,
    begun_ns: i64,
    /// From when on all events of a CPU are held, or are in the kernel's buffer still; of others since the beginning.
    since_ns: HashMap<u16, i64>,
    asked: Vec<Window>,
    /// Those of the time that is held.
    written: Vec<Window>,
    totals: KeptTotals,
}

impl Flight {
    /// Adds the table of what is kept to `recorder`; events come about from `begun_ns` on.
    ///
    /// # Errors
    /// Its file cannot be made.
    pub fn new(recorder: &mut Recorder, begun_ns: i64) -> Result<Self, Failure> {
        Ok(Self::begin(recorder.table(RING_ROWS)?, begun_ns))
    }

    fn begin(tap: Tap<Kept>, begun_ns: i64) -> Self {
        let (held, asked, written) = (Vec::new(), Vec::new(), Vec::new());
        Self { tap, held, begun_ns, since_ns: HashMap::new(), asked, written, totals: KeptTotals::default() }
    }

    /// These windows are asked for.
    pub fn ask(&mut self, windows: &[Window]) {
        self.asked.extend(windows.iter().filter(|one| one.from_tai_ns <= one.to_tai_ns));
    }

    /// Whether a window that is asked for is over, so that the kernel's buffers are to be read for it.
    pub fn is_due(&self, now_ns: i64) -> bool {
        self.asked.iter().any(|one| is_over(one, now_ns))
    }

    /// Holds what was read of a CPU's buffer.
    pub fn hold(&mut self, row: Traced) {
        if row.event == LOST {
            // Those before it were overwritten while nobody asked for them, or for want of room.
            self.since_ns.insert(row.cpu, row.tai_ns);
        } else {
            self.held.push(row);
        }
    }

    /// Gives `take` the events of the windows that are over, once each, and lets go of what is too old. All that had come about by
    /// `now_ns` is held. `last`: of all windows that are asked for.
    pub fn write(&mut self, now_ns: i64, last: bool, recording: &Recording, mut take: impl FnMut(Traced)) {
        let (over, left) = std::mem::take(&mut self.asked).into_iter().partition(|one| last || is_over(one, now_ns));
        self.asked = left;
        for asked in joined(over) {
            for window in asked.without(&self.written) {
                self.write_one(window, now_ns, recording, &mut take);
            }
            self.written.push(asked);
        }
        self.let_go(now_ns);
    }

    /// What was kept.
    pub fn totals(&self) -> KeptTotals {
        self.totals
    }

    fn write_one(&mut self, window: Window, now_ns: i64, recording: &Recording, take: &mut impl FnMut(Traced)) {
        let since_ns = self.since_ns.values().copied().fold(self.begun_ns, i64::max);
        let whole = since_ns <= window.from_tai_ns && window.to_tai_ns <= now_ns;
        self.totals.windows += 1;
        self.totals.overran += u64::from(!whole);
        let Window { from_tai_ns, to_tai_ns } = window;
        self.tap.push_when_room(Kept { from_tai_ns, to_tai_ns, whole }, || !recording.broken());
        self.held.iter().filter(|row| window.has(row.tai_ns)).for_each(|row| take(*row));
    }

    fn let_go(&mut self, now_ns: i64) {
        let mut from_ns = now_ns - HOLD_NS;
        let mut hold_ns = HOLD_NS;
        self.held.retain(|row| row.tai_ns >= from_ns);
        while self.held.len() > HOLD_ROWS {
            hold_ns /= 2;
            from_ns = now_ns - hold_ns;
            self.held.retain(|row| row.tai_ns >= from_ns);
        }
        self.begun_ns = self.begun_ns.max(from_ns);
        self.written.retain(|one| one.to_tai_ns >= from_ns);
    }
}

fn is_over(window: &Window, now_ns: i64) -> bool {
    window.to_tai_ns <= now_ns || window.to_tai_ns > now_ns + SOON_NS
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    fn window(from: i64, to: i64) -> Window {
        Window { from_tai_ns: from * MS, to_tai_ns: to * MS }
    }

    fn event(cpu: u16, at: i64) -> Traced {
        Traced { tai_ns: at * MS, cpu, event: 11, flags: 0, preempt: 0, pid: 7, subject: Some(8), detail: None }
    }

    /// A flight that begins at 0, its recording, and what that writes.
    fn flight(name: &str) -> (Flight, Recording) {
        let folder = std::env::temp_dir().join(format!("latlab-flight-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut recorder = Recorder::new(&folder.join("x").to_string_lossy(), 0xab);
        let flight = Flight::new(&mut recorder, 0).unwrap();
        (flight, recorder.start())
    }

    fn kept(flight: &mut Flight, recording: &Recording, now: i64) -> Vec<i64> {
        let mut found = Vec::new();
        flight.write(now * MS, false, recording, |row| found.push(row.tai_ns / MS));
        found
    }

    #[test]
    fn only_windows_that_are_asked_for_are_kept_and_each_event_once() {
        let (mut flight, recording) = flight("once");
        (0..100).for_each(|at| flight.hold(event(0, at)));
        assert!(!flight.is_due(100 * MS));
        flight.ask(&[window(10, 12), window(12, 14)]);
        assert!(flight.is_due(100 * MS));
        assert_eq!(kept(&mut flight, &recording, 100), [10, 11, 12, 13, 14]);
        // One that came about before and is told of later, and one that overlaps both.
        flight.ask(&[window(8, 9), window(9, 16)]);
        assert_eq!(kept(&mut flight, &recording, 100), [8, 9, 15, 16]);
        assert_eq!(flight.totals(), KeptTotals { windows: 3, overran: 0, overwritten: 0 });
        recording.finish().unwrap();
    }

    #[test]
    fn a_window_is_waited_for_until_it_is_over_unless_that_is_far_off() {
        let (mut flight, recording) = flight("waits");
        flight.hold(event(0, 49));
        flight.ask(&[window(48, 52)]);
        assert_eq!((flight.is_due(51 * MS), kept(&mut flight, &recording, 51)), (false, vec![]));
        flight.hold(event(0, 52));
        assert_eq!((flight.is_due(52 * MS), kept(&mut flight, &recording, 52)), (true, vec![49, 52]));
        flight.ask(&[window(50, 5_000)]);
        assert!(flight.is_due(53 * MS));
        kept(&mut flight, &recording, 53);
        assert_eq!(flight.totals().overran, 1);
        recording.finish().unwrap();
    }

    #[test]
    fn a_window_that_begins_before_what_any_cpu_holds_is_counted_as_overrun() {
        let (mut flight, recording) = flight("overrun");
        flight.hold(Traced { event: LOST, ..event(1, 20) });
        (20..40).for_each(|at| flight.hold(event(1, at)));
        flight.ask(&[window(19, 21)]);
        assert_eq!(kept(&mut flight, &recording, 100), [20, 21]);
        flight.ask(&[window(30, 31)]);
        assert_eq!(kept(&mut flight, &recording, 100), [30, 31]);
        // What is older than is held is gone, too.
        flight.ask(&[window(35, 36)]);
        kept(&mut flight, &recording, 100 + HOLD_NS / MS);
        flight.ask(&[window(37, 38)]);
        assert!(kept(&mut flight, &recording, 101 + HOLD_NS / MS).is_empty());
        assert_eq!(flight.totals(), KeptTotals { windows: 4, overran: 2, overwritten: 0 });
        recording.finish().unwrap();
    }

    #[test]
    fn what_is_held_has_bounded_room() {
        let (mut flight, recording) = flight("room");
        let rows = 3 * HOLD_ROWS as i64;
        (0..rows).for_each(|n| flight.hold(Traced { tai_ns: n * 5_000, ..event(0, 0) }));
        kept(&mut flight, &recording, rows * 5_000 / MS);
        assert!(flight.held.len() <= HOLD_ROWS, "{}", flight.held.len());
        assert_eq!(flight.held.last().unwrap().tai_ns, (rows - 1) * 5_000);
        recording.finish().unwrap();
    }
}
