//! `ping`: asks questions and times their answers, each leg of the way recorded.

mod closed;
mod open;

use crate::realtime::{Process, prepare_process};
use crate::receiving::inlet::{self, Inlet};
use crate::receiving::intake::Intake;
use crate::receiving::{ETHERNET_HEADER, STAMPING_STARTS};
use crate::recording::Tap;
use crate::round::ends::{Ends, Wiring};
use crate::round::{Heard, Outcome, Round, Shared, Side, Tables, hot};
use crate::sending::lane::Lane;
use crate::sending::outlet::Outlet;
use crate::sending::sender::Sender;
use crate::session::{self, emit, refused};
use crate::stages::{Connection, Load};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use sys::receive::Wait;
use sys::socket::Socket;
use wire::event::{Done, Event, Failure, Ready, RealtimeFound};
use wire::record::Sent;
use wire::schedule::{Agenda, Schedule};
use wire::spec::{MAX_BATCH, Mode, Ping, PingTransport};

/// How long a connection may take to be made.
const CONNECT_TIMEOUT_MS: i64 = 5000;
/// Set by the lab's start command; the asking thread waits for it.
const NOT_YET: i64 = i64::MIN;

/// Runs the verb; its result has been reported when this returns.
///
/// # Errors
/// What the lab needs to know.
pub fn run() -> Result<(), Failure> {
    let (spec, session) = session::open::<Ping>("ping")?;
    spec.check().map_err(refused)?;
    let asked = &spec.side;
    let load = match spec.transport {
        PingTransport::Udp { source, .. } => Load::Datagrams { size: asked.size, ipv6: source.is_ipv6() },
        PingTransport::Ethernet { .. } => Load::Frames { size: asked.size, prefix: 0 },
        PingTransport::Tcp { destination, .. } => Load::Bytes(Connection {
            size: asked.size,
            port: destination.port(),
            asks: true,
            sends: asked.up,
            hears: asked.down,
        }),
    };
    let (side, stages) = Side::new("ping", asked, (asked.up, asked.down), spec.count, load)?;
    let process = Arc::new(prepare_process(&asked.realtime)?);
    let tables = Tables::create(&side)?;
    let (place, mut ends) = connect(&spec, &side)?;
    let local = vec![ends.lane_mut().local()];
    let header = if matches!(spec.transport, PingTransport::Ethernet { .. }) { ETHERNET_HEADER } else { 0 };
    let (stamp_key, stamps_by) = (side.stamp_key(&stages), stages.found());
    let (mut round, intake, tap) =
        Round::begin(side, stages, tables, Some(Arc::clone(&ends.lane_mut().socket)), header)?;

    let start = Arc::new(AtomicI64::new(NOT_YET));
    let asking = Asking { spec: &spec, process, start: Arc::clone(&start), shared: round.shared.clone() };
    let (realtime, threads) = match ends {
        Ends::Packets(lane, inlet) => asking.begin(Ways { lane, inlet: *inlet, intake, tap })?,
        Ends::Bytes(lane, inlet) => asking.begin(Ways { lane, inlet, intake, tap })?,
    };
    std::thread::sleep(STAMPING_STARTS);
    emit(&Event::Ready(Ready { stamp_key, stamps_by, ..session::ready("ping", realtime, local)? }));
    round.note_clocks();
    if let Some(at) = session.wait_for_start() {
        start.store(at, Ordering::Release);
        round.watch(&session, &threads.hearing);
    }
    round.shared.stop.store(true, Ordering::Relaxed);
    let heard = threads.heard(&round, &place);
    let outcome = round.finish(heard)?;
    tell(outcome);
    Ok(())
}

fn tell(outcome: Outcome) {
    let Outcome { sent, send_errors, answered, totals } = outcome;
    emit(&Event::Done(Done::Ping { sent, send_errors, answered, unanswered: sent.saturating_sub(answered), totals }));
}

/// The ends of the way to pong and back, and what to call it in messages.
fn connect(spec: &Ping, side: &Side) -> Result<(String, Ends), Failure> {
    let at_once = if spec.period_ns.is_none() { 1 } else { MAX_BATCH as usize };
    let wiring = Wiring::new(&spec.side, side, at_once, false);
    let ends = match spec.transport {
        PingTransport::Udp { source, destination } => {
            let socket = Socket::udp(source, Some(&spec.side.interface))
                .map_err(wiring.problem("check that the interface exists and has the source address (ip addr)"))?;
            socket.connect(destination).map_err(wiring.problem("check the route to pong (ip route get)"))?;
            let mut ends = wiring.datagrams(socket)?;
            if side.stamps.any() {
                ends.lane_mut().turn_to(&destination.into());
            }
            ends
        }
        PingTransport::Tcp { source, destination } => {
            let socket = wiring.tcp(source)?;
            let remedy = "check that pong listens there (ss -tln) and is reached (ip route get)";
            socket.connect_within(destination, CONNECT_TIMEOUT_MS).map_err(wiring.problem(remedy))?;
            wiring.messages(socket)?
        }
        PingTransport::Ethernet { destination, ethertype, vlan, pcp } => {
            wiring.frames(destination.0, ethertype, vlan, pcp)?
        }
    };
    Ok((wiring.place, ends))
}

/// What the hot threads are started with.
struct Asking<'a> {
    spec: &'a Ping,
    process: Arc<Process>,
    start: Arc<AtomicI64>,
    shared: Shared,
}

/// The way out and the way in, and where what goes by them is recorded.
struct Ways<I> {
    lane: Lane,
    inlet: I,
    intake: Intake,
    tap: Tap<Sent>,
}

