//! Other processes: told of by signals, waited for, ended.

use crate::{Error, check};
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};

/// A signal that can be waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Signal {
    /// A terminal went away.
    Hangup = libc::SIGHUP,
    /// Ctrl-C.
    Interrupt = libc::SIGINT,
    /// An end at once, which cannot be refused.
    Kill = libc::SIGKILL,
    /// An end is asked for.
    Terminate = libc::SIGTERM,
    /// A child has ended.
    Child = libc::SIGCHLD,
}

/// Signals that come as bytes to read, and do nothing else, from the moment this is made.
pub struct Signals {
    file: File,
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Signals {
    /// To be called before any other thread is started: they inherit what is blocked.
    ///
    /// # Errors
    /// `sigprocmask` or `signalfd` failed.
    pub fn take(signals: &[Signal]) -> Result<Self, Error> {
        // SAFETY: all-zero is a valid set, and is made empty.
        let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
        // SAFETY: `set` is valid for writing.
        unsafe { libc::sigemptyset(&raw mut set) };
        for &signal in signals {
            // SAFETY: as above, and the number is a signal's.
            unsafe { libc::sigaddset(&raw mut set, signal as libc::c_int) };
        }
        // SAFETY: `set` is valid for reading; the old set is not asked for.
        check(unsafe { libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) }, "sigprocmask")?;
        // SAFETY: as above; −1 asks for a new descriptor.
        let fd = unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
        let fd = check(fd, "signalfd")?;
        // SAFETY: just made, and owned by nobody else.
        Ok(Self { file: File::from(unsafe { OwnedFd::from_raw_fd(fd) }) })
    }

    /// The number of the next signal that came; None if none did.
    pub fn caught(&mut self) -> Option<u8> {
        let mut information = [0; size_of::<libc::signalfd_siginfo>()];
        self.file.read_exact(&mut information).ok()?;
        // The number is the structure's first word (signalfd(2)).
        u8::try_from(u32::from_ne_bytes(*information.first_chunk()?)).ok()
    }
}

/// A descriptor that is readable once the process has ended. It must be a child that was not waited for.
///
/// # Errors
/// There is no such process, or the kernel is older than 5.3.
pub fn watch(pid: u32) -> Result<OwnedFd, Error> {
    // SAFETY: no pointer is passed.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, libc::c_long::from(pid), 0) };
    let fd = check(fd as libc::c_int, "pidfd_open")?;
    // SAFETY: just made, and owned by nobody else. The kernel makes it close-on-exec.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sends every process of the group the signal of this number (0: none, only looks); false if there is none.
///
/// # Errors
/// The number is no signal's, or the group is another user's.
pub fn signal_group(leader: u32, number: u8) -> Result<bool, Error> {
    let Some(group) = libc::pid_t::try_from(leader).ok().filter(|group| *group > 1) else {
        return Err(Error { call: format!("kill of group {leader}"), errno: libc::EINVAL });
    };
    // SAFETY: no pointer is passed; a group number above 1 is neither "all" nor "my own".
    match check(unsafe { libc::kill(-group, libc::c_int::from(number)) }, "kill") {
        Ok(_) => Ok(true),
        Err(error) if error.errno == libc::ESRCH => Ok(false),
        Err(error) => Err(error),
    }
}

/// Has the program told to end (SIGTERM) as soon as the thread that starts it has ended, however that ended. What the
/// program itself starts is not told, and one that gains rights as it starts is not either (`PR_SET_PDEATHSIG`).
pub fn end_with_starter(command: &mut Command) {
    let starter = std::process::id();
    let tie = move || {
        // SAFETY: no pointer is passed.
        done(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) })?;
        // One that ended before that is told of no more.
        if std::os::unix::process::parent_id() != starter {
            return Err(std::io::Error::from_raw_os_error(libc::ESRCH));
        }
        Ok(())
    };
    // SAFETY: the closure makes system calls only, which is allowed between fork and exec.
    unsafe { command.pre_exec(tie) };
}

