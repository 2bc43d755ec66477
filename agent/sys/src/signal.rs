//! Signals: those that ask for an end, and one that wakes a thread from a system call.

use crate::{Error, check};
use std::os::unix::thread::JoinHandleExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

static ASKED: AtomicBool = AtomicBool::new(false);

extern "C" fn note(_signal: libc::c_int) {
    ASKED.store(true, Ordering::Relaxed);
}

/// Lets SIGTERM, SIGINT and SIGHUP ask for an end instead of making one. A broken pipe stays an error of the write.
///
/// # Errors
/// `sigaction` failed.
pub fn catch_termination() -> Result<(), Error> {
    [libc::SIGTERM, libc::SIGINT, libc::SIGHUP].into_iter().try_for_each(|signal| handle(signal, note))
}

/// Has `handler`, which must be safe in a signal handler, called for `signal`; system calls are not restarted after it.
fn handle(signal: libc::c_int, handler: extern "C" fn(libc::c_int)) -> Result<(), Error> {
    // SAFETY: all-zero is a valid sigaction.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as libc::sighandler_t;
    // SAFETY: the handlers of this module store to an atomic or do nothing; the old action is not asked for.
    check(unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) }, "sigaction").map(drop)
}

/// Whether an end has been asked for.
pub fn termination_asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}

/// Nobody else's here, and harmless once there is a handler.
const WAKE: libc::c_int = libc::SIGUSR1;
/// So often a thread is woken that may have been about to sleep.
const AGAIN: Duration = Duration::from_millis(1);

extern "C" fn wake_only(_signal: libc::c_int) {}

/// Wakes threads from the system calls they sleep in, which then return EINTR.
///
/// For what a call's own timeout would do, where the thread comes by too often for one: the kernel sets a timer and takes it
/// back each time such a call sleeps (`schedule_timeout`, kernel/time/sleep_timeout.c).
#[derive(Clone, Copy, Debug)]
pub struct Waker(());

impl Waker {
    /// From now on threads can be woken.
    ///
    /// # Errors
    /// `sigaction` failed.
    pub fn new() -> Result<Self, Error> {
        handle(WAKE, wake_only)?;
        Ok(Self(()))
    }

    /// Wakes `thread` from the call that it is in. One that is about to make a call sleeps in it nevertheless: this is to be
    /// said until it has its effect.
    pub fn wake<T>(self, thread: &JoinHandle<T>) {
        // SAFETY: a thread that has not been joined has its number still; the signal has a handler since `new`. That the
        // thread may have ended is no matter.
        unsafe { libc::pthread_kill(thread.as_pthread_t(), WAKE) };
    }

    /// Wakes `thread`, which has been asked to end, until it has.
    pub fn wake_until_ended<T>(self, thread: &JoinHandle<T>) {
        while !thread.is_finished() {
            self.wake(thread);
            std::thread::sleep(AGAIN);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_woken_from_a_call_that_would_never_return() {
        let waker = Waker::new().unwrap();
        let thread = std::thread::spawn(|| {
            // SAFETY: no pointer is passed to be read or written.
            let result = unsafe { libc::poll(std::ptr::null_mut(), 0, -1) };
            (result, crate::errno())
        });
        waker.wake_until_ended(&thread);
        waker.wake(&thread);
        assert_eq!(thread.join().unwrap(), (-1, libc::EINTR));
    }
}
