//! `init`: a machine's first process. It prepares the machine, and keeps a server at each of its ports.

mod machine;
mod ports;
mod program;
pub mod serve;
pub mod turns;
mod watch;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::Write;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};
use sys::descriptor::{Wanted, wait};
use sys::process::{Signal, Signals, reap};

/// What every program starts with.
const ENVIRONMENT: [(&str, &str); 2] = [("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"), ("HOME", "/")];
/// The host reports its ports one by one; after so long without another they are counted.
const PORTS_FOLLOW: Duration = Duration::from_millis(50);
const NO_PORT: Duration = Duration::from_secs(10);
/// A server that fails at once, again and again, must not keep the machine busy.
const BEFORE_ANOTHER: Duration = Duration::from_millis(200);

/// Runs the verb: as long as the machine does, if it is the first process. Any other is refused, unharmed.
pub fn run() -> ExitCode {
    if std::process::id() != 1 {
        eprintln!("latlab-agent: init: only a machine's first process may do this: boot a guest with it as /init");
        return ExitCode::from(2);
    }
    let Err(fatal) = live();
    say(&format!("{fatal}; the machine powers off"));
    say(&sys::first::power_off().to_string());
    ExitCode::FAILURE
}

/// Whether the kernel started this process as its first one: the only process 1 that is called init or told nothing.
pub fn is_called() -> bool {
    let mut words = std::env::args_os();
    let name = words.next().map(PathBuf::from);
    std::process::id() == 1 && (name.is_some_and(|name| name.ends_with("init")) || words.next().is_none())
}

/// One line on the machine's console. One that cannot be written has nowhere else to go.
fn say(what: &str) {
    if let Ok(mut console) = std::fs::File::options().write(true).open("/dev/console") {
        let _ = console.write_all(format!("latlab-agent: init: {what}\n").as_bytes());
    }
}

/// Prepares the machine and serves its ports.
///
/// # Errors
/// Why the machine cannot be of use.
fn live() -> Result<std::convert::Infallible, String> {
    let told = |error: sys::Error| error.to_string();
    let mut signals = Signals::take(&[Signal::Child]).map_err(told)?;
    machine::mount_all()?;
    let mut events = sys::first::device_events().map_err(told)?;
    machine::prepare().iter().for_each(|problem| say(problem));
    if machine::is_asked_for(turns::ASKED) {
        return take_turns(&mut signals);
    }
    let started = Instant::now();
    let mut servers: BTreeMap<u32, PathBuf> = BTreeMap::new();
    let mut announced = 0;
    loop {
        for device in ports::devices() {
            if !servers.values().any(|served| *served == device) {
                servers.insert(start_server(&device)?, device);
            }
        }
        let timeout = match servers.len() {
            0 => Some(NO_PORT.saturating_sub(started.elapsed())),
            count => (count != announced).then_some(PORTS_FOLLOW),
        };
        if timeout == Some(Duration::ZERO) {
            return Err(format!("no virtio-serial port named latlab.N appeared within {} s", NO_PORT.as_secs()));
        }
        let wanted = [signals.as_fd(), events.as_fd()].map(|fd| Wanted { fd, read: true, write: false });
        let ready = wait(&wanted, timeout).map_err(told)?;
        if !ready.iter().any(|ready| ready.read) && !servers.is_empty() {
            announced = servers.len();
            say(&format!("serving {announced} ports"));
        }
        ports::pass_over(&mut events);
        while signals.caught().is_some() {}
        while let Some(gone) = reap() {
            if let Some(device) = servers.remove(&gone) {
                say(&format!("the server of {} ended; another is started", device.display()));
                std::thread::sleep(BEFORE_ANOTHER);
            }
        }
    }
}

/// Takes turns with the host, by a process of its own.
fn take_turns(signals: &mut Signals) -> Result<std::convert::Infallible, String> {
    let taking = start(&["turns".as_ref()]).map_err(|error| format!("no turns can be taken with the host: {error}"))?;
    loop {
        let wanted = [Wanted { fd: signals.as_fd(), read: true, write: false }];
        wait(&wanted, None).map_err(|error| error.to_string())?;
        while signals.caught().is_some() {}
        while let Some(gone) = reap() {
            if gone == taking {
                return Err("who took turns with the host has ended".into());
            }
        }
    }
}

/// The process id of a server of the port.
fn start_server(device: &std::path::Path) -> Result<u32, String> {
    start(&["serve".as_ref(), device.as_os_str()])
        .map_err(|error| format!("no server of {} can be started: {error}", device.display()))
}

/// The process id of this program, started with these words.
fn start(words: &[&OsStr]) -> std::io::Result<u32> {
    let mut command = Command::new("/proc/self/exe");
    command.args(words).env_clear().envs(ENVIRONMENT).current_dir("/").stdin(Stdio::null());
    command.spawn().map(|child| child.id())
}
