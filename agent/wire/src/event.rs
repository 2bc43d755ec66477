//! What the agent tells the lab: one JSON object a line, as in `docs/formats.md`.

use crate::dds;
use crate::envelope::Bound;
use crate::lateness::Figures;
use serde::Serialize;

/// A line on standard output.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum Event {
    /// Set up; nothing sent yet.
    Ready(Ready),
    /// Counters so far.
    Progress {
        /// CLOCK_TAI now.
        tai_ns: i64,
        /// Packets so far, by stream.
        streams: Vec<StreamProgress>,
    },
    /// Of `bridge`: set up.
    #[serde(rename = "ready")]
    BridgeReady {
        /// As of every verb.
        #[serde(flatten)]
        ready: Ready,
        /// Where the program runs.
        ports: Vec<BridgePort>,
        /// Entries of the kernel bridge's table that are followed.
        fdb: usize,
    },
    /// Of `ptp`: set up.
    #[serde(rename = "ready")]
    PtpReady {
        /// As of every verb.
        #[serde(flatten)]
        ready: Ready,
        /// Why the clock whose frequency was to be recorded cannot be read; None: it can, or none was named.
        clock: Option<Failure>,
    },
    /// Of `dds`: set up, and for ping the other side found.
    #[serde(rename = "ready")]
    DdsReady {
        /// As of every verb.
        #[serde(flatten)]
        ready: Ready,
        /// What runs, and who was found.
        #[serde(flatten)]
        found: dds::Found,
    },
    /// Of `timer`: set up.
    #[serde(rename = "ready")]
    TimerReady {
        /// As of every verb.
        #[serde(flatten)]
        ready: Ready,
        /// The timer that is used.
        timer: TimerFound,
        /// Why interrupts, of which the kernel was to tell if it can, are not told of; None: they are, or were not asked for.
        trace_problem: Option<Failure>,
    },
    /// Of `timer`: counters so far.
    #[serde(rename = "progress")]
    TimerProgress {
        /// CLOCK_TAI now.
        tai_ns: i64,
        /// One, whose packets are instants come to.
        streams: Vec<StreamProgress>,
        /// Of these, such that had passed when their turn came.
        overdue: u64,
    },
    /// Of `timer`: what came of the instants of a stretch of time.
    Window {
        /// CLOCK_TAI now.
        tai_ns: i64,
        /// Number of the stream of instants.
        stream: u16,
        /// They were due from then on.
        from_tai_ns: i64,
        /// And before then.
        to_tai_ns: i64,
        /// How many they are.
        n: u64,
        /// Of these, such that had passed when their turn came.
        overdue: u64,
        /// How late they were come to.
        #[serde(flatten)]
        lateness: Figures,
    },
    /// Of `trace`: set up; events are recorded from now on.
    #[serde(rename = "ready")]
    TraceReady {
        /// As of every verb.
        #[serde(flatten)]
        ready: Ready,
        /// The clock that the kernel's records were made by: CLOCK_TAI, or CLOCK_MONOTONIC, whose readings are converted.
        clock: &'static str,
        /// The tracepoints.
        events: Vec<EventFound>,
        /// Those that were asked for and that this kernel does not have.
        absent: Vec<EventAbsent>,
    },
    /// Of `trace`: counters so far.
    #[serde(rename = "progress")]
    TraceProgress {
        /// CLOCK_TAI now.
        tai_ns: i64,
        /// Events read.
        events: u64,
        /// Events lost.
        lost: u64,
    },
    /// Of `bridge`: counters so far.
    #[serde(rename = "progress")]
    BridgeProgress {
        /// CLOCK_TAI now.
        tai_ns: i64,
        /// By port.
        ports: Vec<PortTotals>,
    },
    /// Every expected packet has arrived.
    Complete {
        /// CLOCK_TAI now.
        tai_ns: i64,
    },
    /// The end, and what came of it.
    Done(Done),
    /// It cannot go on.
    Error(Failure),
}

