//! A server's end of a connection: a guest's virtio-serial port (`drivers/char/virtio_console.c`), or what this process was
//! given as its standard input and output.

use crate::descriptor::{Wanted, set_nonblocking, take_standard, wait};
use crate::{Error, check};
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

/// An open port. While the other side is not connected the driver lets every `poll` of it return at once, so it is waited
/// for by its changes: whatever has changed since [`Port::noted`] makes the port's descriptor readable.
pub struct Port {
    input: File,
    /// None where bytes leave by what they come by.
    output: Option<File>,
    changes: OwnedFd,
}

/// What became of a read or a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// So many bytes were read or written.
    Bytes(usize),
    /// None can be now.
    Nothing,
    /// None can be, and the other side is not connected: a port's may be again, a closed pipe's or socket's never.
    HungUp,
}

impl AsFd for Port {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.changes.as_fd()
    }
}

impl Port {
    /// The port at `device`, such as `/dev/vport1p1`.
    ///
    /// # Errors
    /// There is none, or another process has it open (EMFILE or EBUSY).
    pub fn open(device: &Path) -> Result<Self, Error> {
        let file = File::options().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(device);
        Self::of(file.map_err(|error| failed(&format!("open {}", device.display()), &error))?, None)
    }

    /// This process's standard input and output: pipes, or sockets, or one socket.
    ///
    /// # Errors
    /// They are of another kind, which cannot be waited for (EPERM).
    pub fn standard() -> Result<Self, Error> {
        let (input, output) = (take_standard(0)?, take_standard(1)?);
        set_nonblocking(input.as_fd())?;
        set_nonblocking(output.as_fd())?;
        Self::of(input, Some(output))
    }

    fn of(input: File, output: Option<File>) -> Result<Self, Error> {
        // SAFETY: no pointer is passed.
        let changes = check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) }, "epoll_create1")?;
        // SAFETY: just made, and owned by nobody else.
        let changes = unsafe { OwnedFd::from_raw_fd(changes) };
        let events = (libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLET) as u32;
        for file in std::iter::once(&input).chain(&output) {
            let mut event = libc::epoll_event { events, u64: 0 };
            let (epoll, watched) = (changes.as_raw_fd(), file.as_raw_fd());
            // SAFETY: both descriptors are open and `event` is valid for reading.
            check(unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, watched, &raw mut event) }, "epoll_ctl")?;
        }
        Ok(Self { input, output, changes })
    }

    /// Takes note of what has changed so far: read and write until there is nothing more to do, and wait again.
    ///
    /// # Errors
    /// `epoll_wait` failed.
    pub fn noted(&self) -> Result<(), Error> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 2];
        let count = events.len() as libc::c_int;
        // SAFETY: `events` is valid for writing so many events; a timeout of 0 does not wait.
        let noted = unsafe { libc::epoll_wait(self.changes.as_raw_fd(), events.as_mut_ptr(), count, 0) };
        check(noted, "epoll_wait").map(drop)
    }

    /// Reads what has come from the other side. One that takes nothing more is gone, once all it said is read.
    ///
    /// # Errors
    /// The port is gone.
    pub fn read(&mut self, buffer: &mut [u8]) -> Result<Taken, Error> {
        match self.input.read(buffer) {
            Ok(0) => Ok(Taken::HungUp),
            Ok(count) => Ok(Taken::Bytes(count)),
            Err(error) if passing(&error) => Ok(if self.is_deaf()? { Taken::HungUp } else { Taken::Nothing }),
            Err(error) if closing(&error) => Ok(Taken::HungUp),
            Err(error) => Err(failed("read of the port", &error)),
        }
    }

    /// Gives the other side as many of the bytes as it takes: none while a port is not connected.
    ///
    /// # Errors
    /// The port is gone.
    pub fn write(&mut self, bytes: &[u8]) -> Result<Taken, Error> {
        match self.output.as_mut().unwrap_or(&mut self.input).write(bytes) {
            Ok(0) => Ok(Taken::Nothing),
            Ok(count) => Ok(Taken::Bytes(count)),
            Err(error) if passing(&error) => Ok(Taken::Nothing),
            Err(error) if closing(&error) => Ok(Taken::HungUp),
            Err(error) => Err(failed("write to the port", &error)),
        }
    }

    /// Whether nobody is left who could read what is written.
    fn is_deaf(&self) -> Result<bool, Error> {
        let Some(output) = &self.output else {
            return Ok(false);
        };
        let wanted = [Wanted { fd: output.as_fd(), read: false, write: false }];
        Ok(wait(&wanted, Some(Duration::ZERO))?[0].broken)
    }
}

fn passing(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

fn closing(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset)
}

fn failed(call: &str, error: &std::io::Error) -> Error {
    Error { call: call.into(), errno: error.raw_os_error().unwrap_or(0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;
    use std::process::{Command, Stdio};

    fn nonblocking(fd: impl Into<OwnedFd>) -> File {
        let file = File::from(fd.into());
        set_nonblocking(file.as_fd()).unwrap();
        file
    }

    fn changed(port: &Port) -> bool {
        wait(&[Wanted { fd: port.as_fd(), read: true, write: false }], None).unwrap()[0].read
    }

    #[test]
    fn a_closed_socket_has_hung_up_once_it_is_read_to_its_end() {
        let (mut other, own) = UnixStream::pair().unwrap();
        let output = nonblocking(own.try_clone().unwrap());
        let mut port = Port::of(nonblocking(own), Some(output)).unwrap();
        let mut bytes = [0; 8];
        assert_eq!(port.read(&mut bytes), Ok(Taken::Nothing));
        port.noted().unwrap();
        other.write_all(b"last").unwrap();
        assert!(changed(&port));
        port.noted().unwrap();
        drop(other);
        assert!(changed(&port));
        assert_eq!(port.read(&mut bytes), Ok(Taken::Bytes(4)));
        assert_eq!(port.read(&mut bytes), Ok(Taken::HungUp));
        assert_eq!(port.write(b"x"), Ok(Taken::HungUp));
    }

    #[test]
    fn an_output_that_nobody_reads_any_more_has_hung_up_before_anything_is_written() {
        let (_other, input) = UnixStream::pair().unwrap();
        let mut reader = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let output = nonblocking(reader.stdin.take().unwrap());
        let mut port = Port::of(nonblocking(input), Some(output)).unwrap();
        assert_eq!(port.read(&mut [0; 8]), Ok(Taken::Nothing));
        port.noted().unwrap();
        reader.kill().unwrap();
        reader.wait().unwrap();
        assert!(changed(&port));
        assert_eq!(port.read(&mut [0; 8]), Ok(Taken::HungUp));
    }

    #[test]
    fn what_cannot_be_waited_for_is_refused() {
        let null = File::open("/dev/null").unwrap();
        assert_eq!(Port::of(null, None).err().map(|error| error.errno), Some(libc::EPERM));
    }
}
