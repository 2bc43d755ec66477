//! Cyclone's own counters of a reader or writer (dds_statistics.h, which the bindings leave out).

use std::ffi::{CStr, c_char};

/// `struct dds_stat_keyvalue`: a name, the kind of the value, the value.
#[repr(C)]
struct KeyValue {
    name: *const c_char,
    kind: u32,
    value: u64,
}

const KIND_U32: u32 = 0;

#[repr(C)]
struct Statistics {
    _private: [u8; 0],
}

unsafe extern "C" {
    fn dds_create_statistics(entity: i32) -> *mut Statistics;
    fn dds_lookup_statistic(statistics: *const Statistics, name: *const c_char) -> *const KeyValue;
    fn dds_delete_statistics(statistics: *mut Statistics);
}

/// The counters of these names; 0 where Cyclone has none.
pub fn of<const N: usize>(entity: i32, names: [&CStr; N]) -> [u64; N] {
    // SAFETY: an entity is a number that Cyclone checks; null, for one without counters, is looked for below.
    let statistics = unsafe { dds_create_statistics(entity) };
    if statistics.is_null() {
        return [0; N];
    }
    let values = names.map(|name| {
        // SAFETY: the statistics are ours until they are deleted, and so is what is found in them.
        unsafe {
            dds_lookup_statistic(statistics, name.as_ptr())
                .as_ref()
                .map_or(0, |found| if found.kind == KIND_U32 { found.value & u64::from(u32::MAX) } else { found.value })
        }
    });
    // SAFETY: they are ours, and used no more.
    unsafe { dds_delete_statistics(statistics) };
    values
}
