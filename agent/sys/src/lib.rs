//! The only unsafe code of the agent: system calls the standard library does not offer, behind safe functions.
//!
//! Nothing here decides anything. Every function names the call it makes in its error.

pub mod allocations;
mod call;
pub mod clock;
pub mod counter;
pub mod descriptor;
pub mod errqueue;
pub mod ethtool;
pub mod first;
pub mod halt;
pub mod hypervisor;
pub mod io_port;
pub mod local;
pub mod log;
mod message;
pub mod order;
pub mod peer;
pub mod poll;
pub mod port;
pub mod process;
pub mod ptp;
pub mod receive;
pub mod send;
pub mod shared;
pub mod signal;
pub mod socket;
pub mod tcp;
pub mod thread;
pub mod timerfd;
pub mod timex;
pub mod tracefs;

/// A system call that failed: which, and with what errno.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The call and what it was for, such as `setsockopt SO_TXTIME`.
    pub call: String,
    /// errno.
    pub errno: i32,
}

impl Error {
    /// The calling thread's errno, just set by `call`.
    pub fn last(call: impl Into<String>) -> Self {
        Self { call: call.into(), errno: errno() }
    }

    /// Whether a connected socket may report by it an ICMP answer to an earlier packet: with the next send, which was then not
    /// tried, or the next receive. A route that is missing is reported by some of the same, each time.
    ///
    /// Of those that are fatal in net/ipv4/icmp.c, `icmp_err_convert`, and net/ipv6/icmp.c, `tab_unreach`: nobody listens, a
    /// firewall or a router rejects.
    pub fn may_be_icmp(&self) -> bool {
        const FATAL: [i32; 8] = [
            libc::ECONNREFUSED,
            libc::EHOSTUNREACH,
            libc::ENETUNREACH,
            libc::EACCES,
            libc::ENOPROTOOPT,
            libc::EHOSTDOWN,
            libc::ENONET,
            libc::EPROTO,
        ];
        FATAL.contains(&self.errno)
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.call, std::io::Error::from_raw_os_error(self.errno))
    }
}

impl std::error::Error for Error {}

/// The calling thread's errno.
fn errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// `Ok(value)` if the call succeeded (did not return −1).
fn check(value: libc::c_int, call: &str) -> Result<libc::c_int, Error> {
    if value == -1 { Err(Error::last(call)) } else { Ok(value) }
}
