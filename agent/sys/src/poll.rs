//! Waiting until there is something to read.

use crate::{Error, check};
use std::os::fd::RawFd;

/// Whether `fd` has something to read, or an error to tell; waits for it up to `timeout_ms`. A signal may end it early.
///
/// # Errors
/// `poll` failed.
pub fn readable(fd: RawFd, timeout_ms: i32) -> Result<bool, Error> {
    let mut waited = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: `waited` is one valid pollfd; a descriptor that is not open is told in `revents`.
    match check(unsafe { libc::poll(&raw mut waited, 1, timeout_ms) }, "poll") {
        Ok(ready) => Ok(ready > 0),
        Err(error) if error.errno == libc::EINTR => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn what_was_written_can_be_read_and_nothing_before() {
        let (reader, mut writer) = UnixStream::pair().unwrap();
        assert_eq!(readable(reader.as_raw_fd(), 0), Ok(false));
        writer.write_all(b"x").unwrap();
        assert_eq!(readable(reader.as_raw_fd(), 1000), Ok(true));
    }
}
