//! Unix sockets and lock files: how processes of one machine share what only one can have.

use crate::{Error, check};
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

/// The errno of a refused connection: the socket's file is there, and nobody listens.
pub const REFUSED: i32 = libc::ECONNREFUSED;
/// The errno of a socket or directory that is not there.
pub const MISSING: i32 = libc::ENOENT;
/// The errno of a listener that has too many waiting already.
pub const CROWDED: i32 = libc::EAGAIN;

/// A connection to the socket at `path`. Neither connecting nor the connection ever waits.
///
/// # Errors
/// REFUSED, MISSING, CROWDED and others; ENAMETOOLONG for a path longer than 107 bytes.
pub fn connect(path: &Path) -> Result<UnixStream, Error> {
    let call = format!("connect to {}", path.display());
    // SAFETY: all-zero is a valid address.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    let bytes = path.as_os_str().as_bytes();
    if bytes.len() >= address.sun_path.len() {
        return Err(Error { call, errno: libc::ENAMETOOLONG });
    }
    for (place, byte) in address.sun_path.iter_mut().zip(bytes) {
        *place = *byte as libc::c_char;
    }
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: no pointer is passed.
    let socket = check(unsafe { libc::socket(libc::AF_UNIX, kind, 0) }, "socket AF_UNIX")?;
    // SAFETY: just made, and owned by nobody else.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    let length = size_of::<libc::sockaddr_un>() as libc::socklen_t;
    // SAFETY: the address is valid for reading, of the given length.
    check(unsafe { libc::connect(socket.as_raw_fd(), (&raw const address).cast(), length) }, &call)?;
    Ok(UnixStream::from(socket))
}

/// Whether the file is now locked by this process; false if another holds it. The kernel drops the lock with the file.
///
/// # Errors
/// `flock` failed.
pub fn try_lock(file: &File) -> Result<bool, Error> {
    // SAFETY: no pointer is passed.
    match check(unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) }, "flock") {
        Ok(_) => Ok(true),
        Err(error) if error.errno == libc::EWOULDBLOCK => Ok(false),
        Err(error) => Err(error),
    }
}
