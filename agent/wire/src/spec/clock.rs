//! What `clock` is asked for.

use super::{Realtime, Wrong, hexadecimal, wrong};
use crate::page::RING_PERIOD_NS;
use schemars::JsonSchema;
use serde::Deserialize;
use std::net::SocketAddr;

/// `latlab-agent clock`.
#[derive(Clone, Debug, JsonSchema, Deserialize)]
#[serde(tag = "role", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Clock {
    /// Answers until stopped.
    Responder {
        /// Sixteen hexadecimal digits.
        #[serde(deserialize_with = "hexadecimal")]
        #[schemars(with = "String")]
        run_id: u64,
        /// Local address and port.
        listen: SocketAddr,
        /// The initiator's address: nobody else is answered.
        peer: SocketAddr,
        /// How the thread runs.
        realtime: Realtime,
    },
    /// Asks `count` times and bounds the offset.
    Initiator {
        /// Sixteen hexadecimal digits.
        #[serde(deserialize_with = "hexadecimal")]
        #[schemars(with = "String")]
        run_id: u64,
        /// Local address and port.
        source: SocketAddr,
        /// The responder's address.
        peer: SocketAddr,
        /// Time between questions, ns.
        period_ns: i64,
        /// Questions in all; stopped earlier by the lab, it reports what it has.
        count: u64,
        /// Recordings are written to this path and `.exchanges.arrow`.
        recording: String,
        /// Say in `progress` what the latest exchanges prove.
        #[serde(default)]
        live: bool,
        /// How the thread runs.
        realtime: Realtime,
    },
    /// Shows its clock on a page of shared memory until stopped.
    PageWriter {
        /// Sixteen hexadecimal digits.
        #[serde(deserialize_with = "hexadecimal")]
        #[schemars(with = "String")]
        run_id: u64,
        /// The file that is the page; made if there is none.
        page: String,
        /// Where doorbells come to: an address of this host's and a port.
        listen: SocketAddr,
        /// Where they come from: others' are not answered.
        peer: SocketAddr,
        /// How long the clock is shown after a doorbell, at most, ns.
        burst_ns: i64,
        /// How the thread runs.
        realtime: Realtime,
    },
    /// Rings the doorbell and looks at a page `count` times and bounds the offset.
    PageReader {
        /// Sixteen hexadecimal digits.
        #[serde(deserialize_with = "hexadecimal")]
        #[schemars(with = "String")]
        run_id: u64,
        /// The page's file, or `auto`: the first shared-memory device on the PCI bus.
        device: String,
        /// How it rings the doorbell.
        doorbell: Doorbell,
        /// Time from one time to the next, ns.
        period_ns: i64,
        /// Times in all; stopped earlier by the lab, it reports what it has.
        count: u64,
        /// Recordings are written to this path and `.exchanges.arrow`.
        recording: String,
        /// Say in `progress` what the latest exchanges prove.
        #[serde(default)]
        live: bool,
        /// How the thread runs.
        realtime: Realtime,
    },
    /// Reads the VM host's clock through a PTP clock `count` times and bounds the offset.
    Ptp {
        /// Sixteen hexadecimal digits.
        #[serde(deserialize_with = "hexadecimal")]
        #[schemars(with = "String")]
        run_id: u64,
        /// Such as /dev/ptp0, or `auto`: the one that KVM offers.
        device: String,
        /// TAI − UTC on the VM host, s: its PTP clock counts UTC.
        host_tai_offset_s: i32,
        /// Time between readings, ns.
        period_ns: i64,
        /// Readings in all; stopped earlier by the lab, it reports what it has.
        count: u64,
        /// Recordings are written to this path and `.exchanges.arrow`.
        recording: String,
        /// Say in `progress` what the latest exchanges prove.
        #[serde(default)]
        live: bool,
        /// How the thread runs.
        realtime: Realtime,
    },
}

/// How a page's reader gets its host's attention.
#[derive(Clone, Copy, Debug, JsonSchema, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Doorbell {
    /// A byte written to this port of the machine, which its monitor sends on (QEMU's isa-debugcon).
    Port(u16),
    /// A datagram of its own, where both are on one host.
    Datagram {
        /// Local address and port.
        from: SocketAddr,
        /// Where the writer listens.
        to: SocketAddr,
    },
}

impl Clock {
    /// How the thread runs.
    pub fn realtime(&self) -> &Realtime {
        match self {
            Self::Responder { realtime, .. }
            | Self::Initiator { realtime, .. }
            | Self::PageWriter { realtime, .. }
            | Self::PageReader { realtime, .. }
            | Self::Ptp { realtime, .. } => realtime,
        }
    }

    /// # Errors
    /// A page is shown for no time, or is rung for more often than a byte can tell.
    pub fn check(&self) -> Result<(), Wrong> {
        match self {
            Self::PageWriter { burst_ns, .. } if *burst_ns < 1 => wrong("burst_ns", "expected at least 1"),
            Self::PageReader { period_ns, .. } if *period_ns < RING_PERIOD_NS => {
                wrong("period_ns", format!("{period_ns}; expected at least {RING_PERIOD_NS}"))
            }
            _ => Ok(()),
        }
    }
}
