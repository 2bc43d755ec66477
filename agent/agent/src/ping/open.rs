//! An open loop: questions are asked when they are due, whatever their answers do.
//!
//! A thread that sleeps must choose what wakes it. Two threads sleep in one system call each, the asking one until an instant
//! (`clock_nanosleep`), the hearing one until there is an answer (`recvmsg`): neither has to ask first what is ready, neither
//! waits while the other is in the kernel, and a late answer cannot hold up a question. A single thread would wait for both in
//! `ppoll`, and take the answer with a second call. A thread that spins looks at both in turn, and there one is enough.
//!
//! Nothing here allocates, locks, formats or prints.

use crate::receiving::inlet::Inlet;
use crate::receiving::intake::Intake;
use crate::round::Shared;
use crate::sending::sender::Sender;
use std::sync::atomic::{AtomicBool, Ordering};
use sys::clock::tai_ns;
use sys::receive::Wait;
use wire::schedule::Agenda;

/// Takes answers in, asleep between them, until all are there, it is time to give up or it is asked to stop.
///
/// # Errors
/// Nothing can come in any more.
pub fn take_in<I: Inlet>(inlet: &mut I, intake: &mut Intake, shared: &Shared) -> Result<(), sys::Error> {
    while !intake.complete() && !shared.stop.load(Ordering::Relaxed) {
        let packet = inlet.receive(Wait::Block)?;
        let now_tai_ns = tai_ns();
        if let Some(packet) = packet {
            intake.take_in(0, &packet, now_tai_ns);
        }
        if now_tai_ns >= shared.give_up_tai_ns.load(Ordering::Relaxed) {
            break;
        }
    }
    Ok(())
}

/// Asks what is due and takes in what has come, again and again, until all answers are there, `timeout_ns` have passed since
/// the last question or it is asked to stop.
///
/// # Errors
/// Nothing can come in any more.
pub fn spin<I: Inlet>(
    sender: &mut Sender,
    agenda: &mut Agenda,
    inlet: &mut I,
    intake: &mut Intake,
    timeout_ns: i64,
    stop: &AtomicBool,
) -> Result<(), sys::Error> {
    let mut due_tai_ns = agenda.next().map(|(_, _, due_tai_ns)| due_tai_ns);
    let mut give_up_tai_ns = i64::MAX;
    while !intake.complete() && !stop.load(Ordering::Relaxed) {
        let packet = inlet.receive(Wait::Never)?;
        let now_tai_ns = tai_ns();
        if let Some(packet) = packet {
            intake.take_in(0, &packet, now_tai_ns);
        }
        match due_tai_ns {
            Some(due) if now_tai_ns >= due => {
                sender.send_due(agenda, now_tai_ns, now_tai_ns, stop);
                due_tai_ns = agenda.next().map(|(_, _, due_tai_ns)| due_tai_ns);
                give_up_tai_ns = now_tai_ns.saturating_add(timeout_ns);
            }
            None if now_tai_ns >= give_up_tai_ns => break,
            _ => {}
        }
    }
    Ok(())
}
