//! What `busy` is asked for.

use super::{Realtime, Wrong, wrong};
use schemars::JsonSchema;
use serde::Deserialize;

/// Most threads of a `busy`.
pub const MAX_WORKERS: u16 = 64;

/// `latlab-agent busy`.
#[derive(Clone, Debug, JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Busy {
    /// What is done again and again.
    pub what: Work,
    /// Threads that do it.
    pub workers: u16,
    /// How long.
    pub duration_ns: i64,
    /// How the threads run.
    pub realtime: Realtime,
}

/// What a thread does again and again.
#[derive(Clone, Copy, Debug, JsonSchema, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Work {
    /// Leave this machine for its hypervisor.
    Exits,
    /// Call the kernel.
    Calls,
}

impl Work {
    /// As the lab calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exits => "exits",
            Self::Calls => "calls",
        }
    }
}

impl Busy {
    /// Nothing if it can be done.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self) -> Result<(), Wrong> {
        if !(1..=MAX_WORKERS).contains(&self.workers) {
            return wrong("workers", format!("expected 1 to {MAX_WORKERS}"));
        }
        if self.duration_ns < 1 {
            return wrong("duration_ns", "expected 1 or more");
        }
        self.realtime.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(what: &str, workers: u16, duration_ns: i64) -> Result<Busy, serde_json::Error> {
        serde_json::from_value(
            serde_json::json!({"what": what, "workers": workers, "duration_ns": duration_ns, "realtime": {}}),
        )
    }

    #[test]
    fn work_is_called_as_the_lab_calls_it() {
        for name in ["exits", "calls"] {
            assert_eq!(spec(name, 1, 1).unwrap().what.name(), name);
        }
        assert!(spec("naps", 1, 1).is_err());
    }

    #[test]
    fn what_is_outside_its_bounds_is_told_by_its_name() {
        let at =
            |workers, duration_ns| spec("calls", workers, duration_ns).unwrap().check().err().map(|wrong| wrong.at);
        assert_eq!(at(1, 1), None);
        assert_eq!(at(MAX_WORKERS, i64::MAX), None);
        assert_eq!(at(0, 1).as_deref(), Some("workers"));
        assert_eq!(at(MAX_WORKERS + 1, 1).as_deref(), Some("workers"));
        assert_eq!(at(1, 0).as_deref(), Some("duration_ns"));
    }
}
