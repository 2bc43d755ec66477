//! `serve`: one of a guest's ports, or one connection that is its own standard input and output. Whoever opens a session
//! there has one program run, and nobody else's goes on meanwhile.

use super::program::{NotStarted, Program};
use crate::outbox::Outbox;
use std::io::{IsTerminal, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use sys::descriptor::{Ready, Wanted, wait};
use sys::port::{Port, Taken};
use sys::process::{Signal, Signals};
use wire::port::{Decoder, Frame, Heard, Stream, open, put};

/// What stands for standard input and output instead of a port's device.
const STANDARD: &str = "-";

/// A port is read in pieces of this size; the driver has no larger ones.
const PIECE: usize = 4096;

/// The kernel reports hosts that come and go on a queue of its own, which bytes overtake: a host that seems to be gone for
/// less than this may be the next one already.
const GONE: Duration = Duration::from_millis(200);
const ABANDONED: u8 = 125;

/// What a port is doing.
enum Session {
    /// Nobody speaks.
    None,
    /// A relay says what it wants to be run: these words so far.
    Opened(Vec<u8>),
    /// Its program runs.
    Running(Program),
}

/// Whom a server serves.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Relays {
    /// All that come to a guest's port, one after the other.
    OfAGuest,
    /// The one at the other end of standard input and output.
    One,
}

struct Server {
    port: Port,
    relays: Relays,
    /// Any of them ends the server.
    signals: Signals,
    decoder: Decoder,
    outbox: Outbox,
    session: Session,
    /// Since when a guest's host has seemed to be gone.
    silent: Option<Instant>,
}

/// Runs the verb, as long as the port is there. Nothing of what it ran is left when it returns.
pub fn run(device: &Path) -> ExitCode {
    match Server::of(device).and_then(Server::serve) {
        Ok(()) => ExitCode::SUCCESS,
        Err(fatal) => {
            say(&fatal);
            ExitCode::FAILURE
        }
    }
}

/// One line on standard error, which may be gone with the connection.
fn say(what: &str) {
    let _ = writeln!(std::io::stderr(), "latlab-agent: serve: {what}");
}

/// This process's standard input and output.
fn standard() -> Result<Port, String> {
    let refused = |why: &str| {
        let remedy = "they are to be a connection that changes no byte, such as `ssh -T` makes one";
        format!("standard input and output cannot be served: {why}; {remedy}")
    };
    if std::io::stdin().is_terminal() || std::io::stdout().is_terminal() {
        return Err(refused("one of them is a terminal"));
    }
    Port::standard().map_err(|error| refused(&error.to_string()))
}

impl Server {
    /// The server of the port.
    fn of(device: &Path) -> Result<Self, String> {
        let told = |error: sys::Error| error.to_string();
        let signals = Signals::take(&[Signal::Terminate, Signal::Interrupt, Signal::Hangup]).map_err(told)?;
        let (port, relays) = if device == Path::new(STANDARD) {
            (standard()?, Relays::One)
        } else {
            (Port::open(device).map_err(told)?, Relays::OfAGuest)
        };
        let (decoder, outbox) = (Decoder::default(), Outbox::default());
        Ok(Self { port, relays, signals, decoder, outbox, session: Session::None, silent: None })
    }

    /// Serves until nobody will come any more, or a signal asks for an end.
    fn serve(mut self) -> Result<(), String> {
        if self.relays == Relays::OfAGuest {
            // For a relay whose server was another one, which died.
            self.abandon("the guest's server of this port died");
        }
        let ended = self.live();
        end(&mut self.session, &mut self.outbox);
        ended.map_err(|error| error.to_string())
    }

    fn live(&mut self) -> Result<(), sys::Error> {
        loop {
            let ready = self.wait()?;
            if self.signals.caught().is_some() {
                return Ok(());
            }
            self.port.noted()?;
            if let Session::Running(program) = &mut self.session {
                program.attend_to(&ready, &mut self.outbox)?;
            }
            if !self.listen()? {
                return Ok(());
            }
            self.conclude();
            if !self.send()? {
                return Ok(());
            }
        }
    }

