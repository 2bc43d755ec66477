//! What the kernel returns on a socket's error queue: the message, and the frame that it speaks of.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::errqueue::{Message, meaning, probe_in};

type Fields = (u8, u8, u32, u32, Option<i64>, Option<i64>);

fuzz_target!(|input: (Fields, bool, &[u8], u64, Vec<u16>)| {
    let ((origin, code, info, data, software_ns, hardware_ns), ids_in_use, frame, run_id, sizes) = input;
    let _ = meaning(&Message { origin, code, info, data, software_ns, hardware_ns }, ids_in_use);
    if let Some(probe) = probe_in(frame, run_id, sizes.iter().map(|&size| size.into())) {
        assert_eq!(probe.run_id, run_id);
        assert!(sizes.iter().any(|&size| u32::from(size) == probe.size));
    }
});
