//! What a machine needs before a program can be run in it.

use std::path::Path;
use sys::first;

/// A kernel's file system that is mounted at boot.
struct Mount {
    kind: &'static str,
    at: &'static str,
    /// No machine is of use without it.
    needed: bool,
}

const fn needed(kind: &'static str, at: &'static str) -> Mount {
    Mount { kind, at, needed: true }
}

const fn if_known(kind: &'static str, at: &'static str) -> Mount {
    Mount { kind, at, needed: false }
}

const MOUNTS: [Mount; 8] = [
    needed("proc", "/proc"),
    needed("sysfs", "/sys"),
    needed("devtmpfs", "/dev"),
    if_known("devpts", "/dev/pts"),
    needed("tmpfs", "/run"),
    needed("tmpfs", "/tmp"),
    if_known("tracefs", "/sys/kernel/tracing"),
    if_known("bpf", "/sys/fs/bpf"),
];

/// One a line: a path and the module's parameters, in the order of loading.
const MODULES: &str = "/etc/latlab/modules";
const NAME: &str = "latlab.name=";

const EEXIST: i32 = 17;
const EBUSY: i32 = 16;

/// Mounts the kernel's file systems; one that is mounted already stays.
///
/// # Errors
/// One that is needed cannot be mounted.
pub fn mount_all() -> Result<(), String> {
    for Mount { kind, at, needed } in &MOUNTS {
        // In sysfs directories cannot be made: they are there where the kernel has the file system.
        let _ = std::fs::create_dir_all(at);
        match first::mount(kind, at) {
            Err(error) if *needed && error.errno != EBUSY => return Err(error.to_string()),
            _ => {}
        }
    }
    Ok(())
}

/// Loads the modules, names the machine, brings lo up. What failed is returned, and did not stop the rest.
pub fn prepare() -> Vec<String> {
    let listed = std::fs::read_to_string(MODULES).unwrap_or_default();
    let modules = modules(&listed).map(|(path, parameters)| match first::load_module(Path::new(path), parameters) {
        Err(error) if error.errno == EEXIST => Ok(()),
        result => result,
    });
    let command_line = std::fs::read_to_string("/proc/cmdline").unwrap_or_default();
    let named = name(&command_line).map(first::set_hostname);
    modules.chain(named).chain([first::loopback_up()]).filter_map(Result::err).map(|error| error.to_string()).collect()
}

/// Whether the word is on the kernel's command line.
pub fn is_asked_for(word: &str) -> bool {
    std::fs::read_to_string("/proc/cmdline").unwrap_or_default().split_whitespace().any(|said| said == word)
}

/// Path and parameters of each module listed.
fn modules(listed: &str) -> impl Iterator<Item = (&str, &str)> {
    let lines = listed.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.map(|line| line.split_once(char::is_whitespace).unwrap_or((line, "")))
}

/// The name a kernel's command line gives the machine.
fn name(command_line: &str) -> Option<&str> {
    command_line.split_whitespace().filter_map(|word| word.strip_prefix(NAME)).next_back()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_may_have_parameters() {
        let listed: Vec<_> = modules("/lib/a.ko\n\n/lib/b.ko  x=1 y=2\n").collect();
        assert_eq!(listed, [("/lib/a.ko", ""), ("/lib/b.ko", " x=1 y=2")]);
    }

    #[test]
    fn the_last_name_on_the_command_line_counts_and_there_may_be_none() {
        assert_eq!(name("quiet latlab.name=a console=ttyS0 latlab.name=ecu\n"), Some("ecu"));
        assert_eq!(name("quiet xlatlab.name=a\n"), None);
    }
}
