//! What `listen` is asked for.

use super::talk::check_payload;
use super::{Realtime, StampsBy, Wrong, check_ring, check_streams, default_ring_records, hexadecimal, wrong};
use crate::flight::Trigger;
use crate::iec61850::Payload;
use schemars::JsonSchema;
use serde::Deserialize;
use std::net::SocketAddr;

/// Where a listener's packets come in.
#[derive(Clone, Debug, JsonSchema, Deserialize, PartialEq, Eq)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum ListenTransport {
    /// UDP datagrams.
    Udp {
        /// Local address and port.
        listen: SocketAddr,
    },
    /// Ethernet frames.
    Ethernet {
        /// EtherType of the frame, inside the VLAN tag if there is one.
        ethertype: u16,
        /// VLAN id the frame must carry; None: it must be in no VLAN.
        vlan: Option<u16>,
        /// What carries the probe in the frame.
        #[serde(default)]
        payload: Option<Payload>,
    },
}

/// A stream, as its listener sees it.
#[derive(Clone, Debug, JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListenStream {
    /// Its number in the packets.
    pub stream: u16,
    /// Its name, for messages.
    pub name: String,
    /// Interface it arrives on.
    pub interface: String,
    /// Bytes of the probe.
    pub size: usize,
    /// Packets in all.
    pub count: u64,
    /// Number of the stream in its packets, where it is another: of a copy of a PRP pair.
    #[serde(default)]
    pub carries: Option<u16>,
    /// Where from.
    pub transport: ListenTransport,
}

/// How the listening thread waits for packets.
#[derive(Clone, Copy, Debug, JsonSchema, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Sleeps in the receive call.
    Block,
    /// Asks again and again, never sleeping.
    Spin,
    /// Lets the receive call poll the NIC (SO_BUSY_POLL).
    BusyPoll,
}

/// `latlab-agent listen`.
#[derive(Clone, Debug, JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Listen {
    /// Sixteen hexadecimal digits.
    #[serde(deserialize_with = "hexadecimal")]
    #[schemars(with = "String")]
    pub run_id: u64,
    /// Recordings are written to this path and `.received.arrow` and so on.
    pub recording: String,
    /// How the listening thread runs.
    pub realtime: Realtime,
    /// How it waits.
    pub mode: Mode,
    /// How long a receive call polls the NIC, µs, with [`Mode::BusyPoll`].
    #[serde(default)]
    pub busy_poll_us: Option<u32>,
    /// Ask for the NIC's receive timestamps.
    #[serde(default)]
    pub hardware_stamps: bool,
    /// Who takes the kernel's receive timestamps.
    #[serde(default)]
    pub stamps_by: StampsBy,
    /// Records the ring to the writer holds.
    #[serde(default = "default_ring_records")]
    pub ring_records: usize,
    /// Say in `progress` what comes in, how late, and what the hypervisor takes.
    #[serde(default)]
    pub live: bool,
    /// Judge each packet, and report what is to be kept of traces around those that are late.
    #[serde(default)]
    pub trigger: Option<Trigger>,
    /// What to expect.
    pub streams: Vec<ListenStream>,
}

/// A trigger's durations are an hour at most.
pub(crate) const TRIGGER_NS: i64 = 3600 * 1_000_000_000;

impl Listen {
    /// Checks what the types cannot.
    ///
    /// # Errors
    /// The first value that cannot be done.
    pub fn check(&self) -> Result<(), Wrong> {
        self.realtime.check()?;
        check_ring(self.ring_records)?;
        check_streams(self.streams.iter().map(|s| (s.stream, s.size, s.count)))?;
        if self.mode == Mode::BusyPoll && self.busy_poll_us.is_none() {
            return wrong("busy_poll_us", "expected microseconds with mode busy-poll");
        }
        if let Some(trigger) = &self.trigger {
            for (at, ns, least) in [
                ("trigger.above_ns", trigger.above_ns, 0),
                ("trigger.margin_ns", trigger.margin_ns, 0),
                ("trigger.typical_ns", trigger.typical_ns, 1),
            ] {
                if !(least..=TRIGGER_NS).contains(&ns) {
                    return wrong(at, format!("{ns}; expected {least} to {TRIGGER_NS}"));
                }
            }
        }
        for (n, stream) in self.streams.iter().enumerate() {
            if let ListenTransport::Ethernet { payload, .. } = stream.transport {
                check_payload(&format!("streams[{n}].size"), payload, stream.size)?;
            }
        }
        Ok(())
    }
}
