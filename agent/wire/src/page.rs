//! The page on which a host shows its clock to a guest, and what a look at it proves.
//!
//! The host reads its clock into a ring and then counts, over and over: h₁, head = 1, h₂, head = 2, … Each store of `head`
//! has been made visible before the clock is read for the next entry. A guest reads its own clock (g₀), `head` (k), its own
//! clock again (g₁). With θ = guest's clock − host's:
//!
//! 1. Entry k was read before `head` became k, and the guest saw k before g₁: θ ≤ g₁ − h_k.
//! 2. `head` was not k + 1 yet when the guest looked, after g₀; h_{k+2} was read after it had become so: θ ≥ g₀ − h_{k+2}.
//!
//! Neither assumes anything of delays: a host or a guest that is stopped anywhere in between only widens its own looks. So a
//! look is an exchange as the network's are ([`crate::envelope`]), host asking: t1 = h_k, t2 = g₁, t3 = g₀, t4 = h_{k+2}.
//!
//! The host writes in short bursts and sleeps between them; the page says when the next one begins.
//! All words are 64 bits in the machine's own byte order: a guest runs on its host's processor.

use crate::record::Exchange;

/// Value of the word [`IDENTITY_AT`]: name and version. Set last, so that a page that has it is whole.
pub const IDENTITY: u64 = u64::from_ne_bytes(*b"LATLPAG1");
/// Where the page's identity is.
pub const IDENTITY_AT: usize = 0;
/// Where the run's id is.
pub const RUN_ID_AT: usize = 1;
/// Where the writer's own beginning is, host's CLOCK_TAI ns: another writer's entries are told apart by it.
pub const BEGAN_AT: usize = 2;
/// Where the beginning of the burst after the last one is, host's CLOCK_TAI ns.
pub const NEXT_BURST_AT: usize = 3;
/// Where the time from burst to burst is, ns.
pub const EVERY_AT: usize = 4;
/// Where the length of a burst is, ns.
pub const BURST_AT: usize = 5;
/// Where the number of the last entry is; the first entry is number 1. On a cache line of its own.
pub const HEAD_AT: usize = 8;
const RING_AT: usize = 16;
const SLOTS: u64 = 1 << 15;

/// Words of a page.
pub const WORDS: usize = RING_AT + SLOTS as usize;
/// Bytes of the file or device that holds one: what a PCI device's memory can be, a power of two.
pub const FILE_BYTES: u64 = 1 << 20;

/// Where entry `number` is, until it is overwritten.
pub fn entry_at(number: u64) -> usize {
    RING_AT + (number % SLOTS) as usize
}

/// Whether an entry that was read before `head` was seen to be `head` was still itself then: the entry that takes its place
/// is written while `head` is one less than its number.
pub fn still_there(number: u64, head: u64) -> bool {
    head >= number && head - number < SLOTS - 1
}

/// A guest's look at the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Guest's CLOCK_TAI before it looked.
    pub before_tai_ns: i64,
    /// The last entry's number, as seen.
    pub head: u64,
    /// Guest's CLOCK_TAI after it looked.
    pub after_tai_ns: i64,
}

impl Look {
    /// The entry that was read after the look: its number.
    pub fn later_entry(&self) -> u64 {
        self.head + 2
    }

    /// The look as an exchange, given entry `head` and entry [`Look::later_entry`].
    pub fn exchange(&self, entry_tai_ns: i64, later_tai_ns: i64) -> Exchange {
        Exchange {
            sequence: 0,
            t1_tai_ns: entry_tai_ns,
            t2_tai_ns: self.after_tai_ns,
            t3_tai_ns: self.before_tai_ns,
            t4_tai_ns: later_tai_ns,
        }
    }
}

/// The exchange that bounds the offset best from above and, if it is another, the one that does from below. Every one of them
/// is true by itself, so any choice is sound; within a burst the others add nothing.
pub fn tightest(exchanges: &[Exchange]) -> impl Iterator<Item = Exchange> {
    let above = exchanges.iter().min_by_key(|e| e.t2_tai_ns - e.t1_tai_ns).copied();
    let below = exchanges.iter().max_by_key(|e| e.t3_tai_ns - e.t4_tai_ns).copied();
    above.into_iter().chain(below.filter(|&below| Some(below) != above))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_entry_is_itself_until_its_place_is_being_written_again() {
        assert!(still_there(5, 5) && still_there(5, 5 + SLOTS - 2));
        assert!(!still_there(5, 5 + SLOTS - 1) && !still_there(5, 4));
        assert_eq!(entry_at(5), entry_at(5 + SLOTS));
        assert!(WORDS as u64 * 8 <= FILE_BYTES);
    }

    #[test]
    fn the_tightest_from_above_and_from_below_are_kept_once() {
        let one = |t1, t2, t3, t4| Exchange { sequence: 0, t1_tai_ns: t1, t2_tai_ns: t2, t3_tai_ns: t3, t4_tai_ns: t4 };
        let (above, below, poor) = (one(0, 5, 0, 90), one(0, 50, 0, 10), one(0, 60, 0, 95));
        assert_eq!(tightest(&[poor, above, below]).collect::<Vec<_>>(), [above, below]);
        assert_eq!(tightest(&[poor]).collect::<Vec<_>>(), [poor]);
        assert_eq!(tightest(&[]).count(), 0);
    }

    proptest! {
        /// A writer and looks that are each held up anywhere for any time: no look ever excludes the true offset.
        #[test]
        fn every_look_is_a_bound_wherever_writer_and_guest_are_held_up(
            offset in -1_000_000_000i64..1_000_000_000,
            // From reading an entry to its `head`, from that to where it is surely visible, to the next reading.
            steps in proptest::collection::vec((0i64..5_000, 0i64..300, 0i64..5_000), 4..60),
            looks in proptest::collection::vec((0.0f64..1.0, 0i64..3_000, 0i64..3_000), 1..40),
        ) {
            let (mut now, mut entries, mut visible) = (0, vec![0], vec![0]);
            for (store, seen, next) in steps {
                entries.push(now);
                visible.push(now + store + seen);
                now += store + seen + next;
            }
            for (share, early, late) in looks {
                let at = (share * now as f64) as i64;
                let head = visible.iter().rposition(|&since| since <= at).unwrap();
                if head == 0 || head + 2 >= entries.len() {
                    continue;
                }
                let look = Look { before_tai_ns: at - early + offset, head: head as u64, after_tai_ns: at + late + offset };
                let exchange = look.exchange(entries[head], entries[look.later_entry() as usize]);
                prop_assert!(exchange.t2_tai_ns - exchange.t1_tai_ns >= offset);
                prop_assert!(exchange.t3_tai_ns - exchange.t4_tai_ns <= offset);
            }
        }
    }
}
