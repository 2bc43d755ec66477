//! What `talk` is asked for.

use super::{Realtime, Wrong, check_ring, check_streams, default_ring_records, hexadecimal, wrong};
use crate::iec61850::{Payload, check_size};
use crate::stage::Stage;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};
use std::borrow::Cow;
use std::net::SocketAddr;

/// Which transmit timestamps are asked for, and how they find their packets.
#[derive(Clone, Debug, JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stamps {
    /// Entering the qdisc layer.
    pub sched: bool,
    /// Handing over to the driver.
    pub software: bool,
    /// Leaving the NIC.
    pub hardware: bool,
    /// How a timestamp finds its packet.
    pub key: KeyChoice,
    /// Who takes those of the kernel.
    #[serde(default)]
    pub by: StampsBy,
}

impl Stamps {
    /// As these, but without any.
    #[must_use]
    pub fn none(&self) -> Self {
        Self { sched: false, software: false, hardware: false, ..self.clone() }
    }

    /// Those of the kernel that are asked for.
    pub fn stages(&self) -> Vec<Stage> {
        let asked = [(self.sched, Stage::TxSched), (self.software, Stage::TxSoft)];
        asked.into_iter().filter_map(|(asked, stage)| asked.then_some(stage)).collect()
    }

    /// Whether any is asked for.
    pub fn any(&self) -> bool {
        self.sched || self.software || self.hardware
    }
}

/// How timestamps are to be matched.
#[derive(Clone, Copy, Debug, JsonSchema, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum KeyChoice {
    /// The first of the others that works on this kernel.
    Auto,
    /// An id given with each packet (SCM_TS_OPT_ID, Linux 6.13).
    Id,
    /// The packet, returned by the kernel.
    Payload,
}

/// Who takes the kernel's own timestamps of packets. Those of a NIC come from the socket in any case.
#[derive(Clone, Copy, Debug, Default, JsonSchema, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum StampsBy {
    /// The kernel, for the socket: it returns a copy of each packet that leaves.
    #[default]
    Socket,
    /// BPF programs at the kernel's tracepoints; an error if the kernel refuses them.
    Ebpf,
    /// BPF programs; where the kernel refuses them, the socket.
    Auto,
    /// Both for the same packets, to compare them: those of the BPF programs are recorded.
    Both,
}

/// Where a talker's packets go.
#[derive(Clone, Debug, JsonSchema, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum TalkTransport {
    /// UDP datagrams.
    Udp {
        /// Local address; port 0 lets the kernel choose.
        source: SocketAddr,
        /// The listener's address.
        destination: SocketAddr,
    },
    /// Ethernet frames of our own making.
    Ethernet {
        /// Destination MAC address.
        destination: Mac,
        /// EtherType of the frame, inside the VLAN tag if there is one.
        ethertype: u16,
        /// VLAN id of an in-band 802.1Q tag.
        vlan: Option<u16>,
        /// Priority code point of the tag.
        pcp: Option<u8>,
        /// What carries the probe in the frame.
        #[serde(default)]
        payload: Option<Payload>,
        /// Which copy of a PRP pair its frames are.
        #[serde(default)]
        prp: Option<PrpCopy>,
    },
}

/// One copy of a PRP pair (IEC 62439-3): its frames are the other's, but for the LAN in their trailer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrpCopy {
    /// The LAN that they go by.
    pub lan: Lan,
    /// Number of the stream in the packets of both.
    pub carries: u16,
    /// Source MAC address of both; None: the interface's own.
    #[serde(default)]
    pub source: Option<Mac>,
}

/// A LAN of PRP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Deserialize)]
pub enum Lan {
    /// LAN A.
    A,
    /// LAN B.
    B,
}

/// A MAC address, written as `02:00:00:00:00:01`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mac(pub [u8; 6]);

impl JsonSchema for Mac {
    fn schema_name() -> Cow<'static, str> {
        "Mac".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "pattern": "^[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}$"})
    }
}

