//! `dds`: questions and answers over Cyclone DDS, every sample recorded.
//!
//! What is measured is DDS as an application has it: what it costs to serialise a sample, to write it, and to be handed it, by
//! Cyclone's own receiving thread or by one of ours. Each leg is recorded as a talker and a listener record a stream.

mod asker;
mod below;
mod ping;
mod pong;
mod taker;
mod waiting;

use crate::clocks::ClockLog;
use crate::facts::Tree;
use crate::live::Live;
use crate::realtime::{Process, prepare_process};
use crate::recording::{Recorder, Recording, Tap, Totals};
use crate::session::{self, Session, emit, refused};
use crate::stages::{Asked, Fed, Load, Stages, Taps, Watch};
use cyclone::{Domain, Quality, Reader, Writer};
use std::ffi::CString;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};
use sys::clock::tai_ns;
use sys::thread::set_affinity;
use wire::dds::{Below, Found};
use wire::event::{Done, Event, Failure, Ready, RealtimeFound, StampsFound};
use wire::live::Books;
use wire::record::{Received, Sent};
use wire::spec::{Dds, DdsRole, StampsBy};
use wire::stage::{Stage, StageTotals};

/// A write that Cyclone cannot take for so long fails, and is recorded with its code.
const BLOCKING_NS: i64 = 100_000_000;
/// How long the last timestamps are waited for.
const STAMPS: Duration = Duration::from_millis(100);
/// How long leaving the domain may take.
const LEAVE: Duration = Duration::from_secs(2);
/// Topics of questions and of answers; a partition by run and stream keeps probes apart.
const QUESTIONS: &str = "latlab_questions";
const ANSWERS: &str = "latlab_answers";

/// Runs the verb; its result has been reported when this returns.
///
/// # Errors
/// What the lab needs to know.
pub fn run() -> Result<(), Failure> {
    let (spec, session) = session::open::<Dds>("dds")?;
    spec.check().map_err(refused)?;
    match spec.role {
        DdsRole::Ping => ping::run(&spec, &session),
        DdsRole::Pong => pong::run(&spec, &session),
    }
}

/// What both sides have: the domain with a writer and a reader in it, and recordings.
struct Side {
    domain: Domain,
    writer: Writer,
    reader: Reader,
    process: Arc<Process>,
    sent: Tap<Sent>,
    received: Tap<Received>,
    stamps_by: Option<StampsFound>,
    running: Running,
}

/// What goes on until the end.
struct Running {
    recording: Recording,
    clocks: ClockLog,
    live: Live,
    stages: Option<Watch>,
    told: Instant,
}

/// What came of the kernel's timestamps.
#[derive(Default)]
struct Stamped {
    sched: u64,
    soft: u64,
    stages: Option<StageTotals>,
}

impl Side {
    /// Everything is there, and nothing sent but what Cyclone says to find others.
    fn open(spec: &Dds) -> Result<Self, Failure> {
        let process = Arc::new(prepare_process(&spec.realtime)?);
        let mut recorder = Recorder::new(&spec.recording, spec.run_id);
        let live = match spec.role {
            DdsRole::Ping => Live::of_streams(spec.live, &mut recorder, || Books::of_round_trips(spec.down)),
            DdsRole::Pong => Live::of_machine(spec.live),
        };
        let (sends, hears) = match spec.role {
            DdsRole::Ping => (spec.up, spec.down),
            DdsRole::Pong => (spec.down, spec.up),
        };
        let mut stages = open_stages(spec, hears)?;
        let stamps_by = stages.found();
        let (sent, received) = (recorder.table(spec.ring_records)?, recorder.table(spec.ring_records)?);
        let stamps = recorder.table(if spec.stamps_by.is_some() { 2 * spec.ring_records } else { 1 })?;
        let clocks = ClockLog::new(&mut recorder)?;
        stages.add_arrival(&spec.interface)?;
        let taps = Taps { stamps: Some(stamps), received: Some(received) };
        let Fed { watch, taps } = stages.feed(&mut recorder, &[sends], taps, false, spec.ring_records);
        let received = taps.received.ok_or_else(thread_died)?;
        let (domain, writer, reader) = join_domain(spec)?;
        let running = Running { recording: recorder.start(), clocks, live, stages: watch, told: Instant::now() };
        Ok(Self { domain, writer, reader, process, sent, received, stamps_by, running })
    }
}

impl Running {
    /// Waits a little; reports to the lab, once a second, how many samples of each stream there were.
    fn pass(&mut self, counts: [(u16, u64); 2]) {
        std::thread::sleep(Duration::from_millis(10));
        if self.told.elapsed() >= Duration::from_secs(1) {
            self.told = Instant::now();
            self.clocks.note();
            let streams = counts.map(|(stream, packets)| self.live.stream(stream, packets)).to_vec();
            emit(&Event::Progress { tai_ns: tai_ns(), streams, live: self.live.machine() });
        }
    }

    /// Whether there is no use in going on.
    fn ended(&self, session: &Session) -> bool {
        session.stopped() || self.recording.broken()
    }

