//! What ping and pong have in common: one leg of every round trip goes out here, the other comes in, and both are recorded.

pub mod ends;

use crate::clocks::ClockLog;
use crate::live::Live;
use crate::realtime::{Process, prepare_thread};
use crate::receiving::inlet::Inlet;
use crate::receiving::intake::{Expected, Intake};
use crate::recording::{Recorder, Recording, Tap};
use crate::sending::Counters;
use crate::sending::stamps::{Collector, Queue, Wanted, ids_in_use};
use crate::session::{Session, died, emit, failed};
use crate::stages::{Asked, Fed, Load, Stages, Taps, Watch};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use sys::clock::tai_ns;
use sys::signal::Waker;
use sys::socket::Socket;
use wire::event::{Event, Failure, RealtimeFound, Rejected, RoundTotals, StreamProgress, Taken};
use wire::live::Books;
use wire::record::{Received, Sent, Stamp};
use wire::spec::{PingSide, Realtime, Stamps};
use wire::stage::Stage;

/// So often whoever watches the hot threads looks after them.
const LOOK: Duration = Duration::from_millis(5);
/// So often while one is to give up, which it may not notice at once: it may be about to sleep just then.
const LOOK_AGAIN: Duration = Duration::from_millis(1);
/// [`Shared::give_up_tai_ns`]: there is nothing to give up.
pub const NEVER: i64 = i64::MAX;

/// One side of a probe, in numbers.
pub struct Side<'a> {
    /// `ping` or `pong`.
    pub verb: &'static str,
    /// Tells its packets from other runs'.
    pub run_id: u64,
    /// The recordings' path, without their tables' names.
    pub recording: &'a str,
    /// Records a ring to the writer holds.
    pub ring_records: usize,
    /// Number of the stream that goes out here.
    pub sends: u16,
    /// Number of the stream that comes in here.
    pub hears: u16,
    /// Bytes of a probe.
    pub size: usize,
    /// Packets of a stream; None: nobody knows.
    pub count: Option<u64>,
    /// Which transmit timestamps the socket takes.
    pub stamps: Stamps,
    /// Whether it takes the kernel's receive timestamps.
    pub software_stamps: bool,
    /// What it goes by.
    pub interface: &'a str,
    /// They come with ids.
    pub ids: bool,
    /// How long to wait for the last of them, ns.
    pub stamp_timeout_ns: i64,
    /// Progress says more.
    pub live: bool,
}

impl<'a> Side<'a> {
    /// That of `verb` and the BPF programs that take its timestamps, which sends one stream and hears another, as `spec` asks
    /// for it; `load`: what goes by its interface either way.
    ///
    /// # Errors
    /// Timestamps by a key that this kernel does not have.
    pub fn new(
        verb: &'static str,
        spec: &'a PingSide,
        (sends, hears): (u16, u16),
        count: Option<u64>,
        load: Load,
    ) -> Result<(Self, Stages), Failure> {
        let (stamps, software_stamps) = (&spec.stamps, spec.software_stamps);
        let mut asked = stamps.stages();
        asked.extend(software_stamps.then_some(Stage::RxSoft));
        let loads = [(spec.interface.as_str(), load)];
        let stages = Stages::open(&Asked {
            by: stamps.by,
            run_id: spec.run_id,
            records: spec.ring_records,
            out: &loads,
            back: &loads,
            stages: &asked,
        })?;
        let (stamps, software_stamps) = (stages.left_of(stamps), stages.left(Stage::RxSoft, software_stamps));
        let side = Self {
            verb,
            interface: &spec.interface,
            run_id: spec.run_id,
            recording: &spec.recording,
            ring_records: spec.ring_records,
            sends,
            hears,
            size: spec.size,
            count,
            ids: stamps.any() && ids_in_use(stamps.key)?,
            stamps,
            software_stamps,
            stamp_timeout_ns: spec.stamp_timeout_ns,
            live: spec.live,
        };
        Ok((side, stages))
    }

    /// What its packets' timestamps are distinguished by, as the lab is told; None: it takes none.
    pub fn stamp_key(&self, stages: &Stages) -> Option<&'static str> {
        let by_stages = stages.take(Stage::TxSched) || stages.take(Stage::TxSoft);
        (self.stamps.any() || by_stages).then_some(if self.ids { "id" } else { "payload" })
    }
}

/// The tables of a side, their files made and nothing in them yet.
pub struct Tables {
    recorder: Recorder,
    /// Of the leg that goes out.
    pub sent: Tap<Sent>,
    received: Tap<Received>,
    stamps: Tap<Stamp>,
    clocks: ClockLog,
    live: Live,
}

impl Tables {
    /// Those of `side`.
    ///
    /// # Errors
    /// A file cannot be made.
    pub fn create(side: &Side) -> Result<Self, Failure> {
        let mut recorder = Recorder::new(side.recording, side.run_id);
        // Of round trips only who asks knows the beginning and the end.
        let live = if side.verb == "ping" {
            Live::of_streams(side.live, &mut recorder, || Books::of_round_trips(side.hears))
        } else {
            Live::of_machine(side.live)
        };
        let sent = recorder.table(side.ring_records)?;
        let stamps = recorder.table(2 * side.ring_records)?;
        let received = recorder.table(side.ring_records)?;
        let clocks = ClockLog::new(&mut recorder)?;
        Ok(Self { recorder, sent, received, stamps, clocks, live })
    }
}

