//! Tracing of our own in the kernel: an instance in tracefs, its events, and what they tell.

use crate::facts::cpus;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use sys::descriptor::set_nonblocking;
use wire::event::Failure;
use wire::tracepoint::{Page, Record};

const MOUNTED: &str = "/sys/kernel/tracing";
const ONLINE: &str = "/sys/devices/system/cpu/online";
/// Of an agent's instance; its process id follows.
const NAMED: &str = "latlab-";
/// The kernel gives a buffer at least two pages, and keeps one for who reads.
const LEAST_PAGES: usize = 3;

const PRIVILEGED: &str = "run as root or with CAP_SYS_ADMIN, in a kernel that is not locked down (see \
    /sys/kernel/security/lockdown); or ask for no trace";
/// What to do where the kernel does not have what is needed.
pub const ABSENT: &str = "use a kernel with tracepoints (CONFIG_EVENT_TRACING; `ls /sys/kernel/tracing/events` once tracefs is \
    mounted); or ask for no trace";

/// What to do on a kernel that lacks the calls to mount it for ourselves alone (fsopen(2), Linux 5.2).
const UNMOUNTED: &str = "mount tracefs first, as this kernel is older than Linux 5.2 (mount -t tracefs tracefs /sys/kernel/tracing); or ask for no trace";

/// What is read of a CPU's buffer.
pub enum Heard<'a> {
    /// Records before those that follow were lost: how many, and when the first was made that is there. 0: the kernel does not
    /// say how many.
    Lost(u64, i64),
    /// A record.
    Record(Record<'a>),
}

/// What became of a CPU's records since the instance was made, as the kernel counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// The CPU.
    pub cpu: usize,
    /// Read.
    pub read: u64,
    /// Lost, because its buffer was full or was being written where it was to be read.
    pub lost: u64,
    /// Of these, such that newer ones took the place of.
    pub overwritten: u64,
}

/// An instance, gone when dropped.
pub struct Instance {
    /// Held open: the paths lead through it.
    _mount: Option<OwnedFd>,
    root: PathBuf,
    folder: PathBuf,
    /// Each with its CPU.
    pipes: Vec<(usize, File)>,
    page: Page,
    buffer: Vec<u8>,
    /// A buffer is given so many reads each time we come round, at most: what a full one needs, so that who traces all the time
    /// is not kept from the other CPUs.
    reads: usize,
}

impl Instance {
    /// An instance without events, which keeps so much of what each CPU's tell until it is taken. Those that killed agents left
    /// are removed.
    ///
    /// # Errors
    /// The kernel has no tracefs, or does not let us use it.
    pub fn open(buffer_kib: usize) -> Result<Self, Failure> {
        let (mount, root) = tracefs()?;
        let instances = root.join("instances");
        remove_left_behind(&instances);
        let header = read(&root, "events/header_page")?;
        let page = Page::of(&header).ok_or_else(|| {
            unheard("events/header_page", "it does not say what a page of records is like".into(), None)
        })?;
        let folder = instances.join(format!("{NAMED}{}", std::process::id()));
        fs::create_dir(&folder).map_err(|error| failed("instances", &error))?;
        let (buffer, reads) = (vec![0; page.bytes], buffer_kib * 1024 / page.bytes + LEAST_PAGES);
        let mut instance = Self { _mount: mount, root, folder, pipes: Vec::new(), page, buffer, reads };
        instance.leave_out_names();
        instance.write("buffer_size_kb", &buffer_kib.to_string())?;
        let online = fs::read_to_string(ONLINE).ok().and_then(|text| cpus::list(&text));
        for cpu in online.ok_or_else(|| unheard(ONLINE, "it does not say which CPUs there are".into(), None))? {
            let name = format!("per_cpu/cpu{cpu}/trace_pipe_raw");
            let pipe = File::open(instance.folder.join(&name)).map_err(|error| failed(&name, &error))?;
            set_nonblocking(pipe.as_fd()).map_err(|error| unheard(&name, error.to_string(), Some(error.errno)))?;
            instance.pipes.push((cpu, pipe));
        }
        Ok(instance)
    }

