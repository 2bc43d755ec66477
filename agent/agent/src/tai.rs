//! `tai`: International Atomic Time as this kernel has it, for people and for command lines.
//!
//! Gates and launch times count CLOCK_TAI. Its offset to UTC is 0 until something tells the kernel, and is changed here only
//! when it is asked for by name.

use crate::session;
use clap::Args;
use serde::Serialize;
use std::process::ExitCode;
use sys::clock::{Clock, now_ns, tai_offset_s};
use sys::timex::{MAX_TAI_OFFSET_S, set_tai_offset_s};
use wire::launch::next_of_cycle;

/// What is asked of it.
#[derive(Args)]
pub struct Asked {
    /// Set the kernel's TAI − UTC: 37 since 2017. It moves CLOCK_TAI for every program of this machine.
    #[arg(long, value_name = "SECONDS", conflicts_with = "next", allow_negative_numbers = true, value_parser = clap::value_parser!(i32).range(0..=i64::from(MAX_TAI_OFFSET_S)))]
    set: Option<i32>,
    /// Print when the next cycle of so many ns begins instead, as a base-time of gates: ns of CLOCK_TAI that are a multiple
    /// of it.
    #[arg(long, value_name = "CYCLE_NS", allow_negative_numbers = true, value_parser = clap::value_parser!(i64).range(1..))]
    next: Option<i64>,
    /// So long after the cycle's beginning.
    #[arg(long, value_name = "NS", requires = "next", allow_negative_numbers = true)]
    shift: Option<i64>,
    /// Not before so long from now.
    #[arg(long, value_name = "NS", requires = "next", allow_negative_numbers = true)]
    after: Option<i64>,
}

/// The clocks as they are.
#[derive(Serialize)]
struct Answer {
    tai_ns: i64,
    real_ns: i64,
    tai_offset_s: i32,
}

/// Success once the answer is on standard output; otherwise what failed is on standard error.
pub fn run(asked: &Asked) -> ExitCode {
    session::answer("tai", answer(asked))
}

fn answer(asked: &Asked) -> Result<String, String> {
    if let Some(cycle_ns) = asked.next {
        let not_before_ns = now_ns(Clock::Tai).checked_add(asked.after.unwrap_or(0));
        return not_before_ns
            .and_then(|not_before_ns| next_of_cycle(not_before_ns, cycle_ns, asked.shift.unwrap_or(0)))
            .map(|next_ns| next_ns.to_string())
            .ok_or_else(|| {
                "that instant is beyond what 64 bits of nanoseconds can say: give less of --after".to_owned()
            });
    }
    if let Some(seconds) = asked.set {
        set(seconds)?;
    }
    let tai_offset_s = tai_offset_s().map_err(|error| error.to_string())?;
    let answer = Answer { tai_ns: now_ns(Clock::Tai), real_ns: now_ns(Clock::Realtime), tai_offset_s };
    Ok(serde_json::to_string(&answer).expect("numbers have a JSON form"))
}

fn set(seconds: i32) -> Result<(), String> {
    set_tai_offset_s(seconds).map_err(|error| match error.errno {
        EPERM => format!("{error}: run as root or with CAP_SYS_TIME"),
        _ => error.to_string(),
    })?;
    match tai_offset_s() {
        Ok(found) if found == seconds => Ok(()),
        // Before 5.2 the kernel passes over an offset of 0; a clock daemon may have set another meanwhile.
        Ok(found) => Err(format!("TAI − UTC is {found} s after it was set to {seconds} s")),
        Err(error) => Err(error.to_string()),
    }
}

const EPERM: i32 = 1;
