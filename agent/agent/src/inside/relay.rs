//! Bytes between this process's standard streams and the server of a program, by whatever way.

use super::{BY_SIGNAL, Failure, Patience, Stopped, Way};
use crate::outbox::Outbox;
use std::ffi::OsString;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::time::Duration;
use sys::descriptor::{Ready, Wanted, take_standard, wait};
use sys::process::Signals;
use wire::port::{Decoder, Frame, Heard, MAX_PAYLOAD, Stream, WINDOW, open, put};

/// A pipe that can be written to takes so much without making its writer wait (PIPE_BUF).
const PIPE_ROOM: usize = 4096;
/// Standard input is read while no more than this is on its way.
const ENOUGH: usize = 2 * MAX_PAYLOAD;
const PIECE: usize = 64 * 1024;

/// Standard output or standard error.
struct Output {
    stream: Stream,
    /// None once nobody reads it, or nothing more comes.
    file: Option<File>,
    pending: Outbox,
    /// What was written, and the server was not told.
    taken: usize,
    ends: bool,
}

struct Relay<'a> {
    socket: UnixStream,
    way: &'a mut dyn Way,
    signals: Signals,
    decoder: Decoder,
    sending: Outbox,
    /// None once it has ended, or the program reads no more of it.
    input: Option<File>,
    /// How much of standard input the server can take.
    room: usize,
    outputs: [Output; 2],
    /// The connection is over, or what speaks there is not our agent.
    closed: bool,
    status: Option<u8>,
}

/// Who is waited for.
#[derive(Clone, Copy)]
enum Side {
    Signals,
    Socket,
    End,
    Input,
    Output(usize),
}

/// The exit status of the program, which ran at the other end of the socket. The socket is closed by then.
///
/// # Errors
/// The server did not answer in time, or a signal came before it did.
pub fn run(
    socket: UnixStream,
    way: &mut dyn Way,
    words: &[OsString],
    signals: Signals,
    patience: &Patience,
) -> Result<u8, Stopped> {
    let told = |error: std::io::Error| Failure::new(error.to_string());
    let output = |stream, file| Output { stream, file: Some(file), pending: Outbox::default(), taken: 0, ends: false };
    let err = File::from(std::io::stderr().as_fd().try_clone_to_owned().map_err(told)?);
    let mut relay = Relay {
        socket,
        way,
        signals,
        decoder: Decoder::default(),
        sending: Outbox::default(),
        input: Some(take_standard(0)?),
        room: WINDOW,
        outputs: [output(Stream::Out, take_standard(1)?), output(Stream::Err, err)],
        closed: false,
        status: None,
    };
    relay.greet(patience)?;
    for word in words {
        put(Frame::Words(word.as_bytes()), &mut relay.sending.bytes);
        put(Frame::Words(&[0]), &mut relay.sending.bytes);
    }
    put(Frame::Run, &mut relay.sending.bytes);
    relay.pass_all()
}

