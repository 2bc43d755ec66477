//! Asking: finds the other side, then asks until the end, and waits for the last answers.

use super::asker::{Ask, Asker, Counters, Lane};
use super::taker::{Books, Taker};
use super::waiting::{Shared, Waiting, open};
use super::{Side, below, leave, tell_ready, thread_died};
use crate::realtime::prepare_thread;
use crate::session::{Session, refused};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use sys::clock::{sleep_until_tai, tai_ns};
use wire::event::{DdsPingTotals, Done, Failure};
use wire::pace::{Pace, Way};
use wire::spec::{Dds, DdsMode};

/// Set by the lab's start command; the asking thread waits for it.
const NOT_YET: i64 = i64::MIN;
/// Longest single sleep, so that a request to stop, and the last answer, are seen whatever the period.
const LONGEST_SLEEP_NS: i64 = 20_000_000;
const HELLO_EVERY: Duration = Duration::from_millis(20);
/// The first UDP port of a domain and how many it has (DDSI-RTPS 2.5, section 9.6.2.1).
const FIRST_PORT: u32 = 7400;
const PORTS: u32 = 250;

/// Asks as `spec` says.
///
/// # Errors
/// What the lab needs to know.
pub fn run(spec: &Dds, session: &Session) -> Result<(), Failure> {
    let (way, timeout_ns) = spec.way().map_err(refused)?;
    let side = Side::open(spec)?;
    let mut running = side.running;
    let counters = Arc::new(Counters::default());
    let asker =
        Arc::new(Mutex::new(Asker::new(Lane::new(side.writer, spec, spec.up), side.sent, Arc::clone(&counters))));
    let closed = matches!(way, Way::Closed { .. });
    let then = Ask { closed, asker: Arc::clone(&asker), counters: Arc::clone(&counters) };
    let books = Books::new(spec, spec.down);
    let taker: Shared<Ask> = Arc::new(Mutex::new(Taker::new(side.reader, spec.size, books, side.received, then)));
    let (waiting, _) = Waiting::start(&taker, spec.mode, false, &spec.realtime, &side.process)?;

    let (start, stop) = (Arc::new(AtomicI64::new(NOT_YET)), Arc::new(AtomicBool::new(false)));
    let (report, prepared) = channel();
    let thread = {
        let (asker, taker, process) = (Arc::clone(&asker), Arc::clone(&taker), Arc::clone(&side.process));
        let (start, stop, realtime) = (Arc::clone(&start), Arc::clone(&stop), spec.realtime.clone());
        let (mode, busy_wait_ns) = (spec.mode, spec.busy_wait_ns);
        std::thread::spawn(move || {
            let found = prepare_thread(&realtime, &process);
            let going = found.is_ok();
            if report.send(found).is_err() || !going {
                return;
            }
            let begun = || start.load(Ordering::Acquire) != NOT_YET;
            match mode {
                DdsMode::Spin => ask_and_take(&asker, &taker, begun, &stop),
                DdsMode::Listener | DdsMode::Block => ask_when_due(&asker, busy_wait_ns, begun, &stop),
            }
        })
    };
    let realtime = prepared.recv().unwrap_or_else(|_| Err(thread_died()))?;

    let mut failure = None;
    let matched = || (side.writer.readers().unwrap_or(0), side.reader.writers().unwrap_or(0));
    match find(spec, session, &asker, matched, &counters) {
        Ok(Some(discovered_ns)) => {
            tell_ready(realtime, side.stamps_by, Some(discovered_ns))?;
            running.clocks.note();
            if let Some(at) = session.wait_for_start() {
                let first = at.saturating_add(spec.offset_ns);
                open(&asker).begin(Pace::new(way, first, timeout_ns));
                start.store(at, Ordering::Release);
                while !thread.is_finished() && !running.ended(session) && failure.is_none() {
                    let counted = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
                    running.pass([(spec.up, counted(&counters.sent)), (spec.down, counted(&counters.answered))]);
                    failure = lost_sight(spec, matched());
                }
            }
        }
        Ok(None) => {}
        Err(nobody) => failure = Some(nobody),
    }
    stop.store(true, Ordering::Relaxed);
    thread.join().map_err(|_| thread_died())?;
    waiting.finish()?;
    let (taken, empty_wakeups) = open(&taker).totals();
    if let Some(trouble) = open(&taker).trouble() {
        failure.get_or_insert(super::failed(trouble.clone()));
    }
    let (sent, answered) = (counters.sent.load(Ordering::Relaxed), counters.answered.load(Ordering::Relaxed));
    let below = below(side.reader, side.writer, empty_wakeups);
    let ended = running.finish(failure, sent, |totals, stamped| {
        Done::DdsPing(DdsPingTotals {
            sent,
            send_errors: counters.errors.load(Ordering::Relaxed),
            answered,
            unanswered: sent.saturating_sub(answered),
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

/// Asks questions that are due by themselves, and sleeps between them.
fn ask_when_due(asker: &Mutex<Asker>, busy_wait_ns: i64, begun: impl Fn() -> bool, stop: &AtomicBool) {
    while !begun() && !stop.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(1));
    }
    let mut woke_tai_ns = tai_ns();
    while !stop.load(Ordering::Relaxed) {
        let Some(next_tai_ns) = open(asker).step(busy_wait_ns, woke_tai_ns) else { return };
        let wake_tai_ns = next_tai_ns - busy_wait_ns;
        sleep_until_tai(wake_tai_ns.min(tai_ns() + LONGEST_SLEEP_NS));
        woke_tai_ns = tai_ns();
        if woke_tai_ns >= wake_tai_ns {
            while tai_ns() < next_tai_ns {
                std::hint::spin_loop();
            }
        }
    }
}

/// Asks questions that are due by themselves and takes samples, in turn, without ever sleeping.
fn ask_and_take(asker: &Mutex<Asker>, taker: &Shared<Ask>, begun: impl Fn() -> bool, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        open(taker).drain();
        if begun() && open(asker).step(0, tai_ns()).is_none() {
            return;
        }
        std::hint::spin_loop();
    }
}

/// How long it took until a sample had been to the other side and back, ns. None: the lab has ended the session first.
///
/// That both sides' readers and writers know of each other is known here for one of them only: that a sample comes back shows
/// the rest.
fn find(
    spec: &Dds,
    session: &Session,
    asker: &Mutex<Asker>,
    matched: impl Fn() -> (u32, u32),
    counters: &Counters,
) -> Result<Option<i64>, Failure> {
    let began = Instant::now();
    let within = Duration::from_nanos(spec.discovery_ns.unsigned_abs());
    while !counters.met.load(Ordering::Acquire) {
        if session.stopped() {
            return Ok(None);
        }
        let (readers, writers) = matched();
        if began.elapsed() > within {
            return Err(nobody(spec, readers, writers));
        }
        if readers > 0 && writers > 0 {
            open(asker).hello();
        }
        std::thread::sleep(HELLO_EVERY);
    }
    Ok(Some(i64::try_from(began.elapsed().as_nanos()).unwrap_or(i64::MAX)))
}

fn nobody(spec: &Dds, readers: u32, writers: u32) -> Failure {
    let seconds = spec.discovery_ns as f64 / 1e9;
    let what = match (readers, writers) {
        (0, 0) => format!("no peer was found within {seconds} s"),
        (0, _) | (_, 0) => format!("the other side was found by halves within {seconds} s"),
        _ => format!("the other side was found, but no sample came back within {seconds} s"),
    };
    let said = cyclone::said();
    let first = FIRST_PORT + PORTS * spec.transport.domain;
    let last = first + PORTS - 1;
    Failure {
        what: if said.is_empty() { what } else { format!("{what} (Cyclone: {said})") },
        place: format!("{} on {}, domain {}", spec.name, spec.interface, spec.transport.domain),
        remedy: format!(
            "see that a pong of this run runs in the same domain; that both configurations name the interface that leads \
             to the other side, and it is up and has an address (ip addr); that each names the other's address among its \
             <Peers>, or multicast gets through; that no firewall drops UDP to ports {first} to {last} (nft list ruleset)"
        ),
        errno: None,
    }
}

/// What to tell if the other side is gone.
fn lost_sight(spec: &Dds, (readers, writers): (u32, u32)) -> Option<Failure> {
    (readers == 0 || writers == 0).then(|| Failure {
        what: "the other side is gone: it left the domain, or was not heard of for its lease".into(),
        place: format!("{} on {}, domain {}", spec.name, spec.interface, spec.transport.domain),
        remedy: "see why pong ended, or whether the network was down for longer than <LeaseDuration>".into(),
        errno: None,
    })
}
