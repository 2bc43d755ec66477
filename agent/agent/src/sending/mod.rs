//! Packets on their way out: prepared, handed in when they are due, and stamped.

pub mod lane;
pub mod outlet;
pub mod sender;
pub mod stamps;

use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use wire::event::Rejected;

/// What a sending thread has done for one stream, readable by the others at any time.
#[derive(Default)]
pub struct Counters {
    /// Packets the kernel took.
    pub packets: AtomicU64,
    /// Packets it refused.
    pub errors: AtomicU64,
    /// ICMP answers to earlier packets, of which a send call reported the last: that packet then was taken.
    pub rejected: Rejections,
    /// Packets not handed to it: too late for their launch times.
    pub unsent_late: AtomicU64,
    /// Of those it took, such whose launch times had passed.
    pub launch_late: AtomicU64,
    /// Of those it took, such that were given later launch times.
    pub launch_moved: AtomicU64,
}

/// [`Rejected`], as a sending thread counts them.
#[derive(Default)]
pub struct Rejections {
    answers: AtomicU64,
    errno: AtomicI32,
}

impl Rejections {
    /// One more, by this errno.
    pub fn note(&self, errno: i32) {
        self.errno.store(errno, Ordering::Relaxed);
        self.answers.fetch_add(1, Ordering::Relaxed);
    }

    /// Those there were.
    pub fn read(&self) -> Rejected {
        let errno = self.errno.load(Ordering::Relaxed);
        Rejected { answers: self.answers.load(Ordering::Relaxed), errno: (errno != 0).then_some(errno) }
    }
}
