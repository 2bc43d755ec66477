//! Management answers at the socket of the agent that observes ptp4l.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::ptp::{Answer, Asker, ClockIdentity, Inquiry, Memory, PortIdentity, QUESTION_BYTES};

const ASKER: Asker =
    Asker { domain: 0, transport_specific: 1, source: PortIdentity { clock: ClockIdentity(7), port: 9 } };
const HEADER_BYTES: usize = 48;

/// The bytes as an answer that is addressed to the asker: what decides whether they count is what follows the header.
fn addressed(bytes: &[u8], n: u8) -> Vec<u8> {
    let id = Inquiry::STATUS_AND_TIMES[usize::from(n) % Inquiry::STATUS_AND_TIMES.len()];
    let question: [u8; QUESTION_BYTES] = ASKER.question(u16::from(n), id);
    let mut answer = [&question[..HEADER_BYTES], bytes].concat();
    answer[34..44].copy_from_slice(&question[20..30]);
    answer[46] = 2;
    let length = answer.len() as u16;
    answer[2..4].copy_from_slice(&length.to_be_bytes());
    answer
}

fuzz_target!(|messages: Vec<(bool, Vec<u8>)>| {
    let mut inquiry = Inquiry::new(ASKER, 0, Inquiry::STATUS_AND_TIMES);
    let mut memory = Memory::default();
    for ((as_sent, bytes), n) in messages.iter().zip((0..=u8::MAX).cycle()) {
        let _ = Answer::read(bytes);
        inquiry.take(&if *as_sent { bytes.clone() } else { addressed(bytes, n) });
        assert!(!(inquiry.complete() && inquiry.refused()));
    }
    let alone = inquiry.status();
    assert_eq!(inquiry.status_after(&mut memory).is_some(), alone.is_some());
});
