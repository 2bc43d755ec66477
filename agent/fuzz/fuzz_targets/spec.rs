//! The first line of standard input, as each verb reads it, and the commands that follow it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde::de::DeserializeOwned;
use wire::spec::{Bridge, Busy, Clock, Command, Dds, Flood, Listen, Ping, Pong, Ptp, Talk, Timer, Tracing, Wrong};

/// A spec that is read is checked; one that is wrong says where.
fn spec<Spec: DeserializeOwned>(line: &str, check: impl Fn(&Spec) -> Result<(), Wrong>) {
    if let Ok(spec) = serde_json::from_str(line) {
        if let Err(wrong) = check(&spec) {
            assert!(!wrong.at.is_empty() && !wrong.what.is_empty());
        }
    }
}

fuzz_target!(|line: &str| {
    spec(line, Bridge::check);
    spec(line, Busy::check);
    spec(line, Clock::check);
    spec(line, Dds::check);
    spec(line, Listen::check);
    spec(line, Ping::check);
    spec(line, Pong::check);
    spec(line, Ptp::check);
    spec(line, Talk::check);
    spec(line, Timer::check);
    spec(line, Tracing::check);
    spec(line, |_: &Flood| Ok(()));
    spec(line, |_: &Command| Ok(()));
});
