//! The way to a ptp4l and back: datagrams between its management socket and one of the agent's own.
//!
//! ptp4l sends its answers to where a question came from, and waits while that has no room (linuxptp, uds.c). So the agent's
//! socket is always connected to ptp4l's: the kernel then takes datagrams from nobody else, and lets ptp4l not wait for the
//! number of those unread (net/unix/af_unix.c, `unix_dgram_sendmsg`).

use std::io;
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, lchown};
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use sys::descriptor::{Wanted, wait};
use wire::ptp::{Inquiry, MAX_BYTES};

/// Longest sleep, so that a request to stop is seen.
pub(super) const LONGEST_WAIT: Duration = Duration::from_millis(50);
/// How long a receive call that failed is left alone: it would only fail again.
const AFTER_ERROR: Duration = Duration::from_millis(5);
/// What its sockets' files begin with, next to ptp4l's.
const FILES: &str = "latlab-ptp.";
/// Names that others' sockets, of the same number in another namespace of processes, may have taken.
const NAMES: u32 = 100;

/// A socket of the agent's own, through which one ptp4l is asked.
pub struct Link {
    socket: UnixDatagram,
    /// What is asked.
    server: PathBuf,
    /// Its file, where it has one; removed with it.
    file: Option<PathBuf>,
    /// Its address, for people.
    pub address: String,
}

impl Drop for Link {
    fn drop(&mut self) {
        if let Some(file) = &self.file {
            let _ = std::fs::remove_file(file);
        }
    }
}

impl Link {
    /// With an address in the abstract namespace, which leaves nothing behind.
    ///
    /// # Errors
    /// No socket can be had.
    pub fn without_file(server: &Path) -> io::Result<Self> {
        let name = format!("latlab-ptp-{}-{}", std::process::id(), sys::clock::tai_ns());
        let socket = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
        socket.set_nonblocking(true)?;
        Ok(Self { socket, server: server.into(), file: None, address: format!("@{name}") })
    }

    /// With a file next to ptp4l's own, which every ptp4l sees, whatever its namespaces are. Files of agents that were killed are
    /// removed.
    ///
    /// # Errors
    /// No file can be made there.
    pub fn beside(server: &Path) -> io::Result<Self> {
        // ptp4l may have another working directory.
        let folder = server.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new(".")).canonicalize()?;
        remove_left_behind(&folder);
        for number in 0..NAMES {
            let file = folder.join(format!("{FILES}{}.{number}", std::process::id()));
            match UnixDatagram::bind(&file) {
                // An agent of another namespace of processes has it.
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
                Err(error) => return Err(error),
                Ok(socket) => {
                    let address = file.to_string_lossy().into_owned();
                    let link = Self { socket, server: server.into(), file: Some(file.clone()), address };
                    link.socket.set_nonblocking(true)?;
                    // As linuxptp's own pmc does: a ptp4l that is not root may then write to it.
                    let owner = std::fs::symlink_metadata(server)?;
                    if owner.uid() != 0 || owner.gid() != 0 {
                        let _ = lchown(&file, Some(owner.uid()), Some(owner.gid()));
                    }
                    return Ok(link);
                }
            }
        }
        Err(io::ErrorKind::AddrInUse.into())
    }

    /// Sends the questions, to whoever has the name now: a ptp4l that was started again has another socket under it.
    ///
    /// # Errors
    /// ptp4l's socket is not there, or takes nothing.
    pub fn ask(&self, inquiry: &Inquiry) -> io::Result<()> {
        self.connect()?;
        self.send(inquiry, &mut 0)
    }

    /// Sends to whoever has the name now, from here on.
    ///
    /// # Errors
    /// ptp4l's socket is not there, or does not take from this one.
    pub fn connect(&self) -> io::Result<()> {
        self.socket.connect(&self.server)
    }

    /// Sends those of the questions that have not been: all but the first `sent`, which is counted up.
    ///
    /// # Errors
    /// As of [`Self::ask`]; `WouldBlock`: ptp4l has not yet read what was sent before.
    pub fn send(&self, inquiry: &Inquiry, sent: &mut usize) -> io::Result<()> {
        for question in inquiry.questions().skip(*sent) {
            self.socket.send(&question)?;
            *sent += 1;
        }
        Ok(())
    }

    /// What is waited for when answers are.
    pub fn wanted(&self) -> Wanted<'_> {
        Wanted { fd: self.socket.as_fd(), read: true, write: false }
    }

    /// Gives `take` the message that has come in.
    ///
    /// # Errors
    /// There is none; ptp4l is gone.
    pub fn receive(&self, take: impl FnOnce(&[u8])) -> io::Result<()> {
        let mut buffer = [0; MAX_BYTES];
        let length = self.socket.recv(&mut buffer)?;
        take(&buffer[..length]);
        Ok(())
    }

    /// Takes answers until the inquiry is complete, `due`, or it is stopped.
    pub fn listen(&self, inquiry: &mut Inquiry, due: Instant, stopped: &impl Fn() -> bool) {
        while !inquiry.complete() && !stopped() {
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            self.next(left, |message| {
                inquiry.take(message);
            });
        }
    }

    /// Sleeps until `due` or until it is stopped. What comes in meanwhile is an answer too late, and dropped.
    pub fn sleep(&self, due: Instant, stopped: &impl Fn() -> bool) {
        while !stopped() {
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            self.next(left, |_| ());
        }
    }

    /// Gives `take` a message, if one comes in within `left` or the longest wait.
    fn next(&self, left: Duration, take: impl FnOnce(&[u8])) {
        match wait(&[self.wanted()], Some(left.min(LONGEST_WAIT))) {
            Ok(ready) if !ready[0].read => {}
            // That ptp4l is gone is told once, and found again when it is asked next.
            Ok(_) if self.receive(take).is_ok() => {}
            _ => std::thread::sleep(left.min(AFTER_ERROR)),
        }
    }
}

