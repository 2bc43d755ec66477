//! By which way a ptp4l's answers come back, and what it says first; or why there is none.
//!
//! An address without a file is tried first, which leaves nothing behind. It leads back only within one network namespace:
//! where questions are taken and not answered, a file next to ptp4l's socket is tried as well, which leads back from any.

use super::link::{LONGEST_WAIT, Link};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};
use sys::descriptor::wait;
use wire::event::Failure;
use wire::ptp::{Asker, Inquiry, Status};

/// How long an answer is waited for by the first way alone. It goes on being waited for when the second is tried.
const ALONE: Duration = Duration::from_millis(300);

/// Why nothing is known of a ptp4l.
#[derive(Debug)]
pub enum Silence {
    /// The agent was told to stop meanwhile.
    Stopped,
    /// It answers, and does not tell its ports' states.
    Refused,
    /// It took the questions and gave no answer. With what was wrong with the other way, if one could not be gone.
    Unanswered(Option<io::Error>),
    /// It could not be asked, by the first way, and by the second, if that was tried.
    Unasked(io::Error, Option<io::Error>),
}

/// The way by which the first answers to `asked` came back, and what they say; both ways are waited for until `patience` is over.
///
/// # Errors
/// There were none.
pub fn find(
    server: &Path,
    patience: Duration,
    asked: impl Fn() -> Inquiry,
    stopped: impl Fn() -> bool,
) -> Result<(Link, Status), Silence> {
    let deadline = Instant::now() + patience;
    let mut ways = vec![Way::new(Link::without_file)];
    while !stopped() {
        for way in &mut ways {
            way.ask(server, &asked);
        }
        if ways.len() == 1 && ways[0].in_vain() {
            ways.push(Way::new(Link::beside));
            continue;
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(silence(ways));
        }
        listen(&mut ways, left.min(LONGEST_WAIT));
        if ways.iter().filter_map(|way| way.asking.as_ref()).any(|asking| asking.inquiry.refused()) {
            return Err(Silence::Refused);
        }
        for asking in ways.iter_mut().filter_map(|way| way.asking.take_if(|asking| asking.inquiry.complete())) {
            if let Some(status) = asking.inquiry.status() {
                return Ok((asking.link, status));
            }
        }
    }
    Err(Silence::Stopped)
}

/// One way, and how far it has been gone.
struct Way {
    open: fn(&Path) -> io::Result<Link>,
    asking: Option<Asking>,
    /// Why it cannot be gone now.
    wrong: Option<io::Error>,
}

struct Asking {
    link: Link,
    inquiry: Inquiry,
    /// How many of its questions.
    sent: usize,
    /// Whose socket has been asked since when.
    whom: Option<(Socket, Instant)>,
}

/// A socket's file: device and inode. A ptp4l that was started again has another.
type Socket = (u64, u64);

impl Way {
    fn new(open: fn(&Path) -> io::Result<Link>) -> Self {
        Self { open, asking: None, wrong: None }
    }

    /// Sends what has not been sent. A ptp4l that has not read what was sent before has taken it nevertheless.
    fn ask(&mut self, server: &Path, asked: impl Fn() -> Inquiry) {
        self.wrong = self.try_ask(server, asked).err().filter(|error| error.kind() != io::ErrorKind::WouldBlock);
        if let (Some(asking), Some(_)) = (&mut self.asking, &self.wrong) {
            asking.whom = None;
        }
    }

    fn try_ask(&mut self, server: &Path, asked: impl Fn() -> Inquiry) -> io::Result<()> {
        let asking = match &mut self.asking {
            Some(asking) => asking,
            none => none.insert(Asking { link: (self.open)(server)?, inquiry: asked(), sent: 0, whom: None }),
        };
        let file = std::fs::metadata(server)?;
        let socket = (file.dev(), file.ino());
        if asking.whom.is_none_or(|(before, _)| before != socket) {
            asking.link.connect()?;
            (asking.inquiry, asking.sent, asking.whom) = (asked(), 0, Some((socket, Instant::now())));
        }
        asking.link.send(&asking.inquiry, &mut asking.sent)
    }

    /// Whether questions have been taken, and not yet answered.
    fn taken(&self) -> bool {
        self.asking.as_ref().is_some_and(|asking| asking.whom.is_some())
    }

