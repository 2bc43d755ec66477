//! From rows to the columns of a recording.

use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, Int32Array, Int64Array, StringArray, UInt8Array, UInt16Array, UInt32Array,
    UInt64Array,
};
use arrow_schema::Field;
use std::sync::Arc;
use wire::live::Books;
use wire::record::{
    Clocks, Dropped, Exchange, Kept, Reading, Received, Sent, Stamp, Task, Traced, Watched, WatchedDrop, Woken,
};
use wire::table::{Column, Table, Values};

/// A row of a recording.
pub trait Row: Table + Copy + Send + 'static {
    /// Whether [`Self::note`] does anything.
    const IN_BOOKS: bool = false;

    /// Notes what is said of it while it is measured.
    fn note(&self, _books: &mut Books) {}
}

impl Row for Sent {
    const IN_BOOKS: bool = true;

    fn note(&self, books: &mut Books) {
        if self.error == 0 {
            books.asked(self.sequence, self.launch_tai_ns);
        }
    }
}

impl Row for Received {
    const IN_BOOKS: bool = true;

    fn note(&self, books: &mut Books) {
        books.received(self);
    }
}

impl Row for Woken {
    const IN_BOOKS: bool = true;

    fn note(&self, books: &mut Books) {
        books.came(self.stream, self.sequence, self.due_tai_ns, self.woke_tai_ns);
    }
}

impl Row for Clocks {}
impl Row for Dropped {}
impl Row for Exchange {}
impl Row for Kept {}
impl Row for Reading {}
impl Row for Stamp {}
impl Row for Task {}
impl Row for Traced {}
impl Row for Watched {}
impl Row for WatchedDrop {}

/// A column's values in `rows`.
pub fn array<R>(column: &Column<R>, rows: &[R]) -> ArrayRef {
    let rows = rows.iter();
    match &column.values {
        Values::Bool(of) => Arc::new(BooleanArray::from_iter(rows.map(of))),
        Values::U8(of) => Arc::new(UInt8Array::from_iter(rows.map(of))),
        Values::U16(of) => Arc::new(UInt16Array::from_iter(rows.map(of))),
        Values::U32(of) => Arc::new(UInt32Array::from_iter(rows.map(of))),
        Values::U64(of) => Arc::new(UInt64Array::from_iter(rows.map(of))),
        Values::I32(of) => Arc::new(Int32Array::from_iter(rows.map(of))),
        Values::I64(of) => Arc::new(Int64Array::from_iter(rows.map(of))),
        Values::Text(of) => Arc::new(StringArray::from_iter(rows.map(of))),
        Values::Bytes(of) => Arc::new(BinaryArray::from_iter_values(rows.map(of))),
    }
}

/// The column, as the file's header has it.
pub fn field<R>(column: &Column<R>) -> Field {
    Field::new(column.name, array(column, &[]).data_type().clone(), column.nullable)
}
