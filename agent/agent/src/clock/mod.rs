//! `clock`: bounds the offset between two hosts' clocks over time.

mod exchange;
mod log;
mod page_reader;
mod page_writer;
mod ptp;

use crate::realtime::{Process, prepare_process, prepare_thread};
use crate::session::{self, Session, emit, refused};
use log::Log;
use sys::clock::{sleep_until_tai, tai_ns};
use wire::envelope::Bound;
use wire::event::{Event, Failure, RealtimeFound};
use wire::record::Exchange;
use wire::spec::{Clock, Realtime};

/// Longest sleep, so that a request to stop is seen.
const LONGEST_WAIT_NS: i64 = 50_000_000;

/// Runs the verb; its result has been reported when this returns.
///
/// # Errors
/// What the lab needs to know.
pub fn run() -> Result<(), Failure> {
    let (spec, session) = session::open::<Clock>("clock")?;
    spec.check().map_err(refused)?;
    let process = prepare_process(spec.realtime())?;
    let thread = Thread { realtime: spec.realtime().clone(), process };
    let session = &session;
    match spec {
        Clock::Responder { run_id, listen, peer, .. } => exchange::respond(run_id, listen, peer, &thread, session),
        Clock::Initiator { run_id, source, peer, period_ns, count, recording, live, .. } => {
            let comparison = Comparison { run_id, count, recording: &recording, live, thread, session };
            exchange::initiate(&comparison, source, peer, period_ns.max(1))
        }
        Clock::PageWriter { run_id, page, listen, peer, burst_ns, .. } => {
            let page = page_writer::Page { path: &page, listen, peer, burst_ns };
            page_writer::write(run_id, &page, &thread, session)
        }
        Clock::PageReader { run_id, device, doorbell, period_ns, count, recording, live, .. } => {
            let comparison = Comparison { run_id, count, recording: &recording, live, thread, session };
            page_reader::read(&comparison, &device, doorbell, period_ns)
        }
        Clock::Ptp { run_id, device, host_tai_offset_s, period_ns, count, recording, live, .. } => {
            let comparison = Comparison { run_id, count, recording: &recording, live, thread, session };
            ptp::read(&comparison, &device, host_tai_offset_s, period_ns.max(1))
        }
    }
}

/// How the measuring thread is to run.
struct Thread {
    realtime: Realtime,
    process: Process,
}

impl Thread {
    /// Has the calling thread run so. Threads that are started later would run so, too: none is to be.
    fn prepare(&self) -> Result<RealtimeFound, Failure> {
        prepare_thread(&self.realtime, &self.process)
    }
}

/// What every role is given that records a comparison.
struct Comparison<'a> {
    run_id: u64,
    /// Questions, bursts or readings in all.
    count: u64,
    /// The recording's path, without its table's name.
    recording: &'a str,
    /// Progress says what the latest exchanges prove.
    live: bool,
    thread: Thread,
    session: &'a Session,
}

impl Comparison<'_> {
    /// Its log, which begins with these exchanges; the lab has been told that all is set up. `local`: the socket's
    /// address, where there is one.
    fn begin(&self, local: Option<String>, first: &[Exchange]) -> Result<Log, Failure> {
        let (mut log, found) = self.log()?;
        for row in first {
            log.push(Exchange { sequence: log.rows(), ..*row });
        }
        ready(found, local, log.bound())?;
        Ok(log)
    }

    /// Its log, whose writer is an ordinary thread, and how this thread runs from now on.
    fn log(&self) -> Result<(Log, RealtimeFound), Failure> {
        let log = Log::new(self.recording, self.run_id, self.live)?;
        Ok((log, self.thread.prepare()?))
    }

    /// The number of each question or reading and when it is due, CLOCK_TAI ns, not before it is: one every `period_ns`,
    /// `count` in all or until stopped.
    fn rounds(&self, period_ns: i64) -> impl Iterator<Item = (u64, i64)> {
        let start = tai_ns();
        (0..self.count).map(move |n| (n, start + n as i64 * period_ns)).take_while(|&(_, due)| {
            sleep_until(due, self.session);
            !self.session.stopped()
        })
    }
}

/// Reports to the lab that all is set up; `local`: the socket's address, where there is one; `bound`: what is known by now.
fn ready(realtime: RealtimeFound, local: Option<String>, bound: Option<Bound>) -> Result<(), Failure> {
    let ready = session::ready("clock", realtime, local.into_iter().collect())?;
    emit(&Event::ClockReady { ready, bound });
    Ok(())
}

/// Sleeps until CLOCK_TAI reads `due`, or the session is over.
fn sleep_until(due: i64, session: &Session) {
    while tai_ns() < due && !session.stopped() {
        sleep_until_tai(due.min(tai_ns() + LONGEST_WAIT_NS));
    }
}
