//! `timer`: how late a thread comes to instants that it waits for, and the kernel's interrupt before it.

mod beat;
mod device;
mod keeper;
mod trace;
mod wait;

use crate::clocks::ClockLog;
use crate::live::Live;
use crate::realtime::{Process, prepare_process, prepare_thread};
use crate::recording::{Recorder, Recording, Tap};
use crate::session::{self, Session, emit, failed, refused};
use crate::tracing;
use beat::{Beat, Counts, Window};
use clap::Args;
use keeper::Keeper;
use rtrb::{Consumer, Producer, RingBuffer};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use sys::clock::tai_ns;
use trace::Trace;
use wait::{Nanosleep, Reading, Wait};
use wire::event::{Done, Event, Failure, RealtimeFound};
use wire::lateness::{Figures, Latenesses};
use wire::live::Books;
use wire::record::Woken;
use wire::spec::{How, Timer, Trace as Wanted};

/// How long the rings are left alone: short against what they hold.
const PAUSE: Duration = Duration::from_millis(5);
/// Windows that may wait to be told of: more than there can be in a pause.
const WINDOWS: usize = 64;

/// What is asked of the verb next to its spec.
#[derive(Args)]
pub struct Asked {
    /// Remove the tracing instances that killed agents left in the kernel, print their names, and wait for nothing.
    #[arg(long)]
    clear_traces: bool,
}

impl Asked {
    /// The exit status of what takes no spec; None: a spec is to be read.
    pub fn run_once(&self) -> Option<ExitCode> {
        self.clear_traces.then(|| {
            tracing::remove_all_left_behind().iter().for_each(|name| println!("{name}"));
            ExitCode::SUCCESS
        })
    }
}

/// What the waiting thread is asked for.
enum Order {
    /// To wait for one instant, so that the trace can be tried.
    Try,
    /// To come to all instants, the first of which is this one.
    Begin(i64),
}

/// What it answers.
enum Answer {
    /// How it runs, and what is kept as long as the process runs so.
    Prepared(RealtimeFound, Process),
    /// The instant that was tried, and when it woke.
    Tried(i64, i64),
}

/// Its end: the last window, if it began.
type Ended = Result<Option<Window>, Failure>;

/// The waiting thread, and how to speak with it.
struct Waiting {
    thread: JoinHandle<Ended>,
    orders: Sender<Order>,
    answers: Receiver<Result<Answer, Failure>>,
}

