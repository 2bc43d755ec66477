//! File descriptors: waiting for several, and what the standard library leaves out about one.

use crate::{Error, check};
use std::fs::File;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// What is waited for on a descriptor. That its other side is gone is always told, as both readable and writable.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// The descriptor.
    pub fd: BorrowedFd<'a>,
    /// Something can be read.
    pub read: bool,
    /// Something can be written.
    pub write: bool,
}

/// What can be done with a descriptor without waiting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ready {
    /// Reading: bytes, the end, or an error.
    pub read: bool,
    /// Writing: some bytes, or an error.
    pub write: bool,
    /// The reader of a pipe that is written to is gone.
    pub broken: bool,
}

/// Waits until one of the wanted can be done, for `timeout` at most, and says what can, in the order asked. A signal
/// that is handled ends the wait early, with nothing ready.
///
/// # Errors
/// `poll` failed.
pub fn wait(wanted: &[Wanted], timeout: Option<Duration>) -> Result<Vec<Ready>, Error> {
    let events =
        |wish: &Wanted| (if wish.read { libc::POLLIN } else { 0 }) | if wish.write { libc::POLLOUT } else { 0 };
    let mut polled: Vec<libc::pollfd> =
        wanted.iter().map(|wish| libc::pollfd { fd: wish.fd.as_raw_fd(), events: events(wish), revents: 0 }).collect();
    // Rounded up: a wait that ended before its time would be repeated without sleeping.
    let timeout_ms = timeout.map_or(-1, |time| i32::try_from(time.as_micros().div_ceil(1000)).unwrap_or(i32::MAX));
    // SAFETY: `polled` is valid for reading and writing, of the given length.
    let count = unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, timeout_ms) };
    if let Err(error) = check(count, "poll") {
        if error.errno == libc::EINTR {
            return Ok(vec![Ready::default(); wanted.len()]);
        }
        return Err(error);
    }
    let gone = libc::POLLERR | libc::POLLHUP | libc::POLLNVAL;
    let ready = |(wish, found): (&Wanted, &libc::pollfd)| Ready {
        read: wish.read && found.revents & (libc::POLLIN | gone) != 0,
        write: wish.write && found.revents & (libc::POLLOUT | gone) != 0,
        broken: found.revents & libc::POLLERR != 0,
    };
    Ok(wanted.iter().zip(&polled).map(ready).collect())
}

/// Lets reads and writes of the descriptor, and of every copy of it, fail with EAGAIN where they would wait.
///
/// # Errors
/// `fcntl` failed.
pub fn set_nonblocking(fd: BorrowedFd) -> Result<(), Error> {
    // SAFETY: the descriptor is open, and no pointer is passed.
    let flags = check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) }, "fcntl F_GETFL")?;
    // SAFETY: as above.
    let result = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK) };
    check(result, "fcntl F_SETFL O_NONBLOCK").map(drop)
}

/// How many bytes a pipe holds now.
///
/// # Errors
/// The descriptor is no pipe (`ioctl FIONREAD`).
pub fn bytes_waiting(fd: BorrowedFd) -> Result<usize, Error> {
    let mut count: libc::c_int = 0;
    // SAFETY: `count` is valid for writing, which is all this request does.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::FIONREAD, &raw mut count) }, "ioctl FIONREAD")?;
    Ok(usize::try_from(count).unwrap_or(0))
}

/// The process's standard input (0) or output (1), unbuffered; dropping it closes it. The number itself stands for
/// /dev/null from then on, so that nothing else is opened in its place.
///
/// # Errors
/// `fcntl`, `open` or `dup2` failed.
pub fn take_standard(number: u8) -> Result<File, Error> {
    let number = libc::c_int::from(number.min(1));
    // SAFETY: no pointer is passed; a number that is not open is an error.
    let copy = check(unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3) }, "fcntl F_DUPFD_CLOEXEC")?;
    // SAFETY: just made, and owned by nobody else.
    let taken = unsafe { OwnedFd::from_raw_fd(copy) };
    let null = File::options()
        .read(true)
        .write(true)
        .open("/dev/null")
        .map_err(|error| Error { call: "open /dev/null".into(), errno: error.raw_os_error().unwrap_or(0) })?;
    // SAFETY: both are open; nothing owns the standard numbers, so nothing is closed behind an owner's back.
    check(unsafe { libc::dup2(null.as_raw_fd(), number) }, "dup2")?;
    Ok(File::from(taken))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    use std::process::{Command, Stdio};

    fn ready(fd: BorrowedFd, read: bool, write: bool, timeout: Option<Duration>) -> Ready {
        wait(&[Wanted { fd, read, write }], timeout).unwrap()[0]
    }

    #[test]
    fn a_pipe_is_readable_once_written_and_broken_once_its_reader_is_gone() {
        let mut echo = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (mut writer, mut reader) = (echo.stdin.take().unwrap(), echo.stdout.take().unwrap());
        assert_eq!(ready(reader.as_fd(), true, false, Some(Duration::ZERO)), Ready::default());
        set_nonblocking(reader.as_fd()).unwrap();
        assert_eq!(reader.read(&mut [0; 1]).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
        writer.write_all(b"abc").unwrap();
        assert!(ready(reader.as_fd(), true, false, None).read);
        assert_eq!(bytes_waiting(reader.as_fd()).unwrap(), 3);
        assert!(!ready(writer.as_fd(), false, false, Some(Duration::ZERO)).broken);
        echo.kill().unwrap();
        assert!(ready(writer.as_fd(), false, false, None).broken);
        echo.wait().unwrap();
    }
}
