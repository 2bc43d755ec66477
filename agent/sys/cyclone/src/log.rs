//! What Cyclone has to say: kept for the lab, instead of printed.

use cyclors as c;
use std::ffi::c_void;
use std::sync::{Mutex, PoisonError};

/// Lines that are kept: the first ones say what is wrong.
const MOST_LINES: usize = 8;

static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Cyclone's errors and warnings so far, joined; empty if there were none.
pub fn said() -> String {
    LINES.lock().unwrap_or_else(PoisonError::into_inner).join("; ")
}

/// From now on Cyclone's errors and warnings are kept.
pub(crate) fn listen() {
    // SAFETY: the function is of the type asked for, and uses no argument.
    unsafe { c::dds_set_log_sink(Some(keep), std::ptr::null_mut()) };
}

unsafe extern "C" fn keep(_argument: *mut c_void, data: *const c::dds_log_data_t) {
    // SAFETY: Cyclone gives a message of that size, for as long as the call lasts.
    let bytes = unsafe { std::slice::from_raw_parts((*data).message.cast::<u8>(), (*data).size) };
    let line = String::from_utf8_lossy(bytes).trim_end_matches(['\n', '\0']).to_owned();
    let mut lines = LINES.lock().unwrap_or_else(PoisonError::into_inner);
    if lines.len() < MOST_LINES && !line.is_empty() {
        lines.push(line);
    }
}