/// Runs the verb; its result has been reported when this returns.
///
/// # Errors
/// What the lab needs to know.
pub fn run() -> Result<(), Failure> {
    let (spec, session) = session::open::<Timer>("timer")?;
    spec.check().map_err(refused)?;
    let process = prepare_process(&spec.realtime)?;
    let mut recorder = Recorder::new(&spec.recording, spec.run_id);
    let live = Live::of_streams(spec.live, &mut recorder, || Books::of_streams([spec.stream]));
    let tap = recorder.table(spec.ring_records)?;
    let mut clocks = ClockLog::new(&mut recorder)?;
    let (trace, mut trace_problem) = listen(&spec)?;
    let (tap, mut keeper) = match trace {
        Some(trace) => {
            let (hot, rows) = recorder.ring(spec.ring_records);
            (hot, Some(Keeper::new(rows, tap, spec.period_ns, trace)))
        }
        None => (tap, None),
    };
    let recording = recorder.start();

    let counts = Arc::<Counts>::default();
    let stop = Arc::new(AtomicBool::new(false));
    let (producer, windows) = RingBuffer::new(WINDOWS);
    let parts = Parts { tap, windows: producer, counts: Arc::clone(&counts), stop: Arc::clone(&stop) };
    let waiting = match spec.how {
        How::Nanosleep => Waiting::start(&spec, process, Nanosleep, parts),
        How::Timerfd => {
            let reading = Reading::new().map_err(|error| waiting_failed(&spec, error))?;
            Waiting::start(&spec, process, reading, parts)
        }
    };
    let Answer::Prepared(realtime, _process) = waiting.answer()? else { return Err(thread_died()) };
    if let Some(Keeper { trace, .. }) = &mut keeper {
        match waiting.tried(trace) {
            Err(problem) if spec.trace == Wanted::Auto => (*trace, trace_problem) = (None, Some(problem)),
            tried => tried?,
        }
    }

    let traced = keeper.as_ref().is_some_and(|keeper| keeper.trace.is_some());
    let timer = device::found(spec.how, &realtime.cpus, traced);
    emit(&Event::TimerReady { ready: session::ready("timer", realtime, Vec::new())?, timer, trace_problem });
    clocks.note();
    let mut told = Told { spec: &spec, windows, live, sum: Latenesses::default() };
    let told_start = session.wait_for_start().map(|start_tai_ns| first(&spec, start_tai_ns));
    if let Some(first_tai_ns) = told_start.and_then(|first| first.map_err(|problem| emit(&Event::Error(problem))).ok())
    {
        if let Some(keeper) = &mut keeper {
            keeper.begin(first_tai_ns);
        }
        if waiting.orders.send(Order::Begin(first_tai_ns)).is_ok() {
            watch(&session, &waiting, &recording, &mut clocks, &counts, &mut keeper, &mut told);
        }
    }
    stop.store(true, Ordering::Relaxed);
    let Waiting { thread, orders, answers: _answers } = waiting;
    drop(orders);
    let ended = thread.join().unwrap_or_else(|_| Err(thread_died()));
    let trace_lost = keeper.and_then(Keeper::finish);
    told.windows();
    clocks.note();
    drop(clocks);
    let totals = recording.finish()?;
    // Its error is told once what was recorded is safe.
    if let Some(last) = ended? {
        told.window(&last);
    }
    emit(&Event::Done(Done::Timer {
        stream: spec.stream,
        events: counts.events.load(Ordering::Relaxed),
        overdue: counts.overdue.load(Ordering::Relaxed),
        held_up_ns: counts.held_up_ns.load(Ordering::Relaxed),
        lateness: Figures::of(&told.sum, spec.threshold_ns),
        trace_lost,
        ring_full: totals.ring_full,
        recorded: totals.recorded,
    }));
    Ok(())
}

/// The trace that is asked for, if it is; None with the reason, where it is only wanted if there can be one.
fn listen(spec: &Timer) -> Result<(Option<Trace>, Option<Failure>), Failure> {
    if spec.trace == Wanted::No {
        return Ok((None, None));
    }
    match Trace::open(spec.how) {
        Ok(trace) => Ok((Some(trace), None)),
        Err(problem) if spec.trace == Wanted::Auto => Ok((None, Some(problem))),
        Err(problem) => Err(problem),
    }
}

/// The first instant; an error if the last is later than a clock can say.
fn first(spec: &Timer, start_tai_ns: i64) -> Result<i64, Failure> {
    let last = spec.last_ns().and_then(|ns| start_tai_ns.checked_add(ns));
    last.map(|_| start_tai_ns + spec.offset_ns).ok_or_else(|| Failure {
        what: "the last instant is beyond what 64 bits of nanoseconds can say".into(),
        place: "a command on standard input".into(),
        remedy: "give a start_tai_ns of this century".into(),
        errno: None,
    })
}

/// What the waiting thread is given of ours.
struct Parts {
    tap: Tap<Woken>,
    windows: Producer<Window>,
    counts: Arc<Counts>,
    stop: Arc<AtomicBool>,
}

