//! `clock`: bounds the offset between two hosts' clocks from exchanges of timestamps over time.

use crate::realtime::{prepare_process, prepare_thread};
use crate::recording::Recorder;
use crate::session::{self, Session, emit, failed};
use std::net::SocketAddr;
use sys::clock::{sleep_until_tai, tai_ns, tai_offset_s};
use sys::receive::{Buffer, Wait};
use sys::send::{Batch, Beside};
use sys::socket::{Socket, Timestamping};
use wire::envelope;
use wire::event::{Done, Event, Failure, Ready, RealtimeFound, StreamProgress};
use wire::exchange::{BYTES, Message};
use wire::record::Exchange;
use wire::spec::Clock;

/// Longest sleep, so that a request to stop is seen.
const LONGEST_WAIT_NS: i64 = 50_000_000;
const RECEIVE_TIMEOUT_MS: i64 = 50;
const RING_ROWS: usize = 4096;
/// Exchanges in a window that is bounded by itself.
const WINDOW: usize = 100;

/// Runs the verb; its result has been reported when this returns.
///
/// # Errors
/// What the lab is to be told.
pub fn run() -> Result<(), Failure> {
    let (spec, session) = session::open::<Clock>("clock")?;
    let (Clock::Responder { realtime, .. } | Clock::Initiator { realtime, .. }) = &spec;
    let process = prepare_process(realtime)?;
    let found = prepare_thread(realtime, &process)?;
    match spec {
        Clock::Responder { run_id, listen, peer, .. } => respond(run_id, listen, peer, found, &session),
        Clock::Initiator { run_id, source, peer, period_ns, count, recording, .. } => {
            let socket = open(source)?;
            socket.connect(peer).map_err(|error| trouble(error, &peer))?;
            let mut recorder = Recorder::new(&recording, run_id);
            let mut tap = recorder.table(RING_ROWS)?;
            let recording = recorder.start();
            ready(found, &socket)?;
            let exchanges = ask(&socket, run_id, period_ns.max(1), count, &session, |exchange| tap.push(exchange))?;
            drop(tap);
            recording.finish()?;
            let asked = exchanges.asked;
            let answered = exchanges.answered;
            emit(&Event::Done(Done::Clock {
                exchanges: answered.len() as u64,
                lost: asked - answered.len() as u64,
                bound: envelope::bound(&answered),
                windows: answered.chunks(WINDOW).filter_map(envelope::bound).collect(),
            }));
            Ok(())
        }
    }
}

fn trouble(error: sys::Error, address: &SocketAddr) -> Failure {
    failed(
        error,
        &address.to_string(),
        "check that the address is this host's, the port is free and the peer has a route",
    )
}

fn open(local: SocketAddr) -> Result<Socket, Failure> {
    let open = || {
        let socket = Socket::udp(local, None)?;
        socket.set_receive_timeout_ms(RECEIVE_TIMEOUT_MS)?;
        socket.set_timestamping(Timestamping { rx_software: true, ..Timestamping::default() })?;
        Ok(socket)
    };
    open().map_err(|error| trouble(error, &local))
}

fn ready(realtime: RealtimeFound, socket: &Socket) -> Result<(), Failure> {
    emit(&Event::Ready(Ready {
        verb: "clock",
        version: env!("CARGO_PKG_VERSION"),
        pid: std::process::id(),
        tai_ns: tai_ns(),
        tai_offset_s: tai_offset()?,
        realtime,
        stamp_key: None,
        local: socket.local_address().map(|address| address.to_string()).into_iter().collect(),
    }));
    Ok(())
}

fn tai_offset() -> Result<i32, Failure> {
    tai_offset_s().map_err(|error| failed(error, "the kernel's TAI offset", ""))
}