/// What the threads of a side share.
#[derive(Clone)]
pub struct Shared {
    /// Of what goes out, the only entry.
    pub counters: Arc<Vec<Counters>>,
    /// Packets that came in, the only entry.
    pub received: Arc<Vec<AtomicU64>>,
    /// Set once the hot threads are to end.
    pub stop: Arc<AtomicBool>,
    /// When who hears gives up what it waits for, CLOCK_TAI ns: it is woken then, as it sleeps without a timeout.
    pub give_up_tai_ns: Arc<AtomicI64>,
}

/// A side at work: everything but its hot threads.
pub struct Round<'a> {
    side: Side<'a>,
    /// What the hot threads are given a copy of.
    pub shared: Shared,
    recording: Recording,
    clocks: ClockLog,
    live: Live,
    collector: Option<Collector>,
    stages: Option<Watch>,
    waker: Waker,
}

/// What a hot thread heard, once it is over.
pub struct Heard {
    /// Its books.
    pub intake: Intake,
    /// Packets the kernel had no room for.
    pub drops: u64,
    /// Frames that came without their VLAN tag.
    pub untagged: u64,
    /// ICMP answers that came in with the packets.
    pub rejected: Rejected,
    /// Questions that were answered before they were given up (ping).
    pub answered: u64,
}

impl Heard {
    /// What came in by `inlet`, of which `intake` has the books.
    ///
    /// # Errors
    /// The kernel does not tell its drops.
    pub fn new(intake: Intake, inlet: &impl Inlet, answered: u64) -> Result<Self, sys::Error> {
        let (drops, untagged, rejected) = (inlet.drops()?, inlet.untagged()?, inlet.rejected());
        Ok(Self { intake, drops, untagged, rejected, answered })
    }
}

/// What came of a side.
pub struct Outcome {
    /// Packets taken by the kernel.
    pub sent: u64,
    /// Packets it refused.
    pub send_errors: u64,
    /// Questions that were answered before they were given up (ping).
    pub answered: u64,
    /// What both sides count alike.
    pub totals: RoundTotals,
}

impl<'a> Round<'a> {
    /// Begins to write and to collect timestamps; returns the books for what comes in as well, and the tap for what goes out.
    /// `out`: where timestamps come back; None: nowhere. `header`: how many bytes stand before the probe in what comes in.
    ///
    /// # Errors
    /// Threads cannot be woken.
    pub fn begin(
        side: Side<'a>,
        mut stages: Stages,
        tables: Tables,
        out: Option<Arc<Socket>>,
        header: usize,
    ) -> Result<(Self, Intake, Tap<Sent>), Failure> {
        let waker = Waker::new().map_err(|error| failed(error, side.verb, "report this: it should not happen"))?;
        let shared = Shared {
            counters: Arc::new(vec![Counters::default()]),
            received: Arc::new(vec![AtomicU64::new(0)]),
            stop: Arc::default(),
            give_up_tai_ns: Arc::new(AtomicI64::new(NEVER)),
        };
        let Tables { mut recorder, sent, received, stamps, clocks, live } = tables;
        if let Some(socket) = &out {
            stages.add_sender(socket, side.interface)?;
        }
        stages.add_arrival(side.interface)?;
        let collects = out.is_some() && side.stamps.any();
        let taps = Taps { stamps: Some(stamps), received: Some(received) };
        let Fed { watch, taps } = stages.feed(&mut recorder, &[side.sends], taps, collects, side.ring_records);
        let received = taps.received.ok_or_else(|| died(side.verb, "the recorder"))?;
        let recording = recorder.start();
        let Side { hears, size, count, .. } = side;
        let expected = Expected { stream: hears, carries: hears, port: 0, size, count };
        let arrived = Arc::clone(&shared.received);
        let intake = Intake::new(side.run_id, vec![header], &[expected], received, arrived, Arc::default());
        let collector = out.zip(taps.stamps).filter(|_| collects).map(|(socket, stamps)| {
            let wanted = Wanted { verb: side.verb, run_id: side.run_id, stamps: side.stamps.clone(), ids: side.ids };
            let queue = Queue::new(socket, side.sends, side.size, side.count.unwrap_or(1 << 32));
            Collector::start(wanted, vec![queue], stamps, Arc::clone(&shared.counters))
        });
        Ok((Self { side, shared, recording, clocks, live, collector, stages: watch, waker }, intake, sent))
    }