    /// Whether the other way may lead further: no socket could be made for this one, or no answer has come for a while.
    fn in_vain(&self) -> bool {
        match &self.asking {
            None => true,
            Some(asking) => asking.whom.is_some_and(|(_, since)| since.elapsed() >= ALONE),
        }
    }
}

/// Takes in what comes by any of the ways within `left`.
fn listen(ways: &mut [Way], left: Duration) {
    let asking: Vec<&mut Asking> = ways.iter_mut().filter_map(|way| way.asking.as_mut()).collect();
    let wanted: Vec<_> = asking.iter().map(|asking| asking.link.wanted()).collect();
    if asking.iter().all(|asking| asking.whom.is_none()) {
        // Nobody is there to answer.
        return std::thread::sleep(left);
    }
    let Ok(ready) = wait(&wanted, Some(left)) else { return std::thread::sleep(left) };
    drop(wanted);
    for (asking, _) in asking.into_iter().zip(ready).filter(|(_, ready)| ready.read) {
        let Asking { link, inquiry, whom, .. } = asking;
        let taken = link.receive(|message| {
            inquiry.take(message);
        });
        if taken.is_err() {
            *whom = None;
        }
    }
}

fn silence(ways: Vec<Way>) -> Silence {
    let taken = ways.iter().any(Way::taken);
    let mut wrong = ways.into_iter().map(|way| way.wrong);
    let (first, second) = (wrong.next().flatten(), wrong.next().flatten());
    match (taken, first, second) {
        (false, Some(first), second) => Silence::Unasked(first, second),
        (_, first, second) => Silence::Unanswered(first.or(second)),
    }
}

impl Silence {
    /// As people are told it, of the ptp4l at `server` that `asker` waited for so long.
    pub fn failure(&self, server: &Path, asker: &Asker, waited: Duration) -> Failure {
        let (what, errno) = match self {
            Self::Stopped => ("stopped before ptp4l had answered".into(), None),
            Self::Refused => ("ptp4l answers, but refuses to report its ports' states (PORT_DATA_SET)".into(), None),
            Self::Unanswered(other) => {
                let seconds = waited.as_secs();
                let what =
                    format!("ptp4l does not answer: it took the questions, and gave no answer within {seconds} s");
                let other = other.as_ref().map(|error| format!("; the other way back could not be tried: {error}"));
                (what + &other.unwrap_or_default(), None)
            }
            Self::Unasked(first, second) => {
                let what = format!("ptp4l cannot be asked: {first}");
                let second = second.as_ref().map(|error| format!("; nor from a file next to its socket: {error}"));
                (what + &second.unwrap_or_default(), first.raw_os_error())
            }
        };
        let remedy = match self {
            Self::Stopped => "start again".into(),
            Self::Refused => "name the management socket of a ptp4l of linuxptp".into(),
            _ => format!(
                "see that ptp4l runs here, that this is its uds_address or uds_ro_address and yours to write to, and that \
                 its domainNumber is {} and its transportSpecific {}",
                asker.domain, asker.transport_specific
            ),
        };
        Failure { what, place: server.to_string_lossy().into_owned(), remedy, errno }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake::{ASKER, folder, inquiry, serve, serve_without_ports};
    use super::*;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixDatagram};

    const LONG: Duration = Duration::from_secs(10);

    fn files(folder: &Path) -> usize {
        std::fs::read_dir(folder).unwrap().count()
    }

    #[test]
    fn among_garbage_and_old_answers_the_right_ones_are_found() {
        let folder = folder("garbage");
        let server = folder.join("ptp4l");
        let served = serve(UnixDatagram::bind(&server).unwrap(), 5);
        let (link, status) = find(&server, LONG, inquiry, || false).unwrap();
        assert_eq!(status.steps_removed, Some(0x101));
        assert!(link.address.starts_with('@'));
        served.join().unwrap();
        assert_eq!(files(&folder), 1, "no file but the server's");
    }

