//! What `ping` and `pong` are asked for.

use super::talk::{check_tag, half_a_second};
use super::{Mac, Mode, Realtime, Stamps, Wrong, check_ring, check_size, default_ring_records, hexadecimal, wrong};
use schemars::JsonSchema;
use serde::Deserialize;
use std::net::SocketAddr;

/// Where questions go.
#[derive(Clone, Debug, JsonSchema, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum PingTransport {
    /// UDP datagrams.
    Udp {
        /// Local address; port 0 lets the kernel choose.
        source: SocketAddr,
        /// Where pong listens.
        destination: SocketAddr,
    },
    /// One TCP connection.
    Tcp {
        /// Local address; port 0 lets the kernel choose.
        source: SocketAddr,
        /// Where pong listens.
        destination: SocketAddr,
    },
    /// Ethernet frames of our own making.
    Ethernet {
        /// Destination MAC address.
        destination: Mac,
        /// EtherType of the frames of both legs, inside the VLAN tag if there is one.
        ethertype: u16,
        /// VLAN id of an in-band 802.1Q tag, in both legs.
        vlan: Option<u16>,
        /// Priority code point of the tag.
        pcp: Option<u8>,
    },
}

/// Where questions come in.
#[derive(Clone, Debug, JsonSchema, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum PongTransport {
    /// UDP datagrams, answered to the address they come from.
    Udp {
        /// Local address and port.
        listen: SocketAddr,
    },
    /// TCP connections, one at a time.
    Tcp {
        /// Local address and port.
        listen: SocketAddr,
    },
    /// Ethernet frames, answered to the MAC address they come from.
    Ethernet {
        /// EtherType of the frames of both legs, inside the VLAN tag if there is one.
        ethertype: u16,
        /// VLAN id of an in-band 802.1Q tag, in both legs.
        vlan: Option<u16>,
        /// Priority code point of the answers' tag.
        pcp: Option<u8>,
    },
}

/// What both sides of a ping are told.
#[derive(Clone, Debug, JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PingSide {
    /// Sixteen hexadecimal digits.
    #[serde(deserialize_with = "hexadecimal")]
    #[schemars(with = "String")]
    pub run_id: u64,
    /// Recordings are written to this path and `.sent.arrow` and so on.
    pub recording: String,
    /// How the measuring threads run.
    pub realtime: Realtime,
    /// How long ping spins before a question is due, ns; with [`Mode::Spin`] it spins all the time. Pong waits for no answer.
    #[serde(default)]
    pub busy_wait_ns: i64,
    /// Records a ring to the writer holds.
    #[serde(default = "default_ring_records")]
    pub ring_records: usize,
    /// How long to wait for the last timestamps, ns.
    #[serde(default = "half_a_second")]
    pub stamp_timeout_ns: i64,
    /// Which transmit timestamps; none over TCP.
    pub stamps: Stamps,
    /// How packets are waited for.
    pub mode: Mode,
    /// How long a receive call polls the NIC, µs, with [`Mode::BusyPoll`].
    #[serde(default)]
    pub busy_poll_us: Option<u32>,
    /// Ask for the NIC's receive timestamps.
    #[serde(default)]
    pub hardware_stamps: bool,
    /// Ask for the kernel's receive timestamps; none over TCP.
    pub software_stamps: bool,
    /// Number of the stream of questions.
    pub up: u16,
    /// Number of the stream of answers.
    pub down: u16,
    /// The probe's name, for messages.
    pub name: String,
    /// This side's interface, for questions and answers.
    pub interface: String,
    /// Bytes of a question, and of an answer.
    pub size: usize,
    /// SO_PRIORITY.
    pub priority: u32,
    /// Say in `progress` how long round trips take (ping), and what the hypervisor takes.
    #[serde(default)]
    pub live: bool,
}

impl PingSide {
    fn check(&self) -> Result<(), Wrong> {
        self.possible().map_err(|Wrong { at, what }| Wrong { at: format!("side.{at}"), what })
    }

    fn possible(&self) -> Result<(), Wrong> {
        self.realtime.check()?;
        check_ring(self.ring_records)?;
        check_size("size", self.size)?;
        if self.busy_wait_ns < 0 {
            return wrong("busy_wait_ns", "expected 0 or more");
        }
        if self.up == self.down {
            return wrong("down", format!("{} is the number of the questions", self.up));
        }
        if self.mode == Mode::BusyPoll && self.busy_poll_us.is_none() {
            return wrong("busy_poll_us", "expected microseconds with mode busy-poll");
        }
        Ok(())
    }
}