/// Set up; nothing sent yet.
#[derive(Clone, Debug, Serialize)]
pub struct Ready {
    /// `talk`, `listen`, `ping`, `pong`, `clock`, `ptp`, `timer`, `trace`, `flood`, `busy`, `bridge` or `dds`.
    pub verb: &'static str,
    /// The agent's.
    pub version: &'static str,
    /// Its process.
    pub pid: u32,
    /// CLOCK_TAI now.
    pub tai_ns: i64,
    /// TAI − UTC as the kernel knows it; 0 on a machine nobody told.
    pub tai_offset_s: i32,
    /// How the measuring thread runs, as read back.
    pub realtime: RealtimeFound,
    /// How timestamps find their packets (talk, ping, pong): `id` or `payload`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stamp_key: Option<&'static str>,
    /// The sockets' local addresses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub local: Vec<String>,
}

/// The timer of `timer`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TimerFound {
    /// The clock it is set by: CLOCK_TAI, or CLOCK_REALTIME at whole seconds from it.
    pub clock: &'static str,
    /// How finely.
    pub resolution_ns: Option<i64>,
    /// What makes the interrupt, on the first CPU the thread may run on.
    pub event_device: Option<String>,
    /// Period of the counter that this counts by.
    pub tick_ns: Option<f64>,
    /// Whether interrupts are told of.
    pub traced: bool,
}

/// A tracepoint that is recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EventFound {
    /// Its name.
    pub event: String,
    /// The field that `subject` is, on this kernel; None: it tells none.
    pub subject: Option<&'static str>,
    /// The field that `detail` is, likewise.
    pub detail: Option<&'static str>,
    /// Which of its records count, as the kernel was told; None: all.
    pub filter: Option<String>,
}

/// A tracepoint that this kernel does not have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EventAbsent {
    /// Its name.
    pub event: String,
    /// What it would have told.
    pub tells: &'static str,
    /// What to do.
    pub remedy: &'static str,
}

/// What became of a CPU's events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CpuEvents {
    /// The CPU.
    pub cpu: usize,
    /// Read.
    pub events: u64,
    /// Lost, as its buffer was full.
    pub lost: u64,
}

/// How a thread runs, as read back from the kernel.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RealtimeFound {
    /// The thread's number, as this process sees it.
    pub tid: u32,
    /// SCHED_OTHER, SCHED_FIFO and so on.
    pub policy: String,
    /// Its priority in that policy.
    pub priority: i32,
    /// CPUs it may run on.
    pub cpus: Vec<usize>,
    /// All memory locked.
    pub memory_locked: bool,
    /// What `/dev/cpu_dma_latency` was asked for, µs.
    pub cpu_dma_latency_us: Option<i32>,
    /// Timer slack, ns.
    pub timer_slack_ns: u64,
    /// What was asked for and could not be had.
    pub problems: Vec<String>,
}

/// Packets of one stream so far.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct StreamProgress {
    /// Its number.
    pub stream: u16,
    /// Sent, or received.
    pub packets: u64,
}

/// Totals of a verb.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum Done {
    /// Of `talk`.
    Talk {
        /// By stream.
        streams: Vec<TalkTotals>,
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
        /// What each stretch of time proves by itself.
        windows: Vec<Bound>,
    },
    /// Of `ptp`.
    Ptp {
        /// Rows with an answer.
        answers: u64,
        /// Rows without.
        unanswered: u64,
        /// Periods in which it was not asked, as the agent itself was held up; no rows.
        missed: u64,
        /// How often an answer told another state than the answer before it.
        state_changes: u64,
        /// Least offset that was told; None: none was.
        offset_min_ns: Option<i64>,
        /// Largest offset that was told.
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
    DdsPing(dds::PingTotals),
    /// Of `dds`, answering.
    DdsPong(dds::PongTotals),
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
        /// Instants for which a timer was set, and of whose interrupt nothing was told; None: interrupts were not told of.
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

/// One talked stream's totals.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct TalkTotals {
    /// Its number.
    pub stream: u16,
    /// Accepted by the kernel.
    pub sent: u64,
    /// Refused by the kernel.
    pub send_errors: u64,
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
#[derive(Clone, Copy, Debug, Default, Serialize)]
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
}

