//! The sending thread: sleeps until packets are due, hands them in, notes what happened.
//!
//! Nothing in [`Sender::run`] allocates, locks, formats or prints.

use super::Counters;
use super::lane::Lane;
use crate::recording::Tap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use sys::clock::{sleep_until_tai, tai_ns};
use wire::record::{Late, Sent};
use wire::schedule::{Agenda, Due, Schedule};
use wire::spec::MAX_BATCH;

/// Longest single sleep, so that a request to stop is seen whatever the period.
const LONGEST_SLEEP_NS: i64 = 100_000_000;

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

    /// Sends every packet of the agenda when it is due; one found late is sent at once, and none is skipped without a record.
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
            self.send_due(agenda, now_tai_ns, wake_tai_ns, stop);
        }
    }

    /// Sends what is due at `now_tai_ns`, with the thread awake since `wake_tai_ns`, unless asked to stop.
    ///
    /// What it was not to be awake for yet by then, as it was delayed while it waited for another, it came to now.
    pub fn send_due(&mut self, agenda: &mut Agenda, now_tai_ns: i64, wake_tai_ns: i64, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            let Some(due) = agenda.take(now_tai_ns, MAX_BATCH) else { return };
            self.send(agenda.schedule(due.stream), due, now_tai_ns, wake_tai_ns, stop);
        }
    }

    fn send(&mut self, schedule: &Schedule, due: Due, now_tai_ns: i64, wake_tai_ns: i64, stop: &AtomicBool) {
        let lane = &mut self.lanes[due.stream];
        let counters = &self.counters[due.stream];
        let packets = due.packets as usize;
        let (stream, busy_wait_ns) = (lane.stream, self.busy_wait_ns);
        for n in 0..packets {
            let sequence = due.first + n as u64;
            lane.write(n, self.run_id, sequence, schedule.launch(sequence));
        }
        let mut from = 0;
        let (mut retried, mut answer) = (false, 0);
        while from < packets {
            let submit_tai_ns = tai_ns();
            let record = |n: usize, error: i32, late: Late| {
                let sequence = due.first + n as u64;
                let wake_due_tai_ns = schedule.due(sequence) - busy_wait_ns;
                Sent {
                    stream,
                    sequence,
                    launch_tai_ns: schedule.launch(sequence),
                    wake_due_tai_ns,
                    wake_tai_ns: if wake_tai_ns < wake_due_tai_ns { now_tai_ns } else { wake_tai_ns },
                    submit_tai_ns,
                    error,
                    late,
                }
            };
            let (dropped, until) = lane.aim(schedule, &due, from, submit_tai_ns);
            if dropped > 0 {
                for n in from..from + dropped {
                    self.tap.push(record(n, 0, Late::Dropped));
                }
                counters.unsent_late.fetch_add(dropped as u64, Ordering::Relaxed);
                from += dropped;
                continue;
            }
            let (taken, error) = match lane.send(from, until, || !stop.load(Ordering::Relaxed)) {
                Ok(taken) => (taken, 0),
                Err(error) if error.may_be_icmp() && !retried => {
                    (retried, answer) = (true, error.errno);
                    continue;
                }
                Err(error) => (1, error.errno),
            };
            // The same twice is no answer to a packet: there is no route, or a rule of this host forbids it.
            let answered = std::mem::take(&mut answer);
            if answered != 0 && answered != error {
                counters.rejected.note(answered);
            }
            for n in from..from + taken {
                let late = lane.late(schedule.launch(due.first + n as u64), submit_tai_ns);
                self.tap.push(record(n, error, late));
                match late {
                    Late::Reported if error == 0 => counters.launch_late.fetch_add(1, Ordering::Relaxed),
                    Late::Moved if error == 0 => counters.launch_moved.fetch_add(1, Ordering::Relaxed),
                    _ => 0,
                };
            }
            let counter = if error == 0 { &counters.packets } else { &counters.errors };
            counter.fetch_add(taken as u64, Ordering::Relaxed);
            from += taken;
        }
    }
}

