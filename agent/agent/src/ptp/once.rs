//! `ptp --once`: what a ptp4l says now, for people and for command lines.

use super::{asker, way};
use crate::session;
use clap::Args;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use wire::ptp::{Inquiry, Status};

const PATIENCE: Duration = Duration::from_secs(1);

/// What is asked for on the command line, instead of by a spec.
#[derive(Args)]
pub struct Asked {
    /// Ask the ptp4l with this management socket (uds_address or uds_ro_address) once and print what it says, as JSON; no
    /// spec is read then.
    #[arg(long, value_name = "SOCKET")]
    once: Option<PathBuf>,
    /// ptp4l's domainNumber.
    #[arg(long, value_name = "NUMBER", requires = "once", default_value = "0")]
    domain: u8,
    /// ptp4l's transportSpecific: 1 for IEEE 802.1AS.
    #[arg(long, value_name = "NUMBER", requires = "once", default_value = "0", value_parser = clap::value_parser!(u8).range(0..=15))]
    transport_specific: u8,
}

/// What is printed; null: it does not report it, or does not know it.
#[derive(Serialize)]
struct Printed {
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

impl From<Status> for Printed {
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

impl Asked {
    /// Success once the answer is on standard output; otherwise what failed is on standard error. None: it was not asked for.
    pub fn run_once(&self) -> Option<ExitCode> {
        let server = self.once.as_ref()?;
        Some(session::answer("ptp", self.ask(server)))
    }

    fn ask(&self, server: &Path) -> Result<String, String> {
        // Ended by a signal, it takes its socket's file with it.
        sys::signal::catch_termination().map_err(|error| error.to_string())?;
        let asker = asker(sys::clock::tai_ns() as u64, self.domain, self.transport_specific);
        let inquiry = || Inquiry::new(asker, 0, Inquiry::STATUS_AND_TIMES);
        match way::find(server, PATIENCE, inquiry, sys::signal::termination_asked) {
            Ok((_, status)) => {
                Ok(serde_json::to_string(&Printed::from(status)).expect("numbers and names have a JSON form"))
            }
            Err(silence) => {
                let failure = silence.failure(server, &asker, PATIENCE);
                Err(format!("{}: {}; {}", failure.place, failure.what, failure.remedy))
            }
        }
    }
}
