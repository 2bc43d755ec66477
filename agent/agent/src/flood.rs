//! `flood`: background load. A source sends UDP at a rate or as fast as it goes; a sink takes it in. Both count.

use crate::realtime::{Process, prepare_process, prepare_thread};
use crate::sending::sender::sleep_until;
use crate::session::{self, Progress, Session, died, emit, failed};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use sys::clock::{sleep_until_tai, tai_ns};
use sys::receive::{Buffer, Wait};
use sys::send::{Batch, Beside};
use sys::socket::Socket;
use wire::event::{Done, Event, Failure, FloodTotals};
use wire::spec::{Flood, MAX_BATCH, Realtime};

/// How often a paced flow sends what its rate has earned meanwhile.
const PACE_NS: i64 = 1_000_000;
const SOCKET_BYTES: i32 = 8 << 20;
const TIMEOUT_MS: i64 = 100;
/// ENOBUFS, EAGAIN: the queue is full. These, and answers by ICMP, are counted, and sending goes on.
const FULL: [i32; 2] = [105, 11];

/// What the flows have done, all together.
#[derive(Default)]
struct Counters {
    packets: AtomicU64,
    bytes: AtomicU64,
    errors: AtomicU64,
    first_tai_ns: AtomicI64,
    last_tai_ns: AtomicI64,
}

impl Counters {
    fn note(&self, packets: u64, bytes: u64) {
        let now = tai_ns();
        // Only the first writer succeeds: the stored value is no longer 0 then.
        let _ = self.first_tai_ns.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
        self.last_tai_ns.fetch_max(now, Ordering::Relaxed);
        self.packets.fetch_add(packets, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn totals(&self) -> FloodTotals {
        let (packets, bytes) = (self.packets.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed));
        let elapsed_ns = self.last_tai_ns.load(Ordering::Relaxed) - self.first_tai_ns.load(Ordering::Relaxed);
        let per_s = |amount: u64| if elapsed_ns > 0 { amount as f64 * 1e9 / elapsed_ns as f64 } else { 0.0 };
        FloodTotals {
            packets,
            bytes,
            elapsed_ns,
            packets_per_s: per_s(packets),
            bits_per_s: per_s(bytes * 8),
            send_errors: self.errors.load(Ordering::Relaxed),
        }
    }
}

type Flow = JoinHandle<Result<(), Failure>>;

/// Runs the verb; its result has been reported when this returns.
///
/// # Errors
/// What the lab needs to know.
pub fn run() -> Result<(), Failure> {
    let (spec, session) = session::open::<Flood>("flood")?;
    let (Flood::Sink { realtime, flows, .. } | Flood::Source { realtime, flows, .. }) = &spec;
    if !(1..=64).contains(flows) {
        return Err(wrong("flows", "expected 1 to 64"));
    }
    let process = Arc::new(prepare_process(realtime)?);
    let found = {
        let (realtime, process) = (realtime.clone(), Arc::clone(&process));
        std::thread::spawn(move || prepare_thread(&realtime, &process))
            .join()
            .unwrap_or_else(|_| Err(died("flood", "a flow's thread")))?
    };
    let counters = Arc::new(Counters::default());
    let stop = Arc::new(AtomicBool::new(false));
    let sockets = open_sockets(&spec)?;
    let local = sockets.iter().filter_map(|s| s.local_address().ok()).map(|a| a.to_string()).collect();
    emit(&Event::Ready(session::ready("flood", found, local)?));
    let threads: Vec<Flow> = match spec {
        Flood::Sink { realtime, .. } => {
            let sink = |socket| take_in(socket, Arc::clone(&counters), Arc::clone(&stop));
            start(sockets, &realtime, &process, sink)
        }
        Flood::Source { size, rate_bps, duration_ns, flows, realtime, .. } => {
            let Some(start_tai_ns) = session.wait_for_start() else {
                emit(&Event::Done(Done::Flood(counters.totals())));
                return Ok(());
            };
            let pace = rate_bps.map(|bps| Pace { size, bps: bps as f64 / f64::from(flows) });
            let end_tai_ns = start_tai_ns.saturating_add(duration_ns);
            let source =
                |socket| send(socket, size, start_tai_ns, end_tai_ns, pace, Arc::clone(&counters), Arc::clone(&stop));
            start(sockets, &realtime, &process, source)
        }
    };
    watch(&session, &threads, &counters);
    stop.store(true, Ordering::Relaxed);
    for thread in threads {
        thread.join().unwrap_or_else(|_| Err(died("flood", "a flow's thread")))?;
    }
    emit(&Event::Done(Done::Flood(counters.totals())));
    Ok(())
}

fn wrong(place: &str, what: &str) -> Failure {
    Failure { what: what.into(), place: place.into(), remedy: "correct the spec".into(), errno: None }
}

fn open_sockets(spec: &Flood) -> Result<Vec<Socket>, Failure> {
    let port = |address: SocketAddr, flow: u16| -> Result<SocketAddr, Failure> {
        let port = address.port().checked_add(flow).ok_or_else(|| wrong("flows", "the ports would pass 65535"))?;
        Ok(SocketAddr::new(address.ip(), port))
    };
    let open_one = |flow: u16| -> Result<Socket, Failure> {
        let trouble = |address: SocketAddr| {
            let remedy = "check that the address is this host's, the port is free, and there is a route";
            move |error| failed(error, &address.to_string(), remedy)
        };
        match spec {
            Flood::Sink { listen, .. } => {
                let address = port(*listen, flow)?;
                let socket = Socket::udp(address, None).map_err(trouble(address))?;
                socket.set_receive_buffer(SOCKET_BYTES).map_err(trouble(address))?;
                socket.set_receive_timeout_ms(TIMEOUT_MS).map_err(trouble(address))?;
                Ok(socket)
            }
            Flood::Source { source, destination, size, priority, .. } => {
                if !(1..=wire::probe::MAX_BYTES).contains(size) {
                    return Err(wrong("size", "expected 1 to 65507"));
                }
                let (from, to) = (SocketAddr::new(source.ip(), 0), port(*destination, flow)?);
                let socket = Socket::udp(from, None).map_err(trouble(from))?;
                socket.connect(to).map_err(trouble(to))?;
                socket.set_priority(*priority).map_err(trouble(to))?;
                socket.set_send_timeout_ms(TIMEOUT_MS).map_err(trouble(to))?;
                Ok(socket)
            }
        }
    };
    let (Flood::Sink { flows, .. } | Flood::Source { flows, .. }) = spec;
    (0..*flows).map(open_one).collect()
}

fn start<F, G>(sockets: Vec<Socket>, realtime: &Realtime, process: &Arc<Process>, mut flow: F) -> Vec<Flow>
where
    F: FnMut(Socket) -> G,
    G: FnOnce() -> Result<(), Failure> + Send + 'static,
{
    let mut threads = Vec::new();
    for socket in sockets {
        let (work, realtime, process) = (flow(socket), realtime.clone(), Arc::clone(process));
        threads.push(std::thread::spawn(move || {
            prepare_thread(&realtime, &process)?;
            work()
        }));
    }
    threads
}

fn watch(session: &Session, threads: &[Flow], counters: &Counters) {
    let mut progress = Progress::new();
    while !session.stopped() && threads.iter().any(|thread| !thread.is_finished()) {
        std::thread::sleep(Duration::from_millis(10));
        progress.tell(counters.packets.load(Ordering::Relaxed));
    }
}

fn take_in(
    socket: Socket,
    counters: Arc<Counters>,
    stop: Arc<AtomicBool>,
) -> impl FnOnce() -> Result<(), Failure> + Send + 'static {
    move || {
        let mut buffer = Buffer::default();
        while !stop.load(Ordering::Relaxed) {
            let received = buffer.receive(&socket, Wait::Block);
            match received.map_err(|error| failed(error, "the sink's socket", ""))? {
                Some(packet) => counters.note(1, packet.bytes.len() as u64),
                None => continue,
            }
        }
        Ok(())
    }
}

