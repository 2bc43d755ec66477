//! A program that a relay runs here: its process group, its streams, its end.

use crate::outbox::Outbox;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use sys::descriptor::{Ready, Wanted, bytes_waiting, set_nonblocking};
use sys::process::{Signal, end_with_starter, shell_status, signal_group, unblock_signals, watch};
use wire::port::{Frame, MAX_PAYLOAD, Stream, WINDOW, put};

const NOT_FOUND: u8 = 127;
const NOT_RUN: u8 = 126;
/// A process group that is told to end has so long before it is killed, and as long to be gone then.
const GRACE: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(10);
/// Output is fetched while no more than this is on its way.
const ENOUGH: usize = 2 * MAX_PAYLOAD;

/// One of the program's outputs.
struct Output {
    stream: Stream,
    pipe: Option<File>,
    /// How much of it the relay can take.
    room: usize,
    /// How much of it is still to be sent; None while the program lives and may write more.
    left: Option<usize>,
}

/// A program that was started.
pub struct Program {
    child: Child,
    watch: OwnedFd,
    status: Option<u8>,
    input: Option<File>,
    pending: Outbox,
    /// What the program has read, and the relay was not told.
    taken: usize,
    input_ends: bool,
    outputs: [Output; 2],
    /// Where outputs are read to; of the size of the largest frame.
    scratch: Vec<u8>,
}

/// Why a program was not started, as a shell says it, and with a shell's exit status.
pub struct NotStarted {
    /// One line.
    pub what: String,
    /// 126 or 127.
    pub status: u8,
}

impl Program {
    /// The program of these words, each of which ends with a zero byte; it leads a process group of its own, and is told to
    /// end should this process be killed. `here` is what its user calls the place where it runs.
    ///
    /// # Errors
    /// There is no such program, or it cannot be run.
    pub fn start(words: &[u8], here: &str) -> Result<Self, NotStarted> {
        let mut words = words.split_inclusive(|byte| *byte == 0).map(|word| OsStr::from_bytes(&word[..word.len() - 1]));
        let name = words.next().unwrap_or_default();
        let shown = name.to_string_lossy();
        let refused = |error: std::io::Error| match error.kind() {
            ErrorKind::NotFound => NotStarted { what: format!("{shown}: not found {here}"), status: NOT_FOUND },
            _ => NotStarted { what: format!("{shown}: {error}"), status: NOT_RUN },
        };
        let mut command = Command::new(name);
        command.args(words).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        unblock_signals(&mut command);
        end_with_starter(&mut command);
        let mut child = command.spawn().map_err(refused)?;
        match Self::attend(&mut child) {
            Ok((watch, input, outputs)) => Ok(Self {
                child,
                watch,
                status: None,
                input,
                pending: Outbox::default(),
                taken: 0,
                input_ends: false,
                outputs,
                scratch: vec![0; MAX_PAYLOAD],
            }),
            Err(error) => {
                let _ = child.kill().and_then(|()| child.wait());
                Err(NotStarted { what: format!("{shown}: {error}"), status: NOT_RUN })
            }
        }
    }

    fn attend(child: &mut Child) -> Result<(OwnedFd, Option<File>, [Output; 2]), sys::Error> {
        let input = child.stdin.take().map(|pipe| File::from(OwnedFd::from(pipe)));
        let out = child.stdout.take().map(|pipe| File::from(OwnedFd::from(pipe)));
        let err = child.stderr.take().map(|pipe| File::from(OwnedFd::from(pipe)));
        for pipe in [&input, &out, &err].into_iter().flatten() {
            set_nonblocking(pipe.as_fd())?;
        }
        let output = |stream, pipe| Output { stream, pipe, room: WINDOW, left: None };
        Ok((watch(child.id())?, input, [output(Stream::Out, out), output(Stream::Err, err)]))
    }

