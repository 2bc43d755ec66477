//! `listen`: several streams on one interface, every packet stamped on its way in.

mod intake;
mod waiting;

use crate::clocks::ClockLog;
use crate::realtime::{prepare_process, prepare_thread};
use crate::recording::Recorder;
use crate::session::{self, emit, failed, refused};
use intake::{Intake, Port};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};
use sys::clock::{tai_ns, tai_offset_s};
use sys::socket::{Frames, Socket, Timestamping};
use wire::event::{Done, Event, Failure, Ready, StreamProgress};
use wire::spec::{Listen, ListenTransport, Mode};

/// What a socket may hold of packets not yet read: a listener that is held up for a second must lose none.
const SOCKET_BYTES: i32 = 64 << 20;
/// A receive call that finds nothing returns after this, to see whether it is asked to stop.
const RECEIVE_TIMEOUT_MS: i64 = 100;
/// The kernel starts to stamp received packets a little after it is asked to: `net_enable_timestamp` (net/core/dev.c) leaves
/// it to a work item. Packets that come before that have no software timestamp.
const STAMPING_STARTS: Duration = Duration::from_millis(50);

/// Runs the verb; its result has been reported when this returns.
///
/// # Errors
/// What the lab is to be told.
pub fn run() -> Result<(), Failure> {
    let (spec, session) = session::open::<Listen>("listen")?;
    spec.check().map_err(refused)?;
    let process = prepare_process(&spec.realtime)?;
    let mut recorder = Recorder::new(&spec.recording, spec.run_id);
    let tap = recorder.table(spec.ring_records)?;
    let mut clocks = ClockLog::new(&mut recorder)?;
    let (ports, sockets) = open_sockets(&spec)?;
    let local = sockets.iter().filter_map(|s| s.local_address().ok()).map(|a| a.to_string()).collect();
    let recording = recorder.start();

    let received: Arc<Vec<AtomicU64>> = Arc::new(spec.streams.iter().map(|_| AtomicU64::new(0)).collect());
    let (stop, complete) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (report, prepared) = channel();
    let listener = {
        let intake = Intake::new(&spec, ports, tap, Arc::clone(&received), Arc::clone(&complete));
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
    emit(&Event::Ready(Ready {
        verb: "listen",
        version: env!("CARGO_PKG_VERSION"),
        pid: std::process::id(),
        tai_ns: tai_ns(),
        tai_offset_s: tai_offset_s().map_err(|error| failed(error, "", ""))?,
        realtime,
        stamp_key: None,
        local,
    }));

    clocks.note();
    let (mut reported, mut told) = (Instant::now(), false);
    while !session.stopped() && !listener.is_finished() && !recording.broken() {
        std::thread::sleep(Duration::from_millis(5));
        if !told && complete.load(Ordering::Acquire) {
            told = true;
            emit(&Event::Complete { tai_ns: tai_ns() });
        }
        if reported.elapsed() >= Duration::from_secs(1) {
            reported = Instant::now();
            clocks.note();
            let streams = spec.streams.iter().zip(received.iter());
            emit(&Event::Progress {
                tai_ns: tai_ns(),
                streams: streams
                    .map(|(s, n)| StreamProgress { stream: s.stream, packets: n.load(Ordering::Relaxed) })
                    .collect(),
            });
        }
    }
    stop.store(true, Ordering::Relaxed);
    let (intake, socket_drops) = listener.join().unwrap_or_else(|_| Err(thread_died()))?;
    clocks.note();
    drop(clocks);
    let (streams, refused, empty_wakeups) = intake.totals();
    let totals = recording.finish()?;
    emit(&Event::Done(Done::Listen {
        streams,
        refused,
        socket_drops,
        empty_wakeups,
        ring_full: totals.ring_full,
        recorded: totals.recorded,
    }));
    Ok(())
}

/// A socket for each place packets come in at; streams that share a place share its socket.
fn open_sockets(spec: &Listen) -> Result<(Vec<Port>, Vec<Socket>), Failure> {
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
            ListenTransport::Ethernet { ethertype, vlan } => {
                let frames = Frames { ethertype: *ethertype, vlan: *vlan };
                Socket::ethernet(&stream.interface, Some(frames))
                    .map_err(problem("check that the interface exists; run as root or with CAP_NET_RAW"))?
            }
        };
        let privileged = "run as root or with CAP_NET_ADMIN";
        socket.set_receive_buffer(SOCKET_BYTES).map_err(problem(privileged))?;
        socket.set_receive_timeout_ms(RECEIVE_TIMEOUT_MS).map_err(problem(privileged))?;
        if let (Mode::BusyPoll, Some(us)) = (spec.mode, spec.busy_poll_us) {
            socket.set_busy_poll(us).map_err(problem(privileged))?;
        }
        let wanted = Timestamping { rx_software: true, rx_hardware: spec.hardware_stamps, ..Timestamping::default() };
        socket.set_timestamping(wanted).map_err(problem("ask only for timestamps the interface has (ethtool -T)"))?;
        ports.push(port);
        sockets.push(socket);
    }
    Ok((ports, sockets))
}

fn thread_died() -> Failure {
    Failure {
        what: "the listening thread ended unexpectedly".into(),
        place: "listen".into(),
        remedy: "see standard error for where".into(),
        errno: None,
    }
}