/// `latlab-agent ping`.
#[derive(Clone, Debug, JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ping {
    /// What pong is told as well.
    pub side: PingSide,
    /// Time between launches, ns; None: each question follows the answer to the one before.
    pub period_ns: Option<i64>,
    /// First launch after the start, ns.
    #[serde(default)]
    pub offset_ns: i64,
    /// Questions in all, with a period.
    pub count: Option<u64>,
    /// How long questions are asked after the first launch, ns, without a period.
    pub duration_ns: i64,
    /// How long an answer is waited for, ns: without a period before the next question, with one after the last.
    pub timeout_ns: i64,
    /// Where to.
    pub transport: PingTransport,
}

impl Ping {
    /// Checks what the types cannot.
    ///
    /// # Errors
    /// The first value that cannot be done.
    pub fn check(&self) -> Result<(), Wrong> {
        self.side.check()?;
        for (name, ns, least) in
            [("offset_ns", self.offset_ns, 0), ("duration_ns", self.duration_ns, 1), ("timeout_ns", self.timeout_ns, 1)]
        {
            if ns < least {
                return wrong(name, format!("expected {least} or more"));
            }
        }
        match (self.period_ns, self.count) {
            (None, None) => {}
            (None, Some(_)) => return wrong("count", "expected null without a period: duration_ns says how long"),
            (Some(_), None) => return wrong("count", "expected a number with a period"),
            (Some(period_ns), _) if period_ns < 1 => return wrong("period_ns", "expected 1 or more"),
            // Timestamps are matched by the low 32 bits of the sequence.
            (_, Some(count)) if !(1..=u64::from(u32::MAX)).contains(&count) => {
                return wrong("count", format!("expected 1 to {}", u32::MAX));
            }
            (Some(period_ns), Some(count)) => {
                if period_ns.checked_mul(count as i64).is_none() {
                    return wrong("count", "the probe would last longer than 292 years");
                }
            }
        }
        match self.transport {
            PingTransport::Udp { source, destination } | PingTransport::Tcp { source, destination } => {
                if source.is_ipv4() != destination.is_ipv4() {
                    return wrong("transport.destination", "expected an address of the source's family");
                }
                if destination.port() == 0 {
                    return wrong("transport.destination", "expected a port");
                }
                Ok(())
            }
            PingTransport::Ethernet { vlan, pcp, .. } => check_tag("transport", vlan, pcp),
        }
    }
}

/// `latlab-agent pong`.
#[derive(Clone, Debug, JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pong {
    /// What ping is told as well.
    pub side: PingSide,
    /// Where from.
    pub transport: PongTransport,
}