/// A message and when it came in, on CLOCK_TAI: the kernel's stamp where there is one, else now. Either is after the packet
/// arrived, as the bound needs.
fn receive(socket: &Socket, buffer: &mut Buffer, tai_offset_s: i32) -> Result<Option<(Message, i64)>, sys::Error> {
    let packet = match buffer.receive(socket, Wait::Block) {
        Ok(Some(packet)) => packet,
        // An ICMP answer: the peer is not there yet, or not any more.
        Ok(None) | Err(sys::Error { errno: 111, .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    let now = tai_ns();
    let arrived = packet.software_ns.map_or(now, |real| real + i64::from(tai_offset_s) * 1_000_000_000);
    Ok(Message::read(packet.bytes).map(|message| (message, arrived)))
}

fn respond(
    run_id: u64,
    listen: SocketAddr,
    peer: SocketAddr,
    realtime: RealtimeFound,
    session: &Session,
) -> Result<(), Failure> {
    let socket = open(listen)?;
    socket.connect(peer).map_err(|error| trouble(error, &peer))?;
    ready(realtime, &socket)?;
    let offset = tai_offset()?;
    let (mut buffer, mut batch) = (Buffer::default(), Batch::new(1, BYTES, Beside::default()));
    let (mut answered, mut lost) = (0, 0);
    while !session.stopped() {
        let question = receive(&socket, &mut buffer, offset).map_err(|error| trouble(error, &listen))?;
        let Some((question, t2_tai_ns)) = question.filter(|(m, _)| !m.answer && m.run_id == run_id) else { continue };
        let answer = Message { answer: true, t2_tai_ns, t3_tai_ns: tai_ns(), ..question };
        batch.packet_mut(0).copy_from_slice(&answer.bytes());
        match batch.send(&socket, 0, 1) {
            Ok(_) => answered += 1,
            Err(_) => lost += 1,
        }
    }
    emit(&Event::Done(Done::Clock { exchanges: answered, lost, bound: None, windows: Vec::new() }));
    Ok(())
}

struct Asked {
    asked: u64,
    answered: Vec<Exchange>,
}

/// Asks every `period_ns`, `count` times or until stopped; an answer counts until the next question is due.
fn ask(
    socket: &Socket,
    run_id: u64,
    period_ns: i64,
    count: u64,
    session: &Session,
    mut record: impl FnMut(Exchange),
) -> Result<Asked, Failure> {
    let offset = tai_offset()?;
    let place = |error| failed(error, "the clock exchange", "see whether the interface went away");
    let (mut buffer, mut batch) = (Buffer::default(), Batch::new(1, BYTES, Beside::default()));
    let (mut result, mut reported) = (Asked { asked: 0, answered: Vec::new() }, std::time::Instant::now());
    let start = tai_ns();
    for sequence in 0..count {
        let due = start + sequence as i64 * period_ns;
        while tai_ns() < due && !session.stopped() {
            sleep_until_tai(due.min(tai_ns() + LONGEST_WAIT_NS));
        }
        if session.stopped() {
            break;
        }
        let t1_tai_ns = tai_ns();
        let question = Message { answer: false, run_id, sequence, t1_tai_ns, t2_tai_ns: 0, t3_tai_ns: 0 };
        batch.packet_mut(0).copy_from_slice(&question.bytes());
        result.asked += 1;
        // A refused send is a lost exchange: the peer may not be there yet.
        let _ = batch.send(socket, 0, 1);
        while tai_ns() < due + period_ns && !session.stopped() {
            let Some((answer, t4_tai_ns)) = receive(socket, &mut buffer, offset).map_err(place)? else { continue };
            if answer.answer && answer.run_id == run_id && answer.sequence == sequence && answer.t1_tai_ns == t1_tai_ns
            {
                let Message { t2_tai_ns, t3_tai_ns, .. } = answer;
                let exchange = Exchange { sequence, t1_tai_ns, t2_tai_ns, t3_tai_ns, t4_tai_ns };
                record(exchange);
                result.answered.push(exchange);
                break;
            }
        }
        if reported.elapsed().as_secs() >= 1 {
            reported = std::time::Instant::now();
            let packets = result.answered.len() as u64;
            emit(&Event::Progress { tai_ns: tai_ns(), streams: vec![StreamProgress { stream: 0, packets }] });
        }
    }
    Ok(result)
}