impl<'de> Deserialize<'de> for Mac {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes: Option<Vec<u8>> = text
            .split(':')
            .map(|part| (part.len() == 2).then(|| u8::from_str_radix(part, 16).ok()).flatten())
            .collect();
        bytes
            .and_then(|bytes| <[u8; 6]>::try_from(bytes).ok())
            .map(Self)
            .ok_or_else(|| serde::de::Error::custom(format!("{text:?} is not a MAC address such as 02:00:00:00:00:01")))
    }
}

/// Handing packets in ahead, for the kernel or the NIC to launch (SO_TXTIME).
#[derive(Clone, Copy, Debug, JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LaunchTime {
    /// How long before its launch a batch is handed in, ns.
    pub lead_ns: i64,
    /// The clock of launch times; the qdisc's.
    pub clock: LaunchClock,
    /// The launch time is a deadline: send as soon as possible before it.
    #[serde(default)]
    pub deadline: bool,
    /// What becomes of a packet that is late at hand-over.
    #[serde(default)]
    pub late: LatePolicy,
    /// [`LatePolicy::Send`]: how late a packet may be to be sent at all, ns.
    #[serde(default)]
    pub allowed_lateness_ns: i64,
    /// [`LatePolicy::Send`]: how far ahead of the hand-over a late packet's launch time is put, ns.
    #[serde(default)]
    pub margin_ns: i64,
}

/// What becomes of a packet whose launch time has passed when it is handed over.
#[derive(Clone, Copy, Debug, Default, JsonSchema, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum LatePolicy {
    /// It is handed over with its launch time nevertheless: the kernel decides, and ETF reports what it drops.
    #[default]
    Report,
    /// It is not handed over.
    Drop,
    /// It is handed over with a launch time shortly ahead, unless it is later than is allowed.
    Send,
}

/// Clocks a launch time can be handed over in (SO_TXTIME, `sk_setsockopt`, net/core/sock.c). The schedule is on CLOCK_TAI.
#[derive(Clone, Copy, Debug, JsonSchema, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum LaunchClock {
    /// CLOCK_TAI, the only one ETF takes.
    Tai,
    /// CLOCK_MONOTONIC, the one that fq goes by.
    Monotonic,
    /// CLOCK_REALTIME.
    Realtime,
}

impl LaunchTime {
    fn check(&self, at: &str) -> Result<(), Wrong> {
        let durations = [
            ("lead_ns", self.lead_ns),
            ("allowed_lateness_ns", self.allowed_lateness_ns),
            ("margin_ns", self.margin_ns),
        ];
        for (name, ns) in durations {
            if ns < 0 {
                return wrong(format!("{at}.{name}"), "expected 0 or more");
            }
        }
        if self.late == LatePolicy::Send && self.margin_ns >= self.lead_ns {
            return wrong(
                format!("{at}.margin_ns"),
                "expected less than lead_ns: no packet would keep its launch time",
            );
        }
        Ok(())
    }
}

/// A stream, as its talker sees it.
#[derive(Clone, Debug, JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TalkStream {
    /// Its number in the packets.
    pub stream: u16,
    /// Its name, for messages.
    pub name: String,
    /// Interface it leaves by.
    pub interface: String,
    /// Time between launches, ns.
    pub period_ns: i64,
    /// First launch after the start, ns.
    pub offset_ns: i64,
    /// Bytes of the probe.
    pub size: usize,
    /// Packets in all.
    pub count: u64,
    /// SO_PRIORITY.
    pub priority: u32,
    /// Packets handed in together, ahead.
    #[serde(default = "one")]
    pub batch: u64,
    /// None: sent when due.
    pub launch_time: Option<LaunchTime>,
    /// Where to.
    pub transport: TalkTransport,
}

fn one() -> u64 {
    1
}

/// `latlab-agent talk`.
#[derive(Clone, Debug, JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Talk {
    /// Sixteen hexadecimal digits.
    #[serde(deserialize_with = "hexadecimal")]
    #[schemars(with = "String")]
    pub run_id: u64,
    /// Recordings are written to this path and `.sent.arrow` and so on.
    pub recording: String,
    /// How the talking thread runs.
    pub realtime: Realtime,
    /// How long it spins before a packet is due, ns.
    #[serde(default)]
    pub busy_wait_ns: i64,
    /// Records the ring to the writer holds.
    #[serde(default = "default_ring_records")]
    pub ring_records: usize,
    /// How long to wait for the last timestamps, ns.
    #[serde(default = "half_a_second")]
    pub stamp_timeout_ns: i64,
    /// Which transmit timestamps.
    pub stamps: Stamps,
    /// Say in `progress` what the hypervisor takes.
    #[serde(default)]
    pub live: bool,
    /// What to send.
    pub streams: Vec<TalkStream>,
}

