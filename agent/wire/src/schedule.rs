//! When packets are meant to leave, and which of them are due.

/// The launch times of one periodic stream, and when the talker must hand its packets in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// Launch time of packet 0 (start + offset), CLOCK_TAI ns.
    pub first_launch_tai_ns: i64,
    /// Time from one launch to the next, ns, above 0.
    pub period_ns: i64,
    /// Packets in the stream.
    pub count: u64,
    /// How long before its launch a packet is handed to the kernel, ns; 0 without launch time.
    pub lead_ns: i64,
    /// Packets handed in together, ahead of their launches; 1 without launch time.
    pub batch: u64,
}

impl Schedule {
    /// When packet `sequence` is meant to leave.
    pub fn launch(&self, sequence: u64) -> i64 {
        self.first_launch_tai_ns + sequence as i64 * self.period_ns
    }

    /// When packet `sequence` is to be handed in: its batch's first launch, less the lead.
    pub fn due(&self, sequence: u64) -> i64 {
        self.launch(sequence - sequence % self.batch) - self.lead_ns
    }
}

/// One run of packets of one stream, due now and before anything else is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// Position of the stream in the list given to [`Agenda::new`].
    pub stream: usize,
    /// First packet of the run.
    pub first: u64,
    /// Packets in the run, at least 1.
    pub packets: u64,
}

/// Several streams' schedules merged into one order. No packet is ever passed over: what a late thread
/// finds due is handed out in the order it was due, however much that is.
#[derive(Debug)]
pub struct Agenda {
    schedules: Vec<Schedule>,
    next: Vec<u64>,
}

impl Agenda {
    /// An agenda at the start of all `schedules`.
    pub fn new(schedules: Vec<Schedule>) -> Self {
        let next = vec![0; schedules.len()];
        Self { schedules, next }
    }

    /// The next packet: its stream, its sequence, and when it is due, on CLOCK_TAI. None after the last.
    pub fn next(&self) -> Option<(usize, u64, i64)> {
        self.earliest().map(|(stream, due)| (stream, self.next[stream], due))
    }

    /// The schedule of a stream, by its position.
    pub fn schedule(&self, stream: usize) -> &Schedule {
        &self.schedules[stream]
    }

    /// Takes the next run of packets due at `now`, at most `limit` (above 0); None when nothing is due yet.
    pub fn take(&mut self, now_tai_ns: i64, limit: u64) -> Option<Due> {
        let (stream, due) = self.earliest()?;
        if due > now_tai_ns {
            return None;
        }
        let first = self.next[stream];
        let schedule = &self.schedules[stream];
        let mut packets = 1;
        while packets < limit && first + packets < schedule.count {
            let due = schedule.due(first + packets);
            if due > now_tai_ns || self.another_is_before(stream, due) {
                break;
            }
            packets += 1;
        }
        self.next[stream] += packets;
        Some(Due { stream, first, packets })
    }

    fn earliest(&self) -> Option<(usize, i64)> {
        let mut best: Option<(usize, i64)> = None;
        for (stream, schedule) in self.schedules.iter().enumerate() {
            if self.next[stream] < schedule.count {
                let due = schedule.due(self.next[stream]);
                if best.is_none_or(|(_, earliest)| due < earliest) {
                    best = Some((stream, due));
                }
            }
        }
        best
    }

    fn another_is_before(&self, stream: usize, due: i64) -> bool {
        self.schedules.iter().enumerate().any(|(other, schedule)| {
            other != stream
                && self.next[other] < schedule.count
                && (schedule.due(self.next[other]), other) < (due, stream)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PLAIN: Schedule = Schedule { first_launch_tai_ns: 1_000, period_ns: 100, count: 5, lead_ns: 0, batch: 1 };

    #[test]
    fn launches_are_start_plus_whole_periods() {
        let launches: Vec<i64> = (0..5).map(|n| PLAIN.launch(n)).collect();
        assert_eq!(launches, [1_000, 1_100, 1_200, 1_300, 1_400]);
    }

    #[test]
    fn a_batch_is_due_a_lead_before_its_first_launch() {
        let ahead = Schedule { lead_ns: 300, batch: 3, ..PLAIN };
        let dues: Vec<i64> = (0..5).map(|n| ahead.due(n)).collect();
        assert_eq!(dues, [700, 700, 700, 1_000, 1_000]);
    }

    #[test]
    fn nothing_is_handed_out_before_it_is_due() {
        let mut agenda = Agenda::new(vec![PLAIN]);
        assert_eq!(agenda.take(999, 64), None);
        assert_eq!(agenda.take(1_000, 64), Some(Due { stream: 0, first: 0, packets: 1 }));
        assert_eq!(agenda.take(1_099, 64), None);
    }

    #[test]
    fn a_late_thread_gets_everything_due_at_once() {
        let mut agenda = Agenda::new(vec![PLAIN]);
        assert_eq!(agenda.take(1_250, 64), Some(Due { stream: 0, first: 0, packets: 3 }));
        assert_eq!(agenda.next(), Some((0, 3, 1_300)));
    }

    #[test]
    fn a_run_stops_where_another_stream_comes_first() {
        let other = Schedule { first_launch_tai_ns: 1_150, ..PLAIN };
        let mut agenda = Agenda::new(vec![PLAIN, other]);
        let order: Vec<(usize, u64)> =
            std::iter::from_fn(|| agenda.take(1_300, 64)).map(|d| (d.stream, d.packets)).collect();
        assert_eq!(order, [(0, 2), (1, 1), (0, 1), (1, 1), (0, 1)]);
    }

    prop_compose! {
        fn any_schedule()(first_launch_tai_ns in 0i64..2_000, period_ns in 1i64..500, count in 1u64..60,
                          lead_ns in 0i64..1_000, batch in 1u64..6) -> Schedule {
            Schedule { first_launch_tai_ns, period_ns, count, lead_ns, batch }
        }
    }

    proptest! {
        #[test]
        fn every_packet_is_handed_out_once_in_order_of_being_due(
            schedules in proptest::collection::vec(any_schedule(), 1..5),
            steps in proptest::collection::vec(0i64..400, 1..400),
            limit in 1u64..10,
        ) {
            let mut agenda = Agenda::new(schedules.clone());
            let mut now = -1_000;
            let mut out = Vec::new();
            for step in steps.iter().chain(std::iter::once(&1_000_000)) {
                now += step;
                while let Some(due) = agenda.take(now, limit) {
                    prop_assert!(due.packets <= limit);
                    for sequence in due.first..due.first + due.packets {
                        let planned = schedules[due.stream].due(sequence);
                        prop_assert!(planned <= now);
                        out.push((planned, due.stream, sequence));
                    }
                }
                prop_assert!(agenda.next().is_none_or(|(_, _, due)| due > now));
            }
            prop_assert_eq!(agenda.next(), None);
            let mut expected: Vec<_> = schedules.iter().enumerate()
                .flat_map(|(stream, s)| (0..s.count).map(move |n| (s.due(n), stream, n))).collect();
            expected.sort();
            prop_assert_eq!(out, expected);
        }
    }
}
