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
//! Such a look needs both to run at the same moment, each on a CPU of its own, which nothing can promise. So the guest rings
//! first: it writes a byte to a port of its machine, and the virtual machine's monitor sends it on as a datagram before the
//! guest goes on. The host's kernel stamps the datagram as it arrives (h), whoever runs. The guest reads its clock before (g₀)
//! and after (g₁): θ ≤ g₁ − h and θ ≥ g₀ − h. The host answers with h on the page, whenever it comes to it; and a doorbell wakes
//! it to write for a while, so that the guest may look as well. Looks bound the offset narrowly, doorbells always.
//!
//! All words are 64 bits in the machine's own byte order: a guest runs on its host's processor.

use crate::record::Exchange;

/// Value of the word [`IDENTITY_AT`]: name and version. Set last, so that a page that has it is whole.
pub const IDENTITY: u64 = u64::from_ne_bytes(*b"LATLPAG2");
/// Where the page's identity is.
pub const IDENTITY_AT: usize = 0;
/// Where the run's id is.
pub const RUN_ID_AT: usize = 1;
/// Where the writer's own beginning is, host's CLOCK_TAI ns: another writer's entries are distinguished by it.
pub const BEGAN_AT: usize = 2;
/// Where the greatest length of a burst is, ns.
pub const BURST_AT: usize = 3;
/// Where the number of the last entry is; the first entry is number 1. On a cache line of its own.
pub const HEAD_AT: usize = 8;
/// Where the guest says, with another value than 0, that it looks. On a cache line of the guest's own.
pub const LOOKING_AT: usize = 16;
/// Where the guest says the number of its last doorbell, before it rings; the first is number 1.
pub const DOORBELL_AT: usize = 17;
const ANSWERS_AT: usize = 24;
const ANSWERS: u64 = 64;
const RING_AT: usize = ANSWERS_AT + 2 * ANSWERS as usize;
const SLOTS: u64 = 1 << 15;
/// Doorbells at a time: one of them may be delayed.
pub const RINGS: u64 = 3;
/// Least time from one time to the next, ns.
pub const RING_PERIOD_NS: i64 = 10_000_000;
/// Oldest doorbell that is answered, ns. A doorbell is known by one byte: it is the last whose number ends so, if the guest has rung
/// less than 256 times since. It has by then: at most [`RINGS`] in half a [`RING_PERIOD_NS`].
pub const RING_AGE_NS: i64 = 250_000_000;
const _: () = assert!(RING_AGE_NS / (RING_PERIOD_NS / 2) * (RINGS as i64) < 256);

/// Words of a page.
pub const WORDS: usize = RING_AT + SLOTS as usize;
/// Bytes of the file or device that holds one: what a PCI device's memory can be, a power of two.
pub const FILE_BYTES: u64 = 1 << 20;

/// Where entry `number` is, until it is overwritten.
pub fn entry_at(number: u64) -> usize {
    RING_AT + (number % SLOTS) as usize
}

/// Where the answer to doorbell `number` is: its number, stored last, and in the word after it when it came, host's CLOCK_TAI ns.
pub fn answer_at(number: u64) -> usize {
    ANSWERS_AT + 2 * (number % ANSWERS) as usize
}

/// The number of the doorbell that `byte` stands for, where `last` is the guest's last; None if there was none.
pub fn ring_number(byte: u8, last: u64) -> Option<u64> {
    last.checked_sub((last as u8).wrapping_sub(byte).into()).filter(|&number| number > 0)
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

/// A doorbell as an exchange: the guest's clock before and after it, and when it came to the host.
pub fn ring(before_tai_ns: i64, came_tai_ns: i64, after_tai_ns: i64) -> Exchange {
    let (t1_tai_ns, t4_tai_ns) = (came_tai_ns, came_tai_ns);
    Exchange { sequence: 0, t1_tai_ns, t2_tai_ns: after_tai_ns, t3_tai_ns: before_tai_ns, t4_tai_ns }
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
    fn a_byte_names_the_last_ring_that_ends_so() {
        assert_eq!(ring_number(7, 7), Some(7));
        assert_eq!(ring_number(255, 256), Some(255));
        assert_eq!(ring_number(1, 256), Some(1));
        assert_eq!(ring_number(0, 256), Some(256));
        assert_eq!(ring_number(9, 8), None, "a byte of nobody's");
        assert_eq!(ring_number(0, 0), None);
        assert_eq!(answer_at(1), answer_at(1 + ANSWERS));
    }

    #[test]
    fn a_ring_holds_the_offset_between_the_clocks_around_it() {
        let exchange = ring(1_000, 400, 1_010);
        assert_eq!((exchange.t2_tai_ns - exchange.t1_tai_ns, exchange.t3_tai_ns - exchange.t4_tai_ns), (610, 600));
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
        /// A writer and looks that are each delayed anywhere for any time: no look ever excludes the true offset.
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
