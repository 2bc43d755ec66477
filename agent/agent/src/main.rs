//! latlab-agent: the data plane of latlab. It talks, listens, asks and answers, compares clocks, observes ptp4l, waits for timers,
//! traces interrupts, watches where packets are dropped and what passes interfaces, floods, keeps busy, and tells what the machine is.

#![forbid(unsafe_code)]

mod bridge;
mod busy;
mod checked_stream;
mod clock;
mod clocks;
mod cores;
mod dds;
mod drops;
mod facts;
mod flood;
mod init;
mod inside;
mod launch_clock;
mod listen;
mod live;
mod outbox;
mod ping;
mod pong;
mod programs;
mod ptp;
mod realtime;
mod receiving;
mod recording;
mod round;
mod schema;
mod sending;
mod session;
mod shared_memory;
mod stages;
mod tables;
mod tai;
mod talk;
mod timer;
mod trace;
mod tracing;
mod watch;

use clap::{Parser, Subcommand};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use wire::event::Event;

/// The lab finds it in an agent that this machine cannot run.
const BUILT: &str = concat!(env!("CARGO_PKG_VERSION"), ", built for ", env!("LATLAB_ARCHITECTURE"));

/// The data plane of latlab: runs on whatever is measured. It takes one JSON spec on standard input, answers with JSON
/// Lines on standard output, and stops when standard input closes (docs/reference/agent.md).
#[derive(Parser)]
#[command(version, long_version = BUILT)]
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
    /// Ask questions, at a rate or each as soon as the one before is answered, and time every answer.
    Ping,
    /// Answer the questions of a ping, each leg of the way recorded.
    Pong,
    /// Bound the offset between two hosts' clocks by exchanging timestamps.
    Clock,
    /// Observe a ptp4l through its management socket, without changing it.
    Ptp(ptp::Asked),
    /// Ask over Cyclone DDS and take the answers, or answer: every sample recorded.
    Dds,
    /// Wait for the instants of a period one after the other, and tell how late the thread came to each: by
    /// clock_nanosleep or by a timerfd, with the kernel's timer interrupt between them where its tracepoints show.
    Timer(timer::Asked),
    /// Record what the kernel's tracepoints show of interrupts, softirqs and threads, filtered, and count what was lost.
    Trace,
    /// Record which packets of a run the kernel drops, where and for what reason.
    Drops,
    /// Record which packets of anybody's traffic pass chosen interfaces, and when, without touching them.
    Watch,
    /// Send background load, or take it in.
    Flood,
    /// Leave this machine for its hypervisor, or call the kernel, again and again.
    Busy,
    /// Forward known unicast between ports of a kernel bridge before the kernel has made packets of the frames.
    Bridge,
    /// Print what this machine is and how it is tuned, as JSON.
    Facts {
        /// Only this interface (may be given several times); all but lo without it.
        #[arg(long = "interface", value_name = "NAME")]
        interfaces: Vec<String>,
    },
    /// Print what each verb reads and reports (JSON Schema), and the columns of each recording (Arrow types), as JSON.
    Schema,
    /// Print CLOCK_TAI, CLOCK_REALTIME and the kernel's TAI offset, as JSON; set that offset; or tell when a cycle begins.
    Tai(tai::Asked),
    /// Run a program in a guest as if it ran here.
    In {
        /// Seconds within which the guest must answer.
        #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = inside::seconds)]
        patience: Duration,
        /// Where the guest's ports are: port1.sock, port2.sock, …
        directory: PathBuf,
        /// The program and its arguments.
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM")]
        words: Vec<OsString>,
    },
    /// Run a program on another machine as if it ran here, by a command that leads to `latlab-agent serve -` there.
    Over {
        /// Seconds within which the other side must answer.
        #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = inside::seconds)]
        patience: Duration,
        /// The command whose standard input and output are the connection, such as `ssh -T board1 -- latlab-agent serve
        /// -`; `sh -c` runs it.
        #[arg(long, value_name = "COMMAND")]
        by: OsString,
        /// The program and its arguments.
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM")]
        words: Vec<OsString>,
    },
    /// Be a guest's first process: prepare it, and run what is asked for at its ports.
    Init,
    /// Run what is asked for at one virtio-serial port of this guest, as init does at each, or on standard input and output.
    Serve {
        /// The port, such as /dev/vport1p1; - is standard input and output.
        device: PathBuf,
    },
    /// Run what the host asks for in its turns, as init does on a board in virtual time.
    Turns,
}

fn main() -> ExitCode {
    if init::is_called() {
        return init::run();
    }
    let result = match Arguments::parse().verb {
        Verb::Talk => talk::run(),
        Verb::Listen => listen::run(),
        Verb::Ping => ping::run(),
        Verb::Pong => pong::run(),
        Verb::Clock => clock::run(),
        Verb::Ptp(asked) => match asked.run_once() {
            Some(status) => return status,
            None => ptp::run(),
        },
        Verb::Dds => dds::run(),
        Verb::Timer(asked) => match asked.run_once() {
            Some(status) => return status,
            None => timer::run(),
        },
        Verb::Trace => trace::run(),
        Verb::Drops => drops::run(),
        Verb::Watch => watch::run(),
        Verb::Flood => flood::run(),
        Verb::Busy => busy::run(),
        Verb::Bridge => bridge::run(),
        Verb::Facts { interfaces } => return facts::run(&interfaces),
        Verb::Schema => return schema::run(),
        Verb::Tai(asked) => return tai::run(&asked),
        Verb::In { patience, directory, words } => return inside::run_in(&directory, &words, patience),
        Verb::Over { patience, by, words } => return inside::run_over(&by, &words, patience),
        Verb::Init => return init::run(),
        Verb::Serve { device } => return init::serve::run(&device),
        Verb::Turns => return init::turns::run(),
    };
    if let Err(failure) = result {
        session::emit(&Event::Error(failure));
    }
    // A run may end in order after an error, with its recordings whole: it has failed nevertheless.
    if session::told_error() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// In tests every allocation is counted by thread, so that a hot loop can be shown to make none.
#[cfg(test)]
#[global_allocator]
static ALLOCATOR: sys::allocations::Counting = sys::allocations::Counting;
