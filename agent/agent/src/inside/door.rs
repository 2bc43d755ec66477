//! Which port of a guest this relay has for itself, and a connection to it.

use super::{Failure, Patience, Stopped, Way};
use std::fs::File;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use sys::local::{CROWDED, MISSING, REFUSED, connect, try_lock};
use sys::process::Signals;

/// How often is looked again for what is not there yet.
const LOOK: Duration = Duration::from_millis(10);
/// A socket that is being made refuses until it listens; one that refuses for longer has nobody behind it.
const BEING_MADE: Duration = Duration::from_millis(200);

/// A port of a guest that no other relay has meanwhile.
pub struct Door {
    /// The guest, in words.
    guest: String,
    /// Held while the connection is.
    _lock: File,
}

impl Way for Door {
    fn end(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn unanswered(&mut self) -> Failure {
        Failure::new(format!("{} ended before it answered; see its console", self.guest))
    }

    fn lost(&self) -> Failure {
        Failure::new(format!("{} is gone, and with it the program; see its console", self.guest))
    }
}

/// The guest whose ports are in the directory, in words.
pub fn guest(directory: &Path) -> String {
    format!("the guest at {}", directory.display())
}

/// A connection to the first free port, once there is one; it never waits.
///
/// # Errors
/// There is none within the patience, nobody is behind the sockets, or a signal came.
pub fn open(directory: &Path, patience: &Patience, signals: &mut Signals) -> Result<(UnixStream, Door), Stopped> {
    let (at, guest) = (directory.display(), guest(directory));
    let mut refused_since = None;
    loop {
        let ports = ports(directory)
            .map_err(|error| Failure::new(format!("{at}: {error}: give the directory of a guest's ports")))?;
        let mut busy = false;
        for (number, path) in &ports {
            let Some(lock) = lock(directory, *number)? else {
                busy = true;
                continue;
            };
            match connect(path) {
                Ok(socket) => return Ok((socket, Door { guest, _lock: lock })),
                Err(error) if error.errno == REFUSED => {
                    let since = refused_since.get_or_insert_with(Instant::now);
                    if since.elapsed() > BEING_MADE {
                        return Err(Failure::new(format!("{error}: {guest} does not run; start it")).into());
                    }
                }
                Err(error) if [MISSING, CROWDED].contains(&error.errno) => {}
                Err(error) => return Err(error.into()),
            }
        }
        if patience.left().is_zero() {
            return Err(if busy {
                let what = format!("every port of {guest} is in use");
                Failure::new(format!("{what}: end one of its programs, or give it more ports")).into()
            } else {
                patience.over()
            });
        }
        if let Some(number) = signals.caught() {
            return Err(Stopped::BySignal(number));
        }
        std::thread::sleep(LOOK);
    }
}

/// The numbers of the guest's ports and their sockets, lowest first.
fn ports(directory: &Path) -> std::io::Result<Vec<(u16, PathBuf)>> {
    let mut ports = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix("port")?.strip_suffix(".sock")?.parse().ok());
        ports.extend(number.map(|number| (number, directory.join(&name))));
    }
    ports.sort();
    Ok(ports)
}

/// The port's lock, if nobody else has it.
fn lock(directory: &Path, number: u16) -> Result<Option<File>, Stopped> {
    let path = directory.join(format!("port{number}.lock"));
    let file = File::options().read(true).write(true).create(true).truncate(false).open(&path);
    let file = file.map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
    Ok(try_lock(&file)?.then_some(file))
}
