//! `serve`: one of a guest's ports. Whoever opens a session there has one program run, and nobody else's goes on meanwhile.

use super::program::{NotStarted, Program};
use crate::outbox::Outbox;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use sys::descriptor::{Ready, Wanted, wait};
use sys::port::{Port, Taken};
use wire::port::{Decoder, Frame, Heard, Stream, open, put};

/// A port is read in pieces of this size; the driver has no larger ones.
const PIECE: usize = 4096;

/// The kernel tells of hosts that come and go on a queue of its own, which bytes overtake: a host that seems to be gone for
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

struct Server {
    port: Port,
    decoder: Decoder,
    outbox: Outbox,
    session: Session,
    /// Since when the host has seemed to be gone.
    silent: Option<Instant>,
}

/// Runs the verb, as long as the port is there.
pub fn run(device: &Path) -> ExitCode {
    let fatal = match Port::open(device) {
        Ok(port) => {
            let (decoder, outbox) = (Decoder::default(), Outbox::default());
            let mut server = Server { port, decoder, outbox, session: Session::None, silent: None };
            // For a relay whose server was another one, which died.
            server.abandon("the guest's server of this port died");
            let Err(error) = server.live();
            error
        }
        Err(error) => error,
    };
    eprintln!("latlab-agent: serve: {fatal}");
    ExitCode::FAILURE
}

impl Server {
    fn live(mut self) -> Result<std::convert::Infallible, sys::Error> {
        loop {
            let ready = self.wait()?;
            self.port.noted()?;
            if let Session::Running(program) = &mut self.session {
                program.attend_to(&ready, &mut self.outbox)?;
            }
            self.listen()?;
            self.conclude();
            while !self.outbox.is_empty() {
                match self.port.write(self.outbox.waiting())? {
                    0 => break,
                    count => self.outbox.took(count),
                }
            }
        }
    }

    /// What is ready of the program's, once anything is, or once the host has been gone for long enough.
    fn wait(&self) -> Result<Vec<Ready>, sys::Error> {
        let mut wanted = vec![Wanted { fd: self.port.as_fd(), read: true, write: false }];
        let mut timeout = None;
        if let Session::Running(program) = &self.session {
            timeout = self.silent.map(|since| GONE.saturating_sub(since.elapsed()));
            wanted.extend(program.wanted(self.outbox.len()));
        }
        Ok(wait(&wanted, timeout)?.split_off(1))
    }

    /// Hears all that has come.
    fn listen(&mut self) -> Result<(), sys::Error> {
        let mut bytes = [0; PIECE];
        loop {
            match self.port.read(&mut bytes)? {
                Taken::Nothing => {
                    self.silent = None;
                    return Ok(());
                }
                Taken::HungUp => {
                    self.silence();
                    return Ok(());
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
                    Heard::Frame(frame) => told(&mut self.session, frame, &mut self.outbox),
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
    /// be that of a host the kernel has yet to tell of.
    fn silence(&mut self) {
        let since = *self.silent.get_or_insert_with(Instant::now);
        if matches!(self.session, Session::Running(_)) && since.elapsed() >= GONE {
            end(&mut self.session, &mut self.outbox);
            // For one that is there all the same.
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
            eprintln!("latlab-agent: serve: {what}");
        }
    }
    *outbox = Outbox::default();
}

fn told(session: &mut Session, frame: Frame, outbox: &mut Outbox) {
    match (&mut *session, frame) {
        (Session::Opened(words), Frame::Words(more)) => words.extend_from_slice(more),
        (Session::Opened(words), Frame::Run) => {
            *session = match Program::start(words) {
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
