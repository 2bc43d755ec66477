//! The question and answer by which two clocks are compared.
//!
//! Little endian, 48 bytes: magic `LATX`, version, kind (0 question, 1 answer), two zeros, run id, sequence, t1, t2, t3;
//! t2 and t3 are zero in a question.

/// Bytes of a message.
pub const BYTES: usize = 48;

const MAGIC: [u8; 4] = *b"LATX";
const VERSION: u8 = 1;

/// A message of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Whether it is the answer.
    pub answer: bool,
    /// The run's: others are ignored.
    pub run_id: u64,
    /// Position among the questions.
    pub sequence: u64,
    /// Asked, initiator's CLOCK_TAI ns.
    pub t1_tai_ns: i64,
    /// Question arrived, responder's CLOCK_TAI ns.
    pub t2_tai_ns: i64,
    /// Answer sent, responder's CLOCK_TAI ns.
    pub t3_tai_ns: i64,
}

impl Message {
    /// The message as bytes.
    pub fn bytes(&self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = VERSION;
        bytes[5] = u8::from(self.answer);
        let words = [self.run_id, self.sequence, self.t1_tai_ns as u64, self.t2_tai_ns as u64, self.t3_tai_ns as u64];
        for (place, word) in bytes[8..].chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// The message in `bytes`; None if they are none.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; BYTES] = bytes.try_into().ok()?;
        if bytes[..4] != MAGIC || bytes[4] != VERSION || bytes[5] > 1 || bytes[6..8] != [0, 0] {
            return None;
        }
        let mut words = [0; 5];
        for (word, place) in words.iter_mut().zip(bytes[8..].chunks_exact(8)) {
            *word = u64::from_le_bytes(place.try_into().ok()?);
        }
        let [run_id, sequence, t1, t2, t3] = words;
        let [t1_tai_ns, t2_tai_ns, t3_tai_ns] = [t1, t2, t3].map(|word| word as i64);
        Some(Self { answer: bytes[5] == 1, run_id, sequence, t1_tai_ns, t2_tai_ns, t3_tai_ns })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read_back(answer: bool, run_id: u64, sequence: u64, t1_tai_ns: i64, t2_tai_ns: i64, t3_tai_ns: i64) {
            let message = Message { answer, run_id, sequence, t1_tai_ns, t2_tai_ns, t3_tai_ns };
            prop_assert_eq!(Message::read(&message.bytes()), Some(message));
        }

        #[test]
        fn other_bytes_are_no_message(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            prop_assume!(!bytes.starts_with(&MAGIC));
            prop_assert_eq!(Message::read(&bytes), None);
        }
    }
}
