//! What `dds` reports to the lab in addition to what every verb does.

use schemars::JsonSchema;
use serde::Serialize;

/// The sequence of a sample that only asks whether there is anybody: answered like a question, recorded by nobody.
pub const HELLO: u64 = u64::MAX;
/// MaxMessageSize of the lab's configuration of Cyclone: as much as a datagram carries, as in its own latency-test.
pub const MESSAGE_BYTES: usize = 65_500;
/// Larger samples go in several datagrams, by DATA_FRAG: as many fragments (`fragment_size` of Cyclone's defconfig.c) as are in
/// the largest datagram, less encapsulation and length (transmit_sample_lgmsg_unlocks_wr() in ddsi_transmit.c).
pub const LARGEST_IN_ONE: usize = MESSAGE_BYTES / 1344 * 1344 - 8;

/// Of `ready`: what runs, and who was found.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Found {
    /// The version of Cyclone DDS.
    pub cyclone: &'static str,
    /// Cyclone's own threads, by number.
    pub threads: Vec<Thread>,
    /// How long it took until a sample had been to the other side and back, ns; None for pong, which waits for nobody.
    pub discovered_ns: Option<i64>,
}

/// How one of Cyclone's own threads runs, as the kernel says.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Thread {
    /// As Cyclone calls it, such as `recv`.
    pub name: String,
    /// SCHED_OTHER, SCHED_FIFO and so on; None: the kernel does not report it.
    pub policy: Option<&'static str>,
    /// Its priority in that policy.
    pub priority: Option<i32>,
    /// CPUs it may run on.
    pub cpus: Option<Vec<usize>>,
}

/// What happened below the samples.
#[derive(Clone, Copy, Debug, Default, JsonSchema, Serialize)]
pub struct Below {
    /// Datagrams the kernel dropped because a socket of Cyclone's had no room.
    pub socket_drops: u64,
    /// Bytes that Cyclone sent again.
    pub resent_bytes: u64,
    /// How often a write was delayed because too much was not acknowledged.
    pub throttled: u64,
    /// Samples that the reader never got, as Cyclone says.
    pub samples_lost: u64,
    /// Waits that ended without a sample.
    pub empty_wakeups: u64,
}
