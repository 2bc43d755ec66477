//! What came of a verb: totals.

use crate::dds::Below;
use crate::envelope::Bound;
use crate::flight::JudgedTotals;
use crate::lateness::Figures;
use crate::stage::StageTotals;
use crate::watch::Other;
use schemars::JsonSchema;
use serde::Serialize;

/// Totals of a verb.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[serde(untagged)]
pub enum Done {
    /// Of `talk`.
    Talk {
        /// By stream.
        streams: Vec<TalkTotals>,
        /// CPU time of the thread that sent them, ns.
        cpu_ns: i64,
        /// How often that thread slept and was woken.
        wakeups: i64,
        /// Of the BPF programs that took timestamps; None: none did.
        #[serde(skip_serializing_if = "Option::is_none")]
        stages: Option<StageTotals>,
        /// Records lost because a ring was full.
        ring_full: u64,
        /// Records written.
        recorded: u64,
    },
    /// Of `listen`.
    Listen {
        /// By stream.
        streams: Vec<ListenTotals>,
        /// What was refused, by kind.
        #[serde(flatten)]
        refused: Refused,
        /// Packets the kernel dropped because the socket's queue was full.
        socket_drops: u64,
        /// Receptions announced by the kernel that turned out empty.
        empty_wakeups: u64,
        /// Of the BPF programs that took timestamps; None: none did.
        #[serde(skip_serializing_if = "Option::is_none")]
        stages: Option<StageTotals>,
        /// Of a trigger; None: there was none.
        #[serde(skip_serializing_if = "Option::is_none")]
        judged: Option<JudgedTotals>,
        /// Records lost because a ring was full.
        ring_full: u64,
        /// Records written.
        recorded: u64,
    },
    /// Of `ping`.
    Ping {
        /// Questions taken by the kernel.
        sent: u64,
        /// Questions refused by the kernel.
        send_errors: u64,
        /// Questions answered before they were given up.
        answered: u64,
        /// Questions sent and not.
        unanswered: u64,
        /// As of both.
        #[serde(flatten)]
        totals: RoundTotals,
    },
    /// Of `pong`.
    Pong {
        /// Answers taken by the kernel.
        answered: u64,
        /// Answers refused by the kernel.
        send_errors: u64,
        /// As of both.
        #[serde(flatten)]
        totals: RoundTotals,
    },
    /// Of `clock`.
    Clock {
        /// Answered questions.
        exchanges: u64,
        /// Unanswered ones.
        lost: u64,
        /// What they prove together; None if no straight line fits.
        bound: Option<Bound>,
        /// What each interval proves by itself.
        windows: Vec<Bound>,
    },
    /// Of `ptp`.
    Ptp {
        /// Rows with an answer.
        answers: u64,
        /// Rows without.
        unanswered: u64,
        /// Periods in which it was not asked, as the agent itself was delayed; no rows.
        missed: u64,
        /// How often an answer told another state than the answer before it.
        state_changes: u64,
        /// Least offset that was reported; None: none was.
        offset_min_ns: Option<i64>,
        /// Largest offset that was reported.
        offset_max_ns: Option<i64>,
        /// Rows lost because the ring was full.
        ring_full: u64,
        /// Rows written.
        recorded: u64,
    },
    /// Of `flood`.
    Flood(FloodTotals),
    /// Of `busy`.
    Busy(BusyTotals),
    /// Of `dds`, asking.
    DdsPing(DdsPingTotals),
    /// Of `dds`, answering.
    DdsPong(DdsPongTotals),
    /// Of `timer`.
    Timer {
        /// Number of the stream of instants.
        stream: u16,
        /// Instants come to.
        events: u64,
        /// Of these, such that had passed when their turn came: no timer was set for them.
        overdue: u64,
        /// How long in all such instants waited for room in the recording, ns.
        held_up_ns: i64,
        /// How late they were come to.
        #[serde(flatten)]
        lateness: Figures,
        /// Instants for which a timer was set, and of whose interrupt nothing was reported; None: interrupts were not reported.
        trace_lost: Option<u64>,
        /// Records lost because a ring was full.
        ring_full: u64,
        /// Records written.
        recorded: u64,
    },
    /// Of `trace`.
    Trace {
        /// Events recorded.
        events: u64,
        /// Events lost, as a buffer was full.
        lost: u64,
        /// Both, by CPU.
        cpus: Vec<CpuEvents>,
        /// Where only windows were kept.
        #[serde(skip_serializing_if = "Option::is_none")]
        kept: Option<KeptTotals>,
        /// Rows lost because a ring was full.
        ring_full: u64,
        /// Rows written.
        recorded: u64,
    },
    /// Of `drops`.
    Drops {
        /// Drops of packets recorded: of one packet there may be several, as of copies.
        drops: u64,
        /// Drops not recorded, as the kernel's ring was full.
        lost: u64,
        /// Rows lost because a ring was full.
        ring_full: u64,
        /// Rows written.
        recorded: u64,
    },
    /// Of `watch`.
    Watch {
        /// When it stopped watching, CLOCK_TAI.
        end_tai_ns: i64,
        /// By point.
        points: Vec<PointSeen>,
        /// Packets of the flow that this kernel dropped, and that are recorded.
        drops: u64,
        /// The largest rejected flows, of points and directions where no packet was accepted.
        others: Vec<OtherFlow>,
        /// Of a trigger; None: there was none.
        #[serde(skip_serializing_if = "Option::is_none")]
        judged: Option<JudgedTotals>,
        /// Packets that a rule fitted and that were not recorded, as the programs' rings were full.
        lost: u64,
        /// Rows lost because a ring was full.
        ring_full: u64,
        /// Rows written.
        recorded: u64,
    },
    /// Of `bridge`.
    Bridge {
        /// By port.
        ports: Vec<PortTotals>,
    },
}

