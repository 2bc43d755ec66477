//! `talk`: periodic streams on an absolute schedule, every packet stamped on its way out.

mod lane;
mod launch_clock;
mod sender;
mod stamps;

use crate::clocks::ClockLog;
use crate::realtime::{prepare_process, prepare_thread};
use crate::recording::Recorder;
use crate::session::{self, Session, emit, failed, refused};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};
use sys::clock::{tai_ns, tai_offset_s};
use wire::event::{Done, Event, Failure, Ready, StreamProgress, TalkTotals};
use wire::spec::{KeyChoice, Talk};

/// What the sending thread has done for one stream, readable by the others at any time.
#[derive(Default)]
pub struct Sent {
    /// Packets the kernel took.
    pub packets: AtomicU64,
    /// Packets it refused.
    pub errors: AtomicU64,
    /// Packets not handed to it: too late for their launch times.
    pub unsent_late: AtomicU64,
    /// Of those it took, such whose launch times had passed.
    pub launch_late: AtomicU64,
    /// Of those it took, such that were given later launch times.
    pub launch_moved: AtomicU64,
}

/// Set by the lab's start command; the sending thread waits for it.
const NOT_YET: i64 = i64::MIN;

/// Runs the verb; its result has been reported when this returns.
///
/// # Errors
/// What the lab is to be told.
pub fn run() -> Result<(), Failure> {
    let (spec, session) = session::open::<Talk>("talk")?;
    spec.check().map_err(refused)?;
    let ids = match spec.stamps.key {
        KeyChoice::Payload => false,
        KeyChoice::Id | KeyChoice::Auto => sys::send::ids_supported(),
    };
    if spec.stamps.key == KeyChoice::Id && !ids {
        return Err(Failure {
            what: "this kernel does not take ids with packets (SCM_TS_OPT_ID, Linux 6.13)".into(),
            place: "stamps.key".into(),
            remedy: "ask for auto or payload".into(),
            errno: None,
        });
    }

    let process = prepare_process(&spec.realtime)?;
    let mut recorder = Recorder::new(&spec.recording, spec.run_id);
    let sent_tap = recorder.table(spec.ring_records)?;
    let stamp_tap = recorder.table(2 * spec.ring_records)?;
    let mut clocks = ClockLog::new(&mut recorder)?;
    let lanes: Vec<lane::Lane> =
        spec.streams.iter().map(|stream| lane::Lane::open(&spec, stream, ids)).collect::<Result<_, _>>()?;
    let local = lanes.iter().map(lane::Lane::local).collect();
    let sent: Arc<Vec<Sent>> = Arc::new(lanes.iter().map(|_| Sent::default()).collect());
    let recording = recorder.start();

    let collector = stamps::Collector::start(&spec, &lanes, ids, stamp_tap, Arc::clone(&sent));
    let start = Arc::new(AtomicI64::new(NOT_YET));
    let stop = Arc::new(AtomicBool::new(false));
    let (report, prepared) = channel();
    let sender = {
        let (start, stop, sent, spec) = (Arc::clone(&start), Arc::clone(&stop), Arc::clone(&sent), spec.clone());
        std::thread::spawn(move || {
            let mut sender = sender::Sender::new(lanes, spec.run_id, spec.busy_wait_ns, sent_tap, sent);
            if report.send(prepare_thread(&spec.realtime, &process).map(|found| (found, process))).is_err() {
                return;
            }
            while start.load(Ordering::Acquire) == NOT_YET {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            sender.run(&mut sender::agenda(&spec, start.load(Ordering::Acquire)), &stop);
        })
    };
    // The process's own settings are held until the end of this function.
    let (realtime, _process) = prepared.recv().unwrap_or_else(|_| Err(thread_died()))?;

    emit(&Event::Ready(Ready {
        verb: "talk",
        version: env!("CARGO_PKG_VERSION"),
        pid: std::process::id(),
        tai_ns: tai_ns(),
        tai_offset_s: tai_offset_s().map_err(|error| failed(error, "", ""))?,
        realtime,
        stamp_key: Some(if ids { "id" } else { "payload" }),
        local,
    }));
    clocks.note();
    if let Some(at) = session.wait_for_start() {
        start.store(at, Ordering::Release);
        watch(&session, &sender, &recording, &mut clocks, &spec, &sent);
    }
    stop.store(true, Ordering::Relaxed);
    sender.join().map_err(|_| thread_died())?;
    let patience_ns = spec.stamp_timeout_ns.saturating_add(spec.ahead_ns());
    let stamped = collector.finish(Duration::from_nanos(patience_ns.max(0) as u64))?;
    clocks.note();
    drop(clocks);
    let totals = recording.finish()?;
    emit(&Event::Done(Done::Talk {
        streams: spec
            .streams
            .iter()
            .zip(sent.iter())
            .zip(stamped)
            .map(|((stream, sent), stamped)| TalkTotals {
                stream: stream.stream,
                sent: sent.packets.load(Ordering::Relaxed),
                send_errors: sent.errors.load(Ordering::Relaxed),
                unsent_late: sent.unsent_late.load(Ordering::Relaxed),
                launch_late: sent.launch_late.load(Ordering::Relaxed),
                launch_moved: sent.launch_moved.load(Ordering::Relaxed),
                ..stamped
            })
            .collect(),
        ring_full: totals.ring_full,
        recorded: totals.recorded,
    }));
    Ok(())
}

/// Reports progress until the sender is done, the lab ends the session, or a recording fails.
fn watch(
    session: &Session,
    sender: &std::thread::JoinHandle<()>,
    recording: &crate::recording::Recording,
    clocks: &mut ClockLog,
    spec: &Talk,
    sent: &[Sent],
) {
    let mut reported = Instant::now();
    while !sender.is_finished() && !session.stopped() && !recording.broken() {
        std::thread::sleep(Duration::from_millis(10));
        if reported.elapsed() >= Duration::from_secs(1) {
            reported = Instant::now();
            clocks.note();
            let streams = spec.streams.iter().zip(sent);
            emit(&Event::Progress {
                tai_ns: tai_ns(),
                streams: streams
                    .map(|(s, sent)| StreamProgress { stream: s.stream, packets: sent.packets.load(Ordering::Relaxed) })
                    .collect(),
            });
        }
    }
}

fn thread_died() -> Failure {
    Failure {
        what: "the sending thread ended unexpectedly".into(),
        place: "talk".into(),
        remedy: "see standard error for where".into(),
        errno: None,
    }
}
