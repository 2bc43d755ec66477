//! The columns of each recording.

use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, Int32Array, Int64Array, StringArray, UInt8Array, UInt16Array, UInt32Array,
    UInt64Array,
};
use arrow_schema::{DataType, Field};
use std::sync::Arc;
use wire::live::Books;
use wire::record::{
    Clocks, Dropped, Exchange, Kept, Reading, Received, Sent, Stamp, Task, Traced, Watched, WatchedDrop, Woken,
};

/// A row of a recording: its table's name and columns, and how rows become columns.
pub trait Row: Copy + Send + 'static {
    /// The table's name, the middle of its file's name.
    const TABLE: &'static str;
    /// Whether [`Self::note`] does anything.
    const IN_BOOKS: bool = false;

    /// Notes what is said of it while it is measured.
    fn note(&self, _books: &mut Books) {}

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

fn maybe_i64<R>(rows: &[R], of: impl Fn(&R) -> Option<i64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter(rows.iter().map(of)))
}

fn streams<R>(rows: &[R], of: impl Fn(&R) -> u16) -> ArrayRef {
    Arc::new(UInt16Array::from_iter_values(rows.iter().map(of)))
}

fn sequences<R>(rows: &[R], of: impl Fn(&R) -> u64) -> ArrayRef {
    Arc::new(UInt64Array::from_iter_values(rows.iter().map(of)))
}