/// The hot threads.
struct Threads {
    /// Takes answers in, and asks as well unless another does.
    hearing: JoinHandle<Option<Result<Heard, sys::Error>>>,
    /// Asks only.
    asking: Option<JoinHandle<Option<()>>>,
}

impl Threads {
    /// What was heard, once all of them are over.
    fn heard(self, round: &Round, place: &str) -> Result<Heard, Failure> {
        let heard = round.joined(self.hearing);
        if let Some(asking) = self.asking {
            round.joined(asking)?;
        }
        heard?.map_err(|error| inlet::ended(error, place))
    }
}

impl Asking<'_> {
    /// The threads, which run as was asked for and wait for the start.
    fn begin<I: Inlet + 'static>(self, ways: Ways<I>) -> Result<(RealtimeFound, Threads), Failure> {
        match (self.spec.period_ns, self.spec.side.mode) {
            (None, _) => self.closed(ways),
            (Some(period_ns), Mode::Spin) => self.spinning(period_ns, ways),
            (Some(period_ns), Mode::Block | Mode::BusyPoll) => self.sleeping(period_ns, ways),
        }
    }

    /// One thread: the answer's arrival starts the next question.
    fn closed<I: Inlet + 'static>(self, ways: Ways<I>) -> Result<(RealtimeFound, Threads), Failure> {
        let Ways { lane, mut inlet, mut intake, tap } = ways;
        let Self { spec, process, start, shared } = self;
        let asked = &spec.side;
        let mut outlet = Outlet::new(lane, asked.run_id, tap, Arc::clone(&shared.counters));
        let wait = if asked.mode == Mode::Spin { Wait::Never } else { Wait::Block };
        let pace = closed::Pace {
            offset_ns: spec.offset_ns,
            duration_ns: spec.duration_ns,
            timeout_ns: spec.timeout_ns,
            busy_wait_ns: asked.busy_wait_ns,
        };
        let (realtime, hearing) = hot("ping", &asked.realtime, &process, move || {
            let answered = match started(&start, &shared) {
                Some(at) => closed::run(&mut outlet, &mut inlet, &mut intake, wait, at, &pace, &shared)?,
                None => 0,
            };
            Heard::new(intake, &inlet, answered)
        })?;
        Ok((realtime, Threads { hearing, asking: None }))
    }

    /// One thread that never sleeps, and so need not choose between its clock and its socket.
    fn spinning<I: Inlet + 'static>(self, period_ns: i64, ways: Ways<I>) -> Result<(RealtimeFound, Threads), Failure> {
        let Ways { lane, mut inlet, mut intake, tap } = ways;
        let Self { spec, process, start, shared } = self;
        let asked = &spec.side;
        let mut sender = Sender::new(vec![lane], asked.run_id, 0, tap, Arc::clone(&shared.counters));
        let (timeout_ns, agenda) = (spec.timeout_ns, agenda(spec, period_ns));
        let (realtime, hearing) = hot("ping", &asked.realtime, &process, move || {
            if let Some(at) = started(&start, &shared) {
                open::spin(&mut sender, &mut agenda(at), &mut inlet, &mut intake, timeout_ns, &shared.stop)?;
            }
            let answered = intake.received();
            Heard::new(intake, &inlet, answered)
        })?;
        Ok((realtime, Threads { hearing, asking: None }))
    }

    /// Two threads: one sleeps until a question is due, the other until there is an answer.
    fn sleeping<I: Inlet + 'static>(self, period_ns: i64, ways: Ways<I>) -> Result<(RealtimeFound, Threads), Failure> {
        let Ways { lane, mut inlet, mut intake, tap } = ways;
        let Self { spec, process, start, shared } = self;
        let asked = &spec.side;
        let mut sender = Sender::new(vec![lane], asked.run_id, asked.busy_wait_ns, tap, Arc::clone(&shared.counters));
        let (timeout_ns, agenda) = (spec.timeout_ns, agenda(spec, period_ns));
        let hearing_shares = shared.clone();
        let (_, asking) = hot("ping", &asked.realtime, &process, move || {
            if let Some(at) = started(&start, &shared) {
                sender.run(&mut agenda(at), &shared.stop);
                shared.give_up_tai_ns.store(sys::clock::tai_ns().saturating_add(timeout_ns), Ordering::Relaxed);
            }
        })?;
        let (realtime, hearing) = hot("ping", &asked.realtime, &process, move || {
            open::take_in(&mut inlet, &mut intake, &hearing_shares)?;
            let answered = intake.received();
            Heard::new(intake, &inlet, answered)
        })?;
        Ok((realtime, Threads { hearing, asking: Some(asking) }))
    }
}

/// The questions' agenda, given the start.
fn agenda(spec: &Ping, period_ns: i64) -> impl Fn(i64) -> Agenda + Send + use<> {
    let (offset_ns, count) = (spec.offset_ns, spec.count.unwrap_or(0));
    move |start_tai_ns| {
        let first_launch_tai_ns = start_tai_ns + offset_ns;
        Agenda::new(vec![Schedule { first_launch_tai_ns, period_ns, count, lead_ns: 0, batch: 1 }])
    }
}

/// Waits for the start, CLOCK_TAI ns; None if there is to be none.
fn started(start: &AtomicI64, shared: &Shared) -> Option<i64> {
    loop {
        match start.load(Ordering::Acquire) {
            NOT_YET if shared.stop.load(Ordering::Relaxed) => return None,
            NOT_YET => std::thread::sleep(Duration::from_millis(1)),
            at => return Some(at),
        }
    }
}