    /// Has the kernel keep no names of threads next to our events, which it would at each switch and waking after one
    /// (`probe_sched_switch`, kernel/trace/trace_sched_switch.c). That takes them from all events that are on, whoever traces
    /// them (`trace_event_enable_cmd_record`): where any is, or cannot be told, they are kept.
    fn leave_out_names(&self) {
        let alone = traced_by_nobody(&self.root)
            && fs::read_dir(self.root.join("instances"))
                .is_ok_and(|mut others| others.all(|one| one.is_ok_and(|one| traced_by_nobody(&one.path()))));
        if alone {
            // An older kernel may not know the option; then nothing is saved.
            let _ = fs::write(self.folder.join("trace_options"), "norecord-cmd");
        }
    }

    /// What a file says that all instances share, such as `events/timer/hrtimer_start/format`.
    ///
    /// # Errors
    /// It is not there, or may not be read.
    pub fn read(&self, name: &str) -> Result<String, Failure> {
        read(&self.root, name)
    }

    /// Sets a file of this instance.
    ///
    /// # Errors
    /// It is not there, may not be written, or does not take that.
    pub fn write(&self, name: &str, text: &str) -> Result<(), Failure> {
        fs::write(self.folder.join(name), text).map_err(|error| failed(name, &error))
    }

    /// Whether a file or folder is there that all instances share, such as `events/kvm`.
    pub fn has(&self, name: &str) -> bool {
        self.root.join(name).exists()
    }

    /// Gives `take` what has come on any CPU, in order on each of them, with the CPU. Returns how many bytes the fullest of the
    /// buffers had.
    pub fn take(&mut self, mut take: impl FnMut(usize, Heard)) -> usize {
        let mut fullest_bytes = 0;
        for (cpu, pipe) in &mut self.pipes {
            let mut bytes = 0;
            // Each read gives a page, or the part of one that is there; at last it would wait.
            for _ in 0..self.reads {
                let page = match pipe.read(&mut self.buffer) {
                    Ok(length) if length > 0 => &self.buffer[..length],
                    _ => break,
                };
                if let Some(lost) = self.page.lost(page) {
                    take(*cpu, Heard::Lost(lost, self.page.begins_ns(page)));
                }
                self.page.records(page).for_each(|record| take(*cpu, Heard::Record(record)));
                bytes += self.page.length(page);
            }
            fullest_bytes = fullest_bytes.max(bytes);
        }
        fullest_bytes
    }

    /// What became of each CPU's records.
    ///
    /// # Errors
    /// The kernel does not say.
    pub fn kept(&self) -> Result<Vec<Kept>, Failure> {
        let one = |&(cpu, _): &(usize, File)| {
            let stats = read(&self.folder, &format!("per_cpu/cpu{cpu}/stats"))?;
            let number = |key| counted(&stats, key).unwrap_or(0);
            let overwritten = number("overrun");
            let lost = overwritten + number("commit overrun") + number("dropped events");
            Ok(Kept { cpu, read: number("read events"), lost, overwritten })
        };
        self.pipes.iter().map(one).collect()
    }
}

/// A number of a `stats` file, which has one a line: `commit overrun: 0`.
fn counted(stats: &str, key: &str) -> Option<u64> {
    stats.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':')?.trim().parse().ok())
}

impl Drop for Instance {
    fn drop(&mut self) {
        // One that is read from cannot be removed. That it cannot be has no other remedy than the next agent's start.
        self.pipes.clear();
        let _ = fs::remove_dir(&self.folder);
    }
}

/// The root of tracefs, and what holds it open where it is mounted for us alone.
fn tracefs() -> Result<(Option<OwnedFd>, PathBuf), Failure> {
    match sys::tracefs::mount() {
        Ok(mount) => {
            let root = format!("/proc/self/fd/{}", mount.as_raw_fd());
            Ok((Some(mount), PathBuf::from(root)))
        }
        // An empty folder is there where it is not mounted.
        Err(_) if Path::new(MOUNTED).join("events").is_dir() => Ok((None, PathBuf::from(MOUNTED))),
        Err(error) => Err(unheard("tracefs", error.to_string(), Some(error.errno))),
    }
}

/// Whether none of an instance's events is on.
fn traced_by_nobody(instance: &Path) -> bool {
    fs::read(instance.join("set_event")).is_ok_and(|events| events.is_empty())
}

/// Removes all that killed agents left, whose names it returns. Where tracefs cannot be reached nothing can have been left.
pub fn remove_all_left_behind() -> Vec<String> {
    tracefs().map_or_else(|_| Vec::new(), |(_mount, root)| remove_left_behind(&root.join("instances")))
}

