//! What `trace` is asked for.

use super::{Realtime, Wrong, check_ring, default_ring_records, hexadecimal, wrong};
use crate::traceable::Traceable;
use schemars::JsonSchema;
use serde::Deserialize;

/// What a tracepoint that the kernel does not have means.
#[derive(Clone, Copy, Debug, Default, JsonSchema, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Absent {
    /// It cannot be done.
    #[default]
    Error,
    /// It is left out, and reported.
    Skip,
}

/// `latlab-agent trace`.
#[derive(Clone, Debug, JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tracing {
    /// Sixteen hexadecimal digits.
    #[serde(deserialize_with = "hexadecimal")]
    #[schemars(with = "String")]
    pub run_id: u64,
    /// Recordings are written to this path and `.trace.arrow` and so on.
    pub recording: String,
    /// How the reading thread runs.
    pub realtime: Realtime,
    /// Records the ring to the writer holds.
    #[serde(default = "default_ring_records")]
    pub ring_records: usize,
    /// The tracepoints, such as `irq:softirq_entry`.
    pub events: Vec<String>,
    /// What it means that the kernel does not have one.
    #[serde(default)]
    pub absent: Absent,
    /// CPUs whose events count; None: all.
    #[serde(default)]
    pub cpus: Option<Vec<usize>>,
    /// Threads whose waking and running counts, by their ids; None: all.
    #[serde(default)]
    pub threads: Option<Vec<u32>>,
    /// Interrupts that count, by their numbers; None: all.
    #[serde(default)]
    pub irqs: Option<Vec<u32>>,
    /// Softirqs that count, by their numbers; None: all.
    #[serde(default)]
    pub softirqs: Option<Vec<u32>>,
    /// Record only the events of windows that it is told (`keep`): the kernel holds the latest, and nothing is read before.
    #[serde(default)]
    pub windows_only: bool,
    /// What the kernel keeps of each CPU's events until they are read, KiB.
    #[serde(default = "default_buffer_kib")]
    pub buffer_kib: usize,
}

fn default_buffer_kib() -> usize {
    1024
}

/// Of each CPU: the memory of a small board holds those of all.
const MOST_BUFFER_KIB: usize = 65_536;
/// The kernel takes a filter of a page at most.
pub(crate) const MOST_NUMBERS: usize = 64;

impl Tracing {
    /// Checks what the types cannot.
    ///
    /// # Errors
    /// The first value that cannot be done.
    pub fn check(&self) -> Result<(), Wrong> {
        self.realtime.check()?;
        check_ring(self.ring_records)?;
        if self.events.is_empty() {
            return wrong("events", "expected at least one");
        }
        for (n, event) in self.events.iter().enumerate() {
            if Traceable::named(event).is_none() {
                return wrong(format!("events[{n}]"), format!("{event} is none of those in docs/reference/agent.md"));
            }
            if self.events[..n].contains(event) {
                return wrong(format!("events[{n}]"), format!("{event} is named twice"));
            }
        }
        if self.cpus.as_ref().is_some_and(Vec::is_empty) {
            return wrong("cpus", "expected at least one, or null for all");
        }
        for (at, numbers) in [("threads", &self.threads), ("irqs", &self.irqs), ("softirqs", &self.softirqs)] {
            let count = numbers.as_ref().map_or(1, Vec::len);
            if !(1..=MOST_NUMBERS).contains(&count) {
                return wrong(at, format!("{count} of them; expected 1 to {MOST_NUMBERS}, or null for all"));
            }
        }
        if !(1..=MOST_BUFFER_KIB).contains(&self.buffer_kib) {
            return wrong("buffer_kib", format!("expected 1 to {MOST_BUFFER_KIB}"));
        }
        Ok(())
    }

    /// The tracepoints that are asked for, in that order.
    pub fn points(&self) -> impl Iterator<Item = &'static Traceable> {
        self.events.iter().filter_map(|event| Traceable::named(event))
    }

    /// The filter that one of them is given; None: everything counts.
    pub fn filter(&self, point: &Traceable) -> Option<String> {
        point.filter(self.irqs.as_deref(), self.softirqs.as_deref(), self.threads.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn with(name: &str, value: Value) -> Result<Tracing, String> {
        let mut spec = json!({"run_id": "8f3c5e0d12ab34cd", "recording": "/x/trace-ecu", "realtime": {},
            "events": ["irq:softirq_entry", "sched:sched_waking"]});
        spec[name] = value;
        let spec = serde_json::from_value::<Tracing>(spec).map_err(|error| error.to_string())?;
        spec.check().map_err(|wrong| wrong.at).map(|()| spec)
    }

    #[test]
    fn what_is_not_said_is_everything_and_a_mebibyte() {
        let spec = with("cpus", json!(null)).unwrap();
        assert_eq!((spec.absent, spec.buffer_kib, spec.ring_records), (Absent::Error, 1024, 65_536));
        assert!(spec.points().all(|point| spec.filter(point).is_none()));
        assert_eq!(spec.points().map(|point| point.number).collect::<Vec<_>>(), [6, 11]);
    }

    #[test]
    fn each_event_is_filtered_by_what_is_its_own() {
        let spec = with("threads", json!([7])).unwrap();
        let filters: Vec<_> = spec.points().map(|point| spec.filter(point)).collect();
        assert_eq!(filters, [None, Some("pid == 7".into())]);
    }

    #[test]
    fn what_cannot_be_asked_for_is_named() {
        let wrong = |name: &str, value| with(name, value).err();
        for (name, value, at) in [
            ("events", json!([]), "events"),
            ("events", json!(["irq:softirq_entry", "irq:nothing"]), "events[1]"),
            ("events", json!(["irq:softirq_entry", "irq:softirq_entry"]), "events[1]"),
            ("cpus", json!([]), "cpus"),
            ("threads", json!([]), "threads"),
            ("irqs", json!(vec![1; 65]), "irqs"),
            ("softirqs", json!([]), "softirqs"),
            ("buffer_kib", json!(0), "buffer_kib"),
            ("buffer_kib", json!(65_537), "buffer_kib"),
            ("ring_records", json!(0), "ring_records"),
        ] {
            assert_eq!(wrong(name, value).as_deref(), Some(at));
        }
        assert!(wrong("absent", json!("ignore")).unwrap().contains("unknown variant"));
        assert!(wrong("pids", json!([1])).unwrap().contains("unknown field"));
    }
}
