//! The thread that reads the error queues: transmit timestamps and launch-time errors, matched to packets by key.
//!
//! It comes round every [`PAUSE`] rather than sleeping in `poll`: a sleeping reader would be woken by every timestamp, twice
//! a packet, from within the talker's send call.

use super::Counters;
use crate::recording::Tap;
use crate::session::{died, failed};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use sys::socket::Socket;
use wire::errqueue::{self, Key};
use wire::event::{Failure, TalkTotals};
use wire::iec61850::MOST_PREFIX_BYTES;
use wire::prp::{TRAILER_BYTES, without_trailer};
use wire::record::{Stamp, StampKind};
use wire::spec::{KeyChoice, Stamps};

const PAUSE: Duration = Duration::from_millis(2);

/// Room for what stands around the probe in a returned packet: Ethernet, VLAN tag, IPv6 and UDP, what carries it, a trailer.
const HEADERS: usize = 14 + 4 + 40 + 8 + MOST_PREFIX_BYTES + TRAILER_BYTES;

/// Whether packets carry the ids of their timestamps, as `key` asks for it and this kernel can.
///
/// # Errors
/// They are to, and the kernel does not take ids.
pub fn ids_in_use(key: KeyChoice) -> Result<bool, Failure> {
    let ids = match key {
        KeyChoice::Payload => false,
        KeyChoice::Id | KeyChoice::Auto => sys::send::ids_supported(),
    };
    if key == KeyChoice::Id && !ids {
        return Err(Failure {
            what: "this kernel does not take ids with packets (SCM_TS_OPT_ID, Linux 6.13)".into(),
            place: "stamps.key".into(),
            remedy: "ask for auto or payload".into(),
            errno: None,
        });
    }
    Ok(ids)
}

/// One stream's error queue.
pub struct Queue {
    socket: Arc<Socket>,
    size: usize,
    count: u64,
    totals: TalkTotals,
}

impl Queue {
    /// That of `socket`, through which `count` packets of `stream` go, their probes of `size` bytes.
    pub fn new(socket: Arc<Socket>, stream: u16, size: usize, count: u64) -> Self {
        Self { socket, size, count, totals: TalkTotals { stream, ..TalkTotals::default() } }
    }
}

/// What is looked for in error queues.
pub struct Wanted {
    /// The verb, for messages.
    pub verb: &'static str,
    /// Whose packets.
    pub run_id: u64,
    /// Which timestamps.
    pub stamps: Stamps,
    /// Timestamps come with ids.
    pub ids: bool,
}

/// The running thread.
pub struct Collector {
    verb: &'static str,
    thread: JoinHandle<Result<Vec<TalkTotals>, Failure>>,
    finish: Arc<AtomicBool>,
    give_up: Arc<AtomicBool>,
}

impl Collector {
    /// Reads `queues` from now on; `sent` counts what went through each, in the same order.
    pub fn start(wanted: Wanted, mut queues: Vec<Queue>, mut tap: Tap<Stamp>, sent: Arc<Vec<Counters>>) -> Self {
        let (finish, give_up) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let largest = queues.iter().map(|queue| queue.size).max().unwrap_or(0) + HEADERS;
        let Wanted { verb, run_id, stamps, ids } = wanted;
        let (ending, giving_up) = (Arc::clone(&finish), Arc::clone(&give_up));
        let thread = std::thread::spawn(move || {
            let mut buffer = sys::errqueue::Buffer::new(largest);
            // This thread may wait for the writer: the error queue has room for what comes meanwhile.
            let patient = || !giving_up.load(Ordering::Relaxed);
            loop {
                // Asked before draining: what came before the request is then drained below.
                let (ending, giving_up) = (ending.load(Ordering::Acquire), giving_up.load(Ordering::Acquire));
                for queue in &mut queues {
                    drain(queue, &mut buffer, run_id, ids, &mut tap, &patient)?;
                }
                let complete = || queues.iter().zip(sent.iter()).all(|(queue, sent)| all_stamped(queue, sent, &stamps));
                if giving_up || ending && complete() {
                    return Ok(queues.into_iter().map(|queue| queue.totals).collect());
                }
                std::thread::sleep(PAUSE);
            }
        });
        Self { verb, thread, finish, give_up }
    }

    /// Waits for the timestamps still on their way, at most `timeout`; returns each stream's totals.
    ///
    /// # Errors
    /// An error queue could not be read.
    pub fn finish(self, timeout: Duration) -> Result<Vec<TalkTotals>, Failure> {
        self.finish.store(true, Ordering::Release);
        let deadline = Instant::now() + timeout;
        while !self.thread.is_finished() && Instant::now() < deadline {
            std::thread::sleep(PAUSE);
        }
        self.give_up.store(true, Ordering::Release);
        self.thread.join().unwrap_or_else(|_| Err(died(self.verb, "the thread reading timestamps")))
    }
}

/// Whether every packet the kernel took has all the timestamps it can get. One refused by the qdisc gets no more of them.
fn all_stamped(queue: &Queue, sent: &Counters, wanted: &Stamps) -> bool {
    let (totals, sent) = (&queue.totals, sent.packets.load(Ordering::Relaxed));
    let left = sent.saturating_sub(totals.launch_invalid + totals.launch_missed);
    (!wanted.sched || totals.tx_sched >= sent)
        && (!wanted.software || totals.tx_soft >= left)
        && (!wanted.hardware || totals.tx_hard >= left)
}

fn drain(
    queue: &mut Queue,
    buffer: &mut sys::errqueue::Buffer,
    run_id: u64,
    ids: bool,
    tap: &mut Tap<Stamp>,
    patient: &impl Fn() -> bool,
) -> Result<(), Failure> {
    let Queue { socket, size, count, totals } = queue;
    loop {
        let taken = buffer
            .drain(socket, |message, packet| {
                let Some(meaning) = errqueue::meaning(&message, ids) else {
                    totals.stray_stamps += 1;
                    return;
                };
                let sequence = match meaning.key {
                    Key::Id(id) => Some(u64::from(id)),
                    Key::Packet => {
                        errqueue::probe_in(without_trailer(packet), run_id, [*size]).map(|probe| probe.sequence)
                    }
                };
                let Some(sequence) = sequence.filter(|sequence| sequence < count) else {
                    totals.stray_stamps += 1;
                    return;
                };
                let counter = match meaning.kind {
                    StampKind::TxSched => &mut totals.tx_sched,
                    StampKind::TxSoft => &mut totals.tx_soft,
                    StampKind::TxHard => &mut totals.tx_hard,
                    StampKind::LaunchInvalid => &mut totals.launch_invalid,
                    StampKind::LaunchMissed => &mut totals.launch_missed,
                };
                *counter += 1;
                let row = Stamp { stream: totals.stream, sequence, kind: meaning.kind, stamp_ns: meaning.stamp_ns };
                tap.push_when_room(row, patient);
            })
            .map_err(|error| {
                failed(error, "the error queue of the talker's socket", "see whether the interface went away")
            })?;
        if taken == 0 {
            return Ok(());
        }
    }
}
