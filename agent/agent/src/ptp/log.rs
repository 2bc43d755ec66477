//! What was said: recorded as it comes, and told in the end.

use crate::recording::{Recorder, Recording, Tap, Totals};
use crate::session::{Progress, emit};
use wire::event::{Done, Event, Failure};
use wire::ptp::{PortState, Status};
use wire::record::Reading;

const RING_ROWS: usize = 4096;

/// The `ptp` table, and its totals.
pub struct Log {
    tap: Tap<Reading>,
    recording: Recording,
    progress: Progress,
    counts: Counts,
}

#[derive(Default)]
struct Counts {
    answers: u64,
    unanswered: u64,
    missed: u64,
    state_changes: u64,
    state: Option<PortState>,
    /// Least and largest.
    offsets_ns: Option<(i64, i64)>,
}

impl Log {
    /// An empty one; its file is made now.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn new(prefix: &str, run_id: u64) -> Result<Self, Failure> {
        let mut recorder = Recorder::new(prefix, run_id);
        let tap = recorder.table(RING_ROWS)?;
        Ok(Self { tap, recording: recorder.start(), progress: Progress::new(), counts: Counts::default() })
    }

    /// Whether it can no longer be written.
    pub fn broken(&self) -> bool {
        self.recording.broken()
    }

    /// Adds a row, and what it was made of.
    pub fn push(&mut self, row: Reading, status: Option<Status>) {
        self.tap.push(row);
        self.counts.add(status);
        self.progress();
    }

    /// Adds periods that have no row.
    pub fn miss(&mut self, periods: u64) {
        self.counts.missed += periods;
    }

    /// Reports to the lab how far it is, once a second however often it is called.
    pub fn progress(&mut self) {
        self.progress.tell(self.counts.answers);
    }

    /// Finishes the recording and reports to the lab the totals.
    ///
    /// # Errors
    /// The recording could not be written.
    pub fn finish(self) -> Result<(), Failure> {
        drop(self.tap);
        emit(&Event::Done(self.counts.done(self.recording.finish()?)));
        Ok(())
    }
}

impl Counts {
    fn add(&mut self, status: Option<Status>) {
        let Some(status) = status else {
            self.unanswered += 1;
            return;
        };
        self.answers += 1;
        self.state_changes += u64::from(self.state.is_some_and(|before| before != status.state));
        self.state = Some(status.state);
        if let Some(offset) = status.offset_ns {
            let (least, largest) = self.offsets_ns.unwrap_or((offset, offset));
            self.offsets_ns = Some((least.min(offset), largest.max(offset)));
        }
    }

    fn done(&self, written: Totals) -> Done {
        Done::Ptp {
            answers: self.answers,
            unanswered: self.unanswered,
            missed: self.missed,
            state_changes: self.state_changes,
            offset_min_ns: self.offsets_ns.map(|(least, _)| least),
            offset_max_ns: self.offsets_ns.map(|(_, largest)| largest),
            ring_full: written.ring_full,
            recorded: written.recorded,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(state: Option<PortState>, offset_ns: Option<i64>) -> Option<Status> {
        state.map(|state| Status {
            port: 1,
            state,
            offset_ns,
            ingress_ns: None,
            path_delay_ns: None,
            grandmaster: None,
            gm_present: None,
            steps_removed: None,
            times: None,
            ports: None,
        })
    }

    #[test]
    fn totals_tell_of_every_period_and_of_every_row() {
        use PortState::{Slave, Uncalibrated};
        let mut counts = Counts { missed: 4, ..Counts::default() };
        for told in [(Some(Uncalibrated), None), (Some(Slave), Some(-7)), (None, None), (Some(Slave), Some(3))] {
            counts.add(status(told.0, told.1));
        }
        let done = serde_json::to_value(counts.done(Totals { recorded: 3, ring_full: 1 })).unwrap();
        let expected = serde_json::json!({"answers": 3, "unanswered": 1, "missed": 4, "state_changes": 1,
            "offset_min_ns": -7, "offset_max_ns": 3, "ring_full": 1, "recorded": 3});
        assert_eq!(done, expected);
    }
}