impl Relay<'_> {
    /// Opens a session: what the server says from then on belongs to it.
    fn greet(&mut self, patience: &Patience) -> Result<(), Stopped> {
        let nonce = nonce()?;
        open(nonce, &mut self.sending.bytes);
        loop {
            self.send();
            let left = patience.left();
            if left.is_zero() {
                return Err(patience.over());
            }
            let ready = who_can(self.connection(), Some(left))?;
            if let Some(number) = self.signals.caught() {
                return Err(Stopped::BySignal(number));
            }
            ready.into_iter().for_each(|(side, ready)| self.receive(side, ready));
            while let Some(heard) = self.decoder.hear() {
                if heard == Heard::Open(nonce) {
                    return Ok(());
                }
            }
            if self.closed {
                return Err(self.way.unanswered().into());
            }
        }
    }

    /// Passes bytes to and fro until the program is gone and all it said is written.
    fn pass_all(mut self) -> Result<u8, Stopped> {
        loop {
            self.hear();
            self.send();
            if self.closed && self.status.is_none() {
                self.status = Some(self.way.lost().told());
            }
            if let Some(status) = self.status.filter(|_| self.outputs.iter().all(|output| output.pending.is_empty())) {
                return Ok(status);
            }
            for (side, ready) in who_can(self.wanted(), None)? {
                match side {
                    Side::Signals => {
                        if let Some(number) = self.signalled() {
                            return Ok(BY_SIGNAL + number);
                        }
                    }
                    Side::Socket | Side::End => self.receive(side, ready),
                    Side::Input => self.read_input(),
                    Side::Output(number) => self.outputs[number].write(&mut self.sending, &mut self.status),
                }
            }
        }
    }

    /// What is waited for besides the program's streams.
    fn connection(&self) -> Vec<(Side, Wanted<'_>)> {
        let mut wanted = vec![(Side::Signals, reading(self.signals.as_fd()))];
        if self.status.is_none() {
            let write = !self.sending.is_empty();
            wanted.push((Side::Socket, Wanted { fd: self.socket.as_fd(), read: true, write }));
            wanted.extend(self.way.end().map(|end| (Side::End, reading(end))));
        }
        wanted
    }

    /// All that is waited for.
    fn wanted(&self) -> Vec<(Side, Wanted<'_>)> {
        let mut wanted = self.connection();
        if self.status.is_none() {
            if let Some(input) = self.input.as_ref().filter(|_| self.room > 0 && self.sending.len() < ENOUGH) {
                wanted.push((Side::Input, reading(input.as_fd())));
            }
        }
        for (number, output) in self.outputs.iter().enumerate() {
            if let Some(file) = output.file.as_ref().filter(|_| !output.pending.is_empty()) {
                wanted.push((Side::Output(number), Wanted { fd: file.as_fd(), read: false, write: true }));
            }
        }
        wanted
    }

    /// Passes signals on; the number of one that came after the program was gone, which then ends the relay alone.
    fn signalled(&mut self) -> Option<u8> {
        while let Some(number) = self.signals.caught() {
            if self.status.is_some() {
                return Some(number);
            }
            put(Frame::Signal(number), &mut self.sending.bytes);
        }
        None
    }

    /// Takes in what the server sent; all of it, once nothing more will come.
    fn receive(&mut self, side: Side, ready: Ready) {
        match side {
            Side::Socket if ready.read => drop(self.fetch()),
            Side::End => {
                while self.fetch() {}
                self.closed = true;
            }
            _ => {}
        }
    }

    /// Takes in one piece, if one has come.
    fn fetch(&mut self) -> bool {
        let mut bytes = [0; PIECE];
        match self.socket.read(&mut bytes) {
            Ok(0) => self.closed = true,
            Ok(count) => self.decoder.feed(&bytes[..count]),
            Err(error) if passing(&error) => return false,
            Err(_) => self.closed = true,
        }
        !self.closed
    }

    /// Does what the server says.
    fn hear(&mut self) {
        while let Some(heard) = self.decoder.hear() {
            match heard {
                Heard::Frame(Frame::Data(stream, bytes)) => {
                    if let Some(output) = output(&mut self.outputs, stream).filter(|output| output.file.is_some()) {
                        output.pending.bytes.extend_from_slice(bytes);
                    }
                }
                Heard::Frame(Frame::End(stream)) => {
                    if let Some(output) = output(&mut self.outputs, stream) {
                        output.ends = true;
                        output.close_if_done();
                    }
                }
                Heard::Frame(Frame::Deaf(Stream::In)) => self.input = None,
                Heard::Frame(Frame::Taken(Stream::In, bytes)) => self.room += bytes as usize,
                Heard::Frame(Frame::Exit(status)) => self.status = self.status.or(Some(status)),
                // A connection that only sends back what it is told.
                Heard::Frame(Frame::Words(_) | Frame::Run) => self.closed = true,
                Heard::Frame(_) => {}
                Heard::Open(_) | Heard::Garbled => self.closed = true,
            }
        }
    }

    /// Sends as much as is taken. That nobody takes it any more is told by reading.
    fn send(&mut self) {
        while !self.sending.is_empty() {
            match self.socket.write(self.sending.waiting()) {
                Ok(count) => self.sending.took(count),
                Err(error) if passing(&error) => return,
                Err(_) => self.sending = Outbox::default(),
            }
        }
    }

    fn read_input(&mut self) {
        let Some(input) = &mut self.input else {
            return;
        };
        let mut bytes = [0; PIECE];
        match input.read(&mut bytes[..PIECE.min(self.room)]) {
            Ok(count) if count > 0 => {
                self.room -= count;
                put(Frame::Data(Stream::In, &bytes[..count]), &mut self.sending.bytes);
            }
            Err(error) if passing(&error) => {}
            _ => {
                self.input = None;
                put(Frame::End(Stream::In), &mut self.sending.bytes);
            }
        }
    }
}

impl Output {
    /// Writes some of what waits. What cannot be written is lost: the server is told, and `status` unless nobody read it.
    fn write(&mut self, sending: &mut Outbox, status: &mut Option<u8>) {
        let Some(file) = &mut self.file else {
            return;
        };
        let waiting = self.pending.waiting();
        match file.write(&waiting[..waiting.len().min(PIPE_ROOM)]) {
            Ok(count) => {
                self.pending.took(count);
                self.taken += count;
                if self.taken >= WINDOW / 4 {
                    put(Frame::Taken(self.stream, self.taken as u32), &mut sending.bytes);
                    self.taken = 0;
                }
            }
            Err(error) if passing(&error) => {}
            Err(error) => {
                self.file = None;
                self.pending = Outbox::default();
                put(Frame::Deaf(self.stream), &mut sending.bytes);
                if error.kind() != ErrorKind::BrokenPipe {
                    *status = Some(Failure::new(format!("what the program says cannot be written: {error}")).told());
                }
            }
        }
        self.close_if_done();
    }

    fn close_if_done(&mut self) {
        if self.ends && self.pending.is_empty() {
            self.file = None;
        }
    }
}

fn reading(fd: BorrowedFd) -> Wanted {
    Wanted { fd, read: true, write: false }
}

/// Who can do something without waiting, once anyone can.
fn who_can(wanted: Vec<(Side, Wanted)>, timeout: Option<Duration>) -> Result<Vec<(Side, Ready)>, sys::Error> {
    let (sides, wanted): (Vec<Side>, Vec<Wanted>) = wanted.into_iter().unzip();
    let ready = wait(&wanted, timeout)?;
    Ok(sides.into_iter().zip(ready).filter(|(_, ready)| ready.read || ready.write).collect())
}

fn output(outputs: &mut [Output; 2], stream: Stream) -> Option<&mut Output> {
    outputs.iter_mut().find(|output| output.stream == stream)
}

fn passing(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// A number no other session has.
fn nonce() -> Result<u64, Stopped> {
    const SOURCE: &str = "/dev/urandom";
    let mut bytes = [0; 8];
    let read = File::open(SOURCE).and_then(|mut source| source.read_exact(&mut bytes));
    read.map_err(|error| Failure::new(format!("{SOURCE}: {error}")))?;
    Ok(u64::from_ne_bytes(bytes))
}
