//! Answering, in whichever thread takes the question.

use super::asker::Lane;
use super::taker::{Books, Taker, Then};
use super::waiting::{Shared, Waiting, open};
use super::{Side, below, leave, tell_ready};
use crate::realtime::prepare_thread;
use crate::recording::Tap;
use crate::session::Session;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use sys::clock::tai_ns;
use wire::dds::HELLO;
use wire::event::{DdsPongTotals, Done, Failure};
use wire::pace::Question;
use wire::probe::Probe;
use wire::record::Sent;
use wire::spec::Dds;

#[derive(Default)]
struct Counters {
    came: AtomicU64,
    answered: AtomicU64,
    errors: AtomicU64,
}

/// What a pong does with questions.
struct Answer {
    lane: Lane,
    tap: Tap<Sent>,
    counters: Arc<Counters>,
}

impl Then for Answer {
    fn greeted(&mut self) {
        let now = tai_ns();
        let _ = self.lane.write(HELLO, now, false);
    }

    fn came(&mut self, probe: &Probe, rx_user_tai_ns: i64, crowded: bool) {
        let written = self.lane.write(probe.sequence, rx_user_tai_ns, crowded || self.tap.crowded());
        let answer = Question { sequence: probe.sequence, launch_tai_ns: rx_user_tai_ns };
        self.tap.push(self.lane.row(answer, (rx_user_tai_ns, rx_user_tai_ns), written));
        let counter = if written.1 == 0 { &self.counters.answered } else { &self.counters.errors };
        counter.fetch_add(1, Ordering::Relaxed);
        self.counters.came.fetch_add(1, Ordering::Relaxed);
    }

    fn bound(&self) -> u64 {
        HELLO
    }
}

/// Answers whoever asks with this run's id, until the lab ends it.
///
/// # Errors
/// What the lab needs to know.
pub fn run(spec: &Dds, session: &Session) -> Result<(), Failure> {
    let side = Side::open(spec)?;
    let mut running = side.running;
    let counters = Arc::new(Counters::default());
    let lane = Lane::new(side.writer, spec, spec.down);
    let then = Answer { lane, tap: side.sent, counters: Arc::clone(&counters) };
    let books = Books::new(spec, spec.up);
    let taker: Shared<Answer> = Arc::new(Mutex::new(Taker::new(side.reader, spec.size, books, side.received, then)));
    let (waiting, found) = Waiting::start(&taker, spec.mode, true, &spec.realtime, &side.process)?;
    let found = match found {
        Some(found) => found,
        // No thread of ours measures, and nothing was asked for one (the spec's check).
        None => prepare_thread(&spec.realtime, &side.process)?,
    };
    tell_ready(found, side.stamps_by, None)?;
    running.clocks.note();
    while !running.ended(session) {
        let counted = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        running.pass([(spec.up, counted(&counters.came)), (spec.down, counted(&counters.answered))]);
    }
    waiting.finish()?;
    let (taken, empty_wakeups) = open(&taker).totals();
    let failure = open(&taker).trouble().map(|trouble| super::failed(trouble.clone()));
    let below = below(side.reader, side.writer, empty_wakeups);
    let answered = counters.answered.load(Ordering::Relaxed);
    let ended = running.finish(failure, answered, |totals, stamped| {
        Done::DdsPong(DdsPongTotals {
            answered,
            send_errors: counters.errors.load(Ordering::Relaxed),
            taken,
            below,
            tx_sched: stamped.sched,
            tx_soft: stamped.soft,
            stages: stamped.stages,
            ring_full: totals.ring_full,
            recorded: totals.recorded,
        })
    });
    leave(side.domain);
    ended
}