    /// Notes the clocks and reports progress until the session is over, a recording fails, or `hearing` has ended, which is
    /// woken meanwhile whenever it is to give up what it waits for; the hot threads have been asked to end then.
    pub fn watch<T>(&mut self, session: &Session, hearing: &JoinHandle<T>) {
        let mut reported = Instant::now();
        while !session.stopped() && !self.recording.broken() && !hearing.is_finished() {
            let left_ns = self.shared.give_up_tai_ns.load(Ordering::Relaxed).saturating_sub(tai_ns());
            if left_ns <= 0 {
                self.waker.wake(hearing);
            }
            std::thread::sleep(Duration::from_nanos(left_ns.max(0) as u64).clamp(LOOK_AGAIN, LOOK));
            if reported.elapsed() >= Duration::from_secs(1) {
                reported = Instant::now();
                self.clocks.note();
                emit(&Event::Progress { tai_ns: tai_ns(), streams: self.progress(), live: self.live.machine() });
            }
        }
        self.shared.stop.store(true, Ordering::Relaxed);
    }

    /// By stream, the lower number first: both sides say it in one order.
    fn progress(&self) -> Vec<StreamProgress> {
        let sent = self.shared.counters[0].packets.load(Ordering::Relaxed);
        let received = self.shared.received[0].load(Ordering::Relaxed);
        let mut streams =
            vec![StreamProgress::counted(self.side.sends, sent), self.live.stream(self.side.hears, received)];
        streams.sort_unstable_by_key(|progress| progress.stream);
        streams
    }

    /// A reading of the clocks.
    pub fn note_clocks(&mut self) {
        self.clocks.note();
    }

    /// What a hot thread came to that has been asked to end: it is woken until it has.
    ///
    /// # Errors
    /// It panicked.
    pub fn joined<T>(&self, thread: JoinHandle<Option<T>>) -> Result<T, Failure> {
        self.waker.wake_until_ended(&thread);
        thread.join().ok().flatten().ok_or_else(|| died(self.side.verb, "a measuring thread"))
    }

    /// Waits for the last timestamps and finishes the recordings, whatever came of the hot threads; says what came of it all.
    ///
    /// # Errors
    /// What the hot threads failed of; else what the recordings or timestamps did.
    pub fn finish(mut self, heard: Result<Heard, Failure>) -> Result<Outcome, Failure> {
        let patience = Duration::from_nanos(self.side.stamp_timeout_ns.max(0) as u64);
        let asked_to_end = Instant::now();
        let stamped = self.collector.map_or_else(|| Ok(Vec::new()), |collector| collector.finish(patience));
        let counters = &self.shared.counters[0];
        if let Some(watch) = &self.stages {
            let sent = counters.packets.load(Ordering::Relaxed);
            watch.wait(&[(sent, sent)], patience.saturating_sub(asked_to_end.elapsed()));
        }
        self.clocks.note();
        drop(self.clocks);
        let written = self.recording.finish();
        let Heard { intake, drops, untagged, rejected, answered } = heard?;
        let (stamped, written) = (stamped?.first().copied().unwrap_or_default(), written?);
        let (streams, refused, empty_wakeups) = intake.totals();
        let leg = streams.first().copied().unwrap_or_default();
        let (sched, soft) = self.stages.as_ref().map_or((None, None), |watch| watch.counts(0));
        let totals = RoundTotals {
            taken: Taken {
                received: leg.received,
                repeated: leg.repeated,
                reordered: leg.reordered,
                out_of_range: leg.out_of_range,
                untagged,
                refused,
            },
            rejected: counters.rejected.read().and(rejected),
            socket_drops: drops,
            empty_wakeups,
            tx_sched: sched.unwrap_or(stamped.tx_sched),
            tx_soft: soft.unwrap_or(stamped.tx_soft),
            tx_hard: stamped.tx_hard,
            stray_stamps: stamped.stray_stamps,
            stages: self.stages.and_then(|watch| watch.totals()),
            ring_full: written.ring_full,
            recorded: written.recorded,
        };
        Ok(Outcome {
            sent: counters.packets.load(Ordering::Relaxed),
            send_errors: counters.errors.load(Ordering::Relaxed),
            answered,
            totals,
        })
    }
}

/// Starts a thread that runs as `realtime` says, and returns once it does: how, and the thread, which does `work`. It has a table
/// of descriptors of its own where that is allowed, as it goes by one with every packet: what `work` opens must not leave it.
///
/// # Errors
/// What was asked for is refused, or is not in force afterwards.
pub fn hot<T: Send + 'static>(
    verb: &'static str,
    realtime: &Realtime,
    process: &Arc<Process>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<(RealtimeFound, JoinHandle<Option<T>>), Failure> {
    let (report, prepared) = channel();
    let (realtime, process) = (realtime.clone(), Arc::clone(process));
    let thread = std::thread::spawn(move || {
        // It is only quicker: a container may refuse it (`unshare` is among what seccomp keeps from those without CAP_SYS_ADMIN).
        let _ = sys::thread::own_descriptors();
        let found = prepare_thread(&realtime, &process);
        let going = found.is_ok();
        (report.send(found).is_ok() && going).then(work)
    });
    let found = prepared.recv().unwrap_or_else(|_| Err(died(verb, "a measuring thread")))?;
    Ok((found, thread))
}