pub(super) fn half_a_second() -> i64 {
    500_000_000
}

/// The 802.1Q tag of the transport `at`.
pub(super) fn check_tag(at: &str, vlan: Option<u16>, pcp: Option<u8>) -> Result<(), Wrong> {
    if vlan.is_some_and(|vlan| !(1..=4094).contains(&vlan)) {
        return wrong(format!("{at}.vlan"), "expected 1 to 4094");
    }
    if pcp.is_some_and(|pcp| pcp > 7 || vlan.is_none()) {
        return wrong(format!("{at}.pcp"), "expected 0 to 7, with a vlan");
    }
    Ok(())
}

/// The size of a probe that this carries.
pub(super) fn check_payload(at: &str, payload: Option<Payload>, size: usize) -> Result<(), Wrong> {
    match payload.map(|payload| check_size(payload, size)) {
        Some(Err(expected)) => wrong(at, expected),
        _ => Ok(()),
    }
}

/// Most packets handed over with one call.
pub const MAX_BATCH: u64 = 64;

impl Talk {
    /// How long before its launch a packet is handed over at most, ns: a lead, and as the last of a batch the others' periods.
    pub fn ahead_ns(&self) -> i64 {
        let ahead = |stream: &TalkStream| {
            let others = stream.period_ns.saturating_mul(stream.batch.saturating_sub(1) as i64);
            stream.launch_time.map_or(0, |launch| launch.lead_ns.saturating_add(others))
        };
        self.streams.iter().map(ahead).max().unwrap_or(0)
    }

