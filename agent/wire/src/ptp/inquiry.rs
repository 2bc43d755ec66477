//! Several questions to a clock, and what their answers say together.

use super::memory::Told;
use super::message::QUESTION_BYTES;
use super::{
    Answer, Asker, ClockIdentity, Content, CurrentDataSet, DefaultDataSet, DelayMechanism, Id, Memory, ParentDataSet,
    PortDataSet, PortState, TimePropertiesDataSet, TimeStatus,
};
use std::collections::BTreeMap;

/// Questions that were asked together, and the answers so far.
///
/// An answer counts if it is addressed to the asker, has the domain, and the sequence and id of one of the questions.
#[derive(Clone, Debug)]
pub struct Inquiry {
    asker: Asker,
    /// The first question's; each of the others has the next.
    sequence: u16,
    ids: &'static [Id],
    /// Those of `ids` that the clock does not report.
    refused: Vec<Id>,
    default: Option<DefaultDataSet>,
    current: Option<CurrentDataSet>,
    parent: Option<ParentDataSet>,
    times: Option<TimePropertiesDataSet>,
    time_status: Option<TimeStatus>,
    ports: BTreeMap<u16, PortDataSet>,
}

/// What a clock says of itself; None: it does not report it, or does not know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// The port that the rest is about: the one that follows a master, else the one of the lowest number.
    pub port: u16,
    /// What it is doing.
    pub state: PortState,
    /// The clock's time − its master's, ns; None unless the port follows one and has measured it.
    pub offset_ns: Option<i64>,
    /// When its last Sync came in, by its own clock; None before the first since it chose its master or was stepped.
    pub ingress_ns: Option<i64>,
    /// To the neighbour where the port measures that, ns; else to the master it follows, None where the offset is.
    pub path_delay_ns: Option<i64>,
    /// The clock itself where it follows no other.
    pub grandmaster: Option<ClockIdentity>,
    /// Whether another clock is the grandmaster.
    pub gm_present: Option<bool>,
    /// Communication paths from the grandmaster to this clock.
    pub steps_removed: Option<u16>,
    /// What it says of the time, if that was asked.
    pub times: Option<TimePropertiesDataSet>,
    /// Ports of the clock.
    pub ports: Option<u16>,
}

impl Inquiry {
    /// What [`Status`] is made of.
    pub const STATUS_AND_TIMES: &[Id] = &[
        Id::DefaultDataSet,
        Id::PortDataSet,
        Id::TimeStatusNp,
        Id::CurrentDataSet,
        Id::ParentDataSet,
        Id::TimePropertiesDataSet,
    ];
    /// The same but for `times`, the last.
    pub const STATUS: &[Id] = Self::STATUS_AND_TIMES.split_at(5).0;

    /// Questions for `ids`, numbered from `sequence` on.
    pub fn new(asker: Asker, sequence: u16, ids: &'static [Id]) -> Self {
        Self {
            asker,
            sequence,
            ids,
            refused: Vec::new(),
            default: None,
            current: None,
            parent: None,
            times: None,
            time_status: None,
            ports: BTreeMap::new(),
        }
    }

