//! Speaking with the lab: the spec and commands on standard input, events on standard output.

use crate::cores;
use serde::de::DeserializeOwned;
use std::io::{BufRead, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use sys::clock::{tai_ns, tai_offset_s};
use wire::envelope::Bound;
use wire::event::{Event, Failure, Live, Ready, RealtimeFound, StreamProgress};
use wire::spec::Command;

/// Longer than the spec of the largest scenario, by far.
const LONGEST_SPEC: u64 = 16 << 20;
/// Longer than any command.
const LONGEST_COMMAND: u64 = 64 << 10;

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
        remedy: "give one JSON object on one line, as docs/reference/agent.md describes it".into(),
        errno: None,
    };
    read_line(LONGEST_SPEC, &mut line).map_err(malformed)?;
    if line.trim().is_empty() {
        return Err(malformed("there is none".into()));
    }
    let spec = serde_json::from_str(&line).map_err(|error| malformed(error.to_string()))?;
    let stop = Arc::new(AtomicBool::new(false));
    let (sender, commands) = channel();
    let ended = Arc::clone(&stop);
    std::thread::spawn(move || {
        let mut line = String::new();
        loop {
            line.clear();
            let command = match read_line(LONGEST_COMMAND, &mut line) {
                Ok(0) => break,
                Ok(_) => serde_json::from_str(&line).map_err(|error| error.to_string()),
                Err(what) => Err(what),
            };
            match command {
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

/// Reads a line of standard input, with its end; how many bytes it is, 0 at the end of it all.
///
/// # Errors
/// It cannot be read, or is longer than `longest` bytes: no more than that is kept.
fn read_line(longest: u64, line: &mut String) -> Result<usize, String> {
    let read = std::io::stdin().lock().take(longest).read_line(line);
    let bytes = read.map_err(|error| format!("cannot be read: {error}"))?;
    if bytes as u64 == longest && !line.ends_with('\n') {
        return Err(format!("is longer than {longest} bytes"));
    }
    Ok(bytes)
}

impl Session {
    /// Whether it is over.
    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || sys::signal::termination_asked()
    }

    /// What the lab has said since this was asked before.
    pub fn commands(&self) -> impl Iterator<Item = Command> {
        self.commands.try_iter()
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
    match event {
        Event::Error(_) => TOLD_ERROR.store(true, Ordering::Relaxed),
        Event::Done(_) => match cores::noted() {
            rows if rows.is_empty() => {}
            rows => emit(&Event::Cores { rows }),
        },
        _ => {}
    }
    let mut line = serde_json::to_vec(event).unwrap_or_default();
    line.push(b'\n');
    let mut stdout = std::io::stdout().lock();
    let _ = stdout.write_all(&line).and_then(|()| stdout.flush());
}

/// What the lab is told once `verb` is set up: that it is, now, and how its measuring thread runs; `local`: its sockets'
/// addresses.
///
/// # Errors
/// The kernel does not tell TAI − UTC.
pub fn ready(verb: &'static str, realtime: RealtimeFound, local: Vec<String>) -> Result<Ready, Failure> {
    Ok(Ready {
        verb,
        version: env!("CARGO_PKG_VERSION"),
        pid: std::process::id(),
        netns: network_namespace().ok(),
        tai_ns: tai_ns(),
        tai_offset_s: kernels_tai_offset_s()?,
        realtime,
        stamp_key: None,
        stamps_by: None,
        local,
    })
}

/// Inode of the network namespace of this thread.
///
/// # Errors
/// There is no procfs.
pub fn network_namespace() -> std::io::Result<u32> {
    // The kernel has 32 bits for it (`struct ns_common`).
    std::fs::metadata("/proc/thread-self/ns/net").map(|file| file.ino() as u32)
}

/// TAI − UTC as the kernel has it, s.
///
/// # Errors
/// The kernel does not report it.
pub fn kernels_tai_offset_s() -> Result<i32, Failure> {
    let remedy = "report this: it should not happen";
    tai_offset_s().map_err(|error| failed(error, "the kernel's TAI offset", remedy))
}

/// When the lab was last told how far a verb of one stream, 0, is.
pub struct Progress {
    told: Instant,
}

impl Progress {
    /// Now.
    pub fn new() -> Self {
        Self { told: Instant::now() }
    }

    /// Reports to the lab, once a second however often it is called.
    pub fn tell(&mut self, packets: u64) {
        self.tell_bound(packets, || None);
    }

    /// As [`Self::tell`], with what is `known` by then of the clocks that are compared.
    pub fn tell_bound(&mut self, packets: u64, known: impl FnOnce() -> Option<Bound>) {
        if self.told.elapsed() >= Duration::from_secs(1) {
            self.report(packets, known());
        }
    }

    /// Reports to the lab, however short ago it did.
    pub fn tell_now(&mut self, packets: u64) {
        self.report(packets, None);
    }

    fn report(&mut self, packets: u64, bound: Option<Bound>) {
        self.told = Instant::now();
        emit(&Event::Progress {
            tai_ns: tai_ns(),
            streams: vec![StreamProgress::counted(0, packets)],
            live: Live { bound, steal_ns: None },
        });
    }
}

/// The end of a verb for people: its answer is a line on standard output, or what failed is one on standard error.
pub fn answer(verb: &str, answer: Result<String, String>) -> ExitCode {
    let told = answer.and_then(|line| {
        writeln!(std::io::stdout().lock(), "{line}").map_err(|error| format!("standard output: {error}"))
    });
    match told {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            eprintln!("latlab-agent {verb}: {what}");
            ExitCode::FAILURE
        }
    }
}

/// Whether the lab was told of an error: the exit status says it again.
pub fn told_error() -> bool {
    TOLD_ERROR.load(Ordering::Relaxed)
}

/// A failed system call as the lab gets it.
pub fn failed(error: sys::Error, place: &str, remedy: &str) -> Failure {
    Failure { what: error.to_string(), place: place.into(), remedy: remedy.into(), errno: Some(error.errno) }
}

/// A thread of `verb` that panicked, as the lab gets it; `which`: such as "the sending thread".
pub fn died(verb: &str, which: &str) -> Failure {
    Failure {
        what: format!("{which} ended unexpectedly"),
        place: verb.into(),
        remedy: "see standard error for where".into(),
        errno: None,
    }
}

/// A spec that cannot be done, as the lab gets it.
pub fn refused(wrong: wire::spec::Wrong) -> Failure {
    Failure { what: wrong.what, place: wrong.at, remedy: "correct the spec".into(), errno: None }
}
