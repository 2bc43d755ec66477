//! `listen`: several streams on one interface, every packet stamped on its way in.

mod port;
mod waiting;

use crate::clocks::ClockLog;
use crate::live::Live;
use crate::realtime::{prepare_process, prepare_thread};
use crate::receiving::intake::{Expected, Intake};
use crate::receiving::{Manner, STAMPING_STARTS, untagged};
use crate::recording::Recorder;
use crate::session::{self, died, emit, failed, refused};
use crate::stages::{Asked, Fed, Load, OF_PRP, Stages, Taps};
use port::Port;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};
use sys::clock::tai_ns;
use sys::signal::Waker;
use sys::socket::{FrameCount, Frames, Socket};
use wire::event::{Done, Event, Failure, Ready};
use wire::flight::Judge;
use wire::iec61850::Prefix;
use wire::live::Books;
use wire::spec::{Listen, ListenStream, ListenTransport};
use wire::stage::Stage;

/// How often late packets are reported: often against what the kernel holds of its events, seldom against packets.
const REPORTS_LATE: Duration = Duration::from_millis(20);

/// Runs the verb; its result has been reported when this returns.
///
/// # Errors
/// What the lab needs to know.
pub fn run() -> Result<(), Failure> {
    let (spec, session) = session::open::<Listen>("listen")?;
    spec.check().map_err(refused)?;
    let process = prepare_process(&spec.realtime)?;
    let waker = Waker::new().map_err(|error| failed(error, "listen", "report this: it should not happen"))?;
    let mut recorder = Recorder::new(&spec.recording, spec.run_id);
    let numbers = spec.streams.iter().map(|stream| stream.stream);
    let judge = match spec.trigger {
        Some(trigger) => Some(Judge::new(trigger, session::kernels_tai_offset_s()?, numbers.clone())),
        None => None,
    };
    let live = Live::judging(spec.live, &mut recorder, || Books::of_streams(numbers), judge);
    let tap = recorder.table(spec.ring_records)?;
    let mut clocks = ClockLog::new(&mut recorder)?;
    let mut stages = open_stages(&spec)?;
    let stamps_by = stages.found();
    let (ports, sockets) = open_sockets(&spec, stages.left(Stage::RxSoft, true))?;
    for stream in &spec.streams {
        stages.add_arrival(&stream.interface)?;
    }
    let taps = Taps { stamps: None, received: Some(tap) };
    let Fed { watch: stage_watch, taps } = stages.feed(&mut recorder, &[], taps, false, spec.ring_records);
    let untagged = count_untagged(&spec)?;
    let local = sockets.iter().filter_map(|s| s.local_address().ok()).map(|a| a.to_string()).collect();
    let recording = recorder.start();

    let received: Arc<Vec<AtomicU64>> = Arc::new(spec.streams.iter().map(|_| AtomicU64::new(0)).collect());
    let (stop, complete) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (report, prepared) = channel();
    let listener = {
        let (headers, expected) = (ports.iter().map(Port::header_bytes).collect(), expected(&spec, &ports));
        let Some(tap) = taps.received else { return Err(thread_died()) };
        let intake = Intake::new(spec.run_id, headers, &expected, tap, Arc::clone(&received), Arc::clone(&complete));
        let (stop, mode, realtime) = (Arc::clone(&stop), spec.mode, spec.realtime.clone());
        std::thread::spawn(move || {
            let found = prepare_thread(&realtime, &process);
            let going = found.is_ok();
            if report.send(found.map(|found| (found, process))).is_err() || !going {
                return Ok((intake, 0));
            }
            waiting::listen(mode, &sockets, intake, &stop)
        })
    };
    // The process's own settings are held until the end of this function.
    let (realtime, _process) = prepared.recv().unwrap_or_else(|_| Err(thread_died()))?;
    std::thread::sleep(STAMPING_STARTS);
    emit(&Event::Ready(Ready { stamps_by, ..session::ready("listen", realtime, local)? }));

    clocks.note();
    let (mut reported, mut told, mut judged) = (Instant::now(), false, Instant::now());
    while !session.stopped() && !listener.is_finished() && !recording.broken() {
        std::thread::sleep(Duration::from_millis(5));
        if !told && complete.load(Ordering::Acquire) {
            told = true;
            emit(&Event::Complete { tai_ns: tai_ns() });
        }
        for known in session.commands().flat_map(|command| command.clocks) {
            live.judge(|judge| judge.clock(known));
        }
        if judged.elapsed() >= REPORTS_LATE {
            judged = Instant::now();
            report_late(&live);
        }
        if reported.elapsed() >= Duration::from_secs(1) {
            reported = Instant::now();
            clocks.note();
            let streams = spec.streams.iter().zip(received.iter());
            emit(&Event::Progress {
                tai_ns: tai_ns(),
                streams: streams.map(|(s, n)| live.stream(s.stream, n.load(Ordering::Relaxed))).collect(),
                live: live.machine(),
            });
        }
    }
    stop.store(true, Ordering::Relaxed);
    // It sleeps in calls without a timeout, as each of them would cost the kernel a timer.
    waker.wake_until_ended(&listener);
    let (intake, socket_drops) = listener.join().unwrap_or_else(|_| Err(thread_died()))?;
    clocks.note();
    drop(clocks);
    let (mut streams, refused, empty_wakeups) = intake.totals();
    let totals = recording.finish()?;
    report_late(&live);
    for (stream, untagged) in streams.iter_mut().zip(&untagged) {
        stream.untagged = untagged.as_ref().map_or(Ok(0), FrameCount::take).map_err(socket_failed)?;
    }
    emit(&Event::Done(Done::Listen {
        streams,
        refused,
        socket_drops,
        empty_wakeups,
        stages: stage_watch.and_then(|watch| watch.totals()),
        judged: live.judge(|judge| judge.totals()),
        ring_full: totals.ring_full,
        recorded: totals.recorded,
    }));
    Ok(())
}

