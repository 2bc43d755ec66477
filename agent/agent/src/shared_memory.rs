//! Memory that a guest shares with its host: QEMU's inter-VM shared memory device, as a file to be mapped.
//!
//! Both sides must see the same memory. An emulated guest's loads are the emulator's own. KVM on x86 gives a guest's mapping
//! of the host's memory the host's type, write-back, unless a device whose DMA bypasses the caches is passed through; mappings
//! of two types then agree on processors that snoop themselves (Intel SDM vol. 3, "Programming the PAT"). Elsewhere a guest's
//! mapping of a PCI device's memory is not coherent with the host's cache, and the device is refused.

use std::path::{Path, PathBuf};
use wire::event::Failure;

const PCI_DEVICES: &str = "/sys/bus/pci/devices";
/// QEMU's inter-VM shared memory device (docs/specs/ivshmem-spec.rst): vendor and device.
const SHARED_MEMORY: (&str, &str) = ("0x1af4", "0x1110");

/// The memory of the machine's first such device, ready to be mapped.
///
/// # Errors
/// There is none, or it cannot be used here.
pub fn find() -> Result<PathBuf, Failure> {
    let devices = Path::new(PCI_DEVICES);
    if !cfg!(target_arch = "x86_64") {
        let what = format!("a device's memory is not coherent with the host's on {}", std::env::consts::ARCH);
        return Err(failure(what, devices, "exchange timestamps over the network instead"));
    }
    find_device(devices)
}

/// As [`find`], on a machine whose every instruction is emulated: it shares what the emulator loads and stores.
///
/// # Errors
/// There is none, or it cannot be enabled.
pub fn find_emulated() -> Result<PathBuf, Failure> {
    find_device(Path::new(PCI_DEVICES))
}

fn failure(what: String, place: &Path, remedy: &str) -> Failure {
    Failure { what, place: place.to_string_lossy().into_owned(), remedy: remedy.into(), errno: None }
}

/// The memory of the first shared-memory device among `devices`, ready to be mapped.
fn find_device(devices: &Path) -> Result<PathBuf, Failure> {
    let is = |path: &Path, name: &str, value: &str| {
        std::fs::read_to_string(path.join(name)).is_ok_and(|read| read.trim() == value)
    };
    let mut found: Vec<PathBuf> = std::fs::read_dir(devices)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok().map(|e| e.path()))
        .filter(|path| is(path, "vendor", SHARED_MEMORY.0) && is(path, "device", SHARED_MEMORY.1))
        .collect();
    found.sort();
    let Some(device) = found.into_iter().next() else {
        let what = format!("there is no shared-memory device ({}:{})", SHARED_MEMORY.0, SHARED_MEMORY.1);
        return Err(failure(what, devices, "give the guest an ivshmem-plain device"));
    };
    // Without a driver nobody has told the device yet to answer at its addresses.
    if is(&device, "enable", "0") {
        std::fs::write(device.join("enable"), "1")
            .map_err(|error| failure(format!("cannot be enabled: {error}"), &device, "run as root"))?;
    }
    Ok(device.join("resource2"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn devices(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("latlab-pci-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn add(devices: &Path, address: &str, vendor: &str, device: &str) -> PathBuf {
        let path = devices.join(address);
        std::fs::create_dir_all(&path).unwrap();
        for (name, value) in [("vendor", vendor), ("device", device), ("enable", "0")] {
            std::fs::write(path.join(name), format!("{value}\n")).unwrap();
        }
        path
    }

    #[test]
    fn the_first_shared_memory_device_is_found_and_enabled() {
        let devices = devices("found");
        add(&devices, "0000:00:01.0", "0x1af4", "0x1041");
        let ours = add(&devices, "0000:00:02.0", "0x1af4", "0x1110");
        add(&devices, "0000:00:03.0", "0x1af4", "0x1110");
        assert_eq!(find_device(&devices).unwrap(), ours.join("resource2"));
        assert_eq!(std::fs::read_to_string(ours.join("enable")).unwrap(), "1");
    }

    #[test]
    fn without_a_device_the_error_says_what_the_guest_lacks() {
        let failure = find_device(&devices("none")).unwrap_err();
        assert!(!failure.what.is_empty() && !failure.remedy.is_empty());
    }
}
