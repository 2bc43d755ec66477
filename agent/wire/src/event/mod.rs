//! What the agent reports to the lab: one JSON object a line, as in `docs/reference/agent.md`.

mod done;
mod ready;

use crate::dds;
use crate::envelope::Bound;
use crate::flight::Window;
use crate::lateness::Figures;
use crate::live::Seen;
pub use done::{
    BridgePort, BusyTotals, CpuEvents, DdsPingTotals, DdsPongTotals, Done, FloodTotals, KeptTotals, ListenTotals,
    OtherFlow, PointSeen, PortTotals, Refused, Rejected, RoundTotals, Taken, TalkTotals,
};
pub use ready::{DropsFound, EventAbsent, EventFound, Ready, RealtimeFound, StampsFound, TimerFound, WatchFound};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// A line on standard output.
#[derive(Clone, Debug, JsonSchema, Serialize)]
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
        /// Where it is asked for.
        #[serde(flatten)]
        live: Live,
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
    /// Of `clock`: set up.
    #[serde(rename = "ready")]
    ClockReady {
        /// As of every verb.
        #[serde(flatten)]
        ready: Ready,
        /// What has been compared so far says this of the offset; absent: nothing has.
        #[serde(skip_serializing_if = "Option::is_none")]
        bound: Option<Bound>,
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
        /// Why interrupts, of which the kernel was to report if it can, are not reported; None: they are, or were not asked for.
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
        /// Where it is asked for.
        #[serde(flatten)]
        live: Live,
    },
    /// Of `timer`: what came of the instants of a interval.
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
    /// Of `drops`: set up; dropped packets are recorded from now on, where they can be.
    #[serde(rename = "ready")]
    DropsReady {
        /// As of every verb.
        #[serde(flatten)]
        ready: Ready,
        /// What is watched, and what cannot be.
        drops: DropsFound,
    },
    /// Of `watch`: set up; packets are recorded from now on.
    #[serde(rename = "ready")]
    WatchReady {
        /// As of every verb.
        #[serde(flatten)]
        ready: Ready,
        /// How packets are recorded.
        watch: WatchFound,
        /// Whether drops are recorded, where they were asked for.
        #[serde(skip_serializing_if = "Option::is_none")]
        drops: Option<DropsFound>,
    },
    /// Of `bridge`: counters so far.
    #[serde(rename = "progress")]
    BridgeProgress {
        /// CLOCK_TAI now.
        tai_ns: i64,
        /// By port.
        ports: Vec<PortTotals>,
    },
    /// Of `listen` or `watch` with a trigger: of these intervals the kernel's events are to be kept.
    Late {
        /// CLOCK_TAI now.
        tai_ns: i64,
        /// In order of time; they do not overlap.
        windows: Vec<Window>,
    },
    /// Every expected packet has arrived.
    Complete {
        /// CLOCK_TAI now.
        tai_ns: i64,
    },
    /// Before the end, where the measuring thread might run on CPUs of several kinds.
    Cores {
        /// How many rows of its recordings it made on each CPU.
        rows: BTreeMap<usize, u64>,
    },
    /// The end, and what came of it.
    Done(Done),
    /// It cannot go on.
    Error(Failure),
}

/// What progress says of the agent's machine and clocks where the spec asks for it (`live`), as far as it is known.
#[derive(Clone, Copy, Debug, Default, JsonSchema, Serialize)]
pub struct Live {
    /// How long the hypervisor has run something else while CPUs of this machine were ready to run, all of them together, ns since boot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steal_ns: Option<i64>,
    /// Of `clock`: what the latest exchanges say of the offset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound: Option<Bound>,
}

/// Packets of one stream so far.
#[derive(Clone, Copy, Debug, JsonSchema, Serialize)]
pub struct StreamProgress {
    /// Its number.
    pub stream: u16,
    /// Sent, or received.
    pub packets: u64,
    /// Of a stream that comes in, where the spec asks for it (`live`).
    #[serde(flatten)]
    pub seen: Option<Seen>,
}

impl StreamProgress {
    /// So many packets of this stream, of which no more is known.
    pub fn counted(stream: u16, packets: u64) -> Self {
        Self { stream, packets, seen: None }
    }
}

/// Why the agent cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
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
            stages: None,
            judged: None,
            ring_full: 0,
            recorded: 0,
        }));
        assert_eq!(done.unwrap()["foreign"], 3);
    }

    #[test]
    fn progress_says_more_only_where_it_is_asked_for() {
        let plain = Event::Progress { tai_ns: 5, streams: vec![StreamProgress::counted(1, 7)], live: Live::default() };
        assert_eq!(
            serde_json::to_value(plain).unwrap(),
            json!({"event": "progress", "tai_ns": 5, "streams": [{"stream": 1, "packets": 7}]})
        );
        let seen = |since_last| Some(Seen { missing: 2, since_last });
        let latencies = crate::live::Latencies { n: 4, p50_ns: 10, p99_ns: 20, max_ns: 20 };
        let live = Event::Progress {
            tai_ns: 5,
            streams: vec![
                StreamProgress { seen: seen(Some(latencies)), ..StreamProgress::counted(1, 7) },
                StreamProgress { seen: seen(None), ..StreamProgress::counted(2, 0) },
            ],
            live: Live { steal_ns: Some(30), bound: None },
        };
        assert_eq!(
            serde_json::to_value(live).unwrap(),
            json!({"event": "progress", "tai_ns": 5, "steal_ns": 30, "streams": [
                {"stream": 1, "packets": 7, "missing": 2, "since_last": {"n": 4, "p50_ns": 10, "p99_ns": 20, "max_ns": 20}},
                {"stream": 2, "packets": 0, "missing": 2, "since_last": null},
            ]})
        );
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