/// Lets the program start with no signal blocked, as one that a shell starts does: it would inherit what [`Signals`] blocks.
pub fn unblock_signals(command: &mut Command) {
    let unblock = || {
        // SAFETY: all-zero is a valid set, and is made empty.
        let mut none: libc::sigset_t = unsafe { std::mem::zeroed() };
        // SAFETY: `none` is valid for writing.
        unsafe { libc::sigemptyset(&raw mut none) };
        // SAFETY: `none` is valid for reading; the old set is not asked for.
        done(unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut()) })
    };
    // SAFETY: the closure makes a system call only, which is allowed between fork and exec.
    unsafe { command.pre_exec(unblock) };
}

/// Makes the program the leader of a session of its own, and so of a process group: it has no terminal to ask at, and no
/// signal that is meant for this process's group reaches it.
pub fn lead_session(command: &mut Command) {
    // SAFETY: no pointer is passed.
    let lead = || done(unsafe { libc::setsid() });
    // SAFETY: the closure makes a system call only, which is allowed between fork and exec.
    unsafe { command.pre_exec(lead) };
}

/// As `check`, where nothing may be allocated.
fn done(value: libc::c_int) -> std::io::Result<()> {
    if value == -1 { Err(std::io::Error::last_os_error()) } else { Ok(()) }
}

/// The exit status as a shell says it: 128 + n of a process that signal n ended.
pub fn shell_status(status: ExitStatus) -> u8 {
    const BY_SIGNAL: i32 = 128;
    let status = status.code().unwrap_or(BY_SIGNAL + status.signal().unwrap_or(0));
    u8::try_from(status).unwrap_or(u8::MAX)
}

/// The process id of a child that has ended, which is gone with this; None if none has.
pub fn reap() -> Option<u32> {
    let mut status = 0;
    // SAFETY: `status` is valid for writing.
    let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) };
    u32::try_from(pid).ok().filter(|pid| *pid > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::descriptor::{Wanted, wait};
    use std::time::Duration;

    #[test]
    fn a_process_is_seen_to_end_and_its_group_to_be_gone() {
        let mut child = Command::new("sleep").arg("100").process_group(0).spawn().unwrap();
        let watched = watch(child.id()).unwrap();
        let wanted = [Wanted { fd: watched.as_fd(), read: true, write: false }];
        assert!(!wait(&wanted, Some(Duration::ZERO)).unwrap()[0].read);
        assert_eq!(signal_group(child.id(), Signal::Terminate as u8), Ok(true));
        assert!(wait(&wanted, Some(Duration::from_secs(10))).unwrap()[0].read);
        child.wait().unwrap();
        assert_eq!(signal_group(child.id(), 0), Ok(false));
    }

    #[test]
    fn a_program_ends_with_the_thread_that_started_it() {
        let mut command = Command::new("sleep");
        end_with_starter(command.arg("100"));
        let mut child = std::thread::spawn(move || command.spawn()).join().unwrap().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGTERM));
    }

    #[test]
    fn a_program_is_reached_by_signals_that_are_blocked_here() {
        std::thread::spawn(|| {
            let _signals = Signals::take(&[Signal::Terminate]).unwrap();
            for (unblocked, status) in [(false, 0), (true, 128 + Signal::Terminate as u8)] {
                let mut command = Command::new("sh");
                command.args(["-c", "kill -TERM $$"]);
                if unblocked {
                    unblock_signals(&mut command);
                }
                assert_eq!(shell_status(command.status().unwrap()), status);
            }
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_session_of_its_own_is_a_group_of_its_own() {
        let mut command = Command::new("sleep");
        lead_session(command.arg("100"));
        let mut child = command.spawn().unwrap();
        assert_eq!(signal_group(child.id(), Signal::Kill as u8), Ok(true));
        let status = child.wait().unwrap();
        assert_eq!(shell_status(status), 128 + Signal::Kill as u8);
    }

    #[test]
    fn neither_all_processes_nor_our_own_group_can_be_signalled() {
        assert!(signal_group(0, 0).is_err() && signal_group(1, 0).is_err());
    }
}
