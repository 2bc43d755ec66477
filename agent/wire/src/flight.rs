//! The flight recorder: which packets are late, and which intervals of the kernel's events are kept around them.
//!
//! The listener judges each packet as it is written down, and reports the intervals around those that are late. Whoever traces the
//! kernel holds its events for a while, and keeps those of the intervals that it is told.

use crate::record::Received;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A window begins no longer before its packet arrived, but for the margin: a packet may be late by more than events are held.
pub(crate) const LONGEST_NS: i64 = 1_000_000_000;
/// Windows that may wait to be reported. They overlap where packets are many, and are then one.
const WAITING: usize = 256;

/// Windows that wait to be reported.
pub(crate) struct Waiting(Vec<Window>);

impl Waiting {
    pub(crate) fn new() -> Self {
        Self(Vec::with_capacity(WAITING))
    }

    /// Around a packet that began at one instant and ended at another, with so much before and after.
    pub(crate) fn keep(&mut self, begun_ns: i64, ended_ns: i64, margin_ns: i64) {
        let window = Window {
            from_tai_ns: begun_ns.max(ended_ns.saturating_sub(LONGEST_NS)).saturating_sub(margin_ns),
            to_tai_ns: ended_ns.saturating_add(margin_ns),
        };
        let full = self.0.len() >= WAITING;
        match self.0.last_mut() {
            Some(last) if full || last.meets(window) => *last = last.with(window),
            _ => self.0.push(window),
        }
    }

    /// Those that have come about since this was asked before, in order.
    pub(crate) fn take(&mut self) -> Vec<Window> {
        joined(self.0.drain(..).collect())
    }
}

/// What of a packet is judged, by the names of the metrics.
#[derive(Clone, Copy, Debug, JsonSchema, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Judged {
    /// From its launch to the kernel's timestamp; where there is none, to the application.
    Latency,
    /// From its launch to the application.
    LatencyUser,
    /// From the kernel's timestamp to the application.
    Delivery,
}

/// Which packets are late, and what is kept around them.
#[derive(Clone, Copy, Debug, JsonSchema, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Trigger {
    /// What is judged.
    pub metric: Judged,
    /// A packet with more than this, ns, is late.
    pub above_ns: i64,
    /// So much before its launch and after its arrival is kept, ns.
    pub margin_ns: i64,
    /// Of each stream one packet in so many ns is kept, too, late or not: late ones are compared with it.
    pub typical_ns: i64,
}

/// How far the clock of who judges is ahead of the clock of a stream's talker.
#[derive(Clone, Copy, Debug, JsonSchema, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Ahead {
    /// Number of the stream.
    pub stream: u16,
    /// By so much, ns.
    pub ahead_ns: i64,
    /// Which may be off by so much, ns.
    pub off_ns: i64,
}

/// An interval of a host's CLOCK_TAI, both ends included.
#[derive(Clone, Copy, Debug, JsonSchema, Deserialize, Serialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Window {
    /// Its first instant.
    pub from_tai_ns: i64,
    /// Its last.
    pub to_tai_ns: i64,
}

impl Window {
    /// Whether they have an instant in common.
    fn meets(self, other: Self) -> bool {
        self.from_tai_ns <= other.to_tai_ns && other.from_tai_ns <= self.to_tai_ns
    }

    fn with(self, other: Self) -> Self {
        Self { from_tai_ns: self.from_tai_ns.min(other.from_tai_ns), to_tai_ns: self.to_tai_ns.max(other.to_tai_ns) }
    }

    /// Whether an instant is in it.
    pub fn has(self, tai_ns: i64) -> bool {
        (self.from_tai_ns..=self.to_tai_ns).contains(&tai_ns)
    }

    /// What of it is in none of these.
    pub fn without(self, others: &[Self]) -> Vec<Self> {
        let mut left = vec![self];
        for other in others {
            left = left.into_iter().flat_map(|one| one.less(*other)).collect();
        }
        left
    }

    fn less(self, other: Self) -> impl Iterator<Item = Self> {
        let before = Self { to_tai_ns: self.to_tai_ns.min(other.from_tai_ns.saturating_sub(1)), ..self };
        let after = Self { from_tai_ns: self.from_tai_ns.max(other.to_tai_ns.saturating_add(1)), ..self };
        [before, after].into_iter().filter(|one| one.from_tai_ns <= one.to_tai_ns)
    }
}

/// The windows joined where they overlap, in order of time.
pub fn joined(mut windows: Vec<Window>) -> Vec<Window> {
    windows.sort_by_key(|one| one.from_tai_ns);
    let mut found: Vec<Window> = Vec::new();
    for one in windows {
        match found.last_mut() {
            Some(last) if last.meets(one) => *last = last.with(one),
            _ => found.push(one),
        }
    }
    found
}

/// How many packets were judged, and what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
pub struct JudgedTotals {
    /// Packets judged.
    pub judged: u64,
    /// Of these, such that were late, or may have been as the clocks are known.
    pub late: u64,
    /// Of the others, such that were kept to be compared with.
    pub typical: u64,
    /// Packets that could not be judged: the clocks had not been compared, or there was no timestamp of the kernel's.
    pub unjudged: u64,
}

