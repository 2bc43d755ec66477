//! When questions are asked: at a rate, or each after the answer before it.

/// What makes the next question due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Time: question n is due at the start + n × period, whatever became of those before.
    Open {
        /// From one to the next, ns, above 0.
        period_ns: i64,
        /// Questions in all.
        count: u64,
    },
    /// The answer before, or that it was given up.
    Closed {
        /// No question is asked later than this after the first, ns.
        duration_ns: i64,
    },
}

/// A question that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// Its place among the questions, from 0.
    pub sequence: u64,
    /// When it became due, CLOCK_TAI ns.
    pub launch_tai_ns: i64,
}

/// The questions of one probe. No question of a rate is ever passed over.
#[derive(Clone, Debug)]
pub struct Pace {
    way: Way,
    first_tai_ns: i64,
    timeout_ns: i64,
    /// Questions asked so far.
    asked: u64,
    /// In a closed loop: the question whose answer is waited for.
    open: Option<Question>,
}

impl Pace {
    /// None asked yet; the first is due at `first_tai_ns`, and each answer is waited for `timeout_ns`, above 0.
    pub fn new(way: Way, first_tai_ns: i64, timeout_ns: i64) -> Self {
        Self { way, first_tai_ns, timeout_ns, asked: 0, open: None }
    }

    /// Questions asked so far: sequences from there on have not been.
    pub fn asked(&self) -> u64 {
        self.asked
    }

    /// When something is to be done next, CLOCK_TAI ns: a question is due, or an answer is given up.
    pub fn next_tai_ns(&self) -> i64 {
        match self.way {
            Way::Open { period_ns, count } if self.asked < count => self.launch(self.asked, period_ns),
            Way::Open { period_ns, count } => self.launch(count - 1, period_ns).saturating_add(self.timeout_ns),
            Way::Closed { .. } => self.open.map_or(self.first_tai_ns, |question| self.given_up(question)),
        }
    }

    /// The next question that is due at `now_tai_ns`; it counts as asked. None: none is.
    pub fn take(&mut self, now_tai_ns: i64) -> Option<Question> {
        if now_tai_ns < self.next_tai_ns() {
            return None;
        }
        match (self.way, self.open) {
            (Way::Open { period_ns, count }, _) => {
                (self.asked < count).then(|| self.ask(self.launch(self.asked, period_ns)))
            }
            (Way::Closed { .. }, None) => (self.asked == 0).then(|| self.ask(self.first_tai_ns)),
            (Way::Closed { .. }, Some(question)) => {
                self.open = None;
                self.ask_if_there_is_time(self.given_up(question))
            }
        }
    }

    /// Notes the first answer to a question, and returns the question that it makes due; that counts as asked. At a rate there
    /// is nothing to note. `rested_ns`: for so long nothing was asked since on purpose, which puts off that question.
    pub fn answered(&mut self, sequence: u64, at_tai_ns: i64, rested_ns: i64) -> Option<Question> {
        // One that was given up has been followed by another question already.
        let question = self.open.filter(|question| question.sequence == sequence)?;
        self.open = None;
        // Or should have been: then the next was due as it was to be given up.
        self.ask_if_there_is_time(at_tai_ns.min(self.given_up(question)).saturating_add(rested_ns))
    }

    /// Whether the last question has been asked and answered or given up; `answered` questions have an answer.
    pub fn over(&self, now_tai_ns: i64, answered: u64) -> bool {
        match self.way {
            Way::Open { count, .. } => self.asked == count && (answered >= count || now_tai_ns >= self.next_tai_ns()),
            Way::Closed { .. } => self.asked > 0 && self.open.is_none(),
        }
    }

    fn launch(&self, sequence: u64, period_ns: i64) -> i64 {
        self.first_tai_ns.saturating_add(period_ns.saturating_mul(sequence as i64))
    }

    fn given_up(&self, question: Question) -> i64 {
        question.launch_tai_ns.saturating_add(self.timeout_ns)
    }

    fn ask_if_there_is_time(&mut self, launch_tai_ns: i64) -> Option<Question> {
        let Way::Closed { duration_ns } = self.way else { return None };
        (launch_tai_ns < self.first_tai_ns.saturating_add(duration_ns)).then(|| self.ask(launch_tai_ns))
    }

