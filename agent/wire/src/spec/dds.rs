//! What `dds` is asked for: questions and answers over Cyclone DDS.

use super::{Realtime, StampsBy, Wrong, check_ring, default_ring_records, hexadecimal, wrong};
use crate::pace::Way;
use crate::probe;
use schemars::JsonSchema;
use serde::Deserialize;

/// Largest probe in a DDS sample: what is larger than a datagram goes in fragments.
pub const MAX_SAMPLE_BYTES: usize = 16 << 20;
/// Highest domain id whose ports are all below 65536 (DDSI-RTPS 2.5, section 9.6.2.1, with the usual constants).
pub const MAX_DOMAIN: u32 = 230;

/// Which side it is.
#[derive(Clone, Copy, Debug, JsonSchema, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum DdsRole {
    /// Asks.
    Ping,
    /// Answers.
    Pong,
}

/// In which thread samples are taken.
#[derive(Clone, Copy, Debug, JsonSchema, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum DdsMode {
    /// In Cyclone's own receiving thread, by a listener.
    Listener,
    /// In a thread of the agent's that sleeps in a waitset.
    Block,
    /// In a thread of the agent's that asks again and again.
    Spin,
}

/// The domain, and how samples are kept.
#[derive(Clone, Debug, JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DdsTransport {
    /// Always `dds`.
    pub kind: DdsKind,
    /// Its id.
    pub domain: u32,
    /// Cyclone's configuration, as in CYCLONEDDS_URI; that variable is not read.
    pub config: String,
    /// Lost samples are sent again.
    pub reliable: bool,
    /// Samples that each side keeps; None: all.
    pub history: Option<u32>,
    /// CPUs that Cyclone's own threads may run on; None: all that the agent may.
    #[serde(default)]
    pub cpus: Option<Vec<usize>>,
}

/// The one kind of transport there is.
#[derive(Clone, Copy, Debug, JsonSchema, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum DdsKind {
    /// Cyclone DDS.
    Dds,
}

/// `latlab-agent dds`.
#[derive(Clone, Debug, JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dds {
    /// Which side it is.
    pub role: DdsRole,
    /// Sixteen hexadecimal digits.
    #[serde(deserialize_with = "hexadecimal")]
    #[schemars(with = "String")]
    pub run_id: u64,
    /// Recordings are written to this path and `.sent.arrow` and so on.
    pub recording: String,
    /// How the agent's own measuring threads run.
    pub realtime: Realtime,
    /// Records a ring to the writer holds.
    #[serde(default = "default_ring_records")]
    pub ring_records: usize,
    /// In which thread samples are taken.
    pub mode: DdsMode,
    /// The stream number of questions.
    pub up: u16,
    /// The stream number of answers.
    pub down: u16,
    /// The probe's name, for messages.
    pub name: String,
    /// The interface, for messages: which one is used is said in the configuration.
    pub interface: String,
    /// Bytes of the probe, in a sample that is a sequence of octets.
    pub size: usize,
    /// The domain.
    pub transport: DdsTransport,
    /// Of ping: how long it spins before a question is due, ns.
    #[serde(default)]
    pub busy_wait_ns: i64,
    /// Of ping: time between questions, ns; None: the next question follows the answer.
    #[serde(default)]
    pub period_ns: Option<i64>,
    /// Of ping: the first question after the start, ns.
    #[serde(default)]
    pub offset_ns: i64,
    /// Of ping, with a period: questions in all.
    #[serde(default)]
    pub count: Option<u64>,
    /// Of ping, without a period: no question is asked later than this after the first, ns.
    #[serde(default)]
    pub duration_ns: Option<i64>,
    /// Of ping: how long an answer is waited for, ns.
    #[serde(default)]
    pub timeout_ns: Option<i64>,
    /// Of ping: how long the other side is looked for, ns.
    #[serde(default = "ten_seconds")]
    pub discovery_ns: i64,
    /// Who takes the kernel's timestamps of samples: BPF programs, as the sockets are Cyclone's. None: nobody.
    #[serde(default)]
    pub stamps_by: Option<StampsBy>,
    /// Say in `progress` how long round trips take (ping), and what the hypervisor takes.
    #[serde(default)]
    pub live: bool,
}

