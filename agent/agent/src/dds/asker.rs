//! Questions: written when they are due, and each recorded.

use super::taker::Then;
use crate::recording::{Tap, WRITERS_TURN};
use cyclone::Writer;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use sys::clock::tai_ns;
use wire::dds::HELLO;
use wire::pace::{Pace, Question};
use wire::probe::Probe;
use wire::record::{Late, Sent};
use wire::spec::Dds;

/// What everybody may look at while questions are asked.
#[derive(Default)]
pub struct Counters {
    /// Questions Cyclone took.
    pub sent: AtomicU64,
    /// Questions it did not.
    pub errors: AtomicU64,
    /// Answers, each question's once.
    pub answered: AtomicU64,
    /// The other side answered: samples get there and back.
    pub met: AtomicBool,
    /// How many questions were asked: answers to others cannot be.
    asked: AtomicU64,
}

/// A probe that is written again and again, with another header each time.
pub struct Lane {
    writer: Writer,
    bytes: Vec<u8>,
    run_id: u64,
    stream: u16,
}

impl Lane {
    /// For probes of this stream.
    pub fn new(writer: Writer, spec: &Dds, stream: u16) -> Self {
        Self { writer, bytes: vec![0; spec.size], run_id: spec.run_id, stream }
    }

    /// Writes a probe; `crowded` is what it says of who writes it. Returns when it was handed to Cyclone, and 0 or Cyclone's return code.
    #[inline]
    pub fn write(&mut self, sequence: u64, launch_tai_ns: i64, crowded: bool) -> (i64, i32) {
        let size = self.bytes.len() as u32;
        let (stream, run_id) = (self.stream, self.run_id);
        Probe { stream, run_id, sequence, launch_tai_ns, size, crowded }.write(&mut self.bytes);
        let submit_tai_ns = tai_ns();
        (submit_tai_ns, self.writer.write(&mut self.bytes))
    }

    /// The row of a probe that was written.
    pub fn row(&self, question: Question, due_and_woke: (i64, i64), written: (i64, i32)) -> Sent {
        Sent {
            stream: self.stream,
            sequence: question.sequence,
            launch_tai_ns: question.launch_tai_ns,
            wake_due_tai_ns: due_and_woke.0,
            wake_tai_ns: due_and_woke.1,
            submit_tai_ns: written.0,
            error: written.1,
            late: Late::No,
        }
    }
}

/// Asks.
pub struct Asker {
    lane: Lane,
    pace: Option<Pace>,
    tap: Tap<Sent>,
    counters: Arc<Counters>,
}

impl Asker {
    /// Writes to `lane`; asks nothing until it has a pace.
    pub fn new(lane: Lane, tap: Tap<Sent>, counters: Arc<Counters>) -> Self {
        Self { lane, pace: None, tap, counters }
    }

    /// From now on questions become due.
    pub fn begin(&mut self, pace: Pace) {
        self.pace = Some(pace);
    }

    /// Asks whether there is anybody.
    pub fn hello(&mut self) {
        let now = tai_ns();
        let _ = self.lane.write(HELLO, now, false);
    }

    /// Asks all questions that are due by themselves. When it is to be called next, CLOCK_TAI ns; None: never again.
    pub fn step(&mut self, busy_wait_ns: i64, woke_tai_ns: i64) -> Option<i64> {
        let now_tai_ns = tai_ns();
        let pace = self.pace.as_mut()?;
        while let Some(question) = pace.take(now_tai_ns) {
            self.counters.asked.store(pace.asked(), Ordering::Release);
            let wake_due_tai_ns = question.launch_tai_ns - busy_wait_ns;
            // One that became due since is come round to without having slept.
            let wake_tai_ns = if woke_tai_ns < wake_due_tai_ns { now_tai_ns } else { woke_tai_ns };
            let times = (wake_due_tai_ns, wake_tai_ns);
            ask(&mut self.lane, &mut self.tap, &self.counters, question, times);
        }
        let answered = self.counters.answered.load(Ordering::Relaxed);
        (!pace.over(now_tai_ns, answered)).then(|| pace.next_tai_ns())
    }

    /// crowded: samples are written down more slowly than they come, here or at the other side. The next question then waits, in
    /// whichever thread takes samples: none but an answer that was given up can be on its way.
    fn answered(&mut self, sequence: u64, rx_user_tai_ns: i64, crowded: bool) {
        let Some(pace) = self.pace.as_mut() else { return };
        let rested_ns = if crowded || self.tap.crowded() {
            std::thread::sleep(WRITERS_TURN);
            tai_ns() - rx_user_tai_ns
        } else {
            0
        };
        if let Some(question) = pace.answered(sequence, rx_user_tai_ns, rested_ns) {
            self.counters.asked.store(pace.asked(), Ordering::Release);
            let times = (question.launch_tai_ns, question.launch_tai_ns);
            ask(&mut self.lane, &mut self.tap, &self.counters, question, times);
        }
    }
}

fn ask(lane: &mut Lane, tap: &mut Tap<Sent>, counters: &Counters, question: Question, due_and_woke: (i64, i64)) {
    let written = lane.write(question.sequence, question.launch_tai_ns, false);
    tap.push(lane.row(question, due_and_woke, written));
    let counter = if written.1 == 0 { &counters.sent } else { &counters.errors };
    counter.fetch_add(1, Ordering::Relaxed);
}

/// What a ping does with answers: in a closed loop each makes the next question due. At a rate they are counted only: whoever
/// takes them never waits for a question that is being written.
pub struct Ask {
    /// Whether it is a closed loop.
    pub closed: bool,
    /// Who asks.
    pub asker: Arc<Mutex<Asker>>,
    /// Where answers are counted.
    pub counters: Arc<Counters>,
}

impl Then for Ask {
    fn greeted(&mut self) {
        self.counters.met.store(true, Ordering::Release);
    }

    fn came(&mut self, probe: &Probe, rx_user_tai_ns: i64, crowded: bool) {
        if self.closed {
            let mut asker = self.asker.lock().unwrap_or_else(PoisonError::into_inner);
            asker.answered(probe.sequence, rx_user_tai_ns, crowded || probe.crowded);
        }
        self.counters.answered.fetch_add(1, Ordering::Relaxed);
    }

    fn bound(&self) -> u64 {
        self.counters.asked.load(Ordering::Acquire)
    }
}
