//! What `clock` is asked for.

use super::{Realtime, Wrong, hexadecimal, wrong};
use serde::Deserialize;
use std::net::SocketAddr;

/// `latlab-agent clock`.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "role", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Clock {
    /// Answers until stopped.
    Responder {
        /// Sixteen hexadecimal digits.
        #[serde(deserialize_with = "hexadecimal")]
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
        /// How the thread runs.
        realtime: Realtime,
    },
    /// Shows its clock on a page of shared memory until stopped.
    PageWriter {
        /// Sixteen hexadecimal digits.
        #[serde(deserialize_with = "hexadecimal")]
        run_id: u64,
        /// The file that is the page; made if there is none.
        page: String,
        /// How long the clock is shown without a pause, ns.
        burst_ns: i64,
        /// From the beginning of one burst to the next, ns.
        every_ns: i64,
        /// How the thread runs.
        realtime: Realtime,
    },
    /// Looks at a page in `count` bursts and bounds the offset.
    PageReader {
        /// Sixteen hexadecimal digits.
        #[serde(deserialize_with = "hexadecimal")]
        run_id: u64,
        /// The page's file, or `auto`: the first shared-memory device on the PCI bus.
        device: String,
        /// Bursts in all; stopped earlier by the lab, it reports what it has.
        count: u64,
        /// Recordings are written to this path and `.exchanges.arrow`.
        recording: String,
        /// How the thread runs.
        realtime: Realtime,
    },
    /// Reads the VM host's clock through a PTP clock `count` times and bounds the offset.
    Ptp {
        /// Sixteen hexadecimal digits.
        #[serde(deserialize_with = "hexadecimal")]
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
        /// How the thread runs.
        realtime: Realtime,
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
    /// The page's bursts leave no pause between them, or none is asked for.
    pub fn check(&self) -> Result<(), Wrong> {
        match self {
            Self::PageWriter { burst_ns, .. } if *burst_ns < 1 => wrong("burst_ns", "expected at least 1"),
            Self::PageWriter { burst_ns, every_ns, .. } if every_ns <= burst_ns => {
                wrong("every_ns", format!("{every_ns}; expected more than burst_ns, {burst_ns}"))
            }
            _ => Ok(()),
        }
    }
}
