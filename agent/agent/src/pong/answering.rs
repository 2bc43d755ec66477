//! The thread that answers: each question's arrival is its answer's launch.
//!
//! It answers before it does anything else, recording included, in the thread that received. Nothing in [`answer`] allocates, locks, formats or
//! prints.

use crate::receiving::inlet::{Datagrams, Inlet};
use crate::receiving::intake::Intake;
use crate::round::Heard;
use crate::round::ends::{Ends, Wiring};
use crate::sending::outlet::{Cue, Outlet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use sys::clock::tai_ns;
use sys::receive::Wait;
use sys::socket::Socket;
use wire::event::Rejected;

/// Where questions come in.
pub enum Door {
    /// Whoever asks, by datagrams or frames.
    Packets(Box<Datagrams>),
    /// Whoever connects, one after the other.
    Connections(Arc<Socket>, Wiring),
}

/// Answers what comes in at `door` until asked to stop.
///
/// # Errors
/// Nothing can come in any more.
pub fn run(
    door: Door,
    mut outlet: Outlet,
    mut intake: Intake,
    wait: Wait,
    stop: &AtomicBool,
) -> Result<Heard, sys::Error> {
    match door {
        Door::Packets(mut inlet) => {
            answer(&mut outlet, &mut *inlet, &mut intake, wait, stop)?;
            Heard::new(intake, &*inlet, 0)
        }
        Door::Connections(listener, wiring) => {
            while !stop.load(Ordering::Relaxed) {
                let Some(connection) = listener.accept()? else { continue };
                // One that is refused its options is gone already: the listener was given the same.
                let Ok(Ends::Bytes(lane, mut inlet)) = wiring.messages(connection) else { continue };
                outlet.lane = lane;
                // Whoever connects has not asked anything yet.
                intake.start_over();
                // However the connection ends, another may come.
                let _ = answer(&mut outlet, &mut inlet, &mut intake, wait, stop);
            }
            Ok(Heard { intake, drops: 0, untagged: 0, rejected: Rejected::default(), answered: 0 })
        }
    }
}

fn answer<I: Inlet>(
    outlet: &mut Outlet,
    inlet: &mut I,
    intake: &mut Intake,
    wait: Wait,
    stop: &AtomicBool,
) -> Result<(), sys::Error> {
    let going = || !stop.load(Ordering::Relaxed);
    while going() {
        let Some(packet) = inlet.receive(wait)? else { continue };
        let rx_user_tai_ns = tai_ns();
        let Some((question, row)) = intake.admit(0, &packet, rx_user_tai_ns) else { continue };
        outlet.lane.turn_to(inlet.from());
        outlet.lane.crowded = outlet.crowded() || intake.crowded();
        let sent = outlet.send(question.sequence, Cue::at(rx_user_tai_ns), going);
        intake.note(row);
        outlet.note(sent);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::receiving::inlet::Heed;
    use crate::receiving::intake::Expected;
    use crate::recording::Recorder;
    use crate::sending::Counters;
    use crate::sending::lane::{Lane, Load};
    use std::net::{Ipv4Addr, UdpSocket};
    use std::sync::atomic::AtomicU64;
    use wire::probe::Probe;

    const RUN: u64 = 7;
    const QUESTIONS: u64 = 20;

    #[test]
    fn answers_carry_their_questions_arrival_and_making_them_allocates_nothing() {
        for stamps in [true, false] {
            answer_some(Heed { stamps, sender: true });
        }
    }

    fn answer_some(heed: Heed) {
        let folder = std::env::temp_dir().join(format!("latlab-answering-{}-{}", std::process::id(), heed.stamps));
        std::fs::create_dir_all(&folder).unwrap();
        let mut recorder = Recorder::new(&folder.join("x").to_string_lossy(), RUN);
        let (sent, received) = (recorder.table(64).unwrap(), recorder.table(64).unwrap());
        let socket = Arc::new(Socket::udp((Ipv4Addr::LOCALHOST, 0).into(), None).unwrap());
        socket.set_receive_timeout_ms(20).unwrap();
        let to = socket.local_address().unwrap();
        let lane = Lane::through(Arc::clone(&socket), &[], &Load { stream: 2, size: 64, at_once: 1, ids: false });
        let counters = Arc::new(vec![Counters::default()]);
        let mut outlet = Outlet::new(lane, RUN, sent, Arc::clone(&counters));
        let expected = [Expected { stream: 1, carries: 1, port: 0, size: 64, count: None }];
        let mut intake =
            Intake::new(RUN, vec![0], &expected, received, Arc::new(vec![AtomicU64::new(0)]), Arc::default());
        let mut inlet = Datagrams::new(socket, heed);
        let stop = Arc::new(AtomicBool::new(false));

        let asking = {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || {
                let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
                socket.set_read_timeout(Some(std::time::Duration::from_secs(5))).unwrap();
                let answers: Vec<(i64, Probe, i64)> = (0..QUESTIONS)
                    .map(|sequence| {
                        let mut bytes = [0; 64];
                        let asked = tai_ns();
                        Probe { stream: 1, run_id: RUN, sequence, launch_tai_ns: asked, size: 64, crowded: false }
                            .write(&mut bytes);
                        socket.send_to(&bytes, to).unwrap();
                        assert_eq!(socket.recv(&mut bytes).unwrap(), 64);
                        (asked, Probe::read(&bytes).unwrap(), tai_ns())
                    })
                    .collect();
                stop.store(true, Ordering::Relaxed);
                answers
            })
        };
        let before = sys::allocations::made_by_this_thread();
        answer(&mut outlet, &mut inlet, &mut intake, Wait::Block, &stop).unwrap();
        assert_eq!(sys::allocations::made_by_this_thread(), before);
        for (sequence, (asked, probe, came)) in (0..).zip(asking.join().unwrap()) {
            assert_eq!((probe.stream, probe.run_id, probe.sequence, probe.size), (2, RUN, sequence, 64));
            assert!(asked <= probe.launch_tai_ns && probe.launch_tai_ns <= came);
        }
        assert_eq!(counters[0].packets.load(Ordering::Relaxed), QUESTIONS);
        assert_eq!(intake.received(), QUESTIONS);
    }
}