struct Stream {
    number: u16,
    clock: Option<Ahead>,
    /// Launch time from which on the next packet is kept to be compared with.
    typical_from_ns: i64,
}

/// Judges the packets of a listener.
pub struct Judge {
    trigger: Trigger,
    tai_offset_ns: i64,
    streams: Vec<Stream>,
    windows: Waiting,
    totals: JudgedTotals,
}

impl Judge {
    /// Of these streams, none of whose clocks is known; on this machine TAI − UTC is `tai_offset_s`.
    pub fn new(trigger: Trigger, tai_offset_s: i32, numbers: impl IntoIterator<Item = u16>) -> Self {
        let stream = |number| Stream { number, clock: None, typical_from_ns: i64::MIN };
        Self {
            trigger,
            tai_offset_ns: i64::from(tai_offset_s) * 1_000_000_000,
            streams: numbers.into_iter().map(stream).collect(),
            windows: Waiting::new(),
            totals: JudgedTotals::default(),
        }
    }

    /// What is known of a stream's clocks from now on.
    pub fn clock(&mut self, known: Ahead) {
        if let Some(stream) = self.streams.iter_mut().find(|one| one.number == known.stream) {
            stream.clock = Some(known);
        }
    }

    /// A packet came.
    pub fn came(&mut self, packet: &Received) {
        let Some(stream) = self.streams.iter_mut().find(|one| one.number == packet.stream) else { return };
        let (user_ns, clock) = (packet.rx_user_tai_ns, stream.clock);
        let soft_ns = packet.rx_soft_real_ns.map(|real_ns| real_ns.saturating_add(self.tai_offset_ns));
        // The earliest that it may have been launched, by the clock of who judges.
        let launched_ns = clock.map(|c| packet.launch_tai_ns.saturating_add(c.ahead_ns).saturating_sub(c.off_ns));
        let took_ns = match self.trigger.metric {
            Judged::Latency => launched_ns.map(|from_ns| soft_ns.unwrap_or(user_ns).saturating_sub(from_ns)),
            Judged::LatencyUser => launched_ns.map(|from_ns| user_ns.saturating_sub(from_ns)),
            Judged::Delivery => soft_ns.map(|from_ns| user_ns.saturating_sub(from_ns)),
        };
        let Some(took_ns) = took_ns else {
            self.totals.unjudged += 1;
            return;
        };
        self.totals.judged += 1;
        let typical = packet.launch_tai_ns >= stream.typical_from_ns;
        if typical {
            stream.typical_from_ns = packet.launch_tai_ns.saturating_add(self.trigger.typical_ns);
        }
        if took_ns > self.trigger.above_ns {
            self.totals.late += 1;
        } else if typical {
            self.totals.typical += 1;
        } else {
            return;
        }
        let begun_ns = [launched_ns, soft_ns].into_iter().flatten().min().unwrap_or(user_ns).min(user_ns);
        self.windows.keep(begun_ns, user_ns, self.trigger.margin_ns);
    }

    /// The windows that have come about since this was asked before, in order.
    pub fn take(&mut self) -> Vec<Window> {
        self.windows.take()
    }

