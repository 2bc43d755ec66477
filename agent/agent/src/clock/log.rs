//! What was exchanged: recorded as it comes, and what it proves in the end.

use crate::recording::{Recorder, Recording, Tap};
use crate::session::{Progress, emit};
use wire::envelope::Bound;
use wire::event::{Done, Event, Failure};
use wire::record::Exchange;
use wire::{envelope, windows};

const RING_ROWS: usize = 4096;
/// Exchanges in a window that is bounded by itself.
const WINDOW: usize = 100;

/// The `exchanges` table, and its rows.
pub struct Log {
    tap: Tap<Exchange>,
    recording: Recording,
    rows: Vec<Exchange>,
    progress: Progress,
    live: bool,
}

impl Log {
    /// An empty one; its file is made now. `live`: progress says what the latest exchanges prove.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn new(prefix: &str, run_id: u64, live: bool) -> Result<Self, Failure> {
        let mut recorder = Recorder::new(prefix, run_id);
        let tap = recorder.table(RING_ROWS)?;
        Ok(Self { tap, recording: recorder.start(), rows: Vec::new(), progress: Progress::new(), live })
    }

    /// Adds an exchange.
    pub fn push(&mut self, exchange: Exchange) {
        self.tap.push(exchange);
        self.rows.push(exchange);
    }

    /// Exchanges so far.
    pub fn rows(&self) -> u64 {
        self.rows.len() as u64
    }

    /// Reports to the lab how far it is, once a second however often it is called.
    pub fn progress(&mut self) {
        let known = || self.live.then(|| bound_of_latest(&self.rows)).flatten();
        self.progress.tell_bound(self.rows.len() as u64, known);
    }

    /// What the latest exchanges prove; None: there are none, or a clock was stepped or steered.
    pub fn bound(&self) -> Option<Bound> {
        bound_of_latest(&self.rows)
    }

    /// Finishes the recording and reports to the lab what the exchanges prove, and that `lost` came to nothing.
    ///
    /// # Errors
    /// The recording could not be written.
    pub fn finish(mut self, lost: u64) -> Result<(), Failure> {
        drop(self.tap);
        self.recording.finish()?;
        // Answers may overtake one another.
        self.rows.sort_by_key(|exchange| exchange.sequence);
        emit(&Event::Done(Done::Clock {
            exchanges: self.rows.len() as u64,
            lost,
            bound: envelope::bound(&self.rows),
            windows: windows::windows(&self.rows, WINDOW),
        }));
        Ok(())
    }
}

fn bound_of_latest(rows: &[Exchange]) -> Option<Bound> {
    envelope::bound(&rows[rows.len().saturating_sub(WINDOW)..])
}
