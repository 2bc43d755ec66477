//! What the lab asks of the agent: one JSON object a verb, as in `docs/reference/agent.md`.

mod bridge;
mod busy;
mod clock;
mod dds;
mod drops;
mod flood;
mod listen;
mod ping;
mod ptp;
mod talk;
mod timer;
mod trace;
mod watch;

pub use bridge::{Bridge, MAX_PORTS, XdpMode};
pub use busy::{Busy, MAX_WORKERS, Work};
pub use clock::{Clock, Doorbell};
pub use dds::{Dds, DdsKind, DdsMode, DdsRole, DdsTransport, MAX_DOMAIN, MAX_SAMPLE_BYTES};
pub use drops::Drops;
pub use flood::Flood;
pub(crate) use listen::TRIGGER_NS;
pub use listen::{Listen, ListenStream, ListenTransport, Mode};
pub use ping::{Ping, PingSide, PingTransport, Pong, PongTransport};
pub use ptp::Ptp;
pub use talk::{
    KeyChoice, Lan, LatePolicy, LaunchClock, LaunchTime, MAX_BATCH, Mac, PrpCopy, Stamps, StampsBy, Talk, TalkStream,
    TalkTransport,
};
pub use timer::{How, Timer, Trace};
pub(crate) use trace::MOST_NUMBERS;
pub use trace::{Absent, Tracing};
pub use watch::{Flow, Macs, Network, Rule, Sight, Watch, WatchPoint, WatchTrigger};
pub(crate) use watch::{HOLD_NS, LEAST_PAYLOAD, LEAST_SNAP, MAX_INSTRUCTIONS, MAX_SAMPLE, MAX_TESTS, SNAP};

use crate::flight::{Ahead, Window};
use crate::probe;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};

/// A spec that cannot be done, in words: what is wrong and what was expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// Path of the offending value, such as `streams[0].size`.
    pub at: String,
    /// What is wrong with it.
    pub what: String,
}

impl std::fmt::Display for Wrong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.at, self.what)
    }
}

fn wrong<T>(at: impl Into<String>, what: impl Into<String>) -> Result<T, Wrong> {
    Err(Wrong { at: at.into(), what: what.into() })
}

/// How the measuring thread is to run; what is None is left as it is.
#[derive(Clone, Debug, Default, JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Realtime {
    /// SCHED_FIFO priority, 1 to 99.
    #[serde(default)]
    pub fifo: Option<u8>,
    /// CPUs it may run on.
    #[serde(default)]
    pub cpus: Option<Vec<usize>>,
    /// Lock and prefault all memory.
    #[serde(default)]
    pub lock_memory: bool,
    /// Longest wake-up from idle asked of `/dev/cpu_dma_latency`, µs.
    #[serde(default)]
    pub cpu_dma_latency_us: Option<i32>,
    /// Timer slack of the thread, ns.
    #[serde(default)]
    pub timer_slack_ns: Option<u64>,
}

impl Realtime {
    fn check(&self) -> Result<(), Wrong> {
        if self.fifo.is_some_and(|priority| !(1..=99).contains(&priority)) {
            return wrong("realtime.fifo", "expected 1 to 99");
        }
        if self.cpus.as_ref().is_some_and(Vec::is_empty) {
            return wrong("realtime.cpus", "expected at least one CPU");
        }
        Ok(())
    }
}

/// What the lab says after the spec.
#[derive(Clone, Debug, Default, JsonSchema, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Command {
    /// Launch packet 0 of each stream then (plus its offset), CLOCK_TAI ns.
    pub start_tai_ns: Option<i64>,
    /// The same, counted from when this is read: for people at a shell.
    pub start_in_ns: Option<i64>,
    /// Of `listen` with a trigger: what is known from now on of its streams' clocks.
    #[serde(default)]
    pub clocks: Vec<Ahead>,
    /// Of `trace` that keeps windows: the events of these.
    #[serde(default)]
    pub keep: Vec<Window>,
    /// Stop, finish the recordings, report, exit.
    #[serde(default)]
    pub stop: bool,
}

fn hexadecimal<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let text = String::deserialize(deserializer)?;
    if text.len() != 16 {
        return Err(serde::de::Error::custom(format!("{text:?} is not sixteen hexadecimal digits")));
    }
    u64::from_str_radix(&text, 16).map_err(|_| serde::de::Error::custom(format!("{text:?} is not hexadecimal")))
}

fn default_ring_records() -> usize {
    65_536
}

/// Most records a ring holds: a minute's at the highest rates, some hundred megabytes.
pub const MAX_RING_RECORDS: usize = 1 << 24;

fn check_ring(records: usize) -> Result<(), Wrong> {
    if !(1..=MAX_RING_RECORDS).contains(&records) {
        return wrong("ring_records", format!("expected 1 to {MAX_RING_RECORDS}"));
    }
    Ok(())
}

fn check_size(at: &str, size: usize) -> Result<(), Wrong> {
    if !(probe::HEADER_BYTES..=probe::MAX_BYTES).contains(&size) {
        return wrong(at, format!("{size} bytes; expected {} to {}", probe::HEADER_BYTES, probe::MAX_BYTES));
    }
    Ok(())
}

fn check_streams(streams: impl Iterator<Item = (u16, usize, u64)>) -> Result<(), Wrong> {
    let mut numbers = Vec::new();
    for (n, (stream, size, count)) in streams.enumerate() {
        if numbers.contains(&stream) {
            return wrong(format!("streams[{n}].stream"), format!("{stream} is taken already"));
        }
        numbers.push(stream);
        check_size(&format!("streams[{n}].size"), size)?;
        // Timestamps are matched by the low 32 bits of the sequence, so a stream must not be longer.
        if !(1..=u64::from(u32::MAX)).contains(&count) {
            return wrong(format!("streams[{n}].count"), format!("expected 1 to {}", u32::MAX));
        }
    }
    if numbers.is_empty() {
        return wrong("streams", "expected at least one");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_command_starts_or_stops() {
        let read = |text: &str| serde_json::from_str::<Command>(text).ok();
        assert_eq!(read(r#"{"start_tai_ns": 5}"#), Some(Command { start_tai_ns: Some(5), ..Command::default() }));
        assert_eq!(read(r#"{"stop": true}"#), Some(Command { stop: true, ..Command::default() }));
        assert_eq!(read(r#"{"pause": true}"#), None);
        let keep = vec![Window { from_tai_ns: 5, to_tai_ns: 9 }];
        let told = read(r#"{"keep": [{"from_tai_ns": 5, "to_tai_ns": 9}]}"#);
        assert_eq!(told, Some(Command { keep, ..Command::default() }));
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in "\\PC{0,200}") {
            let _ = serde_json::from_str::<Talk>(&text);
            let _ = serde_json::from_str::<Timer>(&text);
            let _ = serde_json::from_str::<Tracing>(&text);
            let _ = serde_json::from_str::<Command>(&text);
        }
    }
}
