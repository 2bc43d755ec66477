//! What tracefs says of its formats, and the pages of its ring buffers.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::traceable::Traceable;
use wire::tracepoint::{Field, Page};

const PAGE: &str = "\
\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;
\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;
\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;
\tfield: char data;\toffset:16;\tsize:4080;\tsigned:1;
";

fuzz_target!(|input: (&str, &[u8])| {
    let (format, bytes) = input;
    if let Some(fields) = Traceable::named("irq:softirq_entry").map(|point| point.fields(format)) {
        let _ = fields.kind.and_then(|field: Field| field.value(bytes));
    }
    for page in [Page::of(PAGE), Page::of(format)].into_iter().flatten() {
        let _ = (page.lost(bytes), page.length(bytes), page.begins_ns(bytes));
        assert!(page.records(bytes).count() <= bytes.len(), "each record takes bytes");
    }
});
