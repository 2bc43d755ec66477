//! `clock`: bounds the offset between two hosts' clocks over time.

mod exchange;
mod log;
mod page_reader;
mod page_writer;
mod ptp;

use crate::realtime::{prepare_process, prepare_thread};
use crate::session::{self, Session, emit, failed, refused};
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
            exchange::initiate(run_id, source, peer, period_ns, count, &recording, found, &session)
        }
        Clock::PageWriter { run_id, page, burst_ns, every_ns, .. } => {
            page_writer::write(run_id, &page, burst_ns, every_ns, found, &session)
        }
        Clock::PageReader { run_id, device, count, recording, .. } => {
            page_reader::read(run_id, &device, count, &recording, found, &session)
        }
        Clock::Ptp { run_id, device, host_tai_offset_s, period_ns, count, recording, .. } => {
            ptp::read(run_id, &device, host_tai_offset_s, period_ns, count, &recording, found, &session)
        }
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