    /// Recordings are whole. Reports `failure` first, if there is one: they are whole after it, too. `sent`: so many samples were.
    fn finish(
        mut self,
        failure: Option<Failure>,
        sent: u64,
        done: impl FnOnce(Totals, Stamped) -> Done,
    ) -> Result<(), Failure> {
        if let Some(watch) = &self.stages {
            watch.wait(&[(sent, sent)], STAMPS);
        }
        self.clocks.note();
        drop(self.clocks);
        if let Some(failure) = failure {
            emit(&Event::Error(failure));
        }
        let totals = self.recording.finish()?;
        let stamped = self.stages.map_or_else(Stamped::default, |watch| {
            let (sched, soft) = watch.counts(0);
            Stamped { sched: sched.unwrap_or(0), soft: soft.unwrap_or(0), stages: watch.totals() }
        });
        emit(&Event::Done(done(totals, stamped)));
        Ok(())
    }
}

/// Programs that take samples' timestamps, if the spec asks for any. hears: the stream that comes in.
fn open_stages(spec: &Dds, hears: u16) -> Result<Stages, Failure> {
    let load = [(spec.interface.as_str(), Load::Samples { size: spec.size, hears })];
    Stages::open(&Asked {
        by: spec.stamps_by.unwrap_or(StampsBy::Auto),
        run_id: spec.run_id,
        records: spec.ring_records,
        out: &load,
        back: &load,
        stages: if spec.stamps_by.is_some() { &Stage::ALL } else { &[] },
    })
}

/// Cyclone, started by a thread that runs as its threads are to: they inherit its CPUs, and are ordinary threads unless the
/// configuration says more.
fn join_domain(spec: &Dds) -> Result<(Domain, Writer, Reader), Failure> {
    let (transport, role) = (spec.transport.clone(), spec.role);
    let partition = format!("latlab-{:016x}-{}", spec.run_id, spec.up);
    let starter = std::thread::spawn(move || {
        if let Some(cpus) = &transport.cpus {
            let remedy = "name CPUs that are online and allowed here (lscpu)";
            set_affinity(cpus).map_err(|error| session::failed(error, &format!("transport.cpus {cpus:?}"), remedy))?;
        }
        let (writes, reads) = match role {
            DdsRole::Ping => (QUESTIONS, ANSWERS),
            DdsRole::Pong => (ANSWERS, QUESTIONS),
        };
        let quality = Quality { reliable: transport.reliable, history: transport.history, blocking_ns: BLOCKING_NS };
        let config = CString::new(transport.config).unwrap_or_default();
        let domain = Domain::open(transport.domain, &config).map_err(failed)?;
        let writer = domain.writer(writes, &partition, quality).map_err(failed)?;
        let reader = domain.reader(reads, &partition, quality).map_err(failed)?;
        Ok((domain, writer, reader))
    });
    starter.join().unwrap_or_else(|_| Err(thread_died()))
}

/// `ready`. found: how the measuring thread runs, or None where Cyclone's own are the only ones that measure.
fn tell_ready(found: RealtimeFound, stamps_by: Option<StampsFound>, discovered_ns: Option<i64>) -> Result<(), Failure> {
    let ready = Ready { stamps_by, ..session::ready("dds", found, Vec::new())? };
    let threads = below::threads(&Tree::machine());
    emit(&Event::DdsReady { ready, found: Found { cyclone: cyclone::VERSION, threads, discovered_ns } });
    Ok(())
}

/// Leaves the domain, so that the other side knows at once. Cyclone ends its receiving threads by a packet to itself and waits
/// for them: where no packet gets there, as without lo, it would wait for ever.
fn leave(domain: Domain) {
    let (gone, left) = channel();
    std::thread::spawn(move || {
        drop(domain);
        let _ = gone.send(());
    });
    let _ = left.recv_timeout(LEAVE);
}

/// What happened below the samples, before Cyclone has closed its sockets.
fn below(reader: Reader, writer: Writer, empty_wakeups: u64) -> Below {
    let (resent_bytes, throttled) = writer.resent_and_throttled();
    Below {
        socket_drops: below::socket_drops(&Tree::machine()),
        resent_bytes,
        throttled,
        samples_lost: reader.lost().unwrap_or(0),
        empty_wakeups,
    }
}

/// A call that Cyclone refused, with what it said besides.
fn failed(error: cyclone::Error) -> Failure {
    let said = cyclone::said();
    let what = if said.is_empty() { error.to_string() } else { format!("{error}: {said}") };
    Failure {
        what,
        place: "transport".into(),
        remedy: "see whether the interface in transport.config exists and has an address (ip addr), whether the \
                 configuration is of this Cyclone DDS, and whether too many programs are in the domain already"
            .into(),
        errno: None,
    }
}

fn thread_died() -> Failure {
    Failure {
        what: "a measuring thread ended unexpectedly".into(),
        place: "dds".into(),
        remedy: "see standard error for where".into(),
        errno: None,
    }
}