fn ten_seconds() -> i64 {
    10_000_000_000
}

impl Dds {
    /// Checks what the types cannot.
    ///
    /// # Errors
    /// The first value that cannot be done.
    pub fn check(&self) -> Result<(), Wrong> {
        self.realtime.check()?;
        check_ring(self.ring_records)?;
        if !(probe::HEADER_BYTES..=MAX_SAMPLE_BYTES).contains(&self.size) {
            let expected = format!("expected {} to {MAX_SAMPLE_BYTES}", probe::HEADER_BYTES);
            return wrong("size", format!("{} bytes; {expected}", self.size));
        }
        if self.up == self.down {
            return wrong("down", "expected another number than up's");
        }
        if self.transport.domain > MAX_DOMAIN {
            return wrong("transport.domain", format!("expected 0 to {MAX_DOMAIN}"));
        }
        if self.transport.history.is_some_and(|depth| !(1..=i32::MAX as u32).contains(&depth)) {
            return wrong("transport.history", "expected 1 or more, or null for all");
        }
        if self.transport.cpus.as_ref().is_some_and(Vec::is_empty) {
            return wrong("transport.cpus", "expected at least one CPU");
        }
        if self.transport.config.contains('\0') {
            return wrong("transport.config", "expected text without zero bytes");
        }
        match self.role {
            DdsRole::Ping => self.way().map(drop),
            DdsRole::Pong => self.check_answers_only(),
        }
    }

    /// When questions are asked, and for how long.
    ///
    /// # Errors
    /// What a ping needs is missing, or cannot be done.
    pub fn way(&self) -> Result<(Way, i64), Wrong> {
        let timeout_ns = match self.timeout_ns {
            Some(ns) if ns >= 1 => ns,
            _ => return wrong("timeout_ns", "expected 1 or more"),
        };
        for (name, ns) in [("busy_wait_ns", self.busy_wait_ns), ("offset_ns", self.offset_ns)] {
            if ns < 0 {
                return wrong(name, "expected 0 or more");
            }
        }
        if self.discovery_ns < 1 {
            return wrong("discovery_ns", "expected 1 or more");
        }
        let way = match (self.period_ns, self.count, self.duration_ns) {
            (Some(period_ns), Some(count), _) => {
                if period_ns < 1 {
                    return wrong("period_ns", "expected 1 or more, or null");
                }
                if !(1..=u64::from(u32::MAX)).contains(&count) {
                    return wrong("count", format!("expected 1 to {}", u32::MAX));
                }
                if (count as i64).checked_mul(period_ns).is_none() {
                    return wrong("count", "the questions would last longer than 292 years");
                }
                Way::Open { period_ns, count }
            }
            (Some(_), None, _) => return wrong("count", "expected a number, with a period"),
            (None, None, Some(duration_ns)) if duration_ns >= 1 => Way::Closed { duration_ns },
            (None, None, _) => return wrong("duration_ns", "expected 1 or more, without a period"),
            (None, Some(_), _) => return wrong("count", "expected null, without a period"),
        };
        Ok((way, timeout_ns))
    }

