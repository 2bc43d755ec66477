//! Ending on request.

use crate::{Error, check};
use std::sync::atomic::{AtomicBool, Ordering};

static ASKED: AtomicBool = AtomicBool::new(false);

extern "C" fn note(_signal: libc::c_int) {
    ASKED.store(true, Ordering::Relaxed);
}

/// Lets SIGTERM, SIGINT and SIGHUP ask for an end instead of making one. A broken pipe stays an error of the write.
///
/// # Errors
/// `sigaction` failed.
pub fn catch_termination() -> Result<(), Error> {
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
        // SAFETY: all-zero is a valid sigaction.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = note as extern "C" fn(libc::c_int) as libc::sighandler_t;
        // SAFETY: the handler only stores to an atomic; the old action is not asked for.
        check(unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) }, "sigaction")?;
    }
    Ok(())
}

/// Whether an end has been asked for.
pub fn termination_asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}
