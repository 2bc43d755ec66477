//! A closed loop: each question is asked as soon as the one before is answered, or given up.
//!
//! One thread does both, so that nothing lies between an answer and the next question but this code. It sleeps in the receive
//! call itself: `poll` before it would be a second system call for every answer. Nor has the call a timeout, for which the
//! kernel would set a timer and take it back with every answer: who watches the thread wakes it when it is to give up.
//! Nothing here allocates, locks, formats or prints.

use crate::receiving::inlet::Inlet;
use crate::receiving::intake::Intake;
use crate::recording::WRITERS_TURN;
use crate::round::Shared;
use crate::sending::outlet::{Cue, Outlet};
use crate::sending::sender::sleep_until;
use std::sync::atomic::Ordering;
use sys::clock::tai_ns;
use sys::receive::Wait;

/// When questions are asked, ns.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// The first, after the start.
    pub offset_ns: i64,
    /// For so long after the first there are more.
    pub duration_ns: i64,
    /// So long each one's answer is waited for.
    pub timeout_ns: i64,
    /// So long the thread spins before the first.
    pub busy_wait_ns: i64,
}

/// Sequence numbers end there: timestamps are matched by the low half of a number.
const LAST: u64 = u32::MAX as u64;

/// Asks from `start_tai_ns` on; returns how many questions were answered before they were given up.
///
/// # Errors
/// Nothing can come in any more.
pub fn run<I: Inlet>(
    outlet: &mut Outlet,
    inlet: &mut I,
    intake: &mut Intake,
    wait: Wait,
    start_tai_ns: i64,
    pace: &Pace,
    shared: &Shared,
) -> Result<u64, sys::Error> {
    let stop = &*shared.stop;
    let going = || !stop.load(Ordering::Relaxed);
    let launch_tai_ns = start_tai_ns.saturating_add(pace.offset_ns);
    let end_tai_ns = launch_tai_ns.saturating_add(pace.duration_ns);
    let wake_due_tai_ns = launch_tai_ns - pace.busy_wait_ns;
    let Some(wake_tai_ns) = sleep_until(wake_due_tai_ns, stop) else { return Ok(0) };
    while tai_ns() < launch_tai_ns {
        std::hint::spin_loop();
    }
    let mut cue = Cue { launch_tai_ns, wake_due_tai_ns, wake_tai_ns };
    let mut answered = 0;
    for sequence in 0..=LAST {
        let sent = outlet.send(sequence, cue, going);
        let give_up_tai_ns = cue.launch_tai_ns.saturating_add(pace.timeout_ns);
        shared.give_up_tai_ns.store(give_up_tai_ns, Ordering::Relaxed);
        // Recorded once it is over: until then its answer may be there.
        let over = answer(inlet, intake, wait, sequence, give_up_tai_ns, going);
        outlet.note(sent);
        let (over_tai_ns, pong_crowded) = match over? {
            Over::Answered { at_tai_ns, crowded } => {
                answered += 1;
                (at_tai_ns, crowded)
            }
            Over::GivenUp(at) => (at, false),
        };
        // On a CPU that it has to itself, a real-time thread may keep the writer from ever running, ours or pong's; and a disk may
        // be slow. At a rate that would be told as rows that are lost; a loop sets its own pace.
        let next_tai_ns = if pong_crowded || outlet.crowded() || intake.crowded() {
            std::thread::sleep(WRITERS_TURN);
            while (outlet.crowded() || intake.crowded()) && going() {
                std::thread::sleep(WRITERS_TURN);
            }
            tai_ns()
        } else {
            over_tai_ns
        };
        if next_tai_ns >= end_tai_ns || !going() {
            break;
        }
        cue = Cue::at(next_tai_ns);
    }
    Ok(answered)
}

/// How and when a question was over, CLOCK_TAI ns.
enum Over {
    Answered {
        at_tai_ns: i64,
        /// Pong records more slowly than it is asked.
        crowded: bool,
    },
    GivenUp(i64),
}

