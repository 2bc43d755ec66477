//! Packets from the network: probes, and the questions and answers that compare clocks.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::exchange::Message;
use wire::probe::{HEADER_BYTES, Probe};

fuzz_target!(|packet: &[u8]| {
    if let Ok(probe) = Probe::read(packet) {
        let mut written = [0; HEADER_BYTES];
        probe.write(&mut written);
        assert_eq!(written, packet[..HEADER_BYTES], "a probe is written as it was read");
        assert!(probe.size as usize <= packet.len());
    }
    if let Some(message) = Message::read(packet) {
        assert_eq!(message.bytes(), packet, "a message is written as it was read");
    }
});