    fn ask(&mut self, launch_tai_ns: i64) -> Question {
        let question = Question { sequence: self.asked, launch_tai_ns };
        self.asked += 1;
        if matches!(self.way, Way::Closed { .. }) {
            self.open = Some(question);
        }
        question
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CLOSED: Way = Way::Closed { duration_ns: 1_000 };

    fn question(sequence: u64, launch_tai_ns: i64) -> Option<Question> {
        Some(Question { sequence, launch_tai_ns })
    }

    #[test]
    fn in_a_closed_loop_an_answer_makes_the_next_question_due() {
        let mut pace = Pace::new(CLOSED, 100, 50);
        assert_eq!(pace.take(99), None);
        assert_eq!(pace.take(103), question(0, 100));
        assert_eq!(pace.take(104), None);
        assert_eq!(pace.answered(0, 120, 0), question(1, 120));
        assert_eq!(pace.next_tai_ns(), 170);
        assert!(!pace.over(121, 0));
    }

    #[test]
    fn an_answer_that_was_given_up_starts_no_question() {
        let mut pace = Pace::new(CLOSED, 100, 50);
        pace.take(100);
        assert_eq!(pace.take(149), None);
        assert_eq!(pace.take(155), question(1, 150), "it was due when the answer was given up, not when that was seen");
        assert_eq!(pace.answered(0, 160, 0), None);
        assert_eq!(pace.answered(1, 165, 0), question(2, 165));
        assert_eq!(pace.answered(2, 230, 0), question(3, 215), "nobody had come to giving it up yet");
    }

    #[test]
    fn a_closed_loop_ends_with_the_answer_after_its_time_or_when_that_is_given_up() {
        let mut pace = Pace::new(CLOSED, 100, 5_000);
        pace.take(100);
        let mut rested = pace.clone();
        assert_eq!(rested.answered(0, 150, 10), question(1, 160), "what was rested is in no round trip");
        assert_eq!(pace.clone().answered(0, 1_099, 1), None, "nor is a question asked after the end for it");
        assert_eq!(pace.answered(0, 1_099, 0), question(1, 1_099));
        assert_eq!(pace.answered(1, 1_100, 0), None);
        assert!(pace.over(1_100, 0));
        let mut lonely = Pace::new(CLOSED, 0, 600);
        assert_eq!((lonely.take(0), lonely.take(600)), (question(0, 0), question(1, 600)));
        assert!(!lonely.over(1_199, 0));
        assert_eq!(lonely.take(1_200), None);
        assert!(lonely.over(1_200, 0));
    }

    #[test]
    fn at_a_rate_a_late_asker_asks_all_that_came_due() {
        let mut pace = Pace::new(Way::Open { period_ns: 10, count: 4 }, 100, 50);
        assert_eq!(pace.take(99), None);
        let due: Vec<_> = std::iter::from_fn(|| pace.take(125)).map(|q| (q.sequence, q.launch_tai_ns)).collect();
        assert_eq!(due, [(0, 100), (1, 110), (2, 120)]);
        assert_eq!(pace.answered(1, 126, 0), None, "time alone makes questions due");
        assert_eq!((pace.next_tai_ns(), pace.take(130)), (130, question(3, 130)));
        assert_eq!((pace.next_tai_ns(), pace.over(179, 0), pace.over(180, 0)), (180, false, true));
        assert_eq!(pace.take(1_000), None);
        assert_eq!((pace.over(131, 3), pace.over(131, 4)), (false, true), "all are answered");
    }

    proptest! {
        #[test]
        fn a_rate_never_passes_a_question_over(period in 1i64..50, count in 1u64..200, steps in proptest::collection::vec(0i64..300, 1..100)) {
            let mut pace = Pace::new(Way::Open { period_ns: period, count }, 0, 10);
            let (mut now, mut out) = (0, Vec::new());
            for step in steps.iter().chain(std::iter::once(&1_000_000)) {
                now += step;
                while let Some(question) = pace.take(now) {
                    prop_assert!(question.launch_tai_ns <= now);
                    out.push((question.sequence, question.launch_tai_ns));
                }
                prop_assert!(pace.over(now, 0) || pace.next_tai_ns() > now);
            }
            prop_assert_eq!(out, (0..count).map(|n| (n, n as i64 * period)).collect::<Vec<_>>());
        }

        #[test]
        fn in_a_closed_loop_one_question_is_open_at_a_time(delays in proptest::collection::vec(1i64..120, 1..100)) {
            let mut pace = Pace::new(Way::Closed { duration_ns: 2_000 }, 0, 60);
            let mut question = pace.take(0);
            for delay in delays {
                let Some(open) = question else { break };
                prop_assert_eq!(open.sequence + 1, pace.asked());
                let at = open.launch_tai_ns + delay;
                question = if delay < 60 { pace.answered(open.sequence, at, 0) } else { pace.take(at) };
                prop_assert_eq!(question.is_none(), pace.over(at, 0));
            }
        }
    }
}
