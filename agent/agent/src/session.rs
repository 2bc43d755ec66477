//! Speaking with the lab: the spec and commands on standard input, events on standard output.

use serde::de::DeserializeOwned;
use std::io::{BufRead, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;
use wire::event::{Event, Failure};
use wire::spec::Command;

/// Set by the first error that the lab was told.
static TOLD_ERROR: AtomicBool = AtomicBool::new(false);

/// A conversation with the lab. It ends when the lab says so, closes standard input, or a signal asks.
pub struct Session {
    commands: Receiver<Command>,
    stop: Arc<AtomicBool>,
}

/// Reads the spec, which is the first line, and goes on listening for commands.
///
/// # Errors
/// Nothing came, or what came is no spec of this verb.
pub fn open<Spec: DeserializeOwned>(verb: &str) -> Result<(Spec, Session), Failure> {
    sys::signal::catch_termination().map_err(|error| failed(error, "", "report this: it should not happen"))?;
    let mut line = String::new();
    let malformed = |what: String| Failure {
        what,
        place: format!("spec of {verb}, the first line of standard input"),
        remedy: "give one JSON object on one line, as docs/formats.md describes it".into(),
        errno: None,
    };
    std::io::stdin().lock().read_line(&mut line).map_err(|error| malformed(format!("cannot be read: {error}")))?;
    if line.trim().is_empty() {
        return Err(malformed("there is none".into()));
    }
    let spec = serde_json::from_str(&line).map_err(|error| malformed(error.to_string()))?;
    let stop = Arc::new(AtomicBool::new(false));
    let (sender, commands) = channel();
    let ended = Arc::clone(&stop);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            match line.map_err(|e| e.to_string()).and_then(|l| serde_json::from_str(&l).map_err(|e| e.to_string())) {
                Ok(Command { stop: true, .. }) => break,
                Ok(command) => {
                    if sender.send(command).is_err() {
                        break;
                    }
                }
                Err(what) => {
                    emit(&Event::Error(Failure {
                        what,
                        place: "a command on standard input".into(),
                        remedy: r#"say {"start_tai_ns": N}, {"start_in_ns": N} or {"stop": true}"#.into(),
                        errno: None,
                    }));
                    break;
                }
            }
        }
        ended.store(true, Ordering::Relaxed);
    });
    Ok((spec, Session { commands, stop }))
}

impl Session {
    /// Whether it is over.
    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || sys::signal::termination_asked()
    }

    /// The instant the lab wants the streams to start, CLOCK_TAI ns; None if it ended the session instead.
    pub fn wait_for_start(&self) -> Option<i64> {
        while !self.stopped() {
            match self.commands.recv_timeout(Duration::from_millis(20)) {
                Ok(Command { start_tai_ns: Some(start), .. }) => return Some(start),
                Ok(Command { start_in_ns: Some(wait), .. }) => return Some(sys::clock::tai_ns().saturating_add(wait)),
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
        None
    }
}

/// Writes one event. A lab that has gone away is noticed by its closed standard input, so a failed write says nothing new.
pub fn emit(event: &Event) {
    if matches!(event, Event::Error(_)) {
        TOLD_ERROR.store(true, Ordering::Relaxed);
    }
    let mut line = serde_json::to_vec(event).unwrap_or_default();
    line.push(b'\n');
    let mut stdout = std::io::stdout().lock();
    let _ = stdout.write_all(&line).and_then(|()| stdout.flush());
}

/// Whether the lab was told of an error: the exit status says it again.
pub fn told_error() -> bool {
    TOLD_ERROR.load(Ordering::Relaxed)
}

/// A failed system call as the lab is told of it.
pub fn failed(error: sys::Error, place: &str, remedy: &str) -> Failure {
    Failure { what: error.to_string(), place: place.into(), remedy: remedy.into(), errno: Some(error.errno) }
}

/// A spec that cannot be done, as the lab is told of it.
pub fn refused(wrong: wire::spec::Wrong) -> Failure {
    Failure { what: wrong.what, place: wrong.at, remedy: "correct the spec".into(), errno: None }
}
