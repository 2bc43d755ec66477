//! What the agent decides and computes, with no socket, no clock and no thread.
//!
//! Everything here is a function of its arguments, so it is tested without a network: the probe packet,
//! the schedule, the bookkeeping of sequences, the meaning of error-queue messages, launch times, the
//! bound between two clocks, and the formats shared with the lab (`docs/reference/agent.md`).

#![forbid(unsafe_code)]

pub mod btf;
pub mod dds;
pub mod drops;
pub mod envelope;
pub mod errqueue;
pub mod event;
pub mod exchange;
pub mod expiries;
pub mod flight;
pub mod iec61850;
pub mod in_c;
pub mod lateness;
pub mod launch;
pub mod limits;
pub mod live;
pub mod pace;
pub mod page;
pub mod passing;
pub mod port;
pub mod probe;
pub mod prp;
pub mod ptp;
pub mod record;
pub mod rings;
pub mod schedule;
pub mod sequence;
pub mod spec;
pub mod stage;
pub mod table;
pub mod traceable;
pub mod tracepoint;
pub mod turns;
pub mod watch;
pub mod windows;
