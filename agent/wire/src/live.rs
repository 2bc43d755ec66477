//! What is said of streams while they are measured: how many packets are missing, and how late those of the last second were.
//!
//! All of it is kept in memory of a fixed size, taken once: whoever adds to it allocates nothing.

use crate::flight::Judge;
use crate::record::Received;
use schemars::JsonSchema;
use serde::Serialize;

/// Values that percentiles are of. Of more in a second, as many are kept by chance, each with the same probability.
const KEPT: usize = 16_384;
/// Questions that may wait for their answers, or answers for their questions: a power of two.
const AWAITED: usize = 16_384;

/// What is said of one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Seen {
    /// Packets that have not come, of those up to the last in the stream that has.
    pub missing: u64,
    /// How late those were that came since this was said before; None: none came.
    pub since_last: Option<Latencies>,
}

/// How late packets were, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Latencies {
    /// How many they are.
    pub n: u64,
    /// Half of them were no later.
    pub p50_ns: i64,
    /// 99 % of them were no later.
    pub p99_ns: i64,
    /// The latest.
    pub max_ns: i64,
}

/// Latencies of a interval.
struct Sketch {
    kept: Vec<i64>,
    n: u64,
    max_ns: i64,
    /// State of the generator that chooses whom to keep (Marsaglia, "Xorshift RNGs", 2003). It begins alike each time, so that what
    /// is said is reproducible.
    state: u64,
}

impl Sketch {
    fn new() -> Self {
        Self { kept: Vec::with_capacity(KEPT), n: 0, max_ns: i64::MIN, state: 0x9e37_79b9_7f4a_7c15 }
    }

    fn add(&mut self, ns: i64) {
        self.n += 1;
        self.max_ns = self.max_ns.max(ns);
        if self.kept.len() < KEPT {
            self.kept.push(ns);
            return;
        }
        // Vitter, "Random Sampling with a Reservoir", 1985, algorithm R.
        let place = self.below(self.n) as usize;
        if let Some(kept) = self.kept.get_mut(place) {
            *kept = ns;
        }
    }

    /// A number below `bound`, which is not 0, by chance.
    fn below(&mut self, bound: u64) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state % bound
    }

    /// What was added since this was asked before; None: nothing.
    fn take(&mut self) -> Option<Latencies> {
        let (n, max_ns) = (self.n, self.max_ns);
        if n == 0 {
            return None;
        }
        let figures = Latencies { n, p50_ns: self.percentile(50), p99_ns: self.percentile(99), max_ns };
        (self.n, self.max_ns) = (0, i64::MIN);
        self.kept.clear();
        Some(figures)
    }

    /// The nearest-rank percentile of the values kept, of which there is one at least.
    fn percentile(&mut self, percent: usize) -> i64 {
        let rank = (percent * self.kept.len()).div_ceil(100).max(1);
        *self.kept.select_nth_unstable(rank - 1).1
    }
}

/// A stream's books.
struct Stream {
    number: u16,
    came: u64,
    /// One more than the largest sequence that came.
    next: u64,
    sketch: Sketch,
}

impl Stream {
    fn note(&mut self, sequence: u64) {
        self.came += 1;
        self.next = self.next.max(sequence.saturating_add(1));
    }
}

/// Half of a round trip that waits for its other half.
#[derive(Clone, Copy)]
enum Half {
    Neither,
    Asked(u64, i64),
    Answered(u64, i64),
}

/// What is known of the streams of one agent.
pub struct Books {
    streams: Vec<Stream>,
    /// Halves of round trips by their sequence; empty: latencies are of single packets.
    halves: Vec<Half>,
    /// Judges each packet.
    pub judge: Option<Judge>,
}

impl Books {
    /// Of these streams: how late each packet was.
    pub fn of_streams(numbers: impl IntoIterator<Item = u16>) -> Self {
        let stream = |number| Stream { number, came: 0, next: 0, sketch: Sketch::new() };
        Self { streams: numbers.into_iter().map(stream).collect(), halves: Vec::new(), judge: None }
    }

    /// Of the stream of answers with this number: how long after its question's launch each answer came.
    pub fn of_round_trips(answers: u16) -> Self {
        Self { halves: vec![Half::Neither; AWAITED], ..Self::of_streams([answers]) }
    }

    /// The question `sequence` was launched.
    pub fn asked(&mut self, sequence: u64, launch_ns: i64) {
        let Some(half) = self.halves.get_mut(sequence as usize % AWAITED) else { return };
        match *half {
            Half::Answered(of, came_ns) if of == sequence => {
                *half = Half::Neither;
                self.add(came_ns - launch_ns);
            }
            _ => *half = Half::Asked(sequence, launch_ns),
        }
    }

