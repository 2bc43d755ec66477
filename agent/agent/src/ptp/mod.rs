//! `ptp`: observes a ptp4l through its management socket, and changes nothing of it.

mod frequency;
mod link;
mod log;
mod once;

pub use once::{Asked, run as run_once};

use crate::realtime::{prepare_process, prepare_thread};
use crate::session::{self, Session, emit, failed, refused};
use frequency::Steered;
use link::Link;
use log::Log;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};
use sys::clock::{Clock, now_ns, tai_ns, tai_offset_s};
use wire::event::{Event, Failure, Ready};
use wire::ptp::{Asker, ClockIdentity, Inquiry, PortIdentity};
use wire::record;
use wire::spec::Ptp;

/// How long a ptp4l may take to come up before it is said that there is none.
const FIRST: Duration = Duration::from_secs(2);
/// Longest wait without telling the lab.
const PROGRESS: Duration = Duration::from_secs(1);
/// Its own port, by which no clock on the network goes.
const PORT: u16 = 1;

/// Runs the verb; its result has been reported when this returns.
///
/// # Errors
/// What the lab is to be told.
pub fn run() -> Result<(), Failure> {
    let (spec, session) = session::open::<Ptp>("ptp")?;
    spec.check().map_err(refused)?;
    let process = prepare_process(&spec.realtime)?;
    let mut found = prepare_thread(&spec.realtime, &process)?;
    let steered = Steered::open(spec.clock.as_deref()).unwrap_or_else(|problem| {
        found.problems.push(problem);
        Steered::Unknown
    });
    let asker = Asker {
        domain: spec.domain,
        transport_specific: spec.transport_specific,
        source: PortIdentity { clock: ClockIdentity(spec.run_id), port: PORT },
    };
    let server = Path::new(&spec.socket);
    let asked = || Inquiry::new(asker, 0, Inquiry::STATUS);
    let link = match Link::first(server, FIRST, asked, || session.stopped()) {
        Ok((link, _)) => Some(link),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => None,
        Err(error) => return Err(silent(&error, &spec.socket, spec.domain, spec.transport_specific, FIRST)),
    };
    let mut log = Log::new(&spec.recording, spec.run_id)?;
    emit(&Event::Ready(Ready {
        verb: "ptp",
        version: env!("CARGO_PKG_VERSION"),
        pid: std::process::id(),
        tai_ns: tai_ns(),
        tai_offset_s: tai_offset_s().map_err(|error| failed(error, "the kernel's TAI offset", ""))?,
        realtime: found,
        stamp_key: None,
        local: link.iter().map(|link| link.address.clone()).collect(),
    }));
    if let Some(link) = link {
        observe(&link, &spec, asker, &steered, &mut log, &session);
    }
    log.finish()
}

/// Asks every period, and records what is said, or that nothing is.
fn observe(link: &Link, spec: &Ptp, asker: Asker, steered: &Steered, log: &mut Log, session: &Session) {
    let stopped = || session.stopped();
    let period = Duration::from_nanos(spec.period_ns.unsigned_abs());
    // The observed ptp4l may step CLOCK_REALTIME, and CLOCK_TAI with it: periods are counted on CLOCK_MONOTONIC.
    let mut due = Instant::now();
    let mut sequence = Inquiry::STATUS.len() as u16;
    for _ in 0..spec.count {
        meanwhile(due, log, session, |end| {
            link.sleep(end, &stopped);
            false
        });
        if stopped() || log.broken() {
            break;
        }
        let mut inquiry = Inquiry::new(asker, sequence, Inquiry::STATUS);
        sequence = sequence.wrapping_add(Inquiry::STATUS.len() as u16);
        let now = Instant::now();
        let late = now.saturating_duration_since(due);
        // After a stall of the agent's own, periods are counted anew: the next answer has a whole one.
        due = if late < period / 2 { due + period } else { now + period };
        // That it cannot be asked is silence, too, and told when the period is over, as any other.
        let asked = link.ask(&inquiry).is_ok();
        meanwhile(due, log, session, |end| {
            if asked {
                link.listen(&mut inquiry, end, &stopped);
            } else {
                link.sleep(end, &stopped);
            }
            inquiry.complete()
        });
        let status = inquiry.status();
        if status.is_none() && stopped() {
            // It was not given the time to answer.
            break;
        }
        let (tai_ns, monotonic_ns) = (now_ns(Clock::Tai), now_ns(Clock::Monotonic));
        log.push(record::Ptp { tai_ns, monotonic_ns, status, frequency_ppt: steered.ppt() });
    }
}

/// Waits by `wait`, which is told until when and says whether it is over, until `due` or until stopped. The lab hears of it
/// every second.
fn meanwhile(due: Instant, log: &mut Log, session: &Session, mut wait: impl FnMut(Instant) -> bool) {
    while !session.stopped() && Instant::now() < due {
        if wait(due.min(Instant::now() + PROGRESS)) {
            break;
        }
        log.progress();
    }
}

/// That no answer came within `waited`, as people are told it.
fn silent(error: &io::Error, socket: &str, domain: u8, transport_specific: u8, waited: Duration) -> Failure {
    let what = match error.kind() {
        io::ErrorKind::TimedOut => format!("ptp4l does not answer: none within {} s", waited.as_secs()),
        _ => format!("ptp4l cannot be asked: {error}"),
    };
    Failure {
        what,
        place: socket.into(),
        remedy: format!(
            "see that ptp4l runs here, that this is its uds_address or uds_ro_address and yours to write to, and that \
             its domainNumber is {domain} and its transportSpecific {transport_specific}"
        ),
        errno: error.raw_os_error(),
    }
}