    /// What became of the packets so far.
    pub fn totals(&self) -> JudgedTotals {
        self.totals
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const S: i64 = 1_000_000_000;
    const MS: i64 = 1_000_000;

    fn trigger(metric: Judged) -> Trigger {
        Trigger { metric, above_ns: 500, margin_ns: 100, typical_ns: 1_000_000 }
    }

    fn judge(metric: Judged) -> Judge {
        let mut judge = Judge::new(trigger(metric), 37, [3, 4]);
        judge.clock(Ahead { stream: 3, ahead_ns: 0, off_ns: 0 });
        judge
    }

    /// Launched at `launch`, stamped `soft` later, with the application `user` later.
    fn packet(launch: i64, soft: i64, user: i64) -> Received {
        Received {
            stream: 3,
            sequence: 0,
            launch_tai_ns: launch,
            rx_hard_phc_ns: None,
            rx_soft_real_ns: Some(launch + soft - 37 * S),
            rx_user_tai_ns: launch + user,
        }
    }

    fn window(from_tai_ns: i64, to_tai_ns: i64) -> Window {
        Window { from_tai_ns, to_tai_ns }
    }

    #[test]
    fn late_packets_have_a_window_from_before_their_launch_until_after_their_arrival() {
        let mut judge = judge(Judged::Latency);
        judge.came(&packet(0, 100, 200));
        judge.take();
        judge.came(&packet(10_000, 500, 9_000));
        assert_eq!(judge.take(), []);
        judge.came(&packet(20_000, 501, 700));
        assert_eq!(judge.take(), [window(19_900, 20_800)]);
        assert_eq!(judge.totals(), JudgedTotals { judged: 3, late: 1, typical: 1, unjudged: 0 });
    }

    #[test]
    fn each_metric_is_judged_by_its_own_timestamps() {
        let late = |metric, soft, user| {
            let mut judge = judge(metric);
            judge.came(&packet(0, soft, user));
            judge.totals().late
        };
        assert_eq!([(501, 502), (500, 900)].map(|(s, u)| late(Judged::Latency, s, u)), [1, 0]);
        assert_eq!([(100, 501), (100, 500)].map(|(s, u)| late(Judged::LatencyUser, s, u)), [1, 0]);
        assert_eq!([(900, 1_401), (900, 1_400)].map(|(s, u)| late(Judged::Delivery, s, u)), [1, 0]);
    }

    #[test]
    fn without_a_timestamp_of_the_kernel_latency_is_to_the_application_and_delivery_is_not_known() {
        let bare = Received { rx_soft_real_ns: None, ..packet(0, 0, 501) };
        for (metric, late, unjudged) in [(Judged::Latency, 1, 0), (Judged::Delivery, 0, 1)] {
            let mut judge = judge(metric);
            judge.came(&bare);
            assert_eq!((judge.totals().late, judge.totals().unjudged), (late, unjudged));
        }
    }

    #[test]
    fn clocks_that_were_not_compared_judge_nothing_and_their_uncertainty_keeps_rather_more() {
        let mut judge = judge(Judged::Latency);
        let other = Received { stream: 4, ..packet(0, 900, 901) };
        judge.came(&other);
        assert_eq!((judge.totals().judged, judge.totals().unjudged), (0, 1));
        // The clocks differ by 600 ± 50: it took 300, or 350.
        judge.clock(Ahead { stream: 4, ahead_ns: 600, off_ns: 50 });
        judge.came(&other);
        assert_eq!((judge.totals().late, judge.take()), (0, vec![window(450, 1_001)]));
        judge.came(&Received { stream: 4, ..packet(1_000, 1_051, 1_060) });
        assert_eq!((judge.totals().late, judge.take()), (1, vec![window(1_450, 2_160)]));
    }

    #[test]
    fn one_packet_in_so_long_is_kept_to_be_compared_with() {
        let mut judge = judge(Judged::Latency);
        (0..4).for_each(|n| judge.came(&packet(n * 400_000, 100, 200)));
        assert_eq!(judge.take(), [window(-100, 300), window(1_199_900, 1_200_300)]);
        assert_eq!(judge.totals().typical, 2);
    }

    #[test]
    fn windows_that_overlap_are_one_and_those_of_very_late_packets_are_bounded() {
        let mut judge = judge(Judged::LatencyUser);
        judge.came(&packet(0, 600, 700));
        judge.came(&packet(800, 600, 700));
        assert_eq!(judge.take(), [window(-100, 1_600)]);
        judge.came(&packet(0, 1_700 * MS, 1_700 * MS));
        assert_eq!(judge.take(), [window(700 * MS - 100, 1_700 * MS + 100)]);
    }

    #[test]
    fn windows_that_nobody_takes_are_kept_in_bounded_room() {
        let mut judge = judge(Judged::Latency);
        (0..2 * WAITING as i64).for_each(|n| judge.came(&packet(n * 10_000, 600, 700)));
        let found = judge.take();
        assert_eq!((found.len(), judge.windows.0.capacity()), (WAITING, WAITING));
        assert_eq!(found.last().unwrap().to_tai_ns, (2 * WAITING as i64 - 1) * 10_000 + 800);
    }

    proptest! {
        #[test]
        fn what_is_left_of_a_window_has_just_the_instants_that_are_in_no_other(
            ends in proptest::collection::vec((0_i64..40, 0_i64..12), 0..6), from in 0_i64..40, length in 0_i64..20
        ) {
            let others: Vec<_> = ends.into_iter().map(|(from, length)| window(from, from + length)).collect();
            let whole = window(from, from + length);
            let left = whole.without(&others);
            for tai_ns in -1..80 {
                let expected = whole.has(tai_ns) && !others.iter().any(|other| other.has(tai_ns));
                prop_assert_eq!(left.iter().filter(|one| one.has(tai_ns)).count(), usize::from(expected));
            }
            let once = joined(others.clone());
            for tai_ns in -1..80 {
                let expected = others.iter().any(|other| other.has(tai_ns));
                prop_assert_eq!(once.iter().filter(|one| one.has(tai_ns)).count(), usize::from(expected));
            }
        }

        #[test]
        fn no_packet_makes_it_panic(launch: i64, soft: Option<i64>, user: i64, ahead_ns: i64, off_ns: i64) {
            for metric in [Judged::Latency, Judged::LatencyUser, Judged::Delivery] {
                let mut judge = Judge::new(trigger(metric), 37, [3]);
                judge.clock(Ahead { stream: 3, ahead_ns, off_ns });
                let rx_soft_real_ns = soft;
                judge.came(&Received { rx_soft_real_ns, launch_tai_ns: launch, rx_user_tai_ns: user, ..packet(0, 0, 0) });
                let _ = judge.take();
            }
        }
    }
}