    /// A packet came, as it is recorded.
    pub fn received(&mut self, packet: &Received) {
        self.came(packet.stream, packet.sequence, packet.launch_tai_ns, packet.rx_user_tai_ns);
        if let Some(judge) = &mut self.judge {
            judge.came(packet);
        }
    }

    /// A packet came that was due to be launched at `launch_ns`; an answer, whose launch is its sender's own, has its question's.
    pub fn came(&mut self, stream: u16, sequence: u64, launch_ns: i64, came_ns: i64) {
        let Some(known) = self.streams.iter_mut().find(|one| one.number == stream) else { return };
        known.note(sequence);
        let Some(half) = self.halves.get_mut(sequence as usize % AWAITED) else {
            known.sketch.add(came_ns - launch_ns);
            return;
        };
        match *half {
            Half::Asked(of, asked_ns) if of == sequence => {
                *half = Half::Neither;
                known.sketch.add(came_ns - asked_ns);
            }
            _ => *half = Half::Answered(sequence, came_ns),
        }
    }

    /// What is said of a stream, since this was asked before; None: it is none of these.
    pub fn take(&mut self, stream: u16) -> Option<Seen> {
        let known = self.streams.iter_mut().find(|one| one.number == stream)?;
        Some(Seen { missing: known.next.saturating_sub(known.came), since_last: known.sketch.take() })
    }

    fn add(&mut self, ns: i64) {
        if let Some(answers) = self.streams.first_mut() {
            answers.sketch.add(ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(n: u64, p50_ns: i64, p99_ns: i64, max_ns: i64) -> Option<Latencies> {
        Some(Latencies { n, p50_ns, p99_ns, max_ns })
    }

    #[test]
    fn figures_are_of_what_came_since_they_were_asked_before() {
        let mut books = Books::of_streams([3, 4]);
        assert_eq!(books.take(3), Some(Seen { missing: 0, since_last: None }));
        (0..200).for_each(|n| books.came(3, n, 1_000, 1_000 + 200 - n as i64));
        assert_eq!(books.take(3), Some(Seen { missing: 0, since_last: figures(200, 100, 198, 200) }));
        books.came(3, 200, 1_000, 993);
        assert_eq!(books.take(3), Some(Seen { missing: 0, since_last: figures(1, -7, -7, -7) }));
        assert_eq!(books.take(3), Some(Seen { missing: 0, since_last: None }));
        assert_eq!(books.take(4), Some(Seen { missing: 0, since_last: None }));
        assert_eq!(books.take(5), None);
    }

    #[test]
    fn packets_are_missing_until_they_come_however_late() {
        let mut books = Books::of_streams([1]);
        let mut missing = |sequence| {
            books.came(1, sequence, 0, 5);
            books.take(1).unwrap().missing
        };
        assert_eq!([0, 3, 2, 4, 1].map(&mut missing), [0, 2, 1, 1, 0]);
    }

    #[test]
    fn a_round_trip_is_from_the_questions_launch_whichever_half_is_written_down_first() {
        let mut books = Books::of_round_trips(2);
        books.asked(0, 100);
        // The answer's own launch says nothing of the question's.
        books.came(2, 0, 170, 190);
        books.came(2, 1, 270, 295);
        books.asked(1, 200);
        assert_eq!(books.take(2), Some(Seen { missing: 0, since_last: figures(2, 90, 95, 95) }));
        // A question without an answer is one that is missing once a later one has been answered.
        books.asked(2, 300);
        books.asked(3, 400);
        books.came(2, 3, 0, 450);
        assert_eq!(books.take(2), Some(Seen { missing: 1, since_last: figures(1, 50, 50, 50) }));
        // One in whose place another waits by now has no round trip, and is no other's.
        books.asked(AWAITED as u64 + 2, 500);
        books.came(2, 2, 0, 600);
        assert_eq!(books.take(2), Some(Seen { missing: 0, since_last: None }));
    }

    #[test]
    fn of_more_than_are_kept_all_are_counted_and_those_kept_are_of_the_whole_stretch() {
        let mut books = Books::of_streams([1]);
        let n = 40 * KEPT as i64;
        (0..n).for_each(|ns| books.came(1, ns as u64, 0, ns));
        let found = books.take(1).unwrap().since_last.unwrap();
        assert_eq!((found.n, found.max_ns), (n as u64, n - 1));
        let (half, most) = (found.p50_ns as f64 / n as f64, found.p99_ns as f64 / n as f64);
        assert!((half - 0.5).abs() < 0.02 && (most - 0.99).abs() < 0.005, "{half} {most}");
    }
}
