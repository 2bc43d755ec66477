//! `ptp`: observes a ptp4l through its management socket, and changes nothing of it.

#[cfg(test)]
mod fake;
mod frequency;
mod link;
mod log;
mod once;
mod way;

pub use once::Asked;

use crate::realtime::{prepare_process, prepare_thread};
use crate::session::{self, Session, emit, refused};
use frequency::Steered;
use link::Link;
use log::Log;
use std::path::Path;
use std::time::{Duration, Instant};
use sys::clock::{Clock, now_ns};
use way::Silence;
use wire::event::{Event, Failure};
use wire::ptp::{Asker, ClockIdentity, Inquiry, Memory, PortIdentity, Status};
use wire::record::Reading;
use wire::spec::Ptp;

/// How long a ptp4l may take to come up before it is said that there is none.
const FIRST: Duration = Duration::from_secs(2);
/// Longest wait without telling the lab.
const PROGRESS: Duration = Duration::from_secs(1);
/// The port's number in who asks. Its clock is the run's id: no clock on the network has it.
const PORT: u16 = 1;

/// Runs the verb; its result has been reported when this returns.
///
/// # Errors
/// What the lab needs to know.
pub fn run() -> Result<(), Failure> {
    let (spec, session) = session::open::<Ptp>("ptp")?;
    spec.check().map_err(refused)?;
    let process = prepare_process(&spec.realtime)?;
    let (steered, clock) = match Steered::open(spec.clock.as_deref()) {
        Ok(steered) => (steered, None),
        Err(problem) => (Steered::Unknown, Some(problem)),
    };
    let asker = asker(spec.run_id, spec.domain, spec.transport_specific);
    let server = Path::new(&spec.socket);
    let asked = || Inquiry::new(asker, 0, Inquiry::STATUS);
    let link = match way::find(server, FIRST, asked, || session.stopped()) {
        Ok((link, _)) => Some(link),
        Err(Silence::Stopped) => None,
        Err(silence) => return Err(silence.failure(server, &asker, FIRST)),
    };
    // Its writer is to be an ordinary thread: it is started before this one is made another.
    let mut log = Log::new(&spec.recording, spec.run_id)?;
    let found = prepare_thread(&spec.realtime, &process)?;
    let local = link.iter().map(|link| link.address.clone()).collect();
    emit(&Event::PtpReady { ready: session::ready("ptp", found, local)?, clock });
    if let Some(link) = link {
        observe(&link, &spec, asker, &steered, &mut log, &session);
    }
    log.finish()
}

/// Who asks: as clock `identity`, a ptp4l of this domainNumber and transportSpecific.
fn asker(identity: u64, domain: u8, transport_specific: u8) -> Asker {
    Asker { domain, transport_specific, source: PortIdentity { clock: ClockIdentity(identity), port: PORT } }
}

/// Asks every period, and records what is said, or that nothing is.
fn observe(link: &Link, spec: &Ptp, asker: Asker, steered: &Steered, log: &mut Log, session: &Session) {
    let stopped = || session.stopped();
    let period = Duration::from_nanos(spec.period_ns.unsigned_abs());
    // The observed ptp4l may step CLOCK_REALTIME, and CLOCK_TAI with it: periods are counted on CLOCK_MONOTONIC.
    let mut due = Instant::now();
    let mut memory = Memory::default();
    let (mut gone, mut sequence) = (0, Inquiry::STATUS.len() as u16);
    while gone < spec.count {
        meanwhile(due, log, session, |end| {
            link.sleep(end, &stopped);
            false
        });
        if stopped() || log.broken() {
            break;
        }
        let missed = overtaken(due.elapsed(), period, spec.count - gone);
        if missed > 0 {
            log.miss(missed);
            gone += missed;
            due += period.saturating_mul(u32::try_from(missed).unwrap_or(u32::MAX));
            continue;
        }
        let mut inquiry = Inquiry::new(asker, sequence, Inquiry::STATUS);
        sequence = sequence.wrapping_add(Inquiry::STATUS.len() as u16);
        (gone, due) = (gone + 1, due + period);
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
        let status = inquiry.status_after(&mut memory);
        if status.is_none() && stopped() {
            // It was not given the time to answer.
            break;
        }
        let (tai_ns, monotonic_ns) = (now_ns(Clock::Tai), now_ns(Clock::Monotonic));
        log.push(reading(tai_ns, monotonic_ns, status, steered.ppt()), status);
    }
}

/// A row. `status`: what the clock said; None: it did not answer.
fn reading(tai_ns: i64, monotonic_ns: i64, status: Option<Status>, frequency_ppt: Option<i64>) -> Reading {
    Reading {
        tai_ns,
        monotonic_ns,
        answered: status.is_some(),
        state: status.map_or(0, |said| said.state as u8),
        offset_ns: status.and_then(|said| said.offset_ns),
        ingress_ns: status.and_then(|said| said.ingress_ns),
        path_delay_ns: status.and_then(|said| said.path_delay_ns),
        grandmaster: status.and_then(|said| said.grandmaster),
        steps_removed: status.and_then(|said| said.steps_removed),
        frequency_ppt,
    }
}

/// How many periods went by that began `late` ago and later, of those `left`: they are too short now to be asked in. An answer
/// is given half a period at least.
fn overtaken(late: Duration, period: Duration, left: u64) -> u64 {
    let halves = late.as_nanos() / (period.as_nanos() / 2).max(1);
    u64::try_from(halves.div_ceil(2)).unwrap_or(u64::MAX).min(left)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_of_which_less_than_half_is_left_is_missed() {
        let period = Duration::from_millis(10);
        let missed = |late_us: u64| overtaken(Duration::from_micros(late_us), period, 100);
        assert_eq!([0, 100, 4_999].map(missed), [0, 0, 0]);
        assert_eq!([5_000, 9_999, 10_000, 14_999].map(missed), [1, 1, 1, 1]);
        assert_eq!([15_000, 20_001, 10_000_000].map(missed), [2, 2, 100]);
    }
}