/// What a listener refused, by kind.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Refused {
    /// Not a probe.
    pub foreign: u64,
    /// A probe cut short.
    pub truncated: u64,
    /// Another run's.
    pub other_run: u64,
    /// A stream this listener was not told of.
    pub unknown_stream: u64,
}

/// What ping and pong count alike: of the leg that comes in, and of the timestamps of the one that goes out.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct RoundTotals {
    /// Valid packets, each sequence once.
    pub received: u64,
    /// Further copies.
    pub repeated: u64,
    /// Valid packets overtaken by a later one.
    pub reordered: u64,
    /// Sequences that are not in the stream, or too far behind to be told from repeated ones.
    pub out_of_range: u64,
    /// What was refused, by kind.
    #[serde(flatten)]
    pub refused: Refused,
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
    /// Records lost because a ring was full.
    pub ring_full: u64,
    /// Records written.
    pub recorded: u64,
}

/// Totals of a flood.
#[derive(Clone, Copy, Debug, Default, Serialize)]
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
#[derive(Clone, Debug, Serialize)]
pub struct BusyTotals {
    /// What was done: `exits` or `calls`.
    pub what: &'static str,
    /// How often, by all workers together.
    pub count: u64,
    /// From when the first worker began until the last had ended.
    pub elapsed_ns: i64,
    /// Average over `elapsed_ns`, of all workers together.
    pub per_s: f64,
    /// Who runs this machine, as it signs itself; None: nobody, or it does not tell.
    pub hypervisor: Option<String>,
}

/// A port of a bridge, as it was set up.
#[derive(Clone, Debug, Serialize)]
pub struct BridgePort {
    /// Its name.
    pub interface: String,
    /// The kernel's number for it.
    pub ifindex: u32,
    /// `native` or `generic`.
    pub mode: &'static str,
}

/// What became of the frames that came in at a port of a bridge.
#[derive(Clone, Debug, Serialize)]
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

/// Why the agent cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// What was tried and what came back.
    pub what: String,
    /// On what: a path, an interface, a field of the spec.
    #[serde(rename = "where")]
    pub place: String,
    /// What to do next.
    pub remedy: String,
    /// The system's error number, if it gave one.
    pub errno: Option<i32>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn events_stand_on_one_line_with_their_name() {
        let line = serde_json::to_value(Event::Error(Failure {
            what: "no such interface".into(),
            place: "eth9".into(),
            remedy: "name one that exists".into(),
            errno: None,
        }));
        assert_eq!(
            line.unwrap(),
            json!({"event": "error", "what": "no such interface", "where": "eth9", "remedy": "name one that exists", "errno": null})
        );
        let done = serde_json::to_value(Event::Done(Done::Listen {
            streams: vec![],
            refused: Refused { foreign: 3, ..Refused::default() },
            socket_drops: 0,
            empty_wakeups: 0,
            ring_full: 0,
            recorded: 0,
        }));
        assert_eq!(done.unwrap()["foreign"], 3);
    }

    #[test]
    fn a_window_has_its_statistics_beside_its_ends() {
        let mut latenesses = crate::lateness::Latenesses::default();
        [20, 40].into_iter().for_each(|ns| latenesses.add(ns, 30));
        let window = Event::Window {
            tai_ns: 2_050,
            stream: 3,
            from_tai_ns: 1_000,
            to_tai_ns: 2_000,
            n: latenesses.n(),
            overdue: 1,
            lateness: Figures::of(&latenesses, 30),
        };
        assert_eq!(
            serde_json::to_value(window).unwrap(),
            json!({"event": "window", "tai_ns": 2_050, "stream": 3, "from_tai_ns": 1_000, "to_tai_ns": 2_000, "n": 2,
                "overdue": 1, "mean_ns": 30.0, "stddev_ns": 10.0, "min_ns": 20, "max_ns": 40, "above": 1, "threshold_ns": 30})
        );
    }
}
