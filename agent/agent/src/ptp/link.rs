//! The way to a ptp4l and back: datagrams between its management socket and one of the agent's own.
//!
//! ptp4l sends its answers to where a question came from, and waits while that has no room (linuxptp, uds.c). So the agent's
//! socket is always connected to ptp4l's: the kernel then takes datagrams from nobody else, and lets ptp4l not wait for the
//! number of those unread (net/unix/af_unix.c, `unix_dgram_sendmsg`).

use std::io;
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{MetadataExt, lchown};
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use sys::descriptor::{Wanted, wait};
use wire::ptp::{Inquiry, MAX_BYTES};

/// Longest sleep, so that a request to stop is seen.
const LONGEST_WAIT: Duration = Duration::from_millis(50);
/// How long an answer is waited for by one way before the other is tried, the first time.
const TRY: Duration = Duration::from_millis(300);
/// How long a receive call that failed is left alone: it would only fail again.
const AFTER_ERROR: Duration = Duration::from_millis(5);
/// Names that other processes' leftovers may have taken.
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
    /// One by which an answer to `asked` came within `patience`, and that inquiry; else the last thing that went wrong, which
    /// is `TimedOut` if ptp4l's socket took the questions.
    ///
    /// An address without a file is tried first. It leads back only within one network namespace; a file, from any.
    ///
    /// # Errors
    /// Why there is no answer; `Interrupted`: it was stopped.
    pub fn first(
        server: &Path,
        patience: Duration,
        asked: impl Fn() -> Inquiry,
        stopped: impl Fn() -> bool,
    ) -> io::Result<(Self, Inquiry)> {
        let deadline = Instant::now() + patience;
        let (mut wrong, mut with_file) = (io::ErrorKind::TimedOut.into(), false);
        while !stopped() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(wrong);
            }
            let link = if with_file { Self::beside(server) } else { Self::without_file(server) };
            let tried = link.and_then(|link| {
                let mut inquiry = asked();
                link.ask(&inquiry)?;
                link.listen(&mut inquiry, Instant::now() + left.min(TRY), &stopped);
                Ok((link, inquiry))
            });
            match tried {
                Ok((link, inquiry)) if inquiry.complete() => return Ok((link, inquiry)),
                // The questions were taken: the answers may have no way back.
                Ok(_) => (wrong, with_file) = (io::ErrorKind::TimedOut.into(), !with_file),
                Err(error) => {
                    if !with_file {
                        wrong = error;
                    }
                    with_file = false;
                    std::thread::sleep(left.min(LONGEST_WAIT));
                }
            }
        }
        Err(io::ErrorKind::Interrupted.into())
    }

    /// With an address in the abstract namespace, which leaves nothing behind.
    fn without_file(server: &Path) -> io::Result<Self> {
        let name = format!("latlab-ptp-{}-{}", std::process::id(), sys::clock::tai_ns());
        let socket = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
        socket.set_nonblocking(true)?;
        Ok(Self { socket, server: server.into(), file: None, address: format!("@{name}") })
    }

    /// With a file beside ptp4l's own, which every ptp4l sees, whatever its namespaces are.
    fn beside(server: &Path) -> io::Result<Self> {
        // ptp4l may have another working directory.
        let folder = server.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new(".")).canonicalize()?;
        for number in 0..NAMES {
            let file = folder.join(format!("latlab-ptp.{}.{number}", std::process::id()));
            match UnixDatagram::bind(&file) {
                // One that was killed has left it behind, in this or another namespace of processes.
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

    /// Sends the questions.
    ///
    /// # Errors
    /// ptp4l's socket is not there, or takes nothing.
    pub fn ask(&self, inquiry: &Inquiry) -> io::Result<()> {
        // Anew each time: a ptp4l that was started again has another socket under the same name.
        self.socket.connect(&self.server)?;
        inquiry.questions().try_for_each(|question| self.socket.send(&question).map(drop))
    }

    /// Takes answers until the inquiry is complete, `due`, or it is stopped.
    pub fn listen(&self, inquiry: &mut Inquiry, due: Instant, stopped: &impl Fn() -> bool) {
        while !inquiry.complete() && !stopped() {
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            self.receive(left, |message| {
                inquiry.take(message);
            });
        }
    }

    /// Sleeps until `due` or until it is stopped. What comes in meanwhile is an answer too late, and taken in.
    pub fn sleep(&self, due: Instant, stopped: &impl Fn() -> bool) {
        while !stopped() {
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            self.receive(left, |_| ());
        }
    }

    /// Gives `take` a message, if one comes in within `left` or the longest wait.
    fn receive(&self, left: Duration, take: impl FnOnce(&[u8])) {
        let wanted = Wanted { fd: self.socket.as_fd(), read: true, write: false };
        match wait(&[wanted], Some(left.min(LONGEST_WAIT))) {
            Ok(ready) if ready[0].read => {}
            Ok(_) => return,
            Err(_) => return std::thread::sleep(left.min(AFTER_ERROR)),
        }
        let mut buffer = [0; MAX_BYTES];
        match self.socket.recv(&mut buffer) {
            Ok(length) => take(&buffer[..length]),
            // That ptp4l is gone is told once, and found again when it is asked next.
            Err(_) => std::thread::sleep(left.min(AFTER_ERROR)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::ptp::{Asker, ClockIdentity, PortIdentity, QUESTION_BYTES};

    const ASKER: Asker = Asker {
        domain: 0,
        transport_specific: 0,
        source: PortIdentity { clock: ClockIdentity(0x8f3c_5e0d_12ab_34cd), port: 1 },
    };

    fn inquiry() -> Inquiry {
        Inquiry::new(ASKER, 7, Inquiry::STATUS)
    }

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("latlab-link-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    /// Data of the right length for each question, all ones but for one port, which is SLAVE.
    fn answer(question: &[u8]) -> Vec<u8> {
        let (length, id) = match question[53] {
            0 if question[52] == 0xc0 => (50, 0),
            id => ([20, 18, 32, 4, 26][usize::from(id)], id),
        };
        let mut data = vec![1; length];
        match id {
            0 if length == 20 => data[2..4].copy_from_slice(&[0, 1]),
            4 => data[10] = 9,
            _ => {}
        }
        let mut answer = question[..QUESTION_BYTES].to_vec();
        answer[34..44].copy_from_slice(&question[20..30]);
        answer[46] = 2;
        answer[51] = length as u8 + 2;
        answer.extend(data);
        let length = answer.len() as u16;
        answer[2..4].copy_from_slice(&length.to_be_bytes());
        answer
    }

    /// Answers `count` questions: each time garbage first, then an answer to an older question, then the answer.
    fn serve(socket: UnixDatagram, count: usize) -> std::thread::JoinHandle<()> {
        std::thread::spawn(move || {
            for _ in 0..count {
                let mut question = [0; MAX_BYTES];
                let (length, from) = socket.recv_from(&mut question).unwrap();
                let right = answer(&question[..length]);
                let mut older = right.clone();
                older[30] ^= 0x80;
                for message in [&[0xd][..], &[0xff; 1400], &older, &right[..40], &right] {
                    socket.send_to_addr(message, &from).unwrap();
                }
            }
        })
    }

    #[test]
    fn among_garbage_and_old_answers_the_right_ones_are_found() {
        let folder = folder("garbage");
        let server = folder.join("ptp4l");
        let served = serve(UnixDatagram::bind(&server).unwrap(), 5);
        let (link, inquiry) = Link::first(&server, Duration::from_secs(10), inquiry, || false).unwrap();
        assert_eq!(inquiry.status().unwrap().steps_removed, Some(0x101));
        assert!(link.address.starts_with('@') && link.file.is_none());
        served.join().unwrap();
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1, "no file but the server's");
    }

    #[test]
    fn nobody_but_the_one_that_is_asked_can_write_to_it() {
        let folder = folder("stranger");
        let server = folder.join("ptp4l");
        let _served = serve(UnixDatagram::bind(&server).unwrap(), 5);
        let (link, _) = Link::first(&server, Duration::from_secs(10), inquiry, || false).unwrap();
        let address = SocketAddr::from_abstract_name(&link.address[1..]).unwrap();
        let refused = UnixDatagram::unbound().unwrap().send_to_addr(b"garbage", &address).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn a_socket_with_a_file_passes_over_leftovers_and_leaves_none() {
        let folder = folder("files");
        let server = folder.join("ptp4l");
        let served = serve(UnixDatagram::bind(&server).unwrap(), 5);
        let left_behind = folder.join(format!("latlab-ptp.{}.0", std::process::id()));
        drop(UnixDatagram::bind(&left_behind).unwrap());
        let link = Link::beside(&server).unwrap();
        let mut inquiry = inquiry();
        link.ask(&inquiry).unwrap();
        link.listen(&mut inquiry, Instant::now() + Duration::from_secs(10), &|| false);
        assert!(inquiry.complete());
        served.join().unwrap();
        let file = PathBuf::from(&link.address);
        assert!(file.exists() && file != left_behind);
        drop(link);
        assert!(!file.exists());
    }

    #[test]
    fn without_an_answer_the_last_error_is_told() {
        let folder = folder("nobody");
        let server = folder.join("ptp4l");
        let soon = Duration::from_millis(400);
        let wrong = |server: &Path| Link::first(server, soon, inquiry, || false).err().unwrap().kind();
        assert_eq!(wrong(&server), io::ErrorKind::NotFound);
        let silent = UnixDatagram::bind(&server).unwrap();
        assert_eq!(wrong(&server), io::ErrorKind::TimedOut);
        drop(silent);
        assert_eq!(wrong(&server), io::ErrorKind::ConnectionRefused);
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1, "no file but the server's");
    }
}
