//! The rows of the recordings, as the hot threads make them: plain, fixed-size, copied through a ring.

use crate::ptp::Status;

/// Most bytes that are kept of a packet (`agent/bpf/watch.bpf.c`).
pub const MAX_SNAP: usize = 256;

/// What was done with a packet, as `late` in the recording says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Late {
    /// Nothing special: it was not late.
    No = 0,
    /// Its launch had passed, and it was handed over with it nevertheless.
    Reported = 1,
    /// It was handed over with a later launch time.
    Moved = 2,
    /// It was not handed over.
    Dropped = 3,
}

/// A packet handed to the kernel, or dropped as too late for its launch time (table `sent`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Number of the stream.
    pub stream: u16,
    /// Position in the stream.
    pub sequence: u64,
    /// When it was meant to leave, CLOCK_TAI.
    pub launch_tai_ns: i64,
    /// When the thread meant to wake for it: launch − lead − busy wait.
    pub wake_due_tai_ns: i64,
    /// When the thread woke, or came round to it without having slept.
    pub wake_tai_ns: i64,
    /// Just before the send call; when it was found too late, if it was dropped.
    pub submit_tai_ns: i64,
    /// 0, or the errno of the send call.
    pub error: i32,
    /// Whether it was late for its launch time, and what was done then.
    pub late: Late,
}

/// What an error-queue message says about a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum StampKind {
    /// Entered the qdisc layer (SCM_TSTAMP_SCHED), CLOCK_REALTIME.
    TxSched = 0,
    /// Handed to the driver (SCM_TSTAMP_SND, software), CLOCK_REALTIME.
    TxSoft = 1,
    /// Left the NIC (SCM_TSTAMP_SND, hardware), the NIC's clock.
    TxHard = 2,
    /// The qdisc refused its launch time (SO_EE_CODE_TXTIME_INVALID_PARAM).
    LaunchInvalid = 3,
    /// Its launch time passed while it was queued (SO_EE_CODE_TXTIME_MISSED).
    LaunchMissed = 4,
}

/// A message of the error queue, matched to its packet (table `stamps`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Number of the stream.
    pub stream: u16,
    /// Position in the stream.
    pub sequence: u64,
    /// What is stamped, and so on which clock.
    pub kind: StampKind,
    /// The instant in ns, on the clock of `kind`.
    pub stamp_ns: i64,
}

/// A valid packet that arrived (table `received`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Number of the stream.
    pub stream: u16,
    /// Position in the stream.
    pub sequence: u64,
    /// The launch time it carried, on the talker's CLOCK_TAI.
    pub launch_tai_ns: i64,
    /// The NIC's receive timestamp, on the NIC's clock.
    pub rx_hard_phc_ns: Option<i64>,
    /// The kernel's receive timestamp, CLOCK_REALTIME.
    pub rx_soft_real_ns: Option<i64>,
    /// When the receive call had returned, CLOCK_TAI.
    pub rx_user_tai_ns: i64,
}

/// An interval of a trace that a flight recorder kept (table `kept`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Its first instant, CLOCK_TAI.
    pub from_tai_ns: i64,
    /// Its last.
    pub to_tai_ns: i64,
    /// Its events were there, of all CPUs; else some were no longer held.
    pub whole: bool,
}

/// A host's clocks read together (table `clocks`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clocks {
    /// CLOCK_TAI.
    pub tai_ns: i64,
    /// CLOCK_REALTIME.
    pub real_ns: i64,
    /// CLOCK_MONOTONIC.
    pub monotonic_ns: i64,
    /// CLOCK_MONOTONIC_RAW.
    pub monotonic_raw_ns: i64,
    /// How long reading all of them took: the most any two can be apart.
    pub bracket_ns: i64,
}

/// One question and answer between two clocks (table `exchanges`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// Position among the questions asked.
    pub sequence: u64,
    /// Asked, initiator's CLOCK_TAI.
    pub t1_tai_ns: i64,
    /// Question arrived, responder's CLOCK_TAI.
    pub t2_tai_ns: i64,
    /// Answer sent, responder's CLOCK_TAI.
    pub t3_tai_ns: i64,
    /// Answer arrived, initiator's CLOCK_TAI.
    pub t4_tai_ns: i64,
}