    /// What is to be waited for, besides the port, while so many bytes wait to be sent to it.
    pub fn wanted(&self, sending: usize) -> Vec<Wanted<'_>> {
        let ended = self.status.is_none().then(|| Wanted { fd: self.watch.as_fd(), read: true, write: false });
        let input = self.input.as_ref().map(|pipe| {
            let write = !self.pending.is_empty();
            Wanted { fd: pipe.as_fd(), read: false, write }
        });
        let outputs = self.outputs.iter().filter(|output| output.room > 0 && sending < ENOUGH);
        let outputs = outputs.filter_map(|output| output.pipe.as_ref());
        let outputs = outputs.map(|pipe| Wanted { fd: pipe.as_fd(), read: true, write: false });
        ended.into_iter().chain(input).chain(outputs).collect()
    }

    /// Does all that can be done without waiting; what the relay is to be told of it is put into `to`.
    ///
    /// # Errors
    /// The kernel does not report the program.
    pub fn attend_to(&mut self, ready: &[Ready], to: &mut Outbox) -> Result<(), sys::Error> {
        self.pass_input(ready.iter().any(|ready| ready.broken), to);
        if self.status.is_none() {
            self.look_for_end()?;
        }
        for output in &mut self.outputs {
            output.pass(&mut self.scratch, to);
        }
        Ok(())
    }

    /// The program's exit status, once it is gone and all it said is put.
    pub fn ended(&self) -> Option<u8> {
        self.status.filter(|_| self.outputs.iter().all(|output| output.pipe.is_none()))
    }

    /// Takes in what the relay said of the program; a frame that is not a relay's is passed over.
    pub fn told(&mut self, frame: Frame, to: &mut Outbox) {
        match frame {
            Frame::Data(Stream::In, bytes) if self.input.is_some() => {
                self.pending.bytes.extend_from_slice(bytes);
                self.pass_input(false, to);
            }
            Frame::End(Stream::In) => {
                self.input_ends = true;
                self.pass_input(false, to);
            }
            // The program may have ended by itself just now, and the number may be no signal's here.
            Frame::Signal(number) => drop(signal_group(self.child.id(), number)),
            Frame::Taken(stream, bytes) => self.output(stream, |output| output.room += bytes as usize),
            Frame::Deaf(stream) => self.output(stream, |output| output.pipe = None),
            _ => {}
        }
    }

    fn output(&mut self, stream: Stream, act: impl FnOnce(&mut Output)) {
        self.outputs.iter_mut().find(|output| output.stream == stream).map(act);
    }

    /// Gives the program what it takes of its input; once nobody reads it, or all of it is given, it is closed.
    fn pass_input(&mut self, mut broken: bool, to: &mut Outbox) {
        let Some(pipe) = &mut self.input else {
            return;
        };
        while !broken && !self.pending.is_empty() {
            match pipe.write(self.pending.waiting()) {
                Ok(count) => {
                    self.pending.took(count);
                    self.taken += count;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    broken = error.kind() != ErrorKind::WouldBlock;
                    break;
                }
            }
        }
        if broken {
            self.pending = Outbox::default();
            put(Frame::Deaf(Stream::In), &mut to.bytes);
        } else if self.taken >= WINDOW / 4 {
            put(Frame::Taken(Stream::In, self.taken as u32), &mut to.bytes);
            self.taken = 0;
        }
        if broken || (self.input_ends && self.pending.is_empty()) {
            self.input = None;
        }
    }

    /// Once the program is gone, what its outputs hold is all that is sent of them, whoever else may write there.
    fn look_for_end(&mut self) -> Result<(), sys::Error> {
        let ended = self.child.try_wait().map_err(|error| failed("waitpid", &error))?;
        if let Some(ended) = ended {
            self.status = Some(shell_status(ended));
            self.input = None;
            for output in &mut self.outputs {
                if let Some(pipe) = &output.pipe {
                    output.left = Some(bytes_waiting(pipe.as_fd())?);
                }
            }
        }
        Ok(())
    }

    /// Ends the program and its whole process group, now that nobody is there for whom it ran.
    ///
    /// # Errors
    /// Some of them do not end.
    pub fn end(mut self) -> Result<(), String> {
        let leader = self.child.id();
        self.input = None;
        self.outputs.iter_mut().for_each(|output| output.pipe = None);
        for signal in [Signal::Terminate, Signal::Kill] {
            let told = Instant::now();
            let mut alive = signal_group(leader, signal as u8).unwrap_or(false);
            while alive && told.elapsed() < GRACE {
                std::thread::sleep(LOOK);
                let _ = self.child.try_wait();
                alive = runs(leader);
            }
            if !alive {
                let _ = self.child.try_wait();
                return Ok(());
            }
        }
        Err(format!("process group {leader} does not end though it was killed"))
    }
}

