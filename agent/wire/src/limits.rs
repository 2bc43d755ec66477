//! Limits that the lab keeps, too: it refuses in a scenario what an agent would refuse in a spec.

use crate::in_c::defined;
use crate::spec::{
    HOLD_NS, LEAST_PAYLOAD, LEAST_SNAP, MAX_BATCH, MAX_DOMAIN, MAX_INSTRUCTIONS, MAX_RING_RECORDS, MAX_SAMPLE,
    MAX_SAMPLE_BYTES, MAX_TESTS, MOST_NUMBERS, SNAP, TRIGGER_NS,
};
use crate::{dds, flight, iec61850, probe, prp, record};
use serde_json::{Value, json};

/// Each by the name that the lab has for it.
pub fn limits() -> Value {
    json!({
        "batch": MAX_BATCH,
        "dds_bytes": MAX_SAMPLE_BYTES,
        "dds_datagram_bytes": dds::LARGEST_IN_ONE,
        "dds_domain": MAX_DOMAIN,
        "dds_message_bytes": dds::MESSAGE_BYTES,
        "distinct_bytes": LEAST_PAYLOAD,
        "filter_bytes": defined(include_str!("../../bpf/watch_packet.h"), "HEAD"),
        "filter_instructions": MAX_INSTRUCTIONS,
        "flow_tests": MAX_TESTS,
        "goose_bytes": iec61850::MOST_GOOSE_BYTES,
        "goose_prefix_bytes": iec61850::MOST_PREFIX_BYTES,
        "payload_bytes": probe::MAX_BYTES,
        "probe_bytes": probe::HEADER_BYTES,
        "prp_trailer_bytes": prp::TRAILER_BYTES,
        "remembered_ns": HOLD_NS,
        "ring_records": MAX_RING_RECORDS,
        "sample": MAX_SAMPLE,
        "samples_bytes": iec61850::SAMPLES_BYTES,
        "snap_least_bytes": LEAST_SNAP,
        "snap_most_bytes": record::MAX_SNAP,
        "snap_usual_bytes": SNAP,
        "traced_threads": MOST_NUMBERS,
        "trigger_ns": TRIGGER_NS,
        "window_lead_ns": flight::LONGEST_NS,
    })
}
