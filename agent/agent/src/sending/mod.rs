//! Packets on their way out: prepared, handed in when they are due, and stamped.

pub mod lane;
pub mod outlet;
pub mod sender;
pub mod stamps;

use std::sync::atomic::AtomicU64;

/// What a sending thread has done for one stream, readable by the others at any time.
#[derive(Default)]
pub struct Counters {
    /// Packets the kernel took.
    pub packets: AtomicU64,
    /// Packets it refused.
    pub errors: AtomicU64,
    /// ICMP answers ("port unreachable") to earlier packets, by which a send call told of them: the packet then was taken.
    pub rejected: AtomicU64,
    /// Packets not handed to it: too late for their launch times.
    pub unsent_late: AtomicU64,
    /// Of those it took, such whose launch times had passed.
    pub launch_late: AtomicU64,
    /// Of those it took, such that were given later launch times.
    pub launch_moved: AtomicU64,
}
