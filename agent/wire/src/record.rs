//! The rows of the recordings, as the hot threads make them: plain, fixed-size, copied through a ring. A field is a column.

use crate::in_c::defined;
use crate::ptp::ClockIdentity;
use crate::table::{Cell, Values, cells, tables};

/// Most bytes that are kept of a packet.
pub const MAX_SNAP: usize = defined(include_str!("../../bpf/watch.bpf.c"), "MAX_SNAP") as usize;

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

/// The first bytes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Snap {
    captured: u16,
    bytes: [u8; MAX_SNAP],
}

impl Snap {
    /// These; None: they are more than are kept.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        let mut kept = [0; MAX_SNAP];
        kept.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(Self { captured: bytes.len() as u16, bytes: kept })
    }

    /// They.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.captured)]
    }
}

cells! {
    Late => U8, |late| late as u8;
    StampKind => U8, |kind| kind as u8;
    ClockIdentity => U64, |clock: ClockIdentity| clock.0;
}

impl Cell for Snap {
    fn values<R>(of: impl Fn(&R) -> &Self + Send + 'static) -> Values<R> {
        Values::Bytes(Box::new(move |row| of(row).bytes()))
    }
}

tables! {
    /// A packet handed to the kernel, or dropped as too late for its launch time.
    Sent in "sent" {
        /// Number of the stream.
        stream: u16,
        /// Position in the stream.
        sequence: u64,
        /// When it was meant to leave, CLOCK_TAI.
        launch_tai_ns: i64,
        /// When the thread meant to wake for it: launch − lead − busy wait.
        wake_due_tai_ns: i64,
        /// When the thread woke, or came round to it without having slept.
        wake_tai_ns: i64,
        /// Just before the send call; when it was found too late, if it was dropped.
        submit_tai_ns: i64,
        /// 0, or the errno of the send call.
        error: i32,
    }
    added {
        /// Whether it was late for its launch time, and what was done then.
        late: Late,
    }

    /// A message of the error queue, matched to its packet.
    Stamp in "stamps" {
        /// Number of the stream.
        stream: u16,
        /// Position in the stream.
        sequence: u64,
        /// What is stamped, and so on which clock.
        kind: StampKind,
        /// The instant in ns, on the clock of `kind`.
        stamp_ns: i64,
    }

    /// A valid packet that arrived.
    Received in "received" {
        /// Number of the stream.
        stream: u16,
        /// Position in the stream.
        sequence: u64,
        /// The launch time it carried, on the talker's CLOCK_TAI.
        launch_tai_ns: i64,
        /// The NIC's receive timestamp, on the NIC's clock.
        rx_hard_phc_ns: Option<i64>,
        /// The kernel's receive timestamp, CLOCK_REALTIME.
        rx_soft_real_ns: Option<i64>,
        /// When the receive call had returned, CLOCK_TAI.
        rx_user_tai_ns: i64,
    }

    /// An interval of a trace that a flight recorder kept.
    Kept in "kept" {
        /// Its first instant, CLOCK_TAI.
        from_tai_ns: i64,
        /// Its last.
        to_tai_ns: i64,
        /// Its events were there, of all CPUs; else some were no longer held.
        whole: bool,
    }

    /// A host's clocks read together.
    Clocks in "clocks" {
        /// CLOCK_TAI.
        tai_ns: i64,
        /// CLOCK_REALTIME.
        real_ns: i64,
        /// CLOCK_MONOTONIC.
        monotonic_ns: i64,
        /// CLOCK_MONOTONIC_RAW.
        monotonic_raw_ns: i64,
        /// How long reading all of them took: the most any two can be apart.
        bracket_ns: i64,
    }

    /// One question and answer between two clocks.
    Exchange in "exchanges" {
        /// Position among the questions asked.
        sequence: u64,
        /// Asked, initiator's CLOCK_TAI.
        t1_tai_ns: i64,
        /// Question arrived, responder's CLOCK_TAI.
        t2_tai_ns: i64,
        /// Answer sent, responder's CLOCK_TAI.
        t3_tai_ns: i64,
        /// Answer arrived, initiator's CLOCK_TAI.
        t4_tai_ns: i64,
    }

    /// An instant that was waited for, and when it was come to.
    Woken in "timer" {
        /// Number of the stream of instants.
        stream: u16,
        /// Position in it.
        sequence: u64,
        /// The instant, CLOCK_TAI.
        due_tai_ns: i64,
        /// When the handler of the timer's interrupt began, by CLOCK_TAI; None: no timer was set, or it was unknown.
        irq_tai_ns: Option<i64>,
        /// When the thread had come to it, CLOCK_TAI.
        woke_tai_ns: i64,
        /// It had passed when the thread was done with the one before: no timer was set for it.
        overdue: bool,
    }

    /// What a tracepoint told, or that records were lost.
    Traced in "trace" {
        /// When, CLOCK_TAI.
        tai_ns: i64,
        /// On which CPU.
        cpu: u16,
        /// Which tracepoint ([`crate::traceable`]); 0: records of this CPU were lost before this instant.
        event: u8,
        /// In which state the CPU was: the kernel's `common_flags`.
        flags: u8,
        /// How deeply it might not be preempted, and not change its CPU: the kernel's `common_preempt_count`.
        preempt: u8,
        /// The thread that ran there, by the kernel's number; 0 is idle.
        pid: i32,
        /// What it is of; of lost records how many. None: the kernel does not report it.
        subject: Option<i64>,
        /// And more.
        detail: Option<i64>,
    }

    /// Who a thread is that a trace names.
    Task in "tasks" {
        /// When it was looked up, CLOCK_TAI.
        tai_ns: i64,
        /// Its number.
        pid: i32,
        /// Its name, ended by a zero where it is shorter; None: it was gone by then.
        comm: Option<[u8; 16]>,
        /// Whether it is one of the kernel's own; None: it was gone by then.
        kernel: Option<bool>,
    }

    /// A packet that the kernel dropped.
    Dropped in "drops" {
        /// When, CLOCK_TAI.
        tai_ns: i64,
        /// Number of the stream.
        stream: u16,
        /// Position in the stream.
        sequence: u64,
        /// The kernel's reason, as it names it, without what all names begin with; None: it gives none.
        reason: Option<&'static str>,
        /// Name of the interface the packet was at, ended by a zero where it is shorter; None: it was at none.
        device: Option<[u8; 16]>,
        /// Number of that interface, or of the last one it came in at; None: unknown.
        ifindex: Option<u32>,
        /// Inode of the network namespace it was in; None: unknown.
        netns: Option<u32>,
        /// The kernel's function that had it freed; None: unknown.
        location: Option<&'static str>,
    }

    /// A packet of anybody's traffic that was seen at a point.
    Watched in "watched" {
        /// When, CLOCK_TAI.
        tai_ns: i64,
        /// Number of the point.
        point: u8,
        /// It left there; else it came in.
        out: bool,
        /// It begins with an Ethernet header; else with an IP header.
        ethernet: bool,
        /// Bytes of the packet.
        length: u32,
        /// Its first bytes.
        bytes: Snap,
    }
    added {
        /// Packets of the wire that it stands for.
        segments: u16,
    }

    /// A packet of anybody's traffic that the kernel dropped.
    WatchedDrop in "dropped" {
        /// When, CLOCK_TAI.
        tai_ns: i64,
        /// It begins with an Ethernet header; else with an IP header.
        ethernet: bool,
        /// Bytes of the packet.
        length: u32,
        /// Its first bytes.
        bytes: Snap,
        /// As of [`Dropped`].
        reason: Option<&'static str>,
        /// The same.
        device: Option<[u8; 16]>,
        /// The same.
        ifindex: Option<u32>,
        /// The same.
        netns: Option<u32>,
        /// The same.
        location: Option<&'static str>,
    }

    /// What a PTP clock said of itself, or that it said nothing.
    Reading in "ptp" {
        /// When the answers were in, or were no longer waited for, CLOCK_TAI.
        tai_ns: i64,
        /// The same, CLOCK_MONOTONIC.
        monotonic_ns: i64,
        /// It answered.
        answered: bool,
        /// What its port is doing, by the numbers of the standard; 0: it did not answer.
        state: u8,
        /// As of [`crate::ptp::Status`]; None, too, where it did not answer.
        offset_ns: Option<i64>,
        /// The same.
        ingress_ns: Option<i64>,
        /// The same.
        path_delay_ns: Option<i64>,
        /// The same.
        grandmaster: Option<ClockIdentity>,
        /// The same.
        steps_removed: Option<u16>,
        /// How the observed clock's rate was steered then, parts per 10¹²; None: unknown.
        frequency_ppt: Option<i64>,
    }
}
