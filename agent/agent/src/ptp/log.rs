//! What was said: recorded as it comes, and told in the end.

use crate::recording::{Recorder, Recording, Tap};
use crate::session::emit;
use std::time::Instant;
use sys::clock::tai_ns;
use wire::event::{Done, Event, Failure, StreamProgress};
use wire::ptp::PortState;
use wire::record::Ptp;

const RING_ROWS: usize = 4096;

/// The `ptp` table, and its totals.
pub struct Log {
    tap: Tap<Ptp>,
    recording: Recording,
    reported: Instant,
    answers: u64,
    unanswered: u64,
    states: u64,
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
        let (recording, reported) = (recorder.start(), Instant::now());
        Ok(Self { tap, recording, reported, answers: 0, unanswered: 0, states: 0, state: None, offsets_ns: None })
    }

    /// Whether it can no longer be written.
    pub fn broken(&self) -> bool {
        self.recording.broken()
    }

    /// Adds a row.
    pub fn push(&mut self, row: Ptp) {
        self.tap.push(row);
        match row.status {
            None => self.unanswered += 1,
            Some(status) => {
                self.answers += 1;
                self.states += u64::from(self.state.is_some_and(|before| before != status.state));
                self.state = Some(status.state);
                if let Some(offset) = status.offset_ns {
                    let (least, largest) = self.offsets_ns.unwrap_or((offset, offset));
                    self.offsets_ns = Some((least.min(offset), largest.max(offset)));
                }
            }
        }
        self.progress();
    }

    /// Tells the lab how far it is, once a second however often it is called.
    pub fn progress(&mut self) {
        if self.reported.elapsed().as_secs() >= 1 {
            self.reported = Instant::now();
            let streams = vec![StreamProgress { stream: 0, packets: self.answers }];
            emit(&Event::Progress { tai_ns: tai_ns(), streams });
        }
    }

    /// Finishes the recording and tells the lab the totals.
    ///
    /// # Errors
    /// The recording could not be written.
    pub fn finish(self) -> Result<(), Failure> {
        drop(self.tap);
        self.recording.finish()?;
        emit(&Event::Done(Done::Ptp {
            answers: self.answers,
            unanswered: self.unanswered,
            states: self.states,
            offset_min_ns: self.offsets_ns.map(|(least, _)| least),
            offset_max_ns: self.offsets_ns.map(|(_, largest)| largest),
        }));
        Ok(())
    }
}
