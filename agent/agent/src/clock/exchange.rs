//! Questions and answers over the network: the roles `initiator` and `responder`.

use super::log::Log;
use super::{Comparison, Thread, ready};
use crate::session::{Session, emit, failed, kernels_tai_offset_s};
use std::collections::VecDeque;
use std::net::SocketAddr;
use sys::clock::tai_ns;
use sys::receive::{Buffer, Wait};
use sys::send::{Batch, Beside};
use sys::socket::{Socket, Timestamping};
use wire::event::{Done, Event, Failure};
use wire::exchange::{BYTES, Message};
use wire::record::Exchange;

const RECEIVE_TIMEOUT_MS: i64 = 50;
/// Questions whose answers still count, the latest asked. One that takes longer than a period proves no less.
const AWAITED: usize = 256;
/// Unanswered questions that keep further ones back: a peer too slow for the period (an emulated guest) would otherwise
/// have ever more to answer, each answer later than the one before and worth less, and no time for what is measured.
const UNDER_WAY: usize = 8;
/// A question that was asked longer ago than this is taken for lost and keeps none back; its answer still counts.
const TAKEN_FOR_LOST_NS: i64 = 1_000_000_000;

fn trouble(error: sys::Error, address: &SocketAddr) -> Failure {
    failed(
        error,
        &address.to_string(),
        "check that the address is this host's, the port is free and the peer has a route",
    )
}

fn local(socket: &Socket) -> Option<String> {
    socket.local_address().map(|address| address.to_string()).ok()
}

/// A host may compare its clock with several others' from one address.
fn open(local: SocketAddr, peer: SocketAddr) -> Result<Socket, Failure> {
    let open = || {
        let socket = Socket::udp_between(local, peer)?;
        socket.set_receive_timeout_ms(RECEIVE_TIMEOUT_MS)?;
        socket.set_timestamping(Timestamping { rx_software: true, ..Timestamping::default() })?;
        Ok(socket)
    };
    open().map_err(|error| trouble(error, &local))
}

/// A message and when it came in, on CLOCK_TAI: the kernel's stamp where there is one, else now. Either is after the packet
/// arrived, as the bound needs.
fn receive(socket: &Socket, buffer: &mut Buffer, tai_offset_s: i32) -> Result<Option<(Message, i64)>, sys::Error> {
    let packet = match buffer.receive(socket, Wait::Block) {
        Ok(Some(packet)) => packet,
        Ok(None) => return Ok(None),
        // An ICMP answer: the peer is not there yet, or not any more.
        Err(error) if error.may_be_icmp() => return Ok(None),
        Err(error) => return Err(error),
    };
    let now = tai_ns();
    let arrived = packet.software_ns.map_or(now, |real| real + i64::from(tai_offset_s) * 1_000_000_000);
    Ok(Message::read(packet.bytes).map(|message| (message, arrived)))
}

/// Answers `peer` until stopped.
///
/// # Errors
/// The socket cannot be had, or failed.
pub fn respond(
    run_id: u64,
    listen: SocketAddr,
    peer: SocketAddr,
    thread: &Thread,
    session: &Session,
) -> Result<(), Failure> {
    let socket = open(listen, peer)?;
    ready(thread.prepare()?, local(&socket), None)?;
    let offset = kernels_tai_offset_s()?;
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

/// Questions without an answer so far, by number and t1, the latest last.
struct Awaited(VecDeque<(u64, i64)>);

impl Awaited {
    fn new() -> Self {
        Self(VecDeque::with_capacity(AWAITED))
    }

    /// Whether one may be asked at `now_tai_ns`.
    fn has_room(&self, now_tai_ns: i64) -> bool {
        self.0.iter().rev().nth(UNDER_WAY - 1).is_none_or(|&(_, t1)| now_tai_ns - t1 >= TAKEN_FOR_LOST_NS)
    }

    /// One was asked; the oldest of too many counts no longer.
    fn push(&mut self, sequence: u64, t1_tai_ns: i64) {
        if self.0.len() == AWAITED {
            self.0.pop_front();
        }
        self.0.push_back((sequence, t1_tai_ns));
    }

    /// Whether it was awaited; it is not any more.
    fn take(&mut self, sequence: u64, t1_tai_ns: i64) -> bool {
        let at = self.0.iter().position(|&one| one == (sequence, t1_tai_ns));
        at.is_some_and(|at| self.0.remove(at).is_some())
    }
}

/// Asks `peer` every `period_ns` or as often as it answers, and says what the answers prove.
///
/// # Errors
/// The socket or the recording cannot be had, or failed.
pub fn initiate(comparison: &Comparison, source: SocketAddr, peer: SocketAddr, period_ns: i64) -> Result<(), Failure> {
    let socket = open(source, peer)?;
    let mut log = comparison.begin(local(&socket), &[])?;
    let rounds = ask(&socket, comparison, period_ns, &mut log)?;
    let lost = rounds - log.rows();
    log.finish(lost)
}

/// How many times a question was due: every `period_ns`. None is asked while [`UNDER_WAY`] are; an answer counts until
/// [`AWAITED`] more questions have been asked.
fn ask(socket: &Socket, comparison: &Comparison, period_ns: i64, log: &mut Log) -> Result<u64, Failure> {
    let &Comparison { run_id, session, .. } = comparison;
    let offset = kernels_tai_offset_s()?;
    let place = |error| failed(error, "the clock exchange", "see whether the interface went away");
    let (mut buffer, mut batch) = (Buffer::default(), Batch::new(1, BYTES, Beside::default()));
    let mut awaited = Awaited::new();
    let mut rounds = 0;
    for (sequence, due) in comparison.rounds(period_ns) {
        let t1_tai_ns = tai_ns();
        if awaited.has_room(t1_tai_ns) {
            let question = Message { answer: false, run_id, sequence, t1_tai_ns, t2_tai_ns: 0, t3_tai_ns: 0 };
            batch.packet_mut(0).copy_from_slice(&question.bytes());
            awaited.push(sequence, t1_tai_ns);
            // A refused send is a lost exchange: the peer may not be there yet.
            let _ = batch.send(socket, 0, 1);
        }
        while tai_ns() < due + period_ns && !session.stopped() {
            let Some((answer, t4_tai_ns)) = receive(socket, &mut buffer, offset).map_err(place)? else { continue };
            if !answer.answer || answer.run_id != run_id || !awaited.take(answer.sequence, answer.t1_tai_ns) {
                continue;
            }
            let Message { sequence: answered, t1_tai_ns, t2_tai_ns, t3_tai_ns, .. } = answer;
            log.push(Exchange { sequence: answered, t1_tai_ns, t2_tai_ns, t3_tai_ns, t4_tai_ns });
            if answered == sequence {
                break;
            }
        }
        rounds = sequence + 1;
        log.progress();
    }
    Ok(rounds)
}