impl Pong {
    /// Checks what the types cannot.
    ///
    /// # Errors
    /// The first value that cannot be done.
    pub fn check(&self) -> Result<(), Wrong> {
        self.side.check()?;
        match self.transport {
            PongTransport::Udp { .. } | PongTransport::Tcp { .. } => Ok(()),
            PongTransport::Ethernet { vlan, pcp, .. } => check_tag("transport", vlan, pcp),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn side() -> Value {
        json!({"run_id": "8f3c5e0d12ab34cd", "recording": "/tmp/x", "realtime": {"fifo": 90}, "busy_wait_ns": 0,
            "ring_records": 65536, "stamp_timeout_ns": 500_000_000, "mode": "block", "busy_poll_us": null, "hardware_stamps": false, "software_stamps": true,
            "stamps": {"sched": true, "software": true, "hardware": false, "key": "auto"},
            "up": 1, "down": 2, "name": "rr", "interface": "eth0", "size": 64, "priority": 0})
    }

    fn ping() -> Value {
        json!({"side": side(), "period_ns": 1_000_000, "offset_ns": 0, "count": 10_000, "duration_ns": 10_000_000_000_i64,
            "timeout_ns": 1_000_000_000, "transport": {"kind": "udp", "source": "10.78.0.1:0", "destination": "10.78.0.2:5557"}})
    }

    fn pong() -> Value {
        json!({"side": side(), "transport": {"kind": "udp", "listen": "10.78.0.2:5557"}})
    }

    fn said_of_ping(change: impl FnOnce(&mut Value)) -> String {
        let mut value = ping();
        change(&mut value);
        match serde_json::from_value::<Ping>(value) {
            Err(error) => error.to_string(),
            Ok(spec) => spec.check().map_or_else(|wrong| wrong.to_string(), |()| "fine".into()),
        }
    }

    fn said_of_pong(change: impl FnOnce(&mut Value)) -> String {
        let mut value = pong();
        change(&mut value);
        match serde_json::from_value::<Pong>(value) {
            Err(error) => error.to_string(),
            Ok(spec) => spec.check().map_or_else(|wrong| wrong.to_string(), |()| "fine".into()),
        }
    }

    #[test]
    fn the_documented_specs_are_accepted_over_every_transport() {
        assert_eq!((said_of_ping(|_| {}), said_of_pong(|_| {})), ("fine".into(), "fine".into()));
        let closed = |v: &mut Value| (v["period_ns"], v["count"]) = (Value::Null, Value::Null);
        assert_eq!(said_of_ping(closed), "fine");
        for (of_ping, of_pong) in [
            (
                json!({"kind": "tcp", "source": "10.78.0.1:0", "destination": "10.78.0.2:5557"}),
                json!({"kind": "tcp", "listen": "10.78.0.2:5557"}),
            ),
            (
                json!({"kind": "ethernet", "destination": "02:00:00:00:00:02", "ethertype": 35061, "vlan": 5, "pcp": 7}),
                json!({"kind": "ethernet", "ethertype": 35061, "vlan": 5, "pcp": 7}),
            ),
        ] {
            assert_eq!(said_of_ping(|v| v["transport"] = of_ping), "fine");
            assert_eq!(said_of_pong(|v| v["transport"] = of_pong), "fine");
        }
    }

    #[test]
    fn impossible_values_are_named_with_their_path() {
        for (change, expected) in [
            ((|v| v["side"]["size"] = json!(39)) as fn(&mut Value), "side.size: 39 bytes; expected 40 to 65507"),
            (|v| v["side"]["size"] = json!(65508), "side.size: 65508 bytes"),
            (|v| v["side"]["down"] = json!(1), "side.down: 1 is the number of the questions"),
            (|v| v["side"]["mode"] = json!("busy-poll"), "side.busy_poll_us: expected microseconds"),
            (|v| v["side"]["ring_records"] = json!(0), "side.ring_records: expected"),
            (|v| v["side"]["realtime"]["fifo"] = json!(100), "side.realtime.fifo: expected 1 to 99"),
            (|v| v["side"]["busy_wait_ns"] = json!(-1), "side.busy_wait_ns: expected 0 or more"),
            (|v| v["side"]["colour"] = json!(1), "unknown field `colour`"),
            (|v| v["colour"] = json!(1), "unknown field `colour`"),
            (|v| v["transport"] = json!({"kind": "smoke"}), "unknown variant `smoke`"),
        ] {
            for said in [said_of_ping(change), said_of_pong(change)] {
                assert!(said.contains(expected), "{said:?} does not contain {expected:?}");
            }
        }
    }

    #[test]
    fn what_only_ping_is_told_is_checked_as_well() {
        for (change, expected) in [
            ((|v| v["period_ns"] = json!(0)) as fn(&mut Value), "period_ns: expected 1 or more"),
            (|v| v["period_ns"] = json!(null), "count: expected null without a period"),
            (|v| v["count"] = json!(null), "count: expected a number with a period"),
            (|v| v["count"] = json!(0), "count: expected 1 to 4294967295"),
            (|v| v["period_ns"] = json!(i64::MAX), "count: the probe would last longer than 292 years"),
            (|v| v["timeout_ns"] = json!(0), "timeout_ns: expected 1 or more"),
            (|v| v["duration_ns"] = json!(0), "duration_ns: expected 1 or more"),
            (|v| v["offset_ns"] = json!(-1), "offset_ns: expected 0 or more"),
            (|v| v["transport"]["destination"] = json!("[::1]:5"), "transport.destination: expected an address of"),
            (|v| v["transport"]["destination"] = json!("10.78.0.2:0"), "transport.destination: expected a port"),
        ] {
            let said = said_of_ping(change);
            assert!(said.contains(expected), "{said:?} does not contain {expected:?}");
        }
        let tag = json!({"kind": "ethernet", "ethertype": 1, "vlan": null, "pcp": 3});
        assert!(said_of_pong(|v| v["transport"] = tag).contains("transport.pcp: expected 0 to 7, with a vlan"));
        assert!(said_of_pong(|v| v["period_ns"] = json!(1)).contains("unknown field `period_ns`"));
    }
}
