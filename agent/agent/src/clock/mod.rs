//! `clock`: bounds the offset between two hosts' clocks over time.

mod exchange;
mod log;
mod page_reader;
mod page_writer;
mod ptp;

use crate::realtime::{prepare_process, prepare_thread};
use crate::session::{self, Session, emit, failed, refused};
use log::Log;
use sys::clock::{sleep_until_tai, tai_ns, tai_offset_s};
use wire::event::{Event, Failure, Ready, RealtimeFound};
use wire::spec::Clock;

/// Longest sleep, so that a request to stop is seen.
const LONGEST_WAIT_NS: i64 = 50_000_000;

/// Runs the verb; its result has been reported when this returns.
///
/// # Errors
/// What the lab is to be told.
pub fn run() -> Result<(), Failure> {
    let (spec, session) = session::open::<Clock>("clock")?;
    spec.check().map_err(refused)?;
    let process = prepare_process(spec.realtime())?;
    let found = prepare_thread(spec.realtime(), &process)?;
    match spec {
        Clock::Responder { run_id, listen, peer, .. } => exchange::respond(run_id, listen, peer, found, &session),
        Clock::Initiator { run_id, source, peer, period_ns, count, recording, .. } => {
            let comparison = Comparison { run_id, count, recording: &recording, found, session: &session };
            exchange::initiate(&comparison, source, peer, period_ns.max(1))
        }
        Clock::PageWriter { run_id, page, listen, peer, burst_ns, .. } => {
            let page = page_writer::Page { path: &page, listen, peer, burst_ns };
            page_writer::write(run_id, &page, found, &session)
        }
        Clock::PageReader { run_id, device, knock, period_ns, count, recording, .. } => {
            let comparison = Comparison { run_id, count, recording: &recording, found, session: &session };
            page_reader::read(&comparison, &device, knock, period_ns)
        }
        Clock::Ptp { run_id, device, host_tai_offset_s, period_ns, count, recording, .. } => {
            let comparison = Comparison { run_id, count, recording: &recording, found, session: &session };
            ptp::read(&comparison, &device, host_tai_offset_s, period_ns.max(1))
        }
    }
}

/// What every role is given that records a comparison.
struct Comparison<'a> {
    run_id: u64,
    /// Questions, bursts or readings in all.
    count: u64,
    /// The recording's path, without its table's name.
    recording: &'a str,
    found: RealtimeFound,
    session: &'a Session,
}

impl Comparison<'_> {
    /// Its log; the lab has been told that all is set up. `local`: the socket's address, where there is one.
    fn begin(&self, local: Option<String>) -> Result<Log, Failure> {
        let log = self.log()?;
        self.ready(local)?;
        Ok(log)
    }

    /// Its log.
    fn log(&self) -> Result<Log, Failure> {
        Log::new(self.recording, self.run_id)
    }

    /// Tells the lab that all is set up; `local`: the socket's address, where there is one.
    fn ready(&self, local: Option<String>) -> Result<(), Failure> {
        ready(self.found.clone(), local)
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

/// Tells the lab that all is set up; `local`: the socket's address, where there is one.
fn ready(realtime: RealtimeFound, local: Option<String>) -> Result<(), Failure> {
    emit(&Event::Ready(Ready {
        verb: "clock",
        version: env!("CARGO_PKG_VERSION"),
        pid: std::process::id(),
        tai_ns: tai_ns(),
        tai_offset_s: tai_offset()?,
        realtime,
        stamp_key: None,
        local: local.into_iter().collect(),
    }));
    Ok(())
}

fn tai_offset() -> Result<i32, Failure> {
    tai_offset_s().map_err(|error| failed(error, "the kernel's TAI offset", ""))
}

/// Sleeps until CLOCK_TAI reads `due`, or the session is over.
fn sleep_until(due: i64, session: &Session) {
    while tai_ns() < due && !session.stopped() {
        sleep_until_tai(due.min(tai_ns() + LONGEST_WAIT_NS));
    }
}
