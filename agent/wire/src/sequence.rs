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

/// One bit for each packet of a stream: exact, and allocated before the first packet arrives.
#[derive(Debug)]
pub struct Sequences {
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

    /// Notes that `sequence` arrived and says what that means.
    pub fn arrive(&mut self, sequence: u64) -> Arrival {
        if sequence >= self.count {
            return Arrival::OutOfRange;
        }
        let (word, bit) = ((sequence / 64) as usize, 1 << (sequence % 64));
        if self.seen[word] & bit != 0 {
            return Arrival::Repeated;
        }
        self.seen[word] |= bit;
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

    proptest! {
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
