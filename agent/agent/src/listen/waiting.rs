//! How the listening thread waits for packets: one small loop a way, so that none of them asks which way it is.

use super::socket_failed;
use crate::receiving::intake::Intake;
use std::sync::atomic::{AtomicBool, Ordering};
use sys::clock::tai_ns;
use sys::receive::{Buffer, PollSet, Wait, wait_for_any};
use sys::socket::Socket;
use wire::event::Failure;
use wire::spec::Mode;

/// Takes packets in until asked to stop, and woken then; returns the books and how many packets the kernel had no room for.
///
/// # Errors
/// A socket failed, as when its interface goes away.
pub fn listen(mode: Mode, sockets: &[Socket], mut intake: Intake, stop: &AtomicBool) -> Result<(Intake, u64), Failure> {
    let mut buffer = Buffer::default();
    let going = || !stop.load(Ordering::Relaxed);
    let ended = match (mode, sockets) {
        (Mode::Spin, _) => spin(sockets, &mut buffer, &mut intake, going),
        (Mode::Block | Mode::BusyPoll, [socket]) => sleep_in_receive(socket, &mut buffer, &mut intake, going),
        (Mode::Block | Mode::BusyPoll, _) => sleep_in_poll(sockets, &mut buffer, &mut intake, going),
    };
    ended.map_err(socket_failed)?;
    let mut drops = 0;
    for socket in sockets {
        drops += socket.receive_drops().map_err(socket_failed)?;
    }
    Ok((intake, drops))
}

fn sleep_in_receive(
    socket: &Socket,
    buffer: &mut Buffer,
    intake: &mut Intake,
    going: impl Fn() -> bool,
) -> Result<(), sys::Error> {
    while going() {
        take_one(socket, 0, Wait::Block, buffer, intake)?;
    }
    drain(socket, 0, buffer, intake).map(drop)
}

fn spin(
    sockets: &[Socket],
    buffer: &mut Buffer,
    intake: &mut Intake,
    going: impl Fn() -> bool,
) -> Result<(), sys::Error> {
    while going() {
        for (port, socket) in sockets.iter().enumerate() {
            take_one(socket, port, Wait::Never, buffer, intake)?;
        }
    }
    drain_all(sockets, buffer, intake)
}

fn sleep_in_poll(
    sockets: &[Socket],
    buffer: &mut Buffer,
    intake: &mut Intake,
    going: impl Fn() -> bool,
) -> Result<(), sys::Error> {
    let mut set = PollSet::new(sockets);
    while going() {
        let mut result = Ok(());
        wait_for_any(&mut set, |port| match drain(&sockets[port], port, buffer, intake) {
            Ok(0) => intake.note_empty_wakeup(),
            Ok(_) => {}
            Err(error) => result = Err(error),
        })?;
        result?;
    }
    drain_all(sockets, buffer, intake)
}

fn drain_all(sockets: &[Socket], buffer: &mut Buffer, intake: &mut Intake) -> Result<(), sys::Error> {
    for (port, socket) in sockets.iter().enumerate() {
        drain(socket, port, buffer, intake)?;
    }
    Ok(())
}

/// Takes in what waits at `socket`; returns how many packets it was.
fn drain(socket: &Socket, port: usize, buffer: &mut Buffer, intake: &mut Intake) -> Result<u64, sys::Error> {
    let mut taken = 0;
    while take_one(socket, port, Wait::Never, buffer, intake)? {
        taken += 1;
    }
    Ok(taken)
}

#[inline]
fn take_one(
    socket: &Socket,
    port: usize,
    wait: Wait,
    buffer: &mut Buffer,
    intake: &mut Intake,
) -> Result<bool, sys::Error> {
    let Some(packet) = buffer.receive(socket, wait)? else { return Ok(false) };
    let rx_user_tai_ns = tai_ns();
    intake.take_in(port, &packet, rx_user_tai_ns);
    Ok(true)
}