/// What a trace kept of windows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
pub struct KeptTotals {
    /// Windows kept.
    pub windows: u64,
    /// Of these, such of which events were no longer held.
    pub overran: u64,
    /// Events of other times that the kernel gave up for later ones, as it is to.
    pub overwritten: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde hands out a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Packets of the flow at a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct PointSeen {
    /// Came in there, and are recorded.
    #[serde(rename = "in")]
    pub came: u64,
    /// Left there, and are recorded.
    #[serde(rename = "out")]
    pub left: u64,
    /// Came in there, recorded or not.
    #[serde(rename = "passed_in")]
    pub all_that_came: u64,
    /// Left there, recorded or not.
    #[serde(rename = "passed_out")]
    pub all_that_left: u64,
    /// Of sockets: received before they could be read, so that they are not recorded.
    #[serde(skip_serializing_if = "is_zero")]
    pub unread: u64,
}

/// Packets of a flow that `flow` of the spec rejected.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct OtherFlow {
    /// How many.
    pub packets: u64,
    /// Which, and where.
    #[serde(flatten)]
    pub flow: Other,
}

/// ICMP answers ("port unreachable") to packets that the kernel took: a firewall rejects them, or nobody listens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Rejected {
    /// How many were reported: kernels limit their rate.
    #[serde(rename = "rejected")]
    pub answers: u64,
    /// What the kernel made of the last one.
    #[serde(rename = "rejected_errno", skip_serializing_if = "Option::is_none")]
    pub errno: Option<i32>,
}

impl Rejected {
    /// One more.
    pub fn note(&mut self, errno: i32) {
        *self = Self { answers: self.answers + 1, errno: Some(errno) };
    }

    /// Both together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { answers: self.answers + other.answers, errno: self.errno.or(other.errno) }
    }
}

/// One talked stream's totals.
#[derive(Clone, Copy, Debug, Default, JsonSchema, Serialize)]
pub struct TalkTotals {
    /// Its number.
    pub stream: u16,
    /// Accepted by the kernel.
    pub sent: u64,
    /// Refused by the kernel.
    pub send_errors: u64,
    /// Answered by ICMP.
    #[serde(flatten)]
    pub rejected: Rejected,
    /// Not handed over: too late for their launch times.
    pub unsent_late: u64,
    /// Handed over after their launch times, with them.
    pub launch_late: u64,
    /// Handed over with later launch times than the schedule's.
    pub launch_moved: u64,
    /// Timestamps received, by kind.
    pub tx_sched: u64,
    /// Timestamps received, by kind.
    pub tx_soft: u64,
    /// Timestamps received, by kind.
    pub tx_hard: u64,
    /// Launch times refused by the qdisc.
    pub launch_invalid: u64,
    /// Launch times that passed in the queue.
    pub launch_missed: u64,
    /// Messages that could not be matched to a packet.
    pub stray_stamps: u64,
}

/// One listened stream's totals.
#[derive(Clone, Copy, Debug, Default, JsonSchema, Serialize)]
pub struct ListenTotals {
    /// Its number.
    pub stream: u16,
    /// Valid packets, each sequence once.
    pub received: u64,
    /// Further copies.
    pub repeated: u64,
    /// Valid packets overtaken by a later one.
    pub reordered: u64,
    /// Sequences that are not in the stream.
    pub out_of_range: u64,
    /// Frames of a stream with a VLAN that came without their tag, and are in none of the other counts.
    pub untagged: u64,
}

/// What a listener refused, by kind.
#[derive(Clone, Copy, Debug, Default, JsonSchema, Serialize)]
pub struct Refused {
    /// Not a probe.
    pub foreign: u64,
    /// A probe cut short.
    pub truncated: u64,
    /// Another run's.
    pub other_run: u64,
    /// A stream that this listener does not know.
    pub unknown_stream: u64,
}

/// Of `done`, what was taken in: answers at ping, questions at pong.
#[derive(Clone, Copy, Debug, Default, JsonSchema, Serialize)]
pub struct Taken {
    /// Valid packets, or samples of DDS, each sequence once.
    pub received: u64,
    /// Further copies.
    pub repeated: u64,
    /// Valid ones overtaken by a later one.
    pub reordered: u64,
    /// Sequences that are not in the stream, or too far behind to be told from repeated ones.
    pub out_of_range: u64,
    /// Frames with a VLAN that came without their tag, and are in none of the other counts.
    pub untagged: u64,
    /// What was refused, by kind.
    #[serde(flatten)]
    pub refused: Refused,
}