    /// The messages to be sent, in order.
    pub fn questions(&self) -> impl Iterator<Item = [u8; QUESTION_BYTES]> + '_ {
        self.ids.iter().zip(0..).map(|(&id, n)| self.asker.question(self.sequence.wrapping_add(n), id))
    }

    /// Takes a message that came in; whether it answers one of the questions, by a refusal or by data of the right form.
    pub fn take(&mut self, bytes: &[u8]) -> bool {
        let Some(answer) = Answer::read(bytes) else { return false };
        let number = usize::from(answer.sequence.wrapping_sub(self.sequence));
        let Some(&id) = self.ids.get(number).filter(|&&id| id as u16 == answer.id) else { return false };
        if answer.target != self.asker.source || answer.domain != self.asker.domain {
            return false;
        }
        match answer.content {
            Content::Refused(_) => {
                if !self.refused.contains(&id) {
                    self.refused.push(id);
                }
                true
            }
            Content::Data(data) => self.keep(id, data),
        }
    }

    /// Whether the data were of the right form.
    fn keep(&mut self, id: Id, data: &[u8]) -> bool {
        fn put<T>(place: &mut Option<T>, found: Option<T>) -> bool {
            let right = found.is_some();
            *place = found.or(place.take());
            right
        }
        match id {
            Id::DefaultDataSet => put(&mut self.default, DefaultDataSet::read(data)),
            Id::CurrentDataSet => put(&mut self.current, CurrentDataSet::read(data)),
            Id::ParentDataSet => put(&mut self.parent, ParentDataSet::read(data)),
            Id::TimePropertiesDataSet => put(&mut self.times, TimePropertiesDataSet::read(data)),
            Id::TimeStatusNp => put(&mut self.time_status, TimeStatus::read(data)),
            Id::PortDataSet => match PortDataSet::read(data) {
                Some(port) => {
                    self.ports.insert(port.port.port, port);
                    true
                }
                None => false,
            },
        }
    }

    /// Whether every question has been answered, that for ports by each of them, and at least one has told its state.
    pub fn complete(&self) -> bool {
        !self.ports.is_empty() && self.answered()
    }

    /// Whether every question has been answered, and that for ports with a refusal: there will be no status.
    pub fn refused(&self) -> bool {
        self.ports.is_empty() && self.refused.contains(&Id::PortDataSet) && self.answered()
    }

    fn answered(&self) -> bool {
        let answered = |id: Id| match id {
            Id::DefaultDataSet => self.default.is_some(),
            Id::CurrentDataSet => self.current.is_some(),
            Id::ParentDataSet => self.parent.is_some(),
            Id::TimePropertiesDataSet => self.times.is_some(),
            Id::TimeStatusNp => self.time_status.is_some(),
            Id::PortDataSet => self.default.is_none_or(|clock| self.ports.len() >= usize::from(clock.number_ports)),
        };
        self.ids.iter().all(|&id| answered(id) || self.refused.contains(&id))
    }

    /// What the answers say by themselves; None until they are complete.
    pub fn status(&self) -> Option<Status> {
        self.status_after(&mut Memory::default())
    }

    /// What the answers say after those that are remembered, and that they were given; None until they are complete.
    pub fn status_after(&self, memory: &mut Memory) -> Option<Status> {
        if !self.complete() {
            return None;
        }
        let port = self.ports.values().min_by_key(|port| (rank(port.state), port.port.port))?;
        let to_neighbour = port.delay_mechanism == DelayMechanism::PeerToPeer;
        let to_master = self.current.and_then(|clock| clock.mean_path_delay_ns).filter(|_| port.state.follows());
        let delay_ns = if to_neighbour { port.peer_delay_ns } else { to_master };
        let measured = self.time_status.map(|clock| {
            memory.is_measured(Told {
                port: port.port.port,
                state: port.state,
                parent: self.parent.map(|clock| clock.parent),
                announced: self.current.is_some_and(|clock| clock.steps_removed > 0),
                offset_ns: clock.master_offset_ns,
                synced: clock.ingress_ns.is_some(),
                delay: delay_ns.is_some(),
                peer_delay: to_neighbour,
            })
        });
        Some(Status {
            port: port.port.port,
            state: port.state,
            offset_ns: self.time_status.map(|clock| clock.master_offset_ns).filter(|_| measured == Some(true)),
            ingress_ns: self.time_status.and_then(|clock| clock.ingress_ns),
            // What is told of the way to the master was measured when the offset was, or to an earlier one.
            path_delay_ns: delay_ns.filter(|_| to_neighbour || measured != Some(false)),
            grandmaster: self.parent.map(|clock| clock.grandmaster),
            gm_present: self.time_status.map(|clock| clock.gm_present),
            steps_removed: self.current.map(|clock| clock.steps_removed),
            times: self.times,
            ports: self.default.map(|clock| clock.number_ports),
        })
    }
}