/// Whether any process of the group still runs. One that has ended is in it until its parent takes note, which the parent
/// of orphans does when it likes.
fn runs(leader: u32) -> bool {
    if !signal_group(leader, 0).unwrap_or(false) {
        return false;
    }
    let Ok(processes) = std::fs::read_dir("/proc") else {
        return true;
    };
    processes.flatten().any(|process| {
        let stat = std::fs::read_to_string(process.path().join("stat")).unwrap_or_default();
        // Number, name in parentheses, state, parent, group (proc_pid_stat(5)).
        let mut fields = stat.rsplit(')').next().unwrap_or_default().split_ascii_whitespace();
        let running = fields.next().is_some_and(|state| !["Z", "X"].contains(&state));
        running && fields.nth(1).and_then(|group| group.parse().ok()) == Some(leader)
    })
}

impl Output {
    /// Puts one frame of what the program said, if it said something and the relay can take it.
    fn pass(&mut self, scratch: &mut [u8], to: &mut Outbox) {
        let Some(pipe) = &mut self.pipe else {
            return;
        };
        let most = self.left.unwrap_or(MAX_PAYLOAD).min(MAX_PAYLOAD).min(self.room);
        if self.left == Some(0) {
            self.pipe = None;
        } else if most > 0 && to.len() < ENOUGH {
            match pipe.read(&mut scratch[..most]) {
                Ok(0) => {
                    self.pipe = None;
                    put(Frame::End(self.stream), &mut to.bytes);
                }
                Ok(count) => {
                    self.room -= count;
                    self.left = self.left.map(|left| left - count);
                    put(Frame::Data(self.stream, &scratch[..count]), &mut to.bytes);
                    if self.left == Some(0) {
                        self.pipe = None;
                    }
                }
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(_) => self.pipe = None,
            }
        }
    }
}

fn failed(call: &str, error: &std::io::Error) -> sys::Error {
    sys::Error { call: call.into(), errno: error.raw_os_error().unwrap_or(0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Stdio;
    use sys::descriptor::wait;

    fn started(words: &[&str]) -> Program {
        let words = words.iter().flat_map(|word| word.bytes().chain([0])).collect::<Vec<u8>>();
        Program::start(&words, "here").unwrap_or_else(|refused| panic!("{}", refused.what))
    }

    #[test]
    fn a_group_is_ended_though_nobody_takes_note_of_one_of_it() {
        let program = started(&["sleep", "100"]);
        let leader = program.child.id();
        let mut other = Command::new("sleep");
        let mut other = other.arg("100").process_group(leader as i32).stdin(Stdio::null()).spawn().unwrap();
        assert_eq!(program.end(), Ok(()));
        assert_eq!(signal_group(leader, 0), Ok(true));
        other.wait().unwrap();
        assert_eq!(signal_group(leader, 0), Ok(false));
    }

    #[test]
    fn a_group_that_does_not_want_to_end_is_killed() {
        let program = started(&["sh", "-c", "trap '' TERM; echo; while :; do sleep 100; done"]);
        wait(&program.wanted(0), None).unwrap();
        let leader = program.child.id();
        assert_eq!(program.end(), Ok(()));
        assert!(!runs(leader));
    }

    #[test]
    fn a_program_that_is_not_there_is_refused_as_a_shell_does() {
        let Err(refused) = Program::start(b"no-such-program\0", "in the guest") else { panic!("it started") };
        assert_eq!((refused.what.as_str(), refused.status), ("no-such-program: not found in the guest", NOT_FOUND));
    }
}