/// What ping and pong count alike: of the leg that comes in, and of the timestamps of the one that goes out.
#[derive(Clone, Debug, Default, JsonSchema, Serialize)]
pub struct RoundTotals {
    /// Of the leg that comes in.
    #[serde(flatten)]
    pub taken: Taken,
    /// Of the leg that goes out: answered by ICMP.
    #[serde(flatten)]
    pub rejected: Rejected,
    /// Packets the kernel dropped because the socket's queue was full.
    pub socket_drops: u64,
    /// Receptions announced by the kernel that turned out empty.
    pub empty_wakeups: u64,
    /// Timestamps received, by kind.
    pub tx_sched: u64,
    /// Timestamps received, by kind.
    pub tx_soft: u64,
    /// Timestamps received, by kind.
    pub tx_hard: u64,
    /// Messages that could not be matched to a packet.
    pub stray_stamps: u64,
    /// Of the BPF programs that took timestamps; None: none did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stages: Option<StageTotals>,
    /// Records lost because a ring was full.
    pub ring_full: u64,
    /// Records written.
    pub recorded: u64,
}

/// Totals of a DDS ping.
#[derive(Clone, Debug, Default, JsonSchema, Serialize)]
pub struct DdsPingTotals {
    /// Questions that Cyclone took.
    pub sent: u64,
    /// Questions that it did not.
    pub send_errors: u64,
    /// Questions of those sent that have an answer, however late.
    pub answered: u64,
    /// Those that have none.
    pub unanswered: u64,
    /// Answers.
    #[serde(flatten)]
    pub taken: Taken,
    /// What happened below.
    #[serde(flatten)]
    pub below: Below,
    /// Timestamps of samples on entry to the qdisc layer.
    pub tx_sched: u64,
    /// Timestamps of samples on handing them to the driver.
    pub tx_soft: u64,
    /// What the BPF programs came to that take timestamps; None: there are none.
    pub stages: Option<StageTotals>,
    /// Records lost because a ring was full.
    pub ring_full: u64,
    /// Records written.
    pub recorded: u64,
}

/// Totals of a DDS pong.
#[derive(Clone, Debug, Default, JsonSchema, Serialize)]
pub struct DdsPongTotals {
    /// Answers that Cyclone took.
    pub answered: u64,
    /// Answers that it did not.
    pub send_errors: u64,
    /// Questions.
    #[serde(flatten)]
    pub taken: Taken,
    /// What happened below.
    #[serde(flatten)]
    pub below: Below,
    /// Timestamps of samples on entry to the qdisc layer.
    pub tx_sched: u64,
    /// Timestamps of samples on handing them to the driver.
    pub tx_soft: u64,
    /// What the BPF programs came to that take timestamps; None: there are none.
    pub stages: Option<StageTotals>,
    /// Records lost because a ring was full.
    pub ring_full: u64,
    /// Records written.
    pub recorded: u64,
}

/// Totals of a flood.
#[derive(Clone, Copy, Debug, Default, JsonSchema, Serialize)]
pub struct FloodTotals {
    /// Sent, or taken in.
    pub packets: u64,
    /// UDP payload.
    pub bytes: u64,
    /// From the first packet to the last.
    pub elapsed_ns: i64,
    /// Average over `elapsed_ns`.
    pub packets_per_s: f64,
    /// UDP payload, average over `elapsed_ns`.
    pub bits_per_s: f64,
    /// Send calls the kernel refused.
    pub send_errors: u64,
}

/// Totals of a busy.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct BusyTotals {
    /// What was done: `exits` or `calls`.
    pub what: &'static str,
    /// How often, by all workers together.
    pub count: u64,
    /// From when the first worker began until the last had ended.
    pub elapsed_ns: i64,
    /// Average over `elapsed_ns`, of all workers together.
    pub per_s: f64,
    /// Who runs this machine, as it signs itself; None: nobody, or it does not report it.
    pub hypervisor: Option<String>,
}

/// A port of a bridge, as it was set up.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct BridgePort {
    /// Its name.
    pub interface: String,
    /// The kernel's number for it.
    pub ifindex: u32,
    /// `native` or `generic`.
    pub mode: &'static str,
}

/// What became of the frames that came in at a port of a bridge.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct PortTotals {
    /// Its name.
    pub interface: String,
    /// Handed to another port.
    pub redirected: u64,
    /// Left to the kernel bridge.
    pub passed: u64,
    /// Of those handed to another port: refused by it. None: not counted on this machine.
    pub dropped: Option<u64>,
}

/// What became of a CPU's events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
pub struct CpuEvents {
    /// The CPU.
    pub cpu: usize,
    /// Read.
    pub events: u64,
    /// Lost, as its buffer was full.
    pub lost: u64,
}
