//! One packet at a time, sent as soon as it is known: a question after its answer, an answer after its question.
//!
//! Nothing in [`Outlet::send`] allocates, locks, formats or prints.

use super::Counters;
use super::lane::Lane;
use crate::recording::Tap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use sys::clock::tai_ns;
use wire::record::{Late, Sent};

/// Everything such a sender owns.
pub struct Outlet {
    /// The way out; of the packets of its batch only the first is used.
    pub lane: Lane,
    run_id: u64,
    tap: Tap<Sent>,
    counters: Arc<Vec<Counters>>,
}

/// Instants of a packet before it is sent, CLOCK_TAI ns.
#[derive(Clone, Copy, Debug)]
pub struct Cue {
    /// When it was meant to leave.
    pub launch_tai_ns: i64,
    /// When the thread meant to wake for it.
    pub wake_due_tai_ns: i64,
    /// When the thread woke.
    pub wake_tai_ns: i64,
}

impl Cue {
    /// Of a packet that what came in at this instant calls for: it was not known before, and nobody slept since.
    pub fn at(tai_ns: i64) -> Self {
        Self { launch_tai_ns: tai_ns, wake_due_tai_ns: tai_ns, wake_tai_ns: tai_ns }
    }
}

impl Outlet {
    /// Through this lane; what is done is counted in the first of `counters`.
    pub fn new(lane: Lane, run_id: u64, tap: Tap<Sent>, counters: Arc<Vec<Counters>>) -> Self {
        Self { lane, run_id, tap, counters }
    }

    /// Whether its rows are written more slowly than they come.
    pub fn crowded(&self) -> bool {
        self.tap.crowded()
    }

    /// Sends packet `sequence` now. Returns what came of it, which [`Self::note`] is to be given once there is time: whoever waits
    /// for the packet does not wait for that. `going`: whether room in a connection is to be waited for.
    #[inline]
    #[must_use]
    pub fn send(&mut self, sequence: u64, cue: Cue, going: impl Fn() -> bool) -> Sent {
        self.lane.write(0, self.run_id, sequence, cue.launch_tai_ns);
        let mut submit_tai_ns = tai_ns();
        let sent = self.lane.send(0, 1, &going);
        let mut error = sent.as_ref().map_or_else(|error| error.errno, |_| 0);
        if sent.is_err_and(|error| error.may_be_icmp()) {
            submit_tai_ns = tai_ns();
            let answer = error;
            error = self.lane.send(0, 1, &going).map_or_else(|error| error.errno, |_| 0);
            // The same twice is no answer to a packet, as in [`super::sender`].
            if answer != error {
                self.counters[0].rejected.note(answer);
            }
        }
        let Cue { launch_tai_ns, wake_due_tai_ns, wake_tai_ns } = cue;
        Sent {
            stream: self.lane.stream,
            sequence,
            launch_tai_ns,
            wake_due_tai_ns,
            wake_tai_ns,
            submit_tai_ns,
            error,
            late: Late::No,
        }
    }

    /// Records and counts what came of a packet.
    #[inline]
    pub fn note(&mut self, sent: Sent) {
        let counters = &self.counters[0];
        let counter = if sent.error == 0 { &counters.packets } else { &counters.errors };
        // Nobody else counts here, so it need not be one atomic addition.
        counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        self.tap.push(sent);
    }
}
