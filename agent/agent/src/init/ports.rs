//! Which of a machine's virtio-serial ports are ours.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

const PORTS: &str = "/sys/class/virtio-ports";
const OURS: &str = "latlab.";

/// The devices of the ports whose names are ours, as far as the kernel knows their names by now.
pub fn devices() -> Vec<PathBuf> {
    let Ok(ports) = std::fs::read_dir(PORTS) else {
        return Vec::new();
    };
    let ours = ports
        .flatten()
        .filter(|port| std::fs::read_to_string(port.path().join("name")).is_ok_and(|name| name.starts_with(OURS)));
    ours.map(|port| Path::new("/dev").join(port.file_name())).filter(|device| device.exists()).collect()
}

/// Reads the kernel's device events away: that there were some is all that is needed of them.
pub fn pass_over(events: &mut File) {
    let mut event = [0; 4096];
    while events.read(&mut event).is_ok() {}
}