/// The less, the more a port says of the whole clock.
fn rank(state: PortState) -> u8 {
    match state {
        PortState::Slave => 0,
        PortState::Uncalibrated => 1,
        _ => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::super::message::tests::*;
    use super::*;
    use proptest::prelude::*;

    const SEQUENCE: u16 = 0xfffe;

    fn inquiry() -> Inquiry {
        Inquiry::new(ASKER, SEQUENCE, Inquiry::STATUS_AND_TIMES)
    }

    /// A captured answer as one to the nth question.
    fn answer(text: &str, n: u16) -> Vec<u8> {
        let mut answer = bytes(text);
        answer[30..32].copy_from_slice(&SEQUENCE.wrapping_add(n).to_be_bytes());
        answer
    }

    fn answers() -> Vec<Vec<u8>> {
        let texts = [DEFAULT, PORT, TIME_STATUS, CURRENT, PARENT, TIME_PROPERTIES];
        texts.into_iter().zip(0..).map(|(text, n)| answer(text, n)).collect()
    }

    /// What port `number` of a clock of two says.
    fn port(number: u8, state: PortState, delay_mechanism: u8, peer_delay: [u8; 8]) -> Vec<u8> {
        let mut port = answer(PORT, 1);
        (port[54 + 9], port[54 + 10], port[54 + 23]) = (number, state as u8, delay_mechanism);
        port[54 + 12..54 + 20].copy_from_slice(&peer_delay);
        port
    }

    fn of_two_ports(first: PortState, second: PortState) -> Status {
        let mut answers = answers();
        answers[0][54 + 3] = 2;
        answers[1] = port(2, second, 2, [0, 0, 0, 0, 5, 0, 0, 0]);
        answers.push(port(1, first, 1, [0; 8]));
        let mut inquiry = inquiry();
        assert!(answers.iter().all(|answer| inquiry.status().is_none() && inquiry.take(answer)));
        inquiry.status().unwrap()
    }

    fn taken(answers: &[Vec<u8>]) -> Inquiry {
        let mut inquiry = inquiry();
        answers.iter().for_each(|answer| assert!(inquiry.take(answer)));
        inquiry
    }

    #[test]
    fn answers_in_any_order_make_the_status() {
        let mut answers = answers();
        let status = taken(&answers).status().unwrap();
        assert_eq!((status.port, status.state, status.ports), (1, PortState::Uncalibrated, Some(1)));
        assert_eq!((status.offset_ns, status.path_delay_ns), (Some(279), Some(2315)));
        assert_eq!((status.gm_present, status.steps_removed), (Some(true), Some(1)));
        assert_eq!(status.grandmaster.unwrap().to_string(), "6ebc3b.fffe.295eef");
        assert_eq!(status.times.unwrap().utc_offset_s, 37);
        answers.reverse();
        assert_eq!(taken(&answers).status(), Some(status));
    }

    #[test]
    fn one_answer_missing_is_no_status() {
        for left_out in 0..6 {
            let mut answers = answers();
            answers.remove(left_out);
            assert_eq!(taken(&answers).status(), None, "without answer {left_out}");
        }
    }

    #[test]
    fn what_is_refused_is_unknown() {
        let mut answers = answers();
        let mut refusal = answer(NOT_SUPPORTED, 2);
        refusal[54..56].copy_from_slice(&(Id::TimeStatusNp as u16).to_be_bytes());
        answers[2] = refusal;
        let status = taken(&answers).status().unwrap();
        assert_eq!((status.offset_ns, status.gm_present), (None, None));
        assert_eq!(status.path_delay_ns, Some(2315));
    }

    #[test]
    fn a_clock_none_of_whose_ports_tells_its_state_has_no_status() {
        let mut answers = answers();
        let mut refusal = answer(NOT_SUPPORTED, 1);
        refusal[54..56].copy_from_slice(&(Id::PortDataSet as u16).to_be_bytes());
        answers[1] = refusal;
        assert_eq!(taken(&answers).status(), None);
        assert!(taken(&answers).refused() && !taken(&answers[..5]).refused());
    }

    #[test]
    fn a_clock_that_follows_nobody_has_no_offset_whatever_it_remembers() {
        for state in [PortState::Listening, PortState::Master, PortState::Faulty] {
            let mut answers = answers();
            answers[1][54 + 10] = state as u8;
            let status = taken(&answers).status().unwrap();
            assert_eq!((status.state, status.offset_ns, status.path_delay_ns), (state, None, None));
        }
    }

    /// Answers with other values of TIME_STATUS_NP's offset and ingress, of the delay, and of who is the parent.
    fn of_master(parent: u8, offset: u8, ingress: u8, delay: u8) -> Vec<Vec<u8>> {
        let mut answers = answers();
        (answers[2][54 + 6], answers[2][54 + 7]) = (0, offset);
        answers[2][54 + 8..54 + 16].fill(ingress);
        answers[3][54 + 10..54 + 18].fill(0);
        answers[3][54 + 15] = delay;
        answers[4][54] = parent;
        answers
    }

    #[test]
    fn an_offset_that_no_delay_was_known_for_is_none() {
        let status = taken(&of_master(1, 0, 5, 0)).status().unwrap();
        assert_eq!((status.offset_ns, status.path_delay_ns), (None, None));
        assert!(status.ingress_ns.is_some());
        assert_eq!(taken(&of_master(1, 9, 5, 0)).status().unwrap().offset_ns, Some(9));
        assert_eq!(taken(&of_master(1, 9, 0, 3)).status().unwrap().offset_ns, None, "without a Sync");
    }

    #[test]
    fn neither_offset_nor_delay_of_an_earlier_master_is_told_as_this_ones() {
        let mut memory = Memory::default();
        let mut after = |answers: Vec<Vec<u8>>| {
            let status = taken(&answers).status_after(&mut memory).unwrap();
            (status.offset_ns, status.path_delay_ns)
        };
        assert_eq!(after(of_master(1, 9, 5, 3)), (Some(9), Some(3)));
        assert_eq!(after(of_master(2, 9, 0, 3)), (None, None), "chosen");
        assert_eq!(after(of_master(2, 9, 6, 3)), (None, None), "a Sync, and no delay");
        assert_eq!(after(of_master(2, 8, 6, 4)), (Some(8), Some(4)));
    }

    #[test]
    fn of_several_ports_the_one_that_follows_speaks() {
        use PortState::{Master, Passive, Slave, Uncalibrated};
        let status = of_two_ports(Master, Slave);
        assert_eq!((status.port, status.state, status.ports), (2, Slave, Some(2)));
        assert_eq!(status.path_delay_ns, Some(0x500), "the peer delay");
        let status = of_two_ports(Uncalibrated, Master);
        assert_eq!((status.port, status.path_delay_ns), (1, Some(2315)));
        assert_eq!(of_two_ports(Master, Passive).port, 1);
    }

    #[test]
    fn what_answers_nothing_that_was_asked_is_passed_over() {
        let mut spoilt: Vec<Vec<u8>> = Vec::new();
        // Another's sequence, domain, asker, id; data too short; a state there is none of.
        for (at, with) in [(31, 0x77), (4, 1), (41, 0), (53, 0x05), (3, 79), (64, 10)] {
            let mut answer = answer(PORT, 1);
            answer[at] = with;
            spoilt.push(answer);
        }
        // A right answer to another of the questions.
        spoilt.push(answer(PORT, 0));
        for answer in &spoilt {
            let mut inquiry = inquiry();
            assert!(!inquiry.take(answer), "{answer:02x?}");
            answers().iter().for_each(|answer| assert!(inquiry.take(answer)));
            assert!(!inquiry.take(answer));
            assert_eq!(inquiry.status(), taken(&answers()).status());
        }
    }

    proptest! {
        #[test]
        fn no_damage_to_an_answer_panics(which in 0_usize..6, at in 0_usize..58, with: u8) {
            let mut damaged = answers();
            damaged[which][at] = with;
            let mut inquiry = inquiry();
            damaged.iter().for_each(|answer| { inquiry.take(answer); });
            let _ = inquiry.status();
        }

        #[test]
        fn each_question_has_a_number_of_its_own(sequence: u16) {
            let inquiry = Inquiry::new(ASKER, sequence, Inquiry::STATUS);
            let numbers: Vec<u16> = inquiry.questions().map(|q| u16::from_be_bytes([q[30], q[31]])).collect();
            let expected: Vec<u16> = (0..5).map(|n| sequence.wrapping_add(n)).collect();
            prop_assert_eq!(numbers, expected);
        }
    }
}
