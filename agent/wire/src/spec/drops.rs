//! What `drops` is asked for.

use super::{Realtime, Wrong, check_ring, default_ring_records, hexadecimal};
use crate::iec61850::{Payload, check_size};
use schemars::JsonSchema;
use serde::Deserialize;

/// `latlab-agent drops`.
#[derive(Clone, Debug, JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Drops {
    /// Sixteen hexadecimal digits.
    #[serde(deserialize_with = "hexadecimal")]
    #[schemars(with = "String")]
    pub run_id: u64,
    /// Recordings are written to this path and `.drops.arrow`.
    pub recording: String,
    /// How the reading thread runs.
    pub realtime: Realtime,
    /// Records that the kernel's ring holds until they are read, and the ring to the writer.
    #[serde(default = "default_ring_records")]
    pub ring_records: usize,
    /// Frames that carry a probe behind something else.
    #[serde(default)]
    pub frames: Vec<Carrier>,
}

/// A protocol whose frames carry probes of this size.
#[derive(Clone, Copy, Debug, JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Carrier {
    /// What carries them.
    pub payload: Payload,
    /// Bytes.
    pub size: usize,
}

impl Drops {
    /// Checks what the types cannot.
    ///
    /// # Errors
    /// The first value that cannot be done.
    pub fn check(&self) -> Result<(), Wrong> {
        self.realtime.check()?;
        for (place, one) in self.frames.iter().enumerate() {
            let at = || format!("frames.{place}.size");
            check_size(one.payload, one.size).map_err(|what| Wrong { at: at(), what })?;
        }
        check_ring(self.ring_records)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_ring_holds_some_records_and_no_other_keys_are_taken() {
        let with = |name: &str, value: serde_json::Value| {
            let mut spec = json!({"run_id": "8f3c5e0d12ab34cd", "recording": "/x/drops-ecu", "realtime": {}});
            spec[name] = value;
            let spec = serde_json::from_value::<Drops>(spec).map_err(|error| error.to_string())?;
            spec.check().map_err(|wrong| wrong.at).map(|()| spec.ring_records)
        };
        assert_eq!(with("ring_records", json!(8)), Ok(8));
        assert_eq!(with("ring_records", json!(0)), Err("ring_records".into()));
        assert_eq!(with("realtime", json!({"fifo": 100})), Err("realtime.fifo".into()));
        assert_eq!(with("frames", json!([{"payload": "iec61850-sv", "size": 64}])), Ok(65_536));
        assert_eq!(with("frames", json!([{"payload": "iec61850-sv", "size": 65}])), Err("frames.0.size".into()));
        assert!(with("streams", json!([])).unwrap_err().contains("unknown field"));
    }
}