/// Sleeps until `tai`, and returns when that was in fact; at once if it has passed. None if asked to stop.
pub fn sleep_until(tai: i64, stop: &AtomicBool) -> Option<i64> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::Recorder;
    use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
    use sys::socket::Socket;
    use wire::probe::Probe;
    use wire::spec::{LatePolicy, LaunchClock, LaunchTime};

    const PACKETS: u64 = 20;

    /// A sender of one stream over loopback, and the socket it sends to.
    fn sender_and_sink(launch_time: Option<LaunchTime>) -> (Sender, UdpSocket) {
        let sink = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let socket = Socket::udp(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), None).unwrap();
        socket.connect(sink.local_addr().unwrap()).unwrap();
        let folder = std::env::temp_dir().join(format!("latlab-sender-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let tap = Recorder::new(&folder.join("x").to_string_lossy(), 7).table(64).unwrap();
        let lanes = vec![Lane::plain(socket, 1, 64, launch_time)];
        (Sender::new(lanes, 7, 0, tap, Arc::new(vec![Counters::default()])), sink)
    }

    fn launched(late: LatePolicy) -> LaunchTime {
        LaunchTime {
            lead_ns: 1_000_000,
            clock: LaunchClock::Monotonic,
            deadline: false,
            late,
            allowed_lateness_ns: 10_000_000_000,
            margin_ns: 1_000,
        }
    }

    /// (sent, unsent_late, launch_late, launch_moved) of the one stream.
    fn counted(sender: &Sender) -> [u64; 4] {
        let counters = &sender.counters[0];
        [&counters.packets, &counters.unsent_late, &counters.launch_late, &counters.launch_moved]
            .map(|counter| counter.load(Ordering::Relaxed))
    }

    fn starting_at(start_tai_ns: i64) -> Agenda {
        let period_ns = 1_000_000;
        Agenda::new(vec![Schedule {
            first_launch_tai_ns: start_tai_ns,
            period_ns,
            count: PACKETS,
            lead_ns: 0,
            batch: 1,
        }])
    }

    fn sequences(sink: &UdpSocket) -> Vec<u64> {
        let mut buffer = [0; 100];
        (0..PACKETS)
            .map(|_| {
                let bytes = sink.recv(&mut buffer).unwrap();
                Probe::read(&buffer[..bytes]).unwrap().sequence
            })
            .collect()
    }

    #[test]
    fn sending_allocates_nothing_on_time_or_late() {
        for launch_time in [None, Some(launched(LatePolicy::Send))] {
            let (mut sender, sink) = sender_and_sink(launch_time);
            let stop = AtomicBool::new(false);
            for start_tai_ns in [tai_ns() + 5_000_000, tai_ns() - 1_000_000_000] {
                let mut agenda = starting_at(start_tai_ns);
                let before = sys::allocations::made_by_this_thread();
                sender.run(&mut agenda, &stop);
                assert_eq!(sys::allocations::made_by_this_thread(), before);
                assert_eq!(sequences(&sink), (0..PACKETS).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn what_falls_due_while_it_is_held_up_in_its_busy_wait_it_comes_to_only_then() {
        let (sender, _sink) = sender_and_sink(None);
        let (tap, mut records) = Recorder::new("", 7).ring(64);
        let mut sender = Sender { busy_wait_ns: 200_000, tap, ..sender };
        let first = tai_ns() - 1_000_000_000;
        let (wake, now) = (first - 190_000, first + 1_200_000);
        sender.send_due(&mut starting_at(first), now, wake, &AtomicBool::new(false));
        let woken: Vec<_> =
            std::iter::from_fn(|| records.pop().ok()).map(|r| (r.wake_due_tai_ns, r.wake_tai_ns)).collect();
        assert_eq!(woken, [(first - 200_000, wake), (first + 800_000, now)]);
    }

    #[test]
    fn late_packets_are_reported_dropped_or_moved_as_asked() {
        for (late, expected) in [
            (LatePolicy::Report, [PACKETS, 0, PACKETS, 0]),
            (LatePolicy::Drop, [0, PACKETS, 0, 0]),
            (LatePolicy::Send, [PACKETS, 0, 0, PACKETS]),
        ] {
            let (mut sender, _sink) = sender_and_sink(Some(launched(late)));
            sender.run(&mut starting_at(tai_ns() - 1_000_000_000), &AtomicBool::new(false));
            assert_eq!(counted(&sender), expected, "{late:?}");
        }
    }

    #[test]
    fn packets_that_are_later_than_allowed_are_dropped_and_the_rest_of_the_run_is_sent() {
        let launch = LaunchTime { allowed_lateness_ns: 900_000_000, ..launched(LatePolicy::Send) };
        let (mut sender, sink) = sender_and_sink(Some(launch));
        // Ten packets are late by a second or more, one by as long as it takes to come to it, and nine are early.
        let mut agenda = Agenda::new(vec![Schedule {
            first_launch_tai_ns: tai_ns() - 10_000_000_000,
            period_ns: 1_000_000_000,
            count: PACKETS,
            lead_ns: 10_000_000_000,
            batch: 1,
        }]);
        sender.run(&mut agenda, &AtomicBool::new(false));
        assert_eq!(counted(&sender), [10, 10, 0, 1]);
        sink.set_nonblocking(true).unwrap();
        let mut buffer = [0; 100];
        let bytes = sink.recv(&mut buffer).unwrap();
        assert_eq!(Probe::read(&buffer[..bytes]).unwrap().sequence, 10);
    }

    #[test]
    fn nothing_is_sent_before_its_launch() {
        let (mut sender, sink) = sender_and_sink(None);
        let start_tai_ns = tai_ns() + 5_000_000;
        sender.run(&mut starting_at(start_tai_ns), &AtomicBool::new(false));
        assert!(tai_ns() >= start_tai_ns + (PACKETS as i64 - 1) * 1_000_000);
        assert_eq!(sequences(&sink).len() as u64, PACKETS);
    }

    #[test]
    fn packets_that_a_closed_port_answers_are_sent_all_the_same_and_the_answers_are_counted() {
        let (mut sender, sink) = sender_and_sink(None);
        drop(sink);
        sender.run(&mut starting_at(tai_ns()), &AtomicBool::new(false));
        assert_eq!(sender.counters[0].packets.load(Ordering::Relaxed), PACKETS);
        let rejected = sender.counters[0].rejected.read();
        let error = rejected.errno.map(|errno| std::io::Error::from_raw_os_error(errno).kind());
        assert!(rejected.answers > 0 && error == Some(std::io::ErrorKind::ConnectionRefused), "{rejected:?}");
    }

    #[test]
    fn a_request_to_stop_ends_a_long_wait() {
        let (mut sender, _sink) = sender_and_sink(None);
        sender.run(&mut starting_at(tai_ns() + 3_600_000_000_000), &AtomicBool::new(true));
        assert_eq!(sender.counters[0].packets.load(Ordering::Relaxed), 0);
    }
}