    /// Checks what the types cannot.
    ///
    /// # Errors
    /// The first value that cannot be done.
    pub fn check(&self) -> Result<(), Wrong> {
        self.realtime.check()?;
        check_ring(self.ring_records)?;
        check_streams(self.streams.iter().map(|s| (s.stream, s.size, s.count)))?;
        if self.busy_wait_ns < 0 {
            return wrong("busy_wait_ns", "expected 0 or more");
        }
        for (n, stream) in self.streams.iter().enumerate() {
            let at = |field: &str| format!("streams[{n}].{field}");
            if stream.period_ns < 1 {
                return wrong(at("period_ns"), "expected 1 or more");
            }
            if stream.offset_ns < 0 {
                return wrong(at("offset_ns"), "expected 0 or more");
            }
            if !(1..=MAX_BATCH).contains(&stream.batch) {
                return wrong(at("batch"), format!("expected 1 to {MAX_BATCH}"));
            }
            if stream.batch > 1 && stream.launch_time.is_none() {
                return wrong(at("batch"), "packets can be handed in ahead only with a launch time");
            }
            if let Some(launch) = &stream.launch_time {
                launch.check(&at("launch_time"))?;
            }
            if i64::try_from(stream.count).ok().and_then(|count| count.checked_mul(stream.period_ns)).is_none() {
                return wrong(at("count"), "the stream would last longer than 292 years");
            }
            if let TalkTransport::Ethernet { vlan, pcp, payload, .. } = stream.transport {
                check_tag(&at("transport"), vlan, pcp)?;
                check_payload(&at("size"), payload, stream.size)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn talk() -> Value {
        json!({"run_id": "8f3c5e0d12ab34cd", "recording": "/tmp/x", "realtime": {"fifo": 90},
            "stamps": {"sched": true, "software": true, "hardware": false, "key": "auto"},
            "streams": [{"stream": 1, "name": "control", "interface": "eth0", "period_ns": 1000, "offset_ns": 0, "size": 64, "count": 10, "priority": 7,
                "launch_time": null, "transport": {"kind": "udp", "source": "10.0.0.1:0", "destination": "10.0.0.2:5557"}}]})
    }

    fn problem(change: impl FnOnce(&mut Value)) -> String {
        let mut value = talk();
        change(&mut value);
        match serde_json::from_value::<Talk>(value) {
            Err(error) => error.to_string(),
            Ok(spec) => spec.check().expect_err("the spec was accepted").to_string(),
        }
    }

    #[test]
    fn the_documented_spec_is_accepted() {
        let spec: Talk = serde_json::from_value(talk()).unwrap();
        assert_eq!(spec.check(), Ok(()));
        assert_eq!((spec.run_id, spec.streams[0].batch, spec.ring_records), (0x8f3c_5e0d_12ab_34cd, 1, 65_536));
    }

    #[test]
    fn a_late_packet_is_left_to_the_kernel_unless_told_otherwise() {
        let mut value = talk();
        value["streams"][0]["launch_time"] = json!({"lead_ns": 1, "clock": "monotonic"});
        let spec: Talk = serde_json::from_value(value).unwrap();
        assert_eq!(spec.check(), Ok(()));
        let launch = spec.streams[0].launch_time.unwrap();
        assert_eq!((launch.clock, launch.late), (LaunchClock::Monotonic, LatePolicy::Report));
    }

    #[test]
    fn the_last_of_a_batch_is_handed_over_longest_before_its_launch() {
        let mut value = talk();
        assert_eq!(serde_json::from_value::<Talk>(value.clone()).unwrap().ahead_ns(), 0);
        value["streams"][0]["launch_time"] = json!({"lead_ns": 300, "clock": "tai"});
        value["streams"][0]["batch"] = json!(4);
        assert_eq!(serde_json::from_value::<Talk>(value).unwrap().ahead_ns(), 300 + 3 * 1000);
    }

    #[test]
    fn impossible_values_are_named_with_their_path() {
        for (change, expected) in [
            (
                (|v| v["streams"][0]["size"] = json!(39)) as fn(&mut Value),
                "streams[0].size: 39 bytes; expected 40 to 65507",
            ),
            (|v| v["streams"][0]["count"] = json!(0), "streams[0].count: expected 1 to 4294967295"),
            (|v| v["streams"][0]["period_ns"] = json!(0), "streams[0].period_ns: expected 1 or more"),
            (|v| v["streams"][0]["batch"] = json!(2), "only with a launch time"),
            (
                |v| v["streams"][0]["launch_time"] = json!({"lead_ns": -1, "clock": "tai"}),
                "streams[0].launch_time.lead_ns: expected 0 or more",
            ),
            (
                |v| v["streams"][0]["launch_time"] = json!({"lead_ns": 1, "clock": "tai", "allowed_lateness_ns": -1}),
                "streams[0].launch_time.allowed_lateness_ns: expected 0 or more",
            ),
            (
                |v| {
                    v["streams"][0]["launch_time"] =
                        json!({"lead_ns": 9, "clock": "tai", "late": "send", "margin_ns": 9})
                },
                "streams[0].launch_time.margin_ns: expected less than lead_ns",
            ),
            (
                |v| v["streams"][0]["launch_time"] = json!({"lead_ns": 1, "clock": "boottime"}),
                "unknown variant `boottime`",
            ),
            (|v| v["streams"] = json!([]), "streams: expected at least one"),
            (|v| v["realtime"]["fifo"] = json!(100), "realtime.fifo: expected 1 to 99"),
            (|v| v["realtime"]["nice"] = json!(1), "unknown field `nice`"),
            (|v| v["run_id"] = json!("12"), "is not sixteen hexadecimal digits"),
            (
                |v| v["streams"][0]["transport"] = json!({"kind": "ethernet", "destination": "2:0:0:0:0:1", "ethertype": 1, "vlan": null, "pcp": null}),
                "is not a MAC address",
            ),
            (
                |v| v["streams"][0]["transport"] = json!({"kind": "ethernet", "destination": "02:00:00:00:00:01", "ethertype": 1, "vlan": null, "pcp": 3}),
                "streams[0].transport.pcp",
            ),
        ] {
            let said = problem(change);
            assert!(said.contains(expected), "{said:?} does not contain {expected:?}");
        }
    }
}
