//! The host's clocks, read together now and then, so that kernel timestamps can be converted and steps be seen.

use crate::recording::{Recorder, Tap};
use sys::clock::{Clock, now_ns};
use wire::event::Failure;
use wire::record::Clocks;

/// Readings fit for days at one a second: the ring is emptied all the time.
const RING_ROWS: usize = 64;

/// Of several tries the tightest is kept: one that was interrupted says little.
const TRIES: usize = 5;

/// The `clocks` table.
pub struct ClockLog(Tap<Clocks>);

impl ClockLog {
    /// Adds the table to `recorder`.
    ///
    /// # Errors
    /// Its file cannot be made.
    pub fn new(recorder: &mut Recorder) -> Result<Self, Failure> {
        Ok(Self(recorder.table(RING_ROWS)?))
    }

    /// Adds a reading.
    pub fn note(&mut self) {
        let best = (0..TRIES).map(|_| read()).min_by_key(|clocks| clocks.bracket_ns);
        if let Some(clocks) = best {
            self.0.push(clocks);
        }
    }
}

fn read() -> Clocks {
    let before = now_ns(Clock::MonotonicRaw);
    let tai_ns = now_ns(Clock::Tai);
    let real_ns = now_ns(Clock::Realtime);
    let monotonic_ns = now_ns(Clock::Monotonic);
    let monotonic_raw_ns = now_ns(Clock::MonotonicRaw);
    Clocks { tai_ns, real_ns, monotonic_ns, monotonic_raw_ns, bracket_ns: monotonic_raw_ns - before }
}
