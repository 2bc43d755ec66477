//! `in` and `over`: one program elsewhere, as if it ran here: its three streams, its exit status, the signals it is sent.

mod command;
mod door;
mod relay;

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use sys::process::{Signal, Signals};

/// The exit status of a relay whose program was not run, or may not have ended.
const FAILED: u8 = 125;
/// The exit status of a relay whose connection failed: ssh's own.
const DISCONNECTED: u8 = 255;
/// A signal n that ends the relay before its program started makes it exit with this and n.
const BY_SIGNAL: u8 = 128;

/// What went wrong.
pub struct Failure {
    /// What the user needs to know.
    what: String,
    /// The relay's exit status.
    status: u8,
}

impl Failure {
    fn new(what: String) -> Self {
        Self { what, status: FAILED }
    }

    /// The exit status; the user has been told.
    fn told(self) -> u8 {
        // Standard error may be as gone as the connection.
        let _ = writeln!(std::io::stderr(), "latlab-agent: {}", self.what);
        self.status
    }
}

/// Why there is no exit status of the program's.
pub enum Stopped {
    /// It was not run.
    Failed(Failure),
    /// This signal came while nothing had been started.
    BySignal(u8),
}

impl From<Failure> for Stopped {
    fn from(failure: Failure) -> Self {
        Stopped::Failed(failure)
    }
}

impl From<sys::Error> for Stopped {
    fn from(error: sys::Error) -> Self {
        Failure::new(error.to_string()).into()
    }
}

/// The way that a relay's connection takes, which knows what its end means.
pub trait Way {
    /// Readable once the connection is over, where its socket may not tell.
    fn end(&self) -> Option<BorrowedFd<'_>>;

    /// The connection was closed before anybody answered.
    fn unanswered(&mut self) -> Failure;

    /// The connection was closed, or somebody else spoke there, while the program ran.
    fn lost(&self) -> Failure;
}

/// How long the other side is waited for.
pub struct Patience {
    /// The other side, in words.
    whom: String,
    time: Duration,
    until: Instant,
}

impl Patience {
    fn new(whom: String, time: Duration) -> Result<Self, Stopped> {
        let until = Instant::now().checked_add(time);
        let until = until.ok_or_else(|| Failure::new("--patience is too long".into()))?;
        Ok(Self { whom, time, until })
    }

    fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    /// What is said once it has come to its end.
    fn over(&self) -> Stopped {
        let (whom, time) = (&self.whom, self.time.as_secs_f64());
        Failure::new(format!("{whom} does not answer within {time} s")).into()
    }
}

/// Runs the verb `in`: the words in the guest whose ports are in `directory`; the program's exit status is this one's.
pub fn run_in(directory: &Path, words: &[OsString], time: Duration) -> ExitCode {
    ended(Patience::new(door::guest(directory), time).and_then(|patience| {
        let mut signals = signals()?;
        let (socket, mut door) = door::open(directory, &patience, &mut signals)?;
        relay::run(socket, &mut door, words, signals, &patience)
    }))
}

/// Runs the verb `over`: the words where the command leads; the program's exit status is this one's.
pub fn run_over(command: &OsStr, words: &[OsString], time: Duration) -> ExitCode {
    ended(Patience::new(command::shown(command), time).and_then(|patience| {
        let signals = signals()?;
        let (socket, mut command) = command::Command::start(command)?;
        let status = relay::run(socket, &mut command, words, signals, &patience);
        command.finish(status.is_ok());
        status
    }))
}

fn signals() -> Result<Signals, sys::Error> {
    Signals::take(&[Signal::Terminate, Signal::Interrupt, Signal::Hangup])
}

fn ended(status: Result<u8, Stopped>) -> ExitCode {
    ExitCode::from(match status {
        Ok(status) => status,
        Err(Stopped::BySignal(number)) => BY_SIGNAL + number,
        Err(Stopped::Failed(failure)) => failure.told(),
    })
}

/// The number of seconds as a time.
///
/// # Errors
/// It is no number, or no time.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "expected a number of seconds".to_owned())?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}
