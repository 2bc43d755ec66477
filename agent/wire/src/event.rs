//! What the agent tells the lab: one JSON object a line, as in `docs/formats.md`.

use crate::envelope::Bound;
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
    /// `talk`, `listen`, `clock`, `ptp`, `flood` or `bridge`.
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
    /// How timestamps find their packets (talk): `id` or `payload`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stamp_key: Option<&'static str>,
    /// The sockets' local addresses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub local: Vec<String>,
}

/// How a thread runs, as read back from the kernel.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RealtimeFound {
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
        /// How often an answer told another state than the answer before it.
        states: u64,
        /// Least offset that was told; None: none was.
        offset_min_ns: Option<i64>,
        /// Largest offset that was told.
        offset_max_ns: Option<i64>,
    },
    /// Of `flood`.
    Flood(FloodTotals),
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
}
