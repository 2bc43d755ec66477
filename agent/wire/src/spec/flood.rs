//! What `flood` is asked for.

use super::Realtime;
use schemars::JsonSchema;
use serde::Deserialize;
use std::net::SocketAddr;

/// `latlab-agent flood`.
#[derive(Clone, Debug, JsonSchema, Deserialize)]
#[serde(tag = "role", rename_all = "lowercase", deny_unknown_fields)]
pub enum Flood {
    /// Takes in and counts what a source sends.
    Sink {
        /// Local address; flow i listens on port + i.
        listen: SocketAddr,
        /// Flows.
        flows: u16,
        /// How the threads run.
        realtime: Realtime,
    },
    /// Sends.
    Source {
        /// Local address; port 0 lets the kernel choose.
        source: SocketAddr,
        /// The sink's address; flow i goes to port + i.
        destination: SocketAddr,
        /// Flows, a thread each.
        flows: u16,
        /// Bytes of UDP payload.
        size: usize,
        /// Payload bits a second, all flows together; None: as fast as it goes.
        rate_bps: Option<u64>,
        /// SO_PRIORITY.
        priority: u32,
        /// How long.
        duration_ns: i64,
        /// How the threads run.
        realtime: Realtime,
    },
}