/// An instant that was waited for, and when it was come to (table `timer`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Woken {
    /// Number of the stream of instants.
    pub stream: u16,
    /// Position in it.
    pub sequence: u64,
    /// The instant, CLOCK_TAI.
    pub due_tai_ns: i64,
    /// When the handler of the timer's interrupt began, by CLOCK_TAI; None: no timer was set, or it was unknown.
    pub irq_tai_ns: Option<i64>,
    /// When the thread had come to it, CLOCK_TAI.
    pub woke_tai_ns: i64,
    /// It had passed when the thread was done with the one before: no timer was set for it.
    pub overdue: bool,
}

/// What a tracepoint told, or that records were lost (table `trace`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traced {
    /// When, CLOCK_TAI.
    pub tai_ns: i64,
    /// On which CPU.
    pub cpu: u16,
    /// Which tracepoint ([`crate::traceable`]); 0: records of this CPU were lost before this instant.
    pub event: u8,
    /// In which state the CPU was: the kernel's `common_flags`.
    pub flags: u8,
    /// How deeply it might not be preempted, and not change its CPU: the kernel's `common_preempt_count`.
    pub preempt: u8,
    /// The thread that ran there, by the kernel's number; 0 is idle.
    pub pid: i32,
    /// What it is of; of lost records how many. None: the kernel does not report it.
    pub subject: Option<i64>,
    /// And more.
    pub detail: Option<i64>,
}

/// Who a thread is that a trace names (table `tasks`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// When it was looked up, CLOCK_TAI.
    pub tai_ns: i64,
    /// Its number.
    pub pid: i32,
    /// Its name, ended by a zero where it is shorter; None: it was gone by then.
    pub comm: Option<[u8; 16]>,
    /// Whether it is one of the kernel's own; None: it was gone by then.
    pub kernel: Option<bool>,
}

/// A packet that the kernel dropped (table `drops`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// When, CLOCK_TAI.
    pub tai_ns: i64,
    /// Number of the stream.
    pub stream: u16,
    /// Position in the stream.
    pub sequence: u64,
    /// The kernel's reason, as it names it, without what all names begin with; None: it gives none.
    pub reason: Option<&'static str>,
    /// Name of the interface the packet was at, ended by a zero where it is shorter; None: it was at none.
    pub device: Option<[u8; 16]>,
    /// Number of that interface, or of the last one it came in at; None: unknown.
    pub ifindex: Option<u32>,
    /// Inode of the network namespace it was in; None: unknown.
    pub netns: Option<u32>,
    /// The kernel's function that had it freed; None: unknown.
    pub location: Option<&'static str>,
}

/// A packet of anybody's traffic that was seen at a point (table `watched`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watched {
    /// When, CLOCK_TAI.
    pub tai_ns: i64,
    /// Number of the point.
    pub point: u8,
    /// It left there; else it came in.
    pub out: bool,
    /// It begins with an Ethernet header; else with an IP header.
    pub ethernet: bool,
    /// Bytes of the packet.
    pub length: u32,
    /// Packets of the wire that it stands for.
    pub segments: u16,
    /// How many of its first bytes are in `bytes`.
    pub captured: u16,
    /// Those, and zeros.
    pub bytes: [u8; MAX_SNAP],
}

/// A packet of anybody's traffic that the kernel dropped (table `dropped`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchedDrop {
    /// When, CLOCK_TAI.
    pub tai_ns: i64,
    /// It begins with an Ethernet header; else with an IP header.
    pub ethernet: bool,
    /// Bytes of the packet.
    pub length: u32,
    /// How many of its first bytes are in `bytes`.
    pub captured: u16,
    /// Those, and zeros.
    pub bytes: [u8; MAX_SNAP],
    /// As of [`Dropped`].
    pub reason: Option<&'static str>,
    /// The same.
    pub device: Option<[u8; 16]>,
    /// The same.
    pub ifindex: Option<u32>,
    /// The same.
    pub netns: Option<u32>,
    /// The same.
    pub location: Option<&'static str>,
}

/// What a PTP clock said of itself, or that it said nothing (table `ptp`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// When the answers were in, or were no longer waited for, CLOCK_TAI.
    pub tai_ns: i64,
    /// The same, CLOCK_MONOTONIC.
    pub monotonic_ns: i64,
    /// What it said; None: it did not answer.
    pub status: Option<Status>,
    /// How the observed clock's rate was steered then, parts per 10¹²; None: unknown.
    pub frequency_ppt: Option<i64>,
}
