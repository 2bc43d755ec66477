//! Reading the kernel's log (syslog(2)).

use crate::{Error, check};

const SYSLOG_ACTION_READ_ALL: libc::c_int = 3;
const SYSLOG_ACTION_SIZE_BUFFER: libc::c_int = 10;

/// What the kernel's log holds now; the oldest lines of a full log are gone.
///
/// # Errors
/// EPERM without CAP_SYSLOG where `kernel.dmesg_restrict` is set.
pub fn kernel_log() -> Result<String, Error> {
    // SAFETY: this action takes no buffer.
    let size = check(unsafe { libc::klogctl(SYSLOG_ACTION_SIZE_BUFFER, std::ptr::null_mut(), 0) }, "syslog")?;
    let mut bytes = vec![0_u8; size as usize];
    // SAFETY: `bytes` is valid for writing `size` bytes.
    let length = check(unsafe { libc::klogctl(SYSLOG_ACTION_READ_ALL, bytes.as_mut_ptr().cast(), size) }, "syslog")?;
    bytes.truncate(length as usize);
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