/// Reports the windows around packets that were late since it was called before.
fn report_late(live: &Live) {
    let windows = live.judge(Judge::take).unwrap_or_default();
    if !windows.is_empty() {
        emit(&Event::Late { tai_ns: tai_ns(), windows });
    }
}

/// The BPF programs that take the packets' timestamps, as far as they are to and the kernel has them.
fn open_stages(spec: &Listen) -> Result<Stages, Failure> {
    let load = |stream: &ListenStream| match &stream.transport {
        ListenTransport::Udp { listen } => Load::Datagrams { size: stream.size, ipv6: listen.is_ipv6() },
        ListenTransport::Ethernet { .. } if stream.carries.is_some() => OF_PRP,
        ListenTransport::Ethernet { payload, .. } => {
            let prefix = payload.map_or(0, |payload| Prefix::length(payload, stream.size));
            Load::Frames { size: stream.size, prefix }
        }
    };
    let back: Vec<_> = spec.streams.iter().map(|stream| (stream.interface.as_str(), load(stream))).collect();
    Stages::open(&Asked {
        by: spec.stamps_by,
        run_id: spec.run_id,
        records: spec.ring_records,
        out: &[],
        back: &back,
        stages: &[Stage::RxSoft],
    })
}

/// A socket for each place packets come in at; streams that share a place share its socket. `software_stamps`: it takes
/// the kernel's timestamps.
fn open_sockets(spec: &Listen, software_stamps: bool) -> Result<(Vec<Port>, Vec<Socket>), Failure> {
    let mut ports: Vec<Port> = Vec::new();
    let mut sockets = Vec::new();
    for stream in &spec.streams {
        let port = Port::of(stream);
        if ports.contains(&port) {
            continue;
        }
        let problem = |remedy: &'static str| {
            move |error: sys::Error| failed(error, &format!("stream {} on {}", stream.name, stream.interface), remedy)
        };
        let socket = match &stream.transport {
            ListenTransport::Udp { listen } => Socket::udp(*listen, Some(&stream.interface)).map_err(problem(
                "check that the interface exists, has the address (ip addr) and nothing else uses the port (ss -ulpn)",
            ))?,
            ListenTransport::Ethernet { ethertype, vlan, .. } => {
                let frames = Frames { ethertype: *ethertype, vlan: *vlan };
                Socket::ethernet(&stream.interface, Some(frames))
                    .map_err(problem("check that the interface exists; run as root or with CAP_NET_RAW"))?
            }
        };
        let manner = Manner {
            mode: spec.mode,
            busy_poll_us: spec.busy_poll_us,
            hardware_stamps: spec.hardware_stamps,
            software_stamps,
        };
        manner.give(&socket, &format!("stream {} on {}", stream.name, stream.interface))?;
        ports.push(port);
        sockets.push(socket);
    }
    Ok((ports, sockets))
}

/// For each stream of `spec`, what counts those of its frames that come without its VLAN's tag; None: it has no VLAN.
fn count_untagged(spec: &Listen) -> Result<Vec<Option<FrameCount>>, Failure> {
    let one = |stream: &ListenStream| match stream.transport {
        ListenTransport::Udp { .. } => Ok(None),
        ListenTransport::Ethernet { ethertype, vlan, .. } => {
            let header = Port::of(stream).header_bytes();
            let carried = stream.carries.unwrap_or(stream.stream);
            untagged(&stream.interface, Frames { ethertype, vlan }, header, carried, spec.run_id).map_err(socket_failed)
        }
    };
    spec.streams.iter().map(one).collect()
}

/// The streams of `spec`, each with the position of its place.
fn expected(spec: &Listen, ports: &[Port]) -> Vec<Expected> {
    let one = |stream: &ListenStream| Expected {
        stream: stream.stream,
        carries: stream.carries.unwrap_or(stream.stream),
        port: ports.iter().position(|port| *port == Port::of(stream)).unwrap_or(usize::MAX),
        size: stream.size,
        count: Some(stream.count),
    };
    spec.streams.iter().map(one).collect()
}

fn socket_failed(error: sys::Error) -> Failure {
    failed(error, "the listener's socket", "see whether the interface went away")
}

fn thread_died() -> Failure {
    died("listen", "the listening thread")
}
