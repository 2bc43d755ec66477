//! The columns of each recording.

use arrow_array::{ArrayRef, BooleanArray, Int32Array, Int64Array, UInt8Array, UInt16Array, UInt64Array};
use arrow_schema::{DataType, Field};
use std::sync::Arc;
use wire::record::{Clocks, Exchange, Ptp, Received, Sent, Stamp};

/// A row of a recording: its table's name and columns, and how rows become columns.
pub trait Row: Copy + Send + 'static {
    /// The table's name, the middle of its file's name.
    const TABLE: &'static str;

    /// Each column's name, whether it may be null, and its values in `rows`.
    fn columns(rows: &[Self]) -> Vec<(&'static str, bool, ArrayRef)>;

    /// The table's columns.
    fn fields() -> Vec<Field> {
        Self::columns(&[])
            .into_iter()
            .map(|(name, nullable, values)| Field::new(name, DataType::clone(values.data_type()), nullable))
            .collect()
    }
}

fn instants<R>(rows: &[R], of: impl Fn(&R) -> i64) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(rows.iter().map(of)))
}

fn maybe_instants<R>(rows: &[R], of: impl Fn(&R) -> Option<i64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter(rows.iter().map(of)))
}

fn streams<R>(rows: &[R], of: impl Fn(&R) -> u16) -> ArrayRef {
    Arc::new(UInt16Array::from_iter_values(rows.iter().map(of)))
}

fn sequences<R>(rows: &[R], of: impl Fn(&R) -> u64) -> ArrayRef {
    Arc::new(UInt64Array::from_iter_values(rows.iter().map(of)))
}

impl Row for Sent {
    const TABLE: &'static str = "sent";

    fn columns(rows: &[Self]) -> Vec<(&'static str, bool, ArrayRef)> {
        vec![
            ("stream", false, streams(rows, |r| r.stream)),
            ("sequence", false, sequences(rows, |r| r.sequence)),
            ("launch_tai_ns", false, instants(rows, |r| r.launch_tai_ns)),
            ("wake_due_tai_ns", false, instants(rows, |r| r.wake_due_tai_ns)),
            ("wake_tai_ns", false, instants(rows, |r| r.wake_tai_ns)),
            ("submit_tai_ns", false, instants(rows, |r| r.submit_tai_ns)),
            ("error", false, Arc::new(Int32Array::from_iter_values(rows.iter().map(|r| r.error)))),
            ("late", false, Arc::new(UInt8Array::from_iter_values(rows.iter().map(|r| r.late as u8)))),
        ]
    }
}

impl Row for Stamp {
    const TABLE: &'static str = "stamps";

    fn columns(rows: &[Self]) -> Vec<(&'static str, bool, ArrayRef)> {
        vec![
            ("stream", false, streams(rows, |r| r.stream)),
            ("sequence", false, sequences(rows, |r| r.sequence)),
            ("kind", false, Arc::new(UInt8Array::from_iter_values(rows.iter().map(|r| r.kind as u8)))),
            ("stamp_ns", false, instants(rows, |r| r.stamp_ns)),
        ]
    }
}

impl Row for Received {
    const TABLE: &'static str = "received";

    fn columns(rows: &[Self]) -> Vec<(&'static str, bool, ArrayRef)> {
        vec![
            ("stream", false, streams(rows, |r| r.stream)),
            ("sequence", false, sequences(rows, |r| r.sequence)),
            ("launch_tai_ns", false, instants(rows, |r| r.launch_tai_ns)),
            ("rx_hard_phc_ns", true, maybe_instants(rows, |r| r.rx_hard_phc_ns)),
            ("rx_soft_real_ns", true, maybe_instants(rows, |r| r.rx_soft_real_ns)),
            ("rx_user_tai_ns", false, instants(rows, |r| r.rx_user_tai_ns)),
        ]
    }
}

impl Row for Clocks {
    const TABLE: &'static str = "clocks";

    fn columns(rows: &[Self]) -> Vec<(&'static str, bool, ArrayRef)> {
        vec![
            ("tai_ns", false, instants(rows, |r| r.tai_ns)),
            ("real_ns", false, instants(rows, |r| r.real_ns)),
            ("monotonic_ns", false, instants(rows, |r| r.monotonic_ns)),
            ("monotonic_raw_ns", false, instants(rows, |r| r.monotonic_raw_ns)),
            ("bracket_ns", false, instants(rows, |r| r.bracket_ns)),
        ]
    }
}

impl Row for Exchange {
    const TABLE: &'static str = "exchanges";

    fn columns(rows: &[Self]) -> Vec<(&'static str, bool, ArrayRef)> {
        vec![
            ("sequence", false, sequences(rows, |r| r.sequence)),
            ("t1_tai_ns", false, instants(rows, |r| r.t1_tai_ns)),
            ("t2_tai_ns", false, instants(rows, |r| r.t2_tai_ns)),
            ("t3_tai_ns", false, instants(rows, |r| r.t3_tai_ns)),
            ("t4_tai_ns", false, instants(rows, |r| r.t4_tai_ns)),
        ]
    }
}

impl Row for Ptp {
    const TABLE: &'static str = "ptp";

    fn columns(rows: &[Self]) -> Vec<(&'static str, bool, ArrayRef)> {
        let told = || rows.iter().map(|r| r.status);
        let states = UInt8Array::from_iter_values(told().map(|told| told.map_or(0, |t| t.state as u8)));
        let grandmasters = UInt64Array::from_iter(told().map(|told| told.and_then(|t| t.grandmaster).map(|id| id.0)));
        let steps = UInt16Array::from_iter(told().map(|told| told.and_then(|t| t.steps_removed)));
        vec![
            ("tai_ns", false, instants(rows, |r| r.tai_ns)),
            ("monotonic_ns", false, instants(rows, |r| r.monotonic_ns)),
            ("answered", false, Arc::new(BooleanArray::from_iter(told().map(|told| Some(told.is_some()))))),
            ("state", false, Arc::new(states)),
            ("offset_ns", true, maybe_instants(rows, |r| r.status.and_then(|t| t.offset_ns))),
            ("ingress_ns", true, maybe_instants(rows, |r| r.status.and_then(|t| t.ingress_ns))),
            ("path_delay_ns", true, maybe_instants(rows, |r| r.status.and_then(|t| t.path_delay_ns))),
            ("grandmaster", true, Arc::new(grandmasters)),
            ("steps_removed", true, Arc::new(steps)),
            ("frequency_ppt", true, maybe_instants(rows, |r| r.frequency_ppt)),
        ]
    }
}
