//! `in`: one program in a guest, as if it ran here: its three streams, its exit status, the signals it is sent.

mod door;
mod relay;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use sys::process::{Signal, Signals};

/// The exit status of a relay whose program was not run, or may not have ended.
const FAILED: u8 = 125;
/// A signal n that ends the relay before its program started makes it exit with this and n.
const BY_SIGNAL: u8 = 128;

/// Why there is no exit status of the program's.
pub enum Stopped {
    /// What the user is to be told.
    Failed(String),
    /// This signal came while nothing had been started.
    BySignal(u8),
}

impl From<sys::Error> for Stopped {
    fn from(error: sys::Error) -> Self {
        Stopped::Failed(error.to_string())
    }
}

/// How long a guest is waited for.
pub struct Patience {
    directory: PathBuf,
    time: Duration,
    until: Instant,
}

impl Patience {
    fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    /// What is said once it has come to its end.
    fn over(&self) -> Stopped {
        let (at, time) = (self.directory.display(), self.time.as_secs_f64());
        Stopped::Failed(format!("the guest at {at} does not answer within {time} s"))
    }
}

/// Runs the verb: the words in the guest whose ports are in `directory`; the program's exit status is this one's.
pub fn run(directory: &Path, words: &[OsString], time: Duration) -> ExitCode {
    match relayed(directory, words, time) {
        Ok(status) => ExitCode::from(status),
        Err(Stopped::BySignal(number)) => ExitCode::from(BY_SIGNAL + number),
        Err(Stopped::Failed(what)) => {
            eprintln!("latlab-agent: {what}");
            ExitCode::from(FAILED)
        }
    }
}

fn relayed(directory: &Path, words: &[OsString], time: Duration) -> Result<u8, Stopped> {
    let mut signals = Signals::take(&[Signal::Terminate, Signal::Interrupt, Signal::Hangup])?;
    let until = Instant::now().checked_add(time).ok_or_else(|| Stopped::Failed("--patience is too long".into()))?;
    let patience = Patience { directory: directory.into(), time, until };
    let door = door::open(&patience, &mut signals)?;
    relay::run(&door, words, signals, &patience)
}

/// The number of seconds as a time.
///
/// # Errors
/// It is no number, or no time.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "expected a number of seconds".to_owned())?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}
