//! What only a machine's first process does: file systems, modules, its name, its end.

use crate::{Error, check};
use std::ffi::CString;
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;

/// Mounts a kernel's file system of this type.
///
/// # Errors
/// ENODEV: the kernel has no such type; ENOENT: no such directory; EBUSY: it is mounted there already.
pub fn mount(kind: &str, at: &str) -> Result<(), Error> {
    let call = format!("mount of {kind} at {at}");
    let (kind, at) = (text(kind, &call)?, text(at, &call)?);
    // SAFETY: three texts that end with zero; this kind of file system takes no data.
    let result = unsafe { libc::mount(kind.as_ptr(), at.as_ptr(), kind.as_ptr(), 0, std::ptr::null()) };
    check(result, &call).map(drop)
}

/// Loads a kernel module from its uncompressed file.
///
/// # Errors
/// EEXIST: it is loaded; ENOENT: the file is missing, or a module it depends on; else what the module says.
pub fn load_module(path: &Path, parameters: &str) -> Result<(), Error> {
    let call = format!("finit_module {}", path.display());
    let parameters = text(parameters, &call)?;
    let file =
        File::open(path).map_err(|error| Error { call: call.clone(), errno: error.raw_os_error().unwrap_or(0) })?;
    // SAFETY: the file is open and the text ends with zero.
    let result = unsafe { libc::syscall(libc::SYS_finit_module, file.as_raw_fd(), parameters.as_ptr(), 0) };
    check(result as libc::c_int, &call).map(drop)
}

/// Names the machine.
///
/// # Errors
/// EINVAL: longer than 64 bytes; EPERM.
pub fn set_hostname(name: &str) -> Result<(), Error> {
    // SAFETY: valid for reading, of the given length.
    check(unsafe { libc::sethostname(name.as_ptr().cast(), name.len()) }, "sethostname").map(drop)
}

/// Brings the loopback interface up.
///
/// # Errors
/// A kernel without IPv4, or EPERM.
pub fn loopback_up() -> Result<(), Error> {
    // SAFETY: no pointer is passed.
    let socket = check(unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) }, "socket")?;
    // SAFETY: just made, and owned by nobody else.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    // SAFETY: all-zero is a valid request.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (place, byte) in request.ifr_name.iter_mut().zip(b"lo") {
        *place = *byte as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: the request has a name that ends with zero, and the flags this call reads.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) };
    check(result, "ioctl SIOCSIFFLAGS of lo").map(drop)
}

/// A socket that is readable whenever the kernel has added or changed a device.
///
/// # Errors
/// `socket` or `bind` failed.
pub fn device_events() -> Result<File, Error> {
    const KERNEL: u32 = 1;
    let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: no pointer is passed.
    let socket = unsafe { libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_KOBJECT_UEVENT) };
    let socket = check(socket, "socket NETLINK_KOBJECT_UEVENT")?;
    // SAFETY: just made, and owned by nobody else.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    // SAFETY: all-zero is a valid address.
    let mut address: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
    address.nl_family = libc::AF_NETLINK as libc::sa_family_t;
    address.nl_groups = KERNEL;
    let length = size_of::<libc::sockaddr_nl>() as libc::socklen_t;
    // SAFETY: the address is valid for reading, of the given length.
    let result = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) };
    check(result, "bind NETLINK_KOBJECT_UEVENT")?;
    Ok(File::from(socket))
}

/// Writes everything out and turns the machine off. Returns only if it cannot.
pub fn power_off() -> Error {
    // SAFETY: no pointer is passed.
    unsafe { libc::sync() };
    // SAFETY: as above.
    unsafe { libc::reboot(libc::RB_POWER_OFF) };
    Error::last("reboot RB_POWER_OFF")
}

fn text(value: &str, call: &str) -> Result<CString, Error> {
    CString::new(value).map_err(|_| Error { call: call.into(), errno: libc::EINVAL })
}