    #[test]
    fn nobody_but_the_one_that_is_asked_can_write_to_it() {
        let folder = folder("stranger");
        let server = folder.join("ptp4l");
        let _served = serve(UnixDatagram::bind(&server).unwrap(), 5);
        let (link, _) = find(&server, LONG, inquiry, || false).unwrap();
        let address = SocketAddr::from_abstract_name(&link.address[1..]).unwrap();
        let refused = UnixDatagram::unbound().unwrap().send_to_addr(b"garbage", &address).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn an_answer_by_the_first_way_counts_when_the_second_is_tried_already() {
        let folder = folder("slow");
        let server = folder.join("ptp4l");
        let socket = UnixDatagram::bind(&server).unwrap();
        let slow = std::thread::spawn(move || {
            std::thread::sleep(4 * ALONE);
            serve(socket, 5).join().unwrap();
        });
        let (link, _) = find(&server, LONG, inquiry, || false).unwrap();
        assert!(link.address.starts_with('@'));
        slow.join().unwrap();
        assert_eq!(files(&folder), 1, "the second way's file is gone");
    }

    #[test]
    fn one_that_is_started_again_meanwhile_is_asked_again() {
        let folder = folder("again");
        let server = folder.join("ptp4l");
        let silent = UnixDatagram::bind(&server).unwrap();
        let path = server.clone();
        let again = std::thread::spawn(move || {
            std::thread::sleep(ALONE / 2);
            std::fs::remove_file(&path).unwrap();
            let second = UnixDatagram::bind(&path).unwrap();
            drop(silent);
            serve(second, 5).join().unwrap();
        });
        find(&server, LONG, inquiry, || false).unwrap();
        again.join().unwrap();
    }

    #[test]
    fn a_clock_that_refuses_to_tell_its_ports_is_not_silent() {
        let server = folder("refuses").join("ptp4l");
        let served = serve_without_ports(UnixDatagram::bind(&server).unwrap(), 5);
        let refused = find(&server, LONG, inquiry, || false).err().unwrap();
        assert!(matches!(refused, Silence::Refused), "{refused:?}");
        assert!(refused.failure(&server, &ASKER, LONG).what.contains("PORT_DATA_SET"));
        served.join().unwrap();
    }

    #[test]
    fn one_that_stands_still_has_taken_the_questions_however_many_it_was_sent() {
        let folder = folder("still");
        let server = folder.join("ptp4l");
        let still = UnixDatagram::bind(&server).unwrap();
        for _ in 0..3 {
            let silence = find(&server, Duration::from_secs(2), inquiry, || false).err().unwrap();
            assert!(matches!(silence, Silence::Unanswered(None)), "{silence:?}");
            let told = silence.failure(&server, &ASKER, Duration::from_secs(2));
            assert_eq!(told.what, "ptp4l does not answer: it took the questions, and gave no answer within 2 s");
        }
        drop(still);
        assert_eq!(files(&folder), 1, "no file but the server's");
    }

    #[test]
    fn who_cannot_be_asked_is_told_with_the_systems_error() {
        let server = folder("nobody").join("ptp4l");
        let wrong = |server: &Path| match find(server, 2 * ALONE, inquiry, || false).err() {
            Some(Silence::Unasked(first, None)) => first.kind(),
            other => panic!("{other:?}"),
        };
        assert_eq!(wrong(&server), io::ErrorKind::NotFound);
        drop(UnixDatagram::bind(&server).unwrap());
        assert_eq!(wrong(&server), io::ErrorKind::ConnectionRefused);
    }

    #[test]
    fn where_neither_way_leads_anywhere_both_are_told() {
        // A path with room for ptp4l's name, and for none as long as the agent's.
        let folder = folder("long");
        let folder = folder.join("x".repeat(100 - folder.as_os_str().len()));
        std::fs::create_dir_all(&folder).unwrap();
        let server = folder.join("ptp4l");
        let _still = UnixDatagram::bind(&server).unwrap();
        let silence = find(&server, 2 * ALONE, inquiry, || false).err().unwrap();
        assert!(matches!(silence, Silence::Unanswered(Some(_))), "{silence:?}");
        let what = silence.failure(&server, &ASKER, LONG).what;
        assert!(what.contains("took the questions") && what.contains("SUN_LEN"), "{what}");
        let both = Silence::Unasked(io::ErrorKind::PermissionDenied.into(), Some(io::ErrorKind::AddrInUse.into()));
        let what = both.failure(&server, &ASKER, LONG).what;
        assert!(what.contains("permission denied") && what.contains("address in use"), "{what}");
    }

    #[test]
    fn it_stops_when_it_is_told_to() {
        let server = folder("stopped").join("ptp4l");
        assert!(matches!(find(&server, LONG, inquiry, || true), Err(Silence::Stopped)));
    }
}