/// Removes the sockets of agents that were killed: those to which nobody listens. There may be none, or none that may be
/// removed.
fn remove_left_behind(folder: &Path) {
    let Ok(unbound) = UnixDatagram::unbound() else { return };
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let ours = entry.file_name().as_encoded_bytes().starts_with(FILES.as_bytes())
            && entry.file_type().is_ok_and(|kind| kind.is_socket());
        let refused = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
        if ours && unbound.connect(entry.path()).is_err_and(refused) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake::{folder, inquiry, serve};
    use super::*;

    #[test]
    fn a_socket_with_a_file_passes_over_others_and_leaves_none() {
        let folder = folder("files");
        let server = folder.join("ptp4l");
        let served = serve(UnixDatagram::bind(&server).unwrap(), 5);
        let of_another = folder.join(format!("{FILES}{}.0", std::process::id()));
        let _another = UnixDatagram::bind(&of_another).unwrap();
        let link = Link::beside(&server).unwrap();
        let mut inquiry = inquiry();
        link.ask(&inquiry).unwrap();
        link.listen(&mut inquiry, Instant::now() + Duration::from_secs(10), &|| false);
        assert!(inquiry.complete());
        served.join().unwrap();
        let file = PathBuf::from(&link.address);
        assert!(file.exists() && file != of_another);
        drop(link);
        assert!(!file.exists() && of_another.exists());
    }

    #[test]
    fn what_killed_agents_left_is_removed_and_nothing_else() {
        let folder = folder("left");
        let server = folder.join("ptp4l");
        for name in ["latlab-ptp.1.0", "latlab-ptp.4194304.7", "other.1.0"] {
            drop(UnixDatagram::bind(folder.join(name)).unwrap());
        }
        // Connected to another, as agents' sockets are, it takes nothing from who looks.
        let living = UnixDatagram::bind(folder.join("latlab-ptp.2.0")).unwrap();
        let _ptp4l = UnixDatagram::bind(&server).unwrap();
        living.connect(&server).unwrap();
        std::fs::write(folder.join("latlab-ptp.txt"), "").unwrap();
        drop(Link::beside(&server).unwrap());
        let mut left: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["latlab-ptp.2.0", "latlab-ptp.txt", "other.1.0", "ptp4l"]);
    }
}
