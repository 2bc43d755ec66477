//! What `timer` is asked for.

use super::{Realtime, Wrong, check_ring, default_ring_records, hexadecimal, wrong};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};
use std::borrow::Cow;

/// How the thread waits for an instant.
#[derive(Clone, Copy, Debug, JsonSchema, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum How {
    /// `clock_nanosleep` until then (TIMER_ABSTIME), on CLOCK_TAI.
    Nanosleep,
    /// A blocking read of a timerfd that is armed for then, on CLOCK_REALTIME: there are none on CLOCK_TAI, which is whole
    /// seconds away.
    Timerfd,
}

/// Whether the kernel is to report the timer's interrupts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trace {
    /// `false`.
    #[default]
    No,
    /// `true`: it is an error if it does not.
    Yes,
    /// `"auto"`: if it does.
    Auto,
}

impl JsonSchema for Trace {
    fn schema_name() -> Cow<'static, str> {
        "Trace".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"enum": [false, true, "auto"]})
    }
}

impl<'de> Deserialize<'de> for Trace {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Choice;
        impl Visitor<'_> for Choice {
            type Value = Trace;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(r#"true, false or "auto""#)
            }

            fn visit_bool<E: Error>(self, value: bool) -> Result<Trace, E> {
                Ok(if value { Trace::Yes } else { Trace::No })
            }

            fn visit_str<E: Error>(self, value: &str) -> Result<Trace, E> {
                match value {
                    "auto" => Ok(Trace::Auto),
                    other => Err(E::invalid_value(Unexpected::Str(other), &self)),
                }
            }
        }
        deserializer.deserialize_any(Choice)
    }
}

/// `latlab-agent timer`.
#[derive(Clone, Debug, JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timer {
    /// Sixteen hexadecimal digits.
    #[serde(deserialize_with = "hexadecimal")]
    #[schemars(with = "String")]
    pub run_id: u64,
    /// Recordings are written to this path and `.timer.arrow` and so on.
    pub recording: String,
    /// How the waiting thread runs.
    pub realtime: Realtime,
    /// Records the ring to the writer holds.
    #[serde(default = "default_ring_records")]
    pub ring_records: usize,
    /// Number of the stream of instants.
    pub stream: u16,
    /// Its name, for messages.
    pub name: String,
    /// Time from one instant to the next, ns.
    pub period_ns: i64,
    /// Instants in all.
    pub count: u64,
    /// First instant after the start, ns.
    pub offset_ns: i64,
    /// How they are waited for.
    pub how: How,
    /// What is later is counted, ns.
    pub threshold_ns: i64,
    /// Interval of which statistics are told, ns.
    #[serde(default = "ten_seconds")]
    pub window_ns: i64,
    /// Whether the kernel is to report the interrupts.
    #[serde(default)]
    pub trace: Trace,
    /// Say in `progress` how late it comes to instants, and what the hypervisor takes.
    #[serde(default)]
    pub live: bool,
}

fn ten_seconds() -> i64 {
    10_000_000_000
}

/// Windows are told by a thread that comes round every few milliseconds.
const SHORTEST_WINDOW_NS: i64 = 1_000_000;

impl Timer {
    /// Checks what the types cannot.
    ///
    /// # Errors
    /// The first value that cannot be done.
    pub fn check(&self) -> Result<(), Wrong> {
        self.realtime.check()?;
        check_ring(self.ring_records)?;
        if self.period_ns < 1 {
            return wrong("period_ns", "expected 1 or more");
        }
        if self.offset_ns < 0 {
            return wrong("offset_ns", "expected 0 or more");
        }
        if self.threshold_ns < 0 {
            return wrong("threshold_ns", "expected 0 or more");
        }
        if self.window_ns < SHORTEST_WINDOW_NS {
            return wrong("window_ns", format!("{}; expected at least {SHORTEST_WINDOW_NS}", self.window_ns));
        }
        // Statistics are exact up to there (wire::lateness).
        if !(1..=u64::from(u32::MAX)).contains(&self.count) {
            return wrong("count", format!("expected 1 to {}", u32::MAX));
        }
        if self.last_ns().is_none() {
            return wrong("count", "the last instant would be later than in 292 years");
        }
        Ok(())
    }

    /// How long after the start the last instant's period ends; None: beyond 64 bits.
    pub fn last_ns(&self) -> Option<i64> {
        i64::try_from(self.count).ok()?.checked_mul(self.period_ns)?.checked_add(self.offset_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn timer() -> Value {
        json!({"run_id": "8f3c5e0d12ab34cd", "recording": "/x/timer-irq", "realtime": {}, "stream": 3, "name": "irq",
            "period_ns": 1_000_000, "count": 10_000, "offset_ns": 0, "how": "nanosleep", "threshold_ns": 30_000})
    }

    fn with(name: &str, value: Value) -> Result<Timer, String> {
        let mut spec = timer();
        spec[name] = value;
        let spec = serde_json::from_value::<Timer>(spec).map_err(|error| error.to_string())?;
        spec.check().map_err(|wrong| wrong.at).map(|()| spec)
    }

    #[test]
    fn what_is_not_said_is_ten_seconds_a_window_and_no_trace() {
        let spec: Timer = serde_json::from_value(timer()).unwrap();
        assert_eq!(spec.check(), Ok(()));
        assert_eq!((spec.window_ns, spec.trace, spec.ring_records), (10_000_000_000, Trace::No, 65_536));
    }

    #[test]
    fn interrupts_are_told_of_always_never_or_where_they_can_be() {
        let trace = |value| with("trace", value).map(|spec| spec.trace);
        assert_eq!(trace(json!(true)), Ok(Trace::Yes));
        assert_eq!(trace(json!(false)), Ok(Trace::No));
        assert_eq!(trace(json!("auto")), Ok(Trace::Auto));
        for other in [json!("yes"), json!(1), json!(null)] {
            assert!(trace(other).unwrap_err().contains(r#"true, false or "auto""#));
        }
    }

    #[test]
    fn what_cannot_be_asked_for_is_named() {
        let wrong = |name: &str, value| with(name, value).err();
        for (name, value) in [
            ("period_ns", json!(0)),
            ("offset_ns", json!(-1)),
            ("threshold_ns", json!(-1)),
            ("window_ns", json!(999_999)),
            ("count", json!(0)),
            ("count", json!(1_u64 << 32)),
            ("ring_records", json!(0)),
        ] {
            assert_eq!(wrong(name, value).as_deref(), Some(name));
        }
        assert_eq!(wrong("period_ns", json!(i64::MAX / 9_999)).as_deref(), Some("count"));
        assert_eq!(wrong("offset_ns", json!(i64::MAX)).as_deref(), Some("count"));
        assert!(wrong("how", json!("spin")).unwrap().contains("unknown variant"));
        assert!(wrong("speed", json!(1)).unwrap().contains("unknown field"));
    }
}