    fn check_answers_only(&self) -> Result<(), Wrong> {
        let asks = [
            ("period_ns", self.period_ns.is_some()),
            ("count", self.count.is_some()),
            ("duration_ns", self.duration_ns.is_some()),
            ("timeout_ns", self.timeout_ns.is_some()),
            ("offset_ns", self.offset_ns != 0),
            ("busy_wait_ns", self.busy_wait_ns != 0),
        ];
        if let Some((name, _)) = asks.iter().find(|(_, given)| *given) {
            return wrong(*name, "pong asks nothing: leave it out");
        }
        let Realtime { fifo, cpus, timer_slack_ns, .. } = &self.realtime;
        let own = [("fifo", fifo.is_some()), ("cpus", cpus.is_some()), ("timer_slack_ns", timer_slack_ns.is_some())];
        match own.iter().find(|(_, given)| *given && self.mode == DdsMode::Listener) {
            Some((name, _)) => wrong(
                format!("realtime.{name}"),
                "with mode listener a pong has no thread of its own: Cyclone's are set by <Threads> in transport.config, \
                 and by transport.cpus",
            ),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn spec(changes: Value) -> Result<Dds, String> {
        let mut whole = json!({
            "role": "ping", "run_id": "00000000000000ab", "recording": "x", "realtime": {}, "mode": "listener",
            "up": 1, "down": 2, "name": "dds", "interface": "eth0", "size": 200, "duration_ns": 1_000, "timeout_ns": 10,
            "transport": {"kind": "dds", "domain": 0, "config": "", "reliable": true, "history": 1}});
        for (key, value) in changes.as_object().unwrap() {
            whole[key] = value.clone();
        }
        serde_json::from_value(whole).map_err(|error| error.to_string())
    }

    fn refused_at(changes: Value) -> String {
        spec(changes).unwrap().check().unwrap_err().at
    }

    #[test]
    fn a_ping_asks_at_a_rate_or_after_each_answer() {
        let closed = spec(json!({})).unwrap();
        assert_eq!(closed.check(), Ok(()));
        assert_eq!(closed.way(), Ok((Way::Closed { duration_ns: 1_000 }, 10)));
        assert_eq!(closed.discovery_ns, 10_000_000_000);
        let open = spec(json!({"period_ns": 5, "count": 7})).unwrap();
        assert_eq!(open.way(), Ok((Way::Open { period_ns: 5, count: 7 }, 10)));
    }

    #[test]
    fn what_cannot_be_done_is_told_by_its_name() {
        for (changes, at) in [
            (json!({"size": 39}), "size"),
            (json!({"size": MAX_SAMPLE_BYTES + 1}), "size"),
            (json!({"down": 1}), "down"),
            (json!({"timeout_ns": null}), "timeout_ns"),
            (json!({"timeout_ns": 0}), "timeout_ns"),
            (json!({"period_ns": 5}), "count"),
            (json!({"period_ns": 0, "count": 7}), "period_ns"),
            (json!({"period_ns": i64::MAX, "count": 7}), "count"),
            (json!({"count": 7}), "count"),
            (json!({"duration_ns": null}), "duration_ns"),
            (json!({"offset_ns": -1}), "offset_ns"),
            (json!({"discovery_ns": 0}), "discovery_ns"),
            (json!({"ring_records": 0}), "ring_records"),
            (json!({"role": "pong"}), "duration_ns"),
            (json!({"role": "pong", "duration_ns": null, "timeout_ns": null, "period_ns": 5}), "period_ns"),
            (
                json!({"role": "pong", "duration_ns": null, "timeout_ns": null, "realtime": {"fifo": 5}}),
                "realtime.fifo",
            ),
        ] {
            assert_eq!(refused_at(changes.clone()), at, "{changes}");
        }
        for (key, value) in
            [("domain", json!(231)), ("history", json!(0)), ("cpus", json!([])), ("config", json!("\0"))]
        {
            let mut transport =
                json!({"kind": "dds", "domain": 0, "config": "", "reliable": true, "history": null, "cpus": null});
            transport[key] = value;
            assert_eq!(refused_at(json!({"transport": transport})), format!("transport.{key}"));
        }
    }

    #[test]
    fn an_unknown_field_or_transport_is_no_spec() {
        assert!(spec(json!({"colour": "red"})).unwrap_err().contains("colour"));
        assert!(spec(json!({"transport": {"kind": "udp"}})).is_err());
    }
}
