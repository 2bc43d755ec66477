//! What `clock` is asked for.

use super::{Realtime, hexadecimal};
use serde::Deserialize;
use std::net::SocketAddr;

/// `latlab-agent clock`.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "role", rename_all = "lowercase", deny_unknown_fields)]
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
}
