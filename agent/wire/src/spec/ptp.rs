//! What `ptp` is asked for.

use super::{Realtime, Wrong, hexadecimal, wrong};
use schemars::JsonSchema;
use serde::Deserialize;

/// `latlab-agent ptp`.
#[derive(Clone, Debug, JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ptp {
    /// Sixteen hexadecimal digits.
    #[serde(deserialize_with = "hexadecimal")]
    #[schemars(with = "String")]
    pub run_id: u64,
    /// ptp4l's management socket (`uds_address`), or the one that only reads (`uds_ro_address`).
    pub socket: String,
    /// domainNumber.
    pub domain: u8,
    /// transportSpecific, 0 to 15.
    pub transport_specific: u8,
    /// Time from one question to the next, ns. An answer counts until the next is due: within a period, or where the agent
    /// was late itself, within half a period at least.
    pub period_ns: i64,
    /// Periods in all, from 1, those included that were missed; stopped earlier by the lab, it reports what it has.
    pub count: u64,
    /// The clock whose frequency is recorded: `realtime`, or a PTP clock's device, such as /dev/ptp0; null: none.
    pub clock: Option<String>,
    /// Recordings are written to this path and `.ptp.arrow`.
    pub recording: String,
    /// How the thread runs.
    pub realtime: Realtime,
}

/// Asking is a handful of messages to a program that has clocks to keep.
const SHORTEST_PERIOD_NS: i64 = 1_000_000;

impl Ptp {
    /// Checks what the types cannot.
    ///
    /// # Errors
    /// The first value that cannot be done.
    pub fn check(&self) -> Result<(), Wrong> {
        self.realtime.check()?;
        if self.transport_specific > 15 {
            return wrong("transport_specific", format!("{}; expected 0 to 15", self.transport_specific));
        }
        if self.period_ns < SHORTEST_PERIOD_NS {
            return wrong("period_ns", format!("{}; expected at least {SHORTEST_PERIOD_NS}", self.period_ns));
        }
        if self.count == 0 {
            return wrong("count", "0; expected at least 1");
        }
        if self.clock.as_ref().is_some_and(|clock| clock != "realtime" && !clock.starts_with("/dev/")) {
            return wrong("clock", "expected realtime, a device such as /dev/ptp0, or null");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(name: &str, value: serde_json::Value) -> Option<String> {
        let mut spec = json!({"run_id": "8f3c5e0d12ab34cd", "socket": "/run/ptp4l", "domain": 0, "transport_specific": 0,
            "period_ns": 1_000_000_000, "count": 10, "clock": null, "recording": "/x/ptp", "realtime": {}});
        spec[name] = value;
        serde_json::from_value::<Ptp>(spec).unwrap().check().err().map(|wrong| wrong.at)
    }

    #[test]
    fn what_cannot_be_asked_for_is_named() {
        assert_eq!(check("clock", json!("/dev/ptp0")), None);
        assert_eq!(check("clock", json!("realtime")), None);
        assert_eq!(check("clock", json!("eth0")).as_deref(), Some("clock"));
        assert_eq!(check("transport_specific", json!(16)).as_deref(), Some("transport_specific"));
        assert_eq!(check("period_ns", json!(999_999)).as_deref(), Some("period_ns"));
        assert_eq!(check("count", json!(0)).as_deref(), Some("count"));
    }
}
