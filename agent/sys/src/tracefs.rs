//! The kernel's tracing file system, for this process alone.

use crate::{Error, check};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// `enum fsconfig_command`, include/uapi/linux/mount.h.
const FSCONFIG_CMD_CREATE: libc::c_uint = 6;
const FSOPEN_CLOEXEC: libc::c_uint = 1;
const FSMOUNT_CLOEXEC: libc::c_uint = 1;

/// The root of a mount of it that has no place in the tree of files: it is gone with the descriptor, and is there where nobody
/// has mounted one, as in a network namespace, whose /sys is another one (`ip netns exec`).
///
/// # Errors
/// EPERM without CAP_SYS_ADMIN, ENODEV where the kernel has none, ENOSYS before Linux 5.2.
pub fn mount() -> Result<OwnedFd, Error> {
    // SAFETY: the name is a C string.
    let context = unsafe { libc::syscall(libc::SYS_fsopen, c"tracefs".as_ptr(), FSOPEN_CLOEXEC) };
    let context = owned(context, "fsopen tracefs")?;
    let (fd, nothing) = (context.as_raw_fd(), std::ptr::null::<libc::c_char>());
    // SAFETY: this command takes neither key nor value.
    let made = unsafe { libc::syscall(libc::SYS_fsconfig, fd, FSCONFIG_CMD_CREATE, nothing, nothing, 0) };
    check(made as libc::c_int, "fsconfig of tracefs")?;
    // SAFETY: no pointer is passed.
    owned(unsafe { libc::syscall(libc::SYS_fsmount, fd, FSMOUNT_CLOEXEC, 0) }, "fsmount of tracefs")
}

fn owned(fd: libc::c_long, call: &str) -> Result<OwnedFd, Error> {
    let fd = check(fd as libc::c_int, call)?;
    // SAFETY: just made, and owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
