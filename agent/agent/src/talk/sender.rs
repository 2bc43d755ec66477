//! The sending thread: sleeps until packets are due, hands them in, notes what happened.
//!
//! Nothing in [`Sender::run`] allocates, locks, formats or prints.

use super::Sent as Counters;
use super::lane::Lane;
use crate::recording::Tap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use sys::clock::{sleep_until_tai, tai_ns};
use wire::record::Sent;
use wire::schedule::{Agenda, Due, Schedule};
use wire::spec::{MAX_BATCH, Talk};

/// Longest single sleep, so that a request to stop is seen whatever the period.
const LONGEST_SLEEP_NS: i64 = 100_000_000;

/// ECONNREFUSED: an ICMP answer to an earlier packet, reported with the next send, which was then not tried.
const ANSWERED_BY_ICMP: i32 = 111;

/// The schedules of `spec`'s streams, starting at `start_tai_ns`.
pub fn agenda(spec: &Talk, start_tai_ns: i64) -> Agenda {
    let schedules = spec.streams.iter().map(|stream| Schedule {
        first_launch_tai_ns: start_tai_ns + stream.offset_ns,
        period_ns: stream.period_ns,
        count: stream.count,
        lead_ns: stream.launch_time.map_or(0, |launch| launch.lead_ns),
        batch: stream.batch,
    });
    Agenda::new(schedules.collect())
}

/// Everything the sending thread owns.
pub struct Sender {
    lanes: Vec<Lane>,
    run_id: u64,
    busy_wait_ns: i64,
    tap: Tap<Sent>,
    counters: Arc<Vec<Counters>>,
}

impl Sender {
    /// For these lanes, in the order of the agenda's streams.
    pub fn new(lanes: Vec<Lane>, run_id: u64, busy_wait_ns: i64, tap: Tap<Sent>, counters: Arc<Vec<Counters>>) -> Self {
        Self { lanes, run_id, busy_wait_ns, tap, counters }
    }

    /// Sends every packet of the agenda when it is due; one found late is sent at once, none is skipped.
    pub fn run(&mut self, agenda: &mut Agenda, stop: &AtomicBool) {
        while let Some((stream, sequence, due_tai_ns)) = agenda.next() {
            // What can be done before the packet is due is done before.
            let launch_tai_ns = agenda.schedule(stream).launch(sequence);
            self.lanes[stream].write(0, self.run_id, sequence, launch_tai_ns);
            let Some(wake_tai_ns) = sleep_until(due_tai_ns - self.busy_wait_ns, stop) else { return };
            let mut now_tai_ns = wake_tai_ns;
            while now_tai_ns < due_tai_ns {
                std::hint::spin_loop();
                now_tai_ns = tai_ns();
            }
            while let Some(due) = agenda.take(now_tai_ns, MAX_BATCH) {
                self.send(agenda.schedule(due.stream), due, wake_tai_ns);
            }
        }
    }

    fn send(&mut self, schedule: &Schedule, due: Due, wake_tai_ns: i64) {
        let lane = &mut self.lanes[due.stream];
        let counters = &self.counters[due.stream];
        let packets = due.packets as usize;
        for n in 0..packets {
            let sequence = due.first + n as u64;
            lane.write(n, self.run_id, sequence, schedule.launch(sequence));
        }
        let mut from = 0;
        let mut answered = false;
        while from < packets {
            let submit_tai_ns = tai_ns();
            let (taken, error) = match lane.batch.send(&lane.socket, from, packets) {
                Ok(taken) => (taken, 0),
                Err(error) if error.errno == ANSWERED_BY_ICMP && !answered => {
                    answered = true;
                    continue;
                }
                Err(error) => (1, error.errno),
            };
            for n in from..from + taken {
                let sequence = due.first + n as u64;
                self.tap.push(Sent {
                    stream: lane.stream,
                    sequence,
                    launch_tai_ns: schedule.launch(sequence),
                    wake_due_tai_ns: schedule.due(sequence) - self.busy_wait_ns,
                    wake_tai_ns,
                    submit_tai_ns,
                    error,
                });
            }
            let counter = if error == 0 { &counters.packets } else { &counters.errors };
            counter.fetch_add(taken as u64, Ordering::Relaxed);
            from += taken;
        }
    }
}

/// Sleeps until `tai`, and returns when that was in fact; at once if it has passed. None if asked to stop.
fn sleep_until(tai: i64, stop: &AtomicBool) -> Option<i64> {
    loop {
        if stop.load(Ordering::Relaxed) {
            return None;
        }
        let now = tai_ns();
        if now >= tai {
            return Some(now);
        }
        sleep_until_tai(tai.min(now + LONGEST_SLEEP_NS));
    }
}