/// Takes in what comes, until it is the answer to question `sequence`, or it is time to give up.
#[inline]
fn answer<I: Inlet>(
    inlet: &mut I,
    intake: &mut Intake,
    wait: Wait,
    sequence: u64,
    give_up_tai_ns: i64,
    going: impl Fn() -> bool,
) -> Result<Over, sys::Error> {
    loop {
        let packet = inlet.receive(wait)?;
        let now_tai_ns = tai_ns();
        let probe = packet.and_then(|packet| intake.take_in(0, &packet, now_tai_ns));
        if let Some(probe) = probe.filter(|probe| probe.sequence == sequence) {
            return Ok(Over::Answered { at_tai_ns: now_tai_ns, crowded: probe.crowded });
        }
        // Anything else, an answer that is too late among it, starts no question.
        if now_tai_ns >= give_up_tai_ns || !going() {
            return Ok(Over::GivenUp(now_tai_ns));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::receiving::inlet::{Datagrams, Heed};
    use crate::receiving::intake::Expected;
    use crate::recording::Recorder;
    use crate::round::NEVER;
    use crate::sending::Counters;
    use crate::sending::lane::{Lane, Load};
    use std::net::{Ipv4Addr, UdpSocket};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicI64, AtomicU64};
    use std::time::Duration;
    use sys::socket::Socket;
    use wire::probe::Probe;

    const RUN: u64 = 7;

    /// A loop over loopback: (sent, received, answered), with a pong that answers unless `deaf`, and stops the loop once it has
    /// been asked `questions` times.
    fn looped(pace: Pace, questions: u64, deaf: bool) -> (u64, u64, u64) {
        let folder = std::env::temp_dir().join(format!("latlab-closed-{}-{deaf}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut recorder = Recorder::new(&folder.join("x").to_string_lossy(), RUN);
        let (sent, received) = (recorder.table(1024).unwrap(), recorder.table(1024).unwrap());
        let pong = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let socket = Arc::new(Socket::udp((Ipv4Addr::LOCALHOST, 0).into(), None).unwrap());
        socket.connect(pong.local_addr().unwrap()).unwrap();
        socket.set_receive_timeout_ms(1).unwrap();
        let lane = Lane::through(Arc::clone(&socket), &[], &Load { stream: 1, size: 64, at_once: 1, ids: false });
        let counters = Arc::new(vec![Counters::default()]);
        let mut outlet = Outlet::new(lane, RUN, sent, Arc::clone(&counters));
        let expected = [Expected { stream: 2, carries: 2, port: 0, size: 64, count: None }];
        let mut intake =
            Intake::new(RUN, vec![0], &expected, received, Arc::new(vec![AtomicU64::new(0)]), Arc::default());
        let mut inlet = Datagrams::new(socket, Heed { stamps: false, sender: false });
        let shared = Shared {
            counters: Arc::clone(&counters),
            received: Arc::default(),
            stop: Arc::default(),
            give_up_tai_ns: Arc::new(AtomicI64::new(NEVER)),
        };
        let answering = {
            let stop = Arc::clone(&shared.stop);
            std::thread::spawn(move || {
                pong.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
                let mut bytes = [0; 64];
                for expected in 0..questions {
                    let (_, from) = pong.recv_from(&mut bytes).unwrap();
                    let question = Probe::read(&bytes).unwrap();
                    assert_eq!((question.stream, question.sequence), (1, expected));
                    if expected + 1 == questions {
                        stop.store(true, Ordering::Relaxed);
                    }
                    Probe { stream: 2, ..question }.write(&mut bytes);
                    if !deaf {
                        pong.send_to(&bytes, from).unwrap();
                    }
                }
            })
        };
        let before = sys::allocations::made_by_this_thread();
        let start = tai_ns() + 1_000_000;
        let answered = run(&mut outlet, &mut inlet, &mut intake, Wait::Block, start, &pace, &shared).unwrap();
        assert_eq!(sys::allocations::made_by_this_thread(), before);
        answering.join().unwrap();
        assert!(
            shared.give_up_tai_ns.load(Ordering::Relaxed) > start,
            "whoever watches would not know when to wake it"
        );
        (counters[0].packets.load(Ordering::Relaxed), intake.received(), answered)
    }

    const ENDLESS: Pace =
        Pace { offset_ns: 0, duration_ns: i64::MAX, timeout_ns: 5_000_000_000, busy_wait_ns: 100_000 };

    #[test]
    fn each_answer_starts_the_next_question_and_nothing_is_allocated() {
        let (sent, received, answered) = looped(ENDLESS, 50, false);
        assert_eq!(sent, 50);
        // The loop may be told to stop before or after it has the last answer.
        assert!(received == answered && (49..=50).contains(&answered), "{received} {answered}");
    }

    #[test]
    fn a_question_that_is_not_answered_is_given_up_and_nothing_is_allocated() {
        assert_eq!(looped(Pace { timeout_ns: 2_000_000, ..ENDLESS }, 5, true), (5, 0, 0));
    }
}
