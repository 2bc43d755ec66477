//! A guest's end of a virtio-serial port (`drivers/char/virtio_console.c`).

use crate::{Error, check};
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// An open port. While the host's side is not connected the driver lets every `poll` of it return at once, so it is waited
/// for by its changes: whatever has changed since [`Port::noted`] makes the port's descriptor readable.
pub struct Port {
    file: File,
    changes: OwnedFd,
}

/// What became of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// So many bytes were read.
    Bytes(usize),
    /// There are none now.
    Nothing,
    /// There are none, and the host's side is not connected.
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
        let file = file.map_err(|error| failed(&format!("open {}", device.display()), &error))?;
        // SAFETY: no pointer is passed.
        let changes = check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) }, "epoll_create1")?;
        // SAFETY: just made, and owned by nobody else.
        let changes = unsafe { OwnedFd::from_raw_fd(changes) };
        let events = (libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLET) as u32;
        let mut event = libc::epoll_event { events, u64: 0 };
        let (epoll, port) = (changes.as_raw_fd(), file.as_raw_fd());
        // SAFETY: both descriptors are open and `event` is valid for reading.
        check(unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, port, &raw mut event) }, "epoll_ctl")?;
        Ok(Self { file, changes })
    }

    /// Takes note of what has changed so far: read and write until there is nothing more to do, and wait again.
    ///
    /// # Errors
    /// `epoll_wait` failed.
    pub fn noted(&self) -> Result<(), Error> {
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        // SAFETY: `event` is valid for writing one event; a timeout of 0 does not wait.
        check(unsafe { libc::epoll_wait(self.changes.as_raw_fd(), &raw mut event, 1, 0) }, "epoll_wait").map(drop)
    }

    /// Reads what has come from the host.
    ///
    /// # Errors
    /// The port is gone.
    pub fn read(&mut self, buffer: &mut [u8]) -> Result<Taken, Error> {
        match self.file.read(buffer) {
            Ok(0) => Ok(Taken::HungUp),
            Ok(count) => Ok(Taken::Bytes(count)),
            Err(error) if passing(&error) => Ok(Taken::Nothing),
            Err(error) => Err(failed("read of the port", &error)),
        }
    }

    /// How many of the bytes the host was given: 0 while it takes none or is not connected.
    ///
    /// # Errors
    /// The port is gone.
    pub fn write(&mut self, bytes: &[u8]) -> Result<usize, Error> {
        match self.file.write(bytes) {
            Ok(count) => Ok(count),
            Err(error) if passing(&error) => Ok(0),
            Err(error) => Err(failed("write to the port", &error)),
        }
    }
}

fn passing(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

fn failed(call: &str, error: &std::io::Error) -> Error {
    Error { call: call.into(), errno: error.raw_os_error().unwrap_or(0) }
}
