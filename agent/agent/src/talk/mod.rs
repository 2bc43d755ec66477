//! `talk`: periodic streams on an absolute schedule, every packet stamped on its way out.

use crate::clocks::ClockLog;
use crate::live::Live;
use crate::realtime::{prepare_process, prepare_thread};
use crate::recording::Recorder;
use crate::sending::Counters;
use crate::sending::lane::Lane;
use crate::sending::sender::Sender;
use crate::sending::stamps::{Collector, Queue, Wanted, ids_in_use};
use crate::session::{self, Session, died, emit, refused};
use crate::stages::{Asked, Fed, Load, OF_PRP, Stages, Taps};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};
use sys::clock::tai_ns;
use sys::thread::usage;
use wire::event::{Done, Event, Failure, Ready, TalkTotals};
use wire::iec61850::Prefix;
use wire::schedule::{Agenda, Schedule};
use wire::spec::{Talk, TalkStream, TalkTransport};

/// Set by the lab's start command; the sending thread waits for it.
const NOT_YET: i64 = i64::MIN;

/// Runs the verb; its result has been reported when this returns.
///
/// # Errors
/// What the lab needs to know.
pub fn run() -> Result<(), Failure> {
    let (spec, session) = session::open::<Talk>("talk")?;
    spec.check().map_err(refused)?;
    let ids = ids_in_use(spec.stamps.key)?;
    let process = prepare_process(&spec.realtime)?;
    let mut stages = open_stages(&spec)?;
    let stamps_by = stages.found();
    let stamps = stages.left_of(&spec.stamps);
    let mut recorder = Recorder::new(&spec.recording, spec.run_id);
    let sent_tap = recorder.table(spec.ring_records)?;
    let stamp_tap = recorder.table(2 * spec.ring_records)?;
    let mut clocks = ClockLog::new(&mut recorder)?;
    let lanes: Vec<Lane> =
        spec.streams.iter().map(|stream| Lane::open(&stamps, stream, ids)).collect::<Result<_, _>>()?;
    for (lane, stream) in lanes.iter().zip(&spec.streams) {
        stages.add_sender(&lane.socket, &stream.interface)?;
    }
    let numbers: Vec<u16> = spec.streams.iter().map(|stream| stream.stream).collect();
    let launched = spec.streams.iter().any(|stream| stream.launch_time.is_some());
    let collects = stamps.any() || launched || !spec.stamps.any();
    let taps = Taps { stamps: Some(stamp_tap), received: None };
    let Fed { watch: stage_watch, taps } = stages.feed(&mut recorder, &numbers, taps, collects, spec.ring_records);
    let local = lanes.iter().map(Lane::local).collect();
    let sent: Arc<Vec<Counters>> = Arc::new(lanes.iter().map(|_| Counters::default()).collect());
    let recording = recorder.start();

    let collector = taps.stamps.map(|tap| {
        let queues = lanes.iter().zip(&spec.streams);
        let queues = queues.map(|(lane, s)| Queue::new(Arc::clone(&lane.socket), s.stream, s.size, s.count)).collect();
        let wanted = Wanted { verb: "talk", run_id: spec.run_id, stamps, ids };
        Collector::start(wanted, queues, tap, Arc::clone(&sent))
    });
    let start = Arc::new(AtomicI64::new(NOT_YET));
    let stop = Arc::new(AtomicBool::new(false));
    let (report, prepared) = channel();
    let sender = {
        let (start, stop, sent, spec) = (Arc::clone(&start), Arc::clone(&stop), Arc::clone(&sent), spec.clone());
        std::thread::spawn(move || {
            let mut sender = Sender::new(lanes, spec.run_id, spec.busy_wait_ns, sent_tap, sent);
            if report.send(prepare_thread(&spec.realtime, &process).map(|found| (found, process))).is_err() {
                return None;
            }
            while start.load(Ordering::Acquire) == NOT_YET {
                if stop.load(Ordering::Relaxed) {
                    return None;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            let before = usage();
            sender.run(&mut agenda(&spec, start.load(Ordering::Acquire)), &stop);
            let after = usage();
            Some((after.cpu_ns - before.cpu_ns, after.sleeps - before.sleeps))
        })
    };
    // The process's own settings are held until the end of this function.
    let (realtime, _process) = prepared.recv().unwrap_or_else(|_| Err(thread_died()))?;

    let stamp_key = Some(if ids { "id" } else { "payload" });
    emit(&Event::Ready(Ready { stamp_key, stamps_by, ..session::ready("talk", realtime, local)? }));
    clocks.note();
    if let Some(at) = session.wait_for_start() {
        start.store(at, Ordering::Release);
        watch(&session, &sender, &recording, &mut clocks, &spec, &sent);
    }
    stop.store(true, Ordering::Relaxed);
    let (cpu_ns, wakeups) = sender.join().map_err(|_| thread_died())?.unwrap_or_default();
    let patience_ns = spec.stamp_timeout_ns.saturating_add(spec.ahead_ns());
    let patience = Duration::from_nanos(patience_ns.max(0) as u64);
    let asked_to_end = Instant::now();
    let mut stamped = match collector {
        Some(collector) => collector.finish(patience)?,
        None => spec.streams.iter().map(|s| TalkTotals { stream: s.stream, ..TalkTotals::default() }).collect(),
    };
    if let Some(watch) = &stage_watch {
        let packets = sent.iter().zip(&stamped).map(|(sent, stamped)| {
            let sent = sent.packets.load(Ordering::Relaxed);
            (sent, sent.saturating_sub(stamped.launch_invalid + stamped.launch_missed))
        });
        watch.wait(&packets.collect::<Vec<_>>(), patience.saturating_sub(asked_to_end.elapsed()));
    }
    clocks.note();
    drop(clocks);
    let totals = recording.finish()?;
    for (place, stamped) in stamped.iter_mut().enumerate() {
        let (sched, soft) = stage_watch.as_ref().map_or((None, None), |watch| watch.counts(place));
        stamped.tx_sched = sched.unwrap_or(stamped.tx_sched);
        stamped.tx_soft = soft.unwrap_or(stamped.tx_soft);
    }
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
                rejected: sent.rejected.read(),
                unsent_late: sent.unsent_late.load(Ordering::Relaxed),
                launch_late: sent.launch_late.load(Ordering::Relaxed),
                launch_moved: sent.launch_moved.load(Ordering::Relaxed),
                ..stamped
            })
            .collect(),
        cpu_ns,
        wakeups,
        stages: stage_watch.and_then(|watch| watch.totals()),
        ring_full: totals.ring_full,
        recorded: totals.recorded,
    }));
    Ok(())
}

