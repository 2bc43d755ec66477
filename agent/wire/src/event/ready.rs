//! What a verb has found once it is set up.

use schemars::JsonSchema;
use serde::Serialize;

/// Set up; nothing sent yet.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Ready {
    /// `talk`, `listen`, `ping`, `pong`, `clock`, `ptp`, `timer`, `trace`, `drops`, `watch`, `flood`, `busy`, `bridge` or `dds`.
    pub verb: &'static str,
    /// The agent's.
    pub version: &'static str,
    /// Its process.
    pub pid: u32,
    /// Inode of the network namespace it runs in, by which the kernel distinguishes namespaces; None: unknown.
    pub netns: Option<u32>,
    /// CLOCK_TAI now.
    pub tai_ns: i64,
    /// TAI − UTC as the kernel knows it; 0 on a machine nobody told.
    pub tai_offset_s: i32,
    /// How the measuring thread runs, as read back.
    pub realtime: RealtimeFound,
    /// How timestamps find their packets (talk, ping, pong): `id` or `payload`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stamp_key: Option<&'static str>,
    /// Who takes the kernel's timestamps of packets; None: nobody, or the verb has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stamps_by: Option<StampsFound>,
    /// The sockets' local addresses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub local: Vec<String>,
}

/// Who takes the kernel's timestamps of packets: `ebpf`, `socket` or `both` (of which eBPF's are recorded).
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
pub struct StampsFound {
    /// Entering the qdisc layer; None, as below: not asked for.
    pub tx_sched: Option<&'static str>,
    /// Handing over to the driver.
    pub tx_soft: Option<&'static str>,
    /// Taken in by the kernel.
    pub rx_soft: Option<&'static str>,
    /// The clock of BPF programs: CLOCK_TAI, or CLOCK_MONOTONIC, whose readings are converted; None: none run.
    pub clock: Option<&'static str>,
    /// Which timestamps BPF programs should take and do not, and why.
    pub missing: Vec<String>,
}

/// What `drops` watches on this kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
pub struct DropsFound {
    /// Whether packets that this kernel drops are recorded.
    pub watched: bool,
    /// With the kernel's reasons.
    pub reasons: bool,
    /// With the names of the kernel's functions that dropped them.
    pub locations: bool,
    /// The clock of the BPF program: CLOCK_TAI, or CLOCK_MONOTONIC, whose readings are converted; None: none runs.
    pub clock: Option<&'static str>,
    /// What is not there, why, and what is used instead: a line each.
    pub missing: Vec<String>,
}

/// How `watch` records packets.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct WatchFound {
    /// The clock of the BPF programs: CLOCK_TAI, or CLOCK_MONOTONIC, whose readings are converted.
    pub clock: &'static str,
    /// So many bytes of each packet are kept at most.
    pub snap: usize,
    /// What of a packet lies in pages apart from its headers is read, too (Linux 6.12).
    pub reads_pages: bool,
    /// What of the sockets that are asked for this kernel does not let be seen, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
}

/// The timer of `timer`.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct TimerFound {
    /// The clock it is set by: CLOCK_TAI, or CLOCK_REALTIME at whole seconds from it.
    pub clock: &'static str,
    /// How finely.
    pub resolution_ns: Option<i64>,
    /// What makes the interrupt, on the first CPU the thread may run on.
    pub event_device: Option<String>,
    /// Period of the counter that this counts by.
    pub tick_ns: Option<f64>,
    /// Whether interrupts are reported.
    pub traced: bool,
}

/// A tracepoint that is recorded.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct EventFound {
    /// Its name.
    pub event: String,
    /// The field that `subject` is, on this kernel; None: it tells none.
    pub subject: Option<&'static str>,
    /// The field that `detail` is, likewise.
    pub detail: Option<&'static str>,
    /// Which of its records count, as the kernel was told; None: all.
    pub filter: Option<String>,
}

/// A tracepoint that this kernel does not have.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct EventAbsent {
    /// Its name.
    pub event: String,
    /// What it would have told.
    pub tells: &'static str,
    /// What to do.
    pub remedy: &'static str,
}

/// How a thread runs, as read back from the kernel.
#[derive(Clone, Debug, Default, JsonSchema, Serialize)]
pub struct RealtimeFound {
    /// The thread's number, as this process sees it.
    pub tid: u32,
    /// SCHED_OTHER, SCHED_FIFO and so on.
    pub policy: String,
    /// Its priority in that policy.
    pub priority: i32,
    /// CPUs it may run on.
    pub cpus: Vec<usize>,
    /// All memory locked.
    pub memory_locked: bool,
    /// What `/dev/cpu_dma_latency` was asked for, µs.
    pub cpu_dma_latency_us: Option<i32>,
    /// Timer slack, ns.
    pub timer_slack_ns: u64,
    /// What was asked for and could not be had.
    pub problems: Vec<String>,
}