/// What a flow's rate allows.
#[derive(Clone, Copy)]
struct Pace {
    size: usize,
    bps: f64,
}

impl Pace {
    /// Packets that should have been sent `elapsed_ns` after the start.
    fn earned(&self, elapsed_ns: i64) -> u64 {
        (elapsed_ns as f64 / 1e9 * self.bps / (self.size as f64 * 8.0)) as u64
    }
}

fn send(
    socket: Socket,
    size: usize,
    start_tai_ns: i64,
    end_tai_ns: i64,
    pace: Option<Pace>,
    counters: Arc<Counters>,
    stop: Arc<AtomicBool>,
) -> impl FnOnce() -> Result<(), Failure> + Send + 'static {
    move || {
        let mut batch = Batch::new(MAX_BATCH as usize, size, Beside::default());
        let mut sent = 0;
        if sleep_until(start_tai_ns, &stop).is_none() {
            return Ok(());
        }
        loop {
            let now = tai_ns();
            if now >= end_tai_ns || stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            // What the kernel refused is not made up for: the rate asked for is the most that is tried.
            let owed = pace.map_or(MAX_BATCH, |pace| pace.earned(now - start_tai_ns).saturating_sub(sent));
            if owed == 0 {
                sleep_until_tai((now + PACE_NS).min(end_tai_ns));
                continue;
            }
            let packets = owed.min(MAX_BATCH);
            match batch.send(&socket, 0, packets as usize) {
                Ok(taken) => {
                    sent += taken as u64;
                    counters.note(taken as u64, (taken * size) as u64);
                }
                Err(error) if error.may_be_icmp() || FULL.contains(&error.errno) => {
                    sent += 1;
                    counters.errors.fetch_add(1, Ordering::Relaxed);
                }
                Err(error) => {
                    return Err(failed(error, "the source's socket", "check the size against the route's MTU"));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_earns_packets_in_proportion_to_time() {
        let pace = Pace { size: 1250, bps: 10_000_000.0 };
        assert_eq!([0, 1_000_000, 10_000_000, 1_000_000_000].map(|ns| pace.earned(ns)), [0, 1, 10, 1000]);
    }

    #[test]
    fn totals_are_over_the_time_between_first_and_last() {
        let counters = Counters::default();
        assert_eq!(counters.totals().packets_per_s, 0.0);
        counters.note(3, 300);
        std::thread::sleep(Duration::from_millis(5));
        counters.note(1, 100);
        let totals = counters.totals();
        assert_eq!((totals.packets, totals.bytes), (4, 400));
        assert!(totals.elapsed_ns >= 5_000_000);
        assert!((totals.bits_per_s - 3200.0 * 1e9 / totals.elapsed_ns as f64).abs() < 1.0);
    }
}