/// The BPF programs that take the streams' timestamps, as far as they are to and the kernel has them.
fn open_stages(spec: &Talk) -> Result<Stages, Failure> {
    let load = |stream: &TalkStream| match &stream.transport {
        TalkTransport::Udp { source, .. } => Load::Datagrams { size: stream.size, ipv6: source.is_ipv6() },
        TalkTransport::Ethernet { prp: Some(_), .. } => OF_PRP,
        TalkTransport::Ethernet { payload, .. } => {
            let prefix = payload.map_or(0, |payload| Prefix::length(payload, stream.size));
            Load::Frames { size: stream.size, prefix }
        }
    };
    let out: Vec<_> = spec.streams.iter().map(|stream| (stream.interface.as_str(), load(stream))).collect();
    Stages::open(&Asked {
        by: spec.stamps.by,
        run_id: spec.run_id,
        records: spec.ring_records,
        out: &out,
        back: &[],
        stages: &spec.stamps.stages(),
    })
}

/// Reports progress until the sender is done, the lab ends the session, or a recording fails.
fn watch(
    session: &Session,
    sender: &std::thread::JoinHandle<Option<(i64, i64)>>,
    recording: &crate::recording::Recording,
    clocks: &mut ClockLog,
    spec: &Talk,
    sent: &[Counters],
) {
    let (mut reported, live) = (Instant::now(), Live::of_machine(spec.live));
    while !sender.is_finished() && !session.stopped() && !recording.broken() {
        std::thread::sleep(Duration::from_millis(10));
        if reported.elapsed() >= Duration::from_secs(1) {
            reported = Instant::now();
            clocks.note();
            let streams = spec.streams.iter().zip(sent);
            emit(&Event::Progress {
                tai_ns: tai_ns(),
                streams: streams.map(|(s, n)| live.stream(s.stream, n.packets.load(Ordering::Relaxed))).collect(),
                live: live.machine(),
            });
        }
    }
}

/// The schedules of `spec`'s streams, starting at `start_tai_ns`.
fn agenda(spec: &Talk, start_tai_ns: i64) -> Agenda {
    let schedules = spec.streams.iter().map(|stream| Schedule {
        first_launch_tai_ns: start_tai_ns + stream.offset_ns,
        period_ns: stream.period_ns,
        count: stream.count,
        lead_ns: stream.launch_time.map_or(0, |launch| launch.lead_ns),
        batch: stream.batch,
    });
    Agenda::new(schedules.collect())
}

fn thread_died() -> Failure {
    died("talk", "the sending thread")
}