impl Waiting {
    /// Starts it; its first answer is how it runs.
    fn start(spec: &Timer, process: Process, mut wait: impl Wait, parts: Parts) -> Self {
        let (orders, asked) = channel();
        let (answer, answers) = channel();
        let spec = spec.clone();
        let Parts { tap, windows, counts, stop } = parts;
        let thread = std::thread::spawn(move || -> Ended {
            let prepared = prepare_thread(&spec.realtime, &process);
            let going = prepared.is_ok();
            let _ = answer.send(prepared.map(|found| Answer::Prepared(found, process)));
            while let Some(order) = asked.recv().ok().filter(|_| going) {
                match order {
                    Order::Try => {
                        let tried = wait::once(&mut wait).map(|(due, woke)| Answer::Tried(due, woke));
                        let _ = answer.send(tried.map_err(|error| waiting_failed(&spec, error)));
                    }
                    Order::Begin(first_tai_ns) => {
                        let (last, result) = Beat::new(&spec, first_tai_ns, wait, tap, windows, counts).run(&stop);
                        return result.map(|()| Some(last)).map_err(|error| waiting_failed(&spec, error));
                    }
                }
            }
            Ok(None)
        });
        Self { thread, orders, answers }
    }

    fn answer(&self) -> Result<Answer, Failure> {
        self.answers.recv().unwrap_or_else(|_| Err(thread_died()))
    }

    /// Has the thread wait for one instant, from which the trace learns what its timers are like.
    fn tried(&self, trace: &mut Option<Trace>) -> Result<(), Failure> {
        let Some(trace) = trace else { return Ok(()) };
        self.orders.send(Order::Try).map_err(|_| thread_died())?;
        match self.answer()? {
            Answer::Tried(due_tai_ns, woke_tai_ns) => trace.learn(due_tai_ns, woke_tai_ns),
            Answer::Prepared(..) => Err(thread_died()),
        }
    }
}

/// What the lab has been told of windows.
struct Told<'a> {
    spec: &'a Timer,
    windows: Consumer<Window>,
    live: Live,
    sum: Latenesses,
}

impl Told<'_> {
    /// Tells it of those that are over.
    fn windows(&mut self) {
        while let Ok(window) = self.windows.pop() {
            self.window(&window);
        }
    }

    /// Tells it of this one, unless nothing was due in it.
    fn window(&mut self, window: &Window) {
        self.sum.merge(&window.latenesses);
        if window.latenesses.n() > 0 {
            emit(&Event::Window {
                tai_ns: tai_ns(),
                stream: self.spec.stream,
                from_tai_ns: window.from_tai_ns,
                to_tai_ns: window.to_tai_ns,
                n: window.latenesses.n(),
                overdue: window.overdue,
                lateness: Figures::of(&window.latenesses, self.spec.threshold_ns),
            });
        }
    }
}

/// Hands on rows, and reports, until the thread is done, the lab ends the session, or a recording fails.
fn watch(
    session: &Session,
    waiting: &Waiting,
    recording: &Recording,
    clocks: &mut ClockLog,
    counts: &Counts,
    keeper: &mut Option<Keeper>,
    told: &mut Told,
) {
    let mut reported = Instant::now();
    while !waiting.thread.is_finished() && !session.stopped() && !recording.broken() {
        std::thread::sleep(PAUSE);
        if let Some(keeper) = keeper {
            keeper.pass();
        }
        told.windows();
        if reported.elapsed() >= Duration::from_secs(1) {
            reported = Instant::now();
            clocks.note();
            let packets = counts.events.load(Ordering::Relaxed);
            emit(&Event::TimerProgress {
                tai_ns: tai_ns(),
                streams: vec![told.live.stream(told.spec.stream, packets)],
                overdue: counts.overdue.load(Ordering::Relaxed),
                live: told.live.machine(),
            });
        }
    }
}

fn waiting_failed(spec: &Timer, error: sys::Error) -> Failure {
    failed(error, &format!("timer {}", spec.name), "report this: it should not happen")
}

fn thread_died() -> Failure {
    Failure {
        what: "the waiting thread ended unexpectedly".into(),
        place: "timer".into(),
        remedy: "see standard error for where".into(),
        errno: None,
    }
}
