//! The device by which a machine that QEMU emulates halts itself: the one for a guest that panics (docs/specs/pvpanic.rst).
//!
//! With `-action panic=pause` the machine halts at the store that reports a panic, and goes on with the next instruction. On
//! x86 the device is at an I/O port; elsewhere it is a PCI device, whose only byte is mapped.

use crate::Error;

/// What is written to the device: a panic (PVPANIC_PANICKED in include/uapi/misc/pvpanic.h).
const PANICKED: u8 = 1;

pub use device::Halt;

#[cfg(target_arch = "x86_64")]
mod device {
    use super::{Error, PANICKED};
    use crate::io_port::IoPort;

    /// Where QEMU puts it.
    const PORT: u16 = 0x505;

    /// The device, opened by the thread that halts the machine.
    pub struct Halt(IoPort);

    impl Halt {
        /// # Errors
        /// EPERM without CAP_SYS_RAWIO or under lockdown.
        pub fn open() -> Result<Self, Error> {
            IoPort::open(PORT).map(Self)
        }

        /// Halts the machine; it returns when somebody lets the machine go on.
        pub fn halt(&self) {
            self.0.write(PANICKED);
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod device {
    use super::{Error, PANICKED, offset};
    use std::fs::{self, File};
    use std::os::fd::AsRawFd;
    use std::path::{Path, PathBuf};
    use std::ptr::NonNull;

    const DEVICES: &str = "/sys/bus/pci/devices";
    /// Vendor and device (PCI_VENDOR_ID_REDHAT and PCI_DEVICE_ID_REDHAT_PVPANIC in include/hw/pci/pci.h of QEMU).
    const PVPANIC: (&str, &str) = ("0x1b36", "0x0011");

    /// The device, mapped until it is dropped.
    pub struct Halt {
        page: NonNull<u8>,
        bytes: usize,
        offset: usize,
    }

    // SAFETY: nothing but single bytes is written there, which the device takes from any thread.
    unsafe impl Send for Halt {}

    impl Halt {
        /// # Errors
        /// ENODEV: the machine has no such device. EACCES or EPERM: this process may not map it.
        pub fn open() -> Result<Self, Error> {
            let device = find().ok_or_else(|| Error { call: "look for pvpanic-pci".into(), errno: libc::ENODEV })?;
            let failed = |path: &Path, error: &std::io::Error| Error {
                call: format!("open {}", path.display()),
                errno: error.raw_os_error().unwrap_or(0),
            };
            // Without a driver nobody has told the device yet to answer at its addresses.
            let enable = device.join("enable");
            if fs::read_to_string(&enable).is_ok_and(|said| said.trim() == "0") {
                fs::write(&enable, "1").map_err(|error| failed(&enable, &error))?;
            }
            let (resources, memory) = (device.join("resource"), device.join("resource0"));
            let listed = fs::read_to_string(&resources).map_err(|error| failed(&resources, &error))?;
            let bytes = crate::shared::page_bytes();
            let offset = offset(&listed, bytes)
                .ok_or_else(|| Error { call: format!("read {}", resources.display()), errno: libc::EINVAL })?;
            let file = File::options().read(true).write(true).open(&memory).map_err(|error| failed(&memory, &error))?;
            let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
            // SAFETY: the kernel chooses where; nothing that exists is replaced.
            let page = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, flags, file.as_raw_fd(), 0) };
            if page == libc::MAP_FAILED {
                return Err(Error::last("mmap of pvpanic-pci"));
            }
            let page = NonNull::new(page.cast()).ok_or_else(|| Error { call: "mmap".into(), errno: libc::ENOMEM })?;
            Ok(Self { page, bytes, offset })
        }

        /// Halts the machine; it returns when somebody lets the machine go on.
        pub fn halt(&self) {
            // SAFETY: within the mapped page, which lives as long as `self`: the device's memory begins at the offset.
            unsafe { self.page.add(self.offset).write_volatile(PANICKED) };
        }
    }

    impl Drop for Halt {
        fn drop(&mut self) {
            // SAFETY: what `open` mapped, and nothing borrows from it any more.
            unsafe { libc::munmap(self.page.as_ptr().cast(), self.bytes) };
        }
    }

    /// The machine's device of that kind.
    fn find() -> Option<PathBuf> {
        let is = |path: &Path, name: &str, value: &str| {
            fs::read_to_string(path.join(name)).is_ok_and(|read| read.trim() == value)
        };
        let mut devices = fs::read_dir(DEVICES).ok()?.filter_map(|entry| entry.ok().map(|entry| entry.path()));
        devices.find(|path| is(path, "vendor", PVPANIC.0) && is(path, "device", PVPANIC.1))
    }
}

/// Where in its page a PCI device's first region begins, by what sysfs lists of its regions: start, end and flags, a line
/// each. A region smaller than a page shares it with others, and what is mapped is the page.
#[cfg_attr(target_arch = "x86_64", allow(dead_code))]
fn offset(listed: &str, page_bytes: usize) -> Option<usize> {
    let start = listed.lines().next()?.split_whitespace().next()?.strip_prefix("0x")?;
    let start = u64::from_str_radix(start, 16).ok().filter(|start| *start > 0)?;
    Some(start as usize & (page_bytes - 1))
}

#[cfg(test)]
mod tests {
    use super::offset;

    #[test]
    fn a_region_begins_where_its_address_says_within_the_page() {
        let listed = "0x0000000010244010 0x0000000010244011 0x0000000000040200\n0x0000000000000000 0x0 0x0\n";
        assert_eq!(offset(listed, 4096), Some(0x10));
        assert_eq!(offset(listed, 16_384), Some(0x10));
        assert_eq!(offset(listed, 65_536), Some(0x4010));
    }

    #[test]
    fn a_region_without_an_address_cannot_be_mapped() {
        assert_eq!(offset("0x0000000000000000 0x0000000000000000 0x0000000000000000\n", 4096), None);
        assert_eq!(offset("", 4096), None);
    }
}
