//! A command whose standard input and output are a relay's connection, such as `ssh -T board1 -- latlab-agent serve -`.

use super::{DISCONNECTED, FAILED, Failure, Stopped, Way};
use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};
use sys::descriptor::{Wanted, wait};
use sys::process::{Signal, end_with_starter, lead_session, shell_status, signal_group, unblock_signals, watch};

/// A command whose connection is closed has so long to end.
const ENDS: Duration = Duration::from_secs(2);

/// The command, which a shell runs. Its end is the connection's, whoever may still have the other end of the socket: the
/// relay, which closes its own, is then what tells them.
pub struct Command {
    text: String,
    child: Child,
    watch: OwnedFd,
}

/// The command as messages show it.
pub fn shown(command: &OsStr) -> String {
    format!("`{}`", command.to_string_lossy())
}

impl Command {
    /// The started command, and the relay's end of its connection, which never waits.
    ///
    /// It leads a session of its own: a signal for the relay's process group must not end the connection by which it is to
    /// be passed on, and a command that asks for a password at the terminal fails instead of being stopped there.
    ///
    /// # Errors
    /// There is no shell, or the kernel has no process or socket left.
    pub fn start(command: &OsStr) -> Result<(UnixStream, Self), Stopped> {
        let text = shown(command);
        let failed = |error: std::io::Error| Failure::new(format!("{text} cannot be run by sh: {error}"));
        let (own, other) = UnixStream::pair().map_err(failed)?;
        own.set_nonblocking(true).map_err(failed)?;
        let mut shell = std::process::Command::new("sh");
        shell.arg("-c").arg(command);
        shell.stdin(OwnedFd::from(other.try_clone().map_err(failed)?)).stdout(OwnedFd::from(other));
        shell.stderr(Stdio::inherit());
        unblock_signals(&mut shell);
        lead_session(&mut shell);
        end_with_starter(&mut shell);
        let child = shell.spawn().map_err(failed)?;
        let watch = watch(child.id())?;
        Ok((own, Self { text, child, watch }))
    }

    /// Waits for the command, whose connection is closed; kills it and its process group if it does not end. One that led
    /// to no program is not waiting for that end, and is told.
    pub fn finish(mut self, answered: bool) {
        if !answered && self.ended(Duration::ZERO).is_none() {
            let _ = signal_group(self.child.id(), Signal::Terminate as u8);
        }
        if self.ended(ENDS).is_none() {
            let _ = signal_group(self.child.id(), Signal::Kill as u8);
            let _ = self.child.wait();
        }
    }

    /// The exit status, if it ends within that time.
    fn ended(&mut self, within: Duration) -> Option<u8> {
        let until = Instant::now() + within;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let ended = self.child.try_wait().ok()?;
            if ended.is_some() || left.is_zero() {
                return ended.map(shell_status);
            }
            wait(&[Wanted { fd: self.watch.as_fd(), read: true, write: false }], Some(left)).ok()?;
        }
    }
}

impl Way for Command {
    fn end(&self) -> Option<BorrowedFd<'_>> {
        Some(self.watch.as_fd())
    }

    fn unanswered(&mut self) -> Failure {
        let ended = self.ended(ENDS);
        let text = &self.text;
        match ended {
            Some(status) => Failure {
                what: format!("{text} ended with status {status} before it answered"),
                status: if status == DISCONNECTED { DISCONNECTED } else { FAILED },
            },
            None => Failure::new(format!("{text} closed its standard input and output before it answered")),
        }
    }

    fn lost(&self) -> Failure {
        let what = "the connection is gone, and what ran there is ended there as soon as that side notices";
        Failure { what: format!("{}: {what}", self.text), status: DISCONNECTED }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    fn unanswered(text: &str) -> (String, u8) {
        let Ok((_socket, mut command)) = Command::start(OsStr::new(text)) else { panic!("{text} did not start") };
        let failure = command.unanswered();
        command.finish(false);
        (failure.what, failure.status)
    }

    #[test]
    fn a_command_that_fails_is_told_with_its_status() {
        for (text, status, own) in [("exit 3", 3, 125), ("exit 255", 255, 255), ("kill -KILL $$", 137, 125)] {
            assert_eq!(unanswered(text), (format!("`{text}` ended with status {status} before it answered"), own));
        }
    }

    #[test]
    fn a_command_that_only_closes_its_streams_is_told_so_and_ended() {
        let text = "exec <&- >&-; exec sleep 100";
        let closed = format!("`{text}` closed its standard input and output before it answered");
        assert_eq!(unanswered(text), (closed, 125));
    }

    #[test]
    fn a_command_that_ignores_its_end_is_killed_with_what_it_started() {
        let Ok((mut socket, command)) = Command::start(OsStr::new("trap '' TERM; sleep 100 & echo; wait")) else {
            panic!("no shell")
        };
        wait(&[Wanted { fd: socket.as_fd(), read: true, write: false }], None).unwrap();
        command.finish(false);
        assert_eq!(socket.read(&mut [0; 8]).unwrap(), 1);
        wait(&[Wanted { fd: socket.as_fd(), read: true, write: false }], None).unwrap();
        assert_eq!(socket.read(&mut [0; 8]).unwrap(), 0);
    }
}
