//! latlab-agent: the data plane of latlab. It talks, listens, compares clocks, floods, and tells what the machine is.

#![forbid(unsafe_code)]

mod clock;
mod clocks;
mod facts;
mod flood;
mod listen;
mod realtime;
mod recording;
mod session;
mod tables;
mod talk;

use clap::{Parser, Subcommand};
use std::process::ExitCode;
use wire::event::Event;

/// The data plane of latlab: runs on whatever is measured. It takes one JSON spec on standard input, answers with JSON
/// Lines on standard output, and stops when standard input closes (docs/formats.md).
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Send periodic streams on an absolute schedule, each packet stamped on its way out.
    Talk,
    /// Receive streams, each packet stamped on its way in.
    Listen,
    /// Bound the offset between two hosts' clocks by exchanging timestamps.
    Clock,
    /// Send background load, or take it in.
    Flood,
    /// Print what this machine is and how it is tuned, as JSON.
    Facts {
        /// Only this interface (may be given several times); all but lo without it.
        #[arg(long = "interface", value_name = "NAME")]
        interfaces: Vec<String>,
    },
}

fn main() -> ExitCode {
    let result = match Arguments::parse().verb {
        Verb::Talk => talk::run(),
        Verb::Listen => listen::run(),
        Verb::Clock => clock::run(),
        Verb::Flood => flood::run(),
        Verb::Facts { interfaces } => return facts::run(&interfaces),
    };
    if let Err(failure) = result {
        session::emit(&Event::Error(failure));
    }
    // A run may end in order after an error, with its recordings whole: it failed all the same.
    if session::told_error() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// In tests every allocation is counted by thread, so that a hot loop can be shown to make none.
#[cfg(test)]
#[global_allocator]
static ALLOCATOR: sys::allocations::Counting = sys::allocations::Counting;