/// What the kernel has as sixteen bytes, ended by a zero where it is shorter.
fn text(bytes: [u8; 16]) -> String {
    String::from_utf8_lossy(bytes.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned()
}

impl Row for Sent {
    const TABLE: &'static str = "sent";
    const IN_BOOKS: bool = true;

    fn note(&self, books: &mut Books) {
        if self.error == 0 {
            books.asked(self.sequence, self.launch_tai_ns);
        }
    }

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
    const IN_BOOKS: bool = true;

    fn note(&self, books: &mut Books) {
        books.received(self);
    }

    fn columns(rows: &[Self]) -> Vec<(&'static str, bool, ArrayRef)> {
        vec![
            ("stream", false, streams(rows, |r| r.stream)),
            ("sequence", false, sequences(rows, |r| r.sequence)),
            ("launch_tai_ns", false, instants(rows, |r| r.launch_tai_ns)),
            ("rx_hard_phc_ns", true, maybe_i64(rows, |r| r.rx_hard_phc_ns)),
            ("rx_soft_real_ns", true, maybe_i64(rows, |r| r.rx_soft_real_ns)),
            ("rx_user_tai_ns", false, instants(rows, |r| r.rx_user_tai_ns)),
        ]
    }
}

impl Row for Kept {
    const TABLE: &'static str = "kept";

    fn columns(rows: &[Self]) -> Vec<(&'static str, bool, ArrayRef)> {
        vec![
            ("from_tai_ns", false, instants(rows, |r| r.from_tai_ns)),
            ("to_tai_ns", false, instants(rows, |r| r.to_tai_ns)),
            ("whole", false, Arc::new(BooleanArray::from_iter(rows.iter().map(|r| Some(r.whole))))),
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

impl Row for Woken {
    const TABLE: &'static str = "timer";
    const IN_BOOKS: bool = true;

    fn note(&self, books: &mut Books) {
        books.came(self.stream, self.sequence, self.due_tai_ns, self.woke_tai_ns);
    }

    fn columns(rows: &[Self]) -> Vec<(&'static str, bool, ArrayRef)> {
        vec![
            ("stream", false, streams(rows, |r| r.stream)),
            ("sequence", false, sequences(rows, |r| r.sequence)),
            ("due_tai_ns", false, instants(rows, |r| r.due_tai_ns)),
            ("irq_tai_ns", true, maybe_i64(rows, |r| r.irq_tai_ns)),
            ("woke_tai_ns", false, instants(rows, |r| r.woke_tai_ns)),
            ("overdue", false, Arc::new(BooleanArray::from_iter(rows.iter().map(|r| Some(r.overdue))))),
        ]
    }
}

impl Row for Traced {
    const TABLE: &'static str = "trace";

    fn columns(rows: &[Self]) -> Vec<(&'static str, bool, ArrayRef)> {
        vec![
            ("tai_ns", false, instants(rows, |r| r.tai_ns)),
            ("cpu", false, Arc::new(UInt16Array::from_iter_values(rows.iter().map(|r| r.cpu)))),
            ("event", false, Arc::new(UInt8Array::from_iter_values(rows.iter().map(|r| r.event)))),
            ("flags", false, Arc::new(UInt8Array::from_iter_values(rows.iter().map(|r| r.flags)))),
            ("preempt", false, Arc::new(UInt8Array::from_iter_values(rows.iter().map(|r| r.preempt)))),
            ("pid", false, Arc::new(Int32Array::from_iter_values(rows.iter().map(|r| r.pid)))),
            ("subject", true, maybe_i64(rows, |r| r.subject)),
            ("detail", true, maybe_i64(rows, |r| r.detail)),
        ]
    }
}

impl Row for Task {
    const TABLE: &'static str = "tasks";

    fn columns(rows: &[Self]) -> Vec<(&'static str, bool, ArrayRef)> {
        vec![
            ("tai_ns", false, instants(rows, |r| r.tai_ns)),
            ("pid", false, Arc::new(Int32Array::from_iter_values(rows.iter().map(|r| r.pid)))),
            ("comm", true, Arc::new(StringArray::from_iter(rows.iter().map(|r| r.comm.map(text))))),
            ("kernel", true, Arc::new(BooleanArray::from_iter(rows.iter().map(|r| r.kernel)))),
        ]
    }
}

impl Row for Dropped {
    const TABLE: &'static str = "drops";

    fn columns(rows: &[Self]) -> Vec<(&'static str, bool, ArrayRef)> {
        let maybe_u32 = |of: fn(&Self) -> Option<u32>| Arc::new(UInt32Array::from_iter(rows.iter().map(of)));
        vec![
            ("tai_ns", false, instants(rows, |r| r.tai_ns)),
            ("stream", false, streams(rows, |r| r.stream)),
            ("sequence", false, sequences(rows, |r| r.sequence)),
            ("reason", true, Arc::new(StringArray::from_iter(rows.iter().map(|r| r.reason)))),
            ("device", true, Arc::new(StringArray::from_iter(rows.iter().map(|r| r.device.map(text))))),
            ("ifindex", true, maybe_u32(|r| r.ifindex)),
            ("netns", true, maybe_u32(|r| r.netns)),
            ("location", true, Arc::new(StringArray::from_iter(rows.iter().map(|r| r.location)))),
        ]
    }
}

impl Row for Watched {
    const TABLE: &'static str = "watched";

    fn columns(rows: &[Self]) -> Vec<(&'static str, bool, ArrayRef)> {
        let truth = |of: fn(&Self) -> bool| Arc::new(BooleanArray::from_iter(rows.iter().map(|r| Some(of(r)))));
        let bytes = rows.iter().map(|r| r.bytes.get(..usize::from(r.captured)).unwrap_or(&r.bytes));
        vec![
            ("tai_ns", false, instants(rows, |r| r.tai_ns)),
            ("point", false, Arc::new(UInt8Array::from_iter_values(rows.iter().map(|r| r.point)))),
            ("out", false, truth(|r| r.out)),
            ("ethernet", false, truth(|r| r.ethernet)),
            ("length", false, Arc::new(UInt32Array::from_iter_values(rows.iter().map(|r| r.length)))),
            ("bytes", false, Arc::new(BinaryArray::from_iter_values(bytes))),
            ("segments", false, Arc::new(UInt16Array::from_iter_values(rows.iter().map(|r| r.segments)))),
        ]
    }
}

impl Row for WatchedDrop {
    const TABLE: &'static str = "dropped";

    fn columns(rows: &[Self]) -> Vec<(&'static str, bool, ArrayRef)> {
        let maybe_u32 = |of: fn(&Self) -> Option<u32>| Arc::new(UInt32Array::from_iter(rows.iter().map(of)));
        let bytes = rows.iter().map(|r| r.bytes.get(..usize::from(r.captured)).unwrap_or(&r.bytes));
        vec![
            ("tai_ns", false, instants(rows, |r| r.tai_ns)),
            ("ethernet", false, Arc::new(BooleanArray::from_iter(rows.iter().map(|r| Some(r.ethernet))))),
            ("length", false, Arc::new(UInt32Array::from_iter_values(rows.iter().map(|r| r.length)))),
            ("bytes", false, Arc::new(BinaryArray::from_iter_values(bytes))),
            ("reason", true, Arc::new(StringArray::from_iter(rows.iter().map(|r| r.reason)))),
            ("device", true, Arc::new(StringArray::from_iter(rows.iter().map(|r| r.device.map(text))))),
            ("ifindex", true, maybe_u32(|r| r.ifindex)),
            ("netns", true, maybe_u32(|r| r.netns)),
            ("location", true, Arc::new(StringArray::from_iter(rows.iter().map(|r| r.location)))),
        ]
    }
}

impl Row for Reading {
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
            ("offset_ns", true, maybe_i64(rows, |r| r.status.and_then(|t| t.offset_ns))),
            ("ingress_ns", true, maybe_i64(rows, |r| r.status.and_then(|t| t.ingress_ns))),
            ("path_delay_ns", true, maybe_i64(rows, |r| r.status.and_then(|t| t.path_delay_ns))),
            ("grandmaster", true, Arc::new(grandmasters)),
            ("steps_removed", true, Arc::new(steps)),
            ("frequency_ppt", true, maybe_i64(rows, |r| r.frequency_ppt)),
        ]
    }
}
