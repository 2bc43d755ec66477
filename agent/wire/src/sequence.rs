//! What a listener knows of one stream's sequence numbers.

/// What a sequence number means when it arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// Not seen before, and none later has been.
    InOrder,
    /// Not seen before, but a later one has been (RFC 4737, section 3: reordered).
    Reordered,
    /// Seen before.
    Repeated,
    /// Not a sequence number of this stream.
    OutOfRange,
}

/// How many of the latest packets of an endless stream are distinguished: minutes of the fastest.
const REMEMBERED: u64 = 1 << 24;

/// One bit for each packet of a stream: exact, and allocated before the first packet arrives.
#[derive(Debug)]
pub struct Sequences {
    /// Bit n of word w is packet w × 64 + n; of an endless stream, words that are out of sight are used again.
    seen: Vec<u64>,
    count: u64,
    next_expected: u64,
    arrived: u64,
}

impl Sequences {
    /// None seen yet, of `count`.
    pub fn new(count: u64) -> Self {
        Self { seen: vec![0; count.div_ceil(64) as usize], count, next_expected: 0, arrived: 0 }
    }

    /// None seen yet, of a stream whose end nobody knows. Of its packets only the latest 2²⁴ are distinguished: one that comes
    /// when it is farther behind is out of range. So is one from 2³² on: timestamps are matched by the low half of a number.
    pub fn endless() -> Self {
        Self { count: 1 << 32, ..Self::new(REMEMBERED) }
    }

    /// Forgets all that arrived.
    pub fn start_over(&mut self) {
        self.seen.fill(0);
        (self.next_expected, self.arrived) = (0, 0);
    }

    /// Notes that `sequence` arrived and says what that means.
    pub fn arrive(&mut self, sequence: u64) -> Arrival {
        if sequence >= self.count {
            return Arrival::OutOfRange;
        }
        let (words, word, bit) = (self.seen.len() as u64, sequence / 64, 1 << (sequence % 64));
        // The first word in which no packet has been looked for yet.
        let fresh = self.next_expected.div_ceil(64);
        if word + words < fresh {
            return Arrival::OutOfRange;
        }
        for stale in fresh.max((word + 1).saturating_sub(words))..=word {
            self.seen[(stale % words) as usize] = 0;
        }
        let place = if word < words { word } else { word % words } as usize;
        if self.seen[place] & bit != 0 {
            return Arrival::Repeated;
        }
        self.seen[place] |= bit;
        self.arrived += 1;
        if sequence < self.next_expected {
            Arrival::Reordered
        } else {
            self.next_expected = sequence + 1;
            Arrival::InOrder
        }
    }

    /// Whether every packet of the stream has arrived.
    pub fn complete(&self) -> bool {
        self.arrived == self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    #[test]
    fn each_kind_of_arrival_is_told_apart() {
        let mut sequences = Sequences::new(5);
        let arrivals: Vec<Arrival> = [0, 2, 1, 2, 5, 4].iter().map(|&s| sequences.arrive(s)).collect();
        use Arrival::{InOrder, OutOfRange, Reordered, Repeated};
        assert_eq!(arrivals, [InOrder, InOrder, Reordered, Repeated, OutOfRange, InOrder]);
        assert!(!sequences.complete());
        assert_eq!(sequences.arrive(3), Reordered);
        assert!(sequences.complete());
    }

    #[test]
    fn an_endless_stream_forgets_what_is_far_behind_and_nothing_nearer() {
        use Arrival::{InOrder, OutOfRange, Reordered, Repeated};
        let mut sequences = Sequences::endless();
        let last = (1 << 32) - 1;
        let ahead = 5 * REMEMBERED + 70;
        let behind = ahead / 64 * 64 + 64 - REMEMBERED;
        for (sequence, expected) in [
            (0, InOrder),
            (1, InOrder),
            (0, Repeated),
            (ahead, InOrder),
            (behind - 1, OutOfRange),
            (1, OutOfRange),
            (behind, Reordered),
            (behind, Repeated),
            (last, InOrder),
            (last - 1, Reordered),
            (last + 1, OutOfRange),
        ] {
            assert_eq!(sequences.arrive(sequence), expected, "{sequence}");
            assert!(!sequences.complete());
        }
        sequences.start_over();
        assert_eq!([0, ahead, ahead].map(|n| sequences.arrive(n)), [InOrder, InOrder, Repeated]);
    }

    proptest! {
        #[test]
        fn an_endless_one_agrees_with_a_set_as_far_as_it_remembers(
            words in 1u64..4,
            steps in proptest::collection::vec(-300i64..300, 0..400),
        ) {
            let mut sequences = Sequences { count: 1 << 32, ..Sequences::new(words * 64) };
            let (mut seen, mut next, mut at) = (HashSet::new(), 0u64, 0u64);
            for step in steps {
                at = at.saturating_add_signed(step);
                let expected = if at / 64 + words < next.div_ceil(64) { Arrival::OutOfRange }
                    else if !seen.insert(at) { Arrival::Repeated }
                    else if at < next { Arrival::Reordered }
                    else { Arrival::InOrder };
                next = if expected == Arrival::OutOfRange { next } else { next.max(at + 1) };
                prop_assert_eq!(sequences.arrive(at), expected);
            }
        }

        #[test]
        fn it_agrees_with_a_set_and_a_running_maximum(count in 1u64..300, arrivals in proptest::collection::vec(0u64..400, 0..600)) {
            let mut sequences = Sequences::new(count);
            let (mut seen, mut highest) = (HashSet::new(), None);
            for sequence in arrivals {
                let expected = if sequence >= count { Arrival::OutOfRange }
                    else if !seen.insert(sequence) { Arrival::Repeated }
                    else if highest.is_some_and(|h| sequence < h) { Arrival::Reordered }
                    else { Arrival::InOrder };
                if sequence < count { highest = highest.max(Some(sequence)); }
                prop_assert_eq!(sequences.arrive(sequence), expected);
            }
            prop_assert_eq!(sequences.complete(), seen.len() as u64 == count);
        }
    }
}