/// Removes instances of agents that are gone, whose names it returns. The kernel keeps those whose pipes are open, whatever
/// their names.
fn remove_left_behind(instances: &Path) -> Vec<String> {
    let mut removed = Vec::new();
    for entry in fs::read_dir(instances).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        let owner = name.strip_prefix(NAMED).and_then(|pid| pid.parse::<u32>().ok());
        let gone = owner.is_some_and(|pid| pid == std::process::id() || !Path::new(&format!("/proc/{pid}")).exists());
        if gone && fs::remove_dir(entry.path()).is_ok() {
            removed.push(name.to_owned());
        }
    }
    removed
}

/// Some of these files give what they have with the first call, however little that takes (`show_header_page_file`,
/// kernel/trace/trace_events.c): it is given room for all.
fn read(root: &Path, name: &str) -> Result<String, Failure> {
    const ROOM: usize = 64 << 10;
    let mut bytes = vec![0; ROOM];
    let mut filled = 0;
    let read = File::open(root.join(name)).and_then(|mut file| {
        loop {
            match file.read(&mut bytes[filled..])? {
                0 => return Ok(()),
                length => filled += length,
            }
        }
    });
    read.map_err(|error| failed(name, &error))?;
    Ok(String::from_utf8_lossy(&bytes[..filled]).into_owned())
}

fn failed(name: &str, error: &io::Error) -> Failure {
    unheard(name, error.to_string(), error.raw_os_error())
}

/// Why tracepoints cannot be heard: `name` is of tracefs.
fn unheard(name: &str, what: String, errno: Option<i32>) -> Failure {
    const ABSENCES: [i32; 3] = [2, 19, 22]; // ENOENT, ENODEV, EINVAL
    const NO_SUCH_CALL: i32 = 38; // ENOSYS
    let remedy = match errno {
        Some(NO_SUCH_CALL) => UNMOUNTED,
        Some(errno) if !ABSENCES.contains(&errno) => PRIVILEGED,
        _ => ABSENT,
    };
    Failure {
        what: format!("the kernel's tracepoints cannot be heard: {what}"),
        place: if name == "tracefs" { name.into() } else { format!("{name} in tracefs") },
        remedy: remedy.into(),
        errno,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_without_tracefs_and_one_that_is_locked_down_have_remedies_of_their_own() {
        let (enodev, eperm) =
            (unheard("tracefs", "no such device".into(), Some(19)), unheard("tracefs", "no".into(), Some(1)));
        assert!(enodev.remedy.contains("CONFIG_EVENT_TRACING") && !enodev.remedy.contains("lockdown"));
        assert!(eperm.remedy.contains("/sys/kernel/security/lockdown") && eperm.remedy.contains("CAP_SYS_ADMIN"));
        assert!(unheard("tracefs", "no such call".into(), Some(38)).remedy.contains("mount -t tracefs"));
        assert_eq!([&enodev, &eperm].map(|failure| failure.place.as_str()), ["tracefs"; 2]);
        assert_eq!(unheard("set_event", "no".into(), None).place, "set_event in tracefs");
    }

    #[test]
    fn an_instance_is_unused_only_if_it_says_so() {
        let folder = std::env::temp_dir().join(format!("latlab-set-event-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        assert!(!traced_by_nobody(&folder));
        fs::write(folder.join("set_event"), "").unwrap();
        assert!(traced_by_nobody(&folder));
        fs::write(folder.join("set_event"), "sched:sched_switch\n").unwrap();
        assert!(!traced_by_nobody(&folder));
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn numbers_of_stats_are_found_by_their_whole_name() {
        // Linux 6.18, per_cpu/cpu0/stats.
        let stats = "entries: 5\noverrun: 12\ncommit overrun: 3\nbytes: 44\noldest event ts: 44730.1\ndropped events: 1\nread events: 99\n";
        let numbers =
            ["overrun", "commit overrun", "dropped events", "read events", "entries"].map(|key| counted(stats, key));
        assert_eq!(numbers, [Some(12), Some(3), Some(1), Some(99), Some(5)]);
        assert_eq!(["over", "oldest event ts", ""].map(|key| counted(stats, key)), [None; 3]);
    }
}
