//! `ptp --once`: what a ptp4l says now, for people and for command lines.

use super::{Link, PORT, silent};
use clap::Args;
use serde::Serialize;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use wire::ptp::{Asker, ClockIdentity, Inquiry, PortIdentity, Status};

const PATIENCE: Duration = Duration::from_secs(1);

/// What is asked for on the command line, instead of by a spec.
#[derive(Args)]
pub struct Asked {
    /// Ask the ptp4l with this management socket (uds_address or uds_ro_address) once and print what it says, as JSON; no
    /// spec is read then.
    #[arg(long, value_name = "SOCKET")]
    pub once: Option<PathBuf>,
    /// ptp4l's domainNumber.
    #[arg(long, value_name = "NUMBER", requires = "once", default_value = "0")]
    domain: u8,
    /// ptp4l's transportSpecific: 1 for IEEE 802.1AS.
    #[arg(long, value_name = "NUMBER", requires = "once", default_value = "0", value_parser = clap::value_parser!(u8).range(0..=15))]
    transport_specific: u8,
}

/// What it says; null: it does not tell, or not know.
#[derive(Serialize)]
struct Answer {
    state: &'static str,
    port: u16,
    offset_ns: Option<i64>,
    ingress_ns: Option<i64>,
    path_delay_ns: Option<i64>,
    grandmaster: Option<String>,
    gm_present: Option<bool>,
    steps_removed: Option<u16>,
    utc_offset_s: Option<i16>,
    utc_offset_valid: Option<bool>,
    time_traceable: Option<bool>,
    ptp_timescale: Option<bool>,
    ports: Option<u16>,
}

impl From<Status> for Answer {
    fn from(told: Status) -> Self {
        Self {
            state: told.state.name(),
            port: told.port,
            offset_ns: told.offset_ns,
            ingress_ns: told.ingress_ns,
            path_delay_ns: told.path_delay_ns,
            grandmaster: told.grandmaster.map(|identity| identity.to_string()),
            gm_present: told.gm_present,
            steps_removed: told.steps_removed,
            utc_offset_s: told.times.map(|times| times.utc_offset_s),
            utc_offset_valid: told.times.map(|times| times.utc_offset_valid),
            time_traceable: told.times.map(|times| times.time_traceable),
            ptp_timescale: told.times.map(|times| times.ptp_timescale),
            ports: told.ports,
        }
    }
}

/// Success once the answer is on standard output; otherwise what failed is on standard error.
pub fn run(server: &Path, asked: &Asked) -> ExitCode {
    let told = ask(server, asked).and_then(|line| {
        writeln!(std::io::stdout().lock(), "{line}").map_err(|error| format!("standard output: {error}"))
    });
    match told {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            eprintln!("latlab-agent ptp: {what}");
            ExitCode::FAILURE
        }
    }
}

fn ask(server: &Path, asked: &Asked) -> Result<String, String> {
    // Ended by a signal, it takes its socket's file with it.
    sys::signal::catch_termination().map_err(|error| error.to_string())?;
    let source = PortIdentity { clock: ClockIdentity(sys::clock::tai_ns() as u64), port: PORT };
    let asker = Asker { domain: asked.domain, transport_specific: asked.transport_specific, source };
    let inquiry = || Inquiry::new(asker, 0, Inquiry::STATUS_AND_TIMES);
    let answered = Link::first(server, PATIENCE, inquiry, sys::signal::termination_asked);
    let status = answered.map(|(_, inquiry)| inquiry.status()).map_err(|error| {
        let failure = silent(&error, &server.to_string_lossy(), asked.domain, asked.transport_specific, PATIENCE);
        format!("{}: {}; {}", failure.place, failure.what, failure.remedy)
    })?;
    let answer = status.map(Answer::from).ok_or("ptp4l told no state of a port")?;
    Ok(serde_json::to_string(&answer).expect("numbers and names have a JSON form"))
}