    /// Sends as much as is taken; false if nobody ever will take anything.
    fn send(&mut self) -> Result<bool, sys::Error> {
        while !self.outbox.is_empty() {
            match self.port.write(self.outbox.waiting())? {
                Taken::Bytes(count) => self.outbox.took(count),
                Taken::Nothing => break,
                Taken::HungUp => return Ok(false),
            }
        }
        Ok(true)
    }

    /// What is ready of the program's, once anything is, or once the host has been gone for long enough.
    fn wait(&self) -> Result<Vec<Ready>, sys::Error> {
        let own = [self.port.as_fd(), self.signals.as_fd()];
        let mut wanted: Vec<Wanted> = own.map(|fd| Wanted { fd, read: true, write: false }).into();
        let mut timeout = None;
        if let Session::Running(program) = &self.session {
            timeout = self.silent.map(|since| GONE.saturating_sub(since.elapsed()));
            wanted.extend(program.wanted(self.outbox.len()));
        }
        Ok(wait(&wanted, timeout)?.split_off(own.len()))
    }

    /// Hears all that has come; false if nothing ever will any more.
    fn listen(&mut self) -> Result<bool, sys::Error> {
        let mut bytes = [0; PIECE];
        loop {
            match self.port.read(&mut bytes)? {
                Taken::Nothing => {
                    self.silent = None;
                    return Ok(true);
                }
                Taken::HungUp if self.relays == Relays::One => return Ok(false),
                Taken::HungUp => {
                    self.silence();
                    return Ok(true);
                }
                Taken::Bytes(count) => self.decoder.feed(&bytes[..count]),
            }
            while let Some(heard) = self.decoder.hear() {
                match heard {
                    Heard::Open(nonce) => {
                        end(&mut self.session, &mut self.outbox);
                        open(nonce, &mut self.outbox.bytes);
                        self.session = Session::Opened(Vec::new());
                    }
                    Heard::Frame(frame) => told(&mut self.session, frame, self.relays, &mut self.outbox),
                    Heard::Garbled => end(&mut self.session, &mut self.outbox),
                }
            }
        }
    }

    /// Says that the program is gone, once it is and all it said is put.
    fn conclude(&mut self) {
        let Session::Running(program) = &self.session else {
            return;
        };
        if let Some(status) = program.ended() {
            put(Frame::Exit(status), &mut self.outbox.bytes);
            self.session = Session::None;
        }
    }

    /// The host seems to be gone: its program is ended if that lasts. A session that is only opened costs nothing, and may
    /// be that of a host the kernel has yet to report.
    fn silence(&mut self) {
        let since = *self.silent.get_or_insert_with(Instant::now);
        if matches!(self.session, Session::Running(_)) && since.elapsed() >= GONE {
            end(&mut self.session, &mut self.outbox);
            // For one that is there after all.
            self.abandon("the guest lost its relay");
        }
    }

    /// Tells whoever may think that it has a program here that it has none. A new session passes it over.
    fn abandon(&mut self, why: &str) {
        put(Frame::Data(Stream::Err, format!("latlab-agent: {why}\n").as_bytes()), &mut self.outbox.bytes);
        put(Frame::Exit(ABANDONED), &mut self.outbox.bytes);
    }
}

/// Ends the session: its program is gone when this returns, and nothing more is said of it.
fn end(session: &mut Session, outbox: &mut Outbox) {
    if let Session::Running(program) = std::mem::replace(session, Session::None) {
        if let Err(what) = program.end() {
            say(&what);
        }
    }
    *outbox = Outbox::default();
}

fn told(session: &mut Session, frame: Frame, relays: Relays, outbox: &mut Outbox) {
    let here = match relays {
        Relays::OfAGuest => "in the guest",
        Relays::One => "there",
    };
    match (&mut *session, frame) {
        (Session::Opened(words), Frame::Words(more)) => words.extend_from_slice(more),
        (Session::Opened(words), Frame::Run) => {
            *session = match Program::start(words, here) {
                Ok(program) => Session::Running(program),
                Err(NotStarted { what, status }) => {
                    put(Frame::Data(Stream::Err, format!("latlab-agent: {what}\n").as_bytes()), &mut outbox.bytes);
                    put(Frame::Exit(status), &mut outbox.bytes);
                    Session::None
                }
            };
        }
        (Session::Running(program), frame) => program.told(frame, outbox),
        _ => {}
    }
}
