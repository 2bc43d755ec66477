//! The kernel's timestamps of packets by BPF programs at its tracepoints: who takes which, and how they come to their rows.
//!
//! The socket's own way costs a packet a copy, which comes back to the socket, and a thread that reads it. A program writes
//! 16 bytes into its CPU's ring, which wakes nobody; the thread that writes the recordings comes round and empties the rings.

mod interfaces;
mod program;

use crate::recording::{Feed, Recorder, Tap};
use program::{Looked, Programs};
use rtrb::Consumer;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use sys::clock::{Clock, now_ns, tai_ns};
use sys::socket::Socket;
use wire::dds::{HELLO, LARGEST_IN_ONE};
use wire::event::{Failure, StampsFound};
use wire::iec61850::{Prefixes, prefixes_of};
use wire::record::{Received, Stamp};
use wire::sequence::{Arrival, Sequences};
use wire::spec::{Stamps, StampsBy};
use wire::stage::{self, Arrivals, Came, Comparison, Messages, Packet, Record, Stage, StageTotals};

/// Longer than any frame whose payload the kernel is sure to keep in one piece with its headers (`packet_snd`,
/// net/packet/af_packet.c, splits what does not fit into a page).
const LARGEST_FRAME: usize = 3072;
/// So long a packet has its payload in one piece with its headers: the kernel puts that of a longer one into pages where the card
/// takes such (`__ip_append_data`, net/ipv4/ip_output.c: `SKB_MAX_ALLOC`, four pages less what stands around a packet).
const LARGEST_PIECE: usize = 15 * 1024;
/// Datagrams carry these before the probe: IPv4 or IPv6, and UDP.
const IPV4_UDP: usize = 28;
const IPV6_UDP: usize = 48;
/// So long a received packet's row waits for its timestamp: another CPU's record may be in the making before it.
const PATIENCE_NS: i64 = 50_000_000;
/// So often whoever waits for the last timestamps looks whether they are there.
const LOOK: Duration = Duration::from_millis(2);

/// What goes by an interface.
#[derive(Clone, Copy, Debug)]
pub enum Load {
    /// Datagrams of probes of this many bytes; `ipv6`: over IPv6.
    Datagrams { size: usize, ipv6: bool },
    /// Frames with probes of this many bytes; `prefix`: so many are between EtherType and probe.
    Frames { size: usize, prefix: usize },
    /// Messages over a TCP connection.
    Bytes(Connection),
    /// Samples with probes of this many bytes, which Cyclone DDS sends.
    Samples {
        size: usize,
        /// Number of the stream that comes in here.
        hears: u16,
    },
    /// Frames in which no program recognises the probe: what they are.
    Unrecognised(&'static str),
}

/// A TCP connection of messages of one size, of which whoever asks sends one for each that it gets.
#[derive(Clone, Copy, Debug)]
pub struct Connection {
    /// Bytes of a message.
    pub size: usize,
    /// The answerer's port.
    pub port: u16,
    /// This is who asks.
    pub asks: bool,
    /// Number of the stream that goes out here.
    pub sends: u16,
    /// Number of the stream that comes in here.
    pub hears: u16,
}

/// The frames of one copy have the number of the other's stream.
pub const OF_PRP: Load = Load::Unrecognised("which copy of a PRP pair a frame is");

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// Who is to take timestamps.
    pub by: StampsBy,
    /// Whose packets.
    pub run_id: u64,
    /// Records of each stage that there is to be room for.
    pub records: usize,
    /// What goes out, and by which interfaces.
    pub out: &'a [(&'a str, Load)],
    /// What comes in.
    pub back: &'a [(&'a str, Load)],
    /// Which timestamps.
    pub stages: &'a [Stage],
}

/// Who takes which timestamps.
pub struct Stages {
    by: StampsBy,
    asked: Vec<Stage>,
    programs: Option<Programs>,
    missing: Vec<String>,
    connection: Option<Connection>,
    /// Of samples: the number of the stream that comes in here.
    hears: Option<u16>,
}

impl Stages {
    /// Programs for what is asked for, as far as the kernel has them.
    ///
    /// # Errors
    /// They are to take all that is asked for, and cannot.
    pub fn open(asked: &Asked) -> Result<Self, Failure> {
        let &Asked { by, run_id, records, out, back, stages } = asked;
        let (mut missing, mut wanted) = (Vec::new(), Vec::new());
        let prefixes = prefixes(out.iter().chain(back));
        if by != StampsBy::Socket {
            for stage in stages {
                let loads = if *stage == Stage::RxSoft { back } else { out };
                let unseen = loads.iter().find_map(|(interface, load)| unseen(*stage, interface, *load));
                let too_many = || prefixes.is_none().then(|| TOO_MANY.into());
                match unseen.or_else(too_many) {
                    Some(why) => missing.push((*stage, why)),
                    None => wanted.push(*stage),
                }
            }
        }
        let mut programs = None;
        let (mut whole_interface, mut connection, mut hears) = (None, None, None);
        for (interface, load) in out {
            match load {
                Load::Bytes(one) => (whole_interface, connection) = (Some(*interface), Some(*one)),
                Load::Samples { hears: stream, .. } => (whole_interface, hears) = (Some(*interface), Some(*stream)),
                _ => {}
            }
        }
        if matches!(by, StampsBy::Socket | StampsBy::Both) {
            let why = match (connection, hears) {
                (Some(_), _) => Some(OF_BYTES),
                (_, Some(_)) => Some(OF_CYCLONE),
                _ => None,
            };
            missing.extend(why.into_iter().flat_map(|why| stages.iter().map(move |stage| (*stage, why.into()))));
        }
        if !wanted.is_empty() {
            let backlog = back.iter().all(|(interface, _)| interfaces::fills_backlog(interface));
            let (attached, refused) = Programs::attach(
                &wanted,
                backlog,
                run_id,
                records.saturating_mul(wanted.len()),
                &Looked {
                    prefixes: prefixes.unwrap_or_default(),
                    out: whole_interface,
                    connection,
                    may_be_cut: hears.is_some(),
                },
            );
            missing.extend(refused);
            programs = attached;
        }
        let missing = in_words(&missing);
        if let (StampsBy::Ebpf | StampsBy::Both, false) = (by, missing.is_empty()) {
            return Err(Failure {
                what: missing.join("; "),
                place: "timestamps by eBPF".into(),
                remedy: "see to that, or ask for auto or socket".into(),
                errno: None,
            });
        }
        Ok(Self { by, asked: stages.to_vec(), programs, missing, connection, hears })
    }

    /// Whether programs take this timestamp.
    pub fn take(&self, stage: Stage) -> bool {
        self.programs.as_ref().is_some_and(|programs| programs.stages.contains(&stage))
    }

    /// Whether the socket is to take this timestamp, which is `wanted`.
    pub fn left(&self, stage: Stage, wanted: bool) -> bool {
        wanted && self.socket_can() && (self.by == StampsBy::Both || !self.take(stage))
    }

    /// Whether a socket of ours has timestamps of each message: those of TCP are of bytes, and DDS sends by others.
    fn socket_can(&self) -> bool {
        self.connection.is_none() && self.hears.is_none()
    }

    /// Of these transmit timestamps those that the socket is to take.
    pub fn left_of(&self, stamps: &Stamps) -> Stamps {
        Stamps {
            sched: self.left(Stage::TxSched, stamps.sched),
            software: self.left(Stage::TxSoft, stamps.software),
            hardware: stamps.hardware && self.socket_can(),
            ..stamps.clone()
        }
    }

    /// As the lab is told; None: nobody was asked for any.
    pub fn found(&self) -> Option<StampsFound> {
        let by = |stage: Stage| {
            if !self.asked.contains(&stage) {
                return None;
            }
            match (self.take(stage), self.by) {
                (true, StampsBy::Both) => Some("both"),
                (true, _) => Some("ebpf"),
                (false, _) => self.socket_can().then_some("socket"),
            }
        };
        let clock = |programs: &Programs| if programs.tai { "CLOCK_TAI" } else { "CLOCK_MONOTONIC" };
        (!self.asked.is_empty()).then(|| StampsFound {
            tx_sched: by(Stage::TxSched),
            tx_soft: by(Stage::TxSoft),
            rx_soft: by(Stage::RxSoft),
            clock: self.programs.as_ref().map(clock),
            missing: self.missing.clone(),
        })
    }

    /// Packets that this socket sends, which is bound to the interface, are stamped from now on.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn add_sender(&mut self, socket: &Socket, interface: &str) -> Result<(), Failure> {
        if !(self.take(Stage::TxSched) || self.take(Stage::TxSoft)) {
            return Ok(());
        }
        let Some(programs) = &mut self.programs else { return Ok(()) };
        let known = |error: sys::Error| error.to_string();
        let index = sys::socket::interface_index(interface).map_err(known);
        let result = socket.cookie().map_err(known).and_then(|cookie| programs.add_sender(cookie, index?));
        result.map_err(|what| failed(what, interface))
    }

    /// Packets that come in for this interface are stamped from now on.
    ///
    /// # Errors
    /// There is no such interface; the kernel refuses.
    pub fn add_arrival(&mut self, interface: &str) -> Result<(), Failure> {
        if !self.take(Stage::RxSoft) {
            return Ok(());
        }
        let Some(programs) = &mut self.programs else { return Ok(()) };
        let found = interfaces::entries(interface);
        let add = || {
            for entry in found.map_err(|error| error.to_string())? {
                programs.add_arrival(entry)?;
            }
            let merges = self.connection.is_some() || interfaces::merge_datagrams(interface);
            if merges { programs.look_before_merging() } else { Ok(()) }
        };
        add().map_err(|what| failed(what, interface))
    }
}

/// Why sockets have none of TCP's messages, or of samples.
const OF_BYTES: &str = "the socket's timestamps of TCP are of bytes, not of messages";
const OF_CYCLONE: &str = "samples are sent by sockets of Cyclone DDS, which keep no timestamps";
/// More programs do not look for.
const TOO_MANY: &str = "frames of IEC 61850 have the probe at more than two places";
/// What stands before the probe in a datagram of Cyclone's with one sample (DDSI-RTPS 2.5, section 9.4): header (20), INFO_TS
/// (12), DATA without inline QoS (24), encapsulation (4), length of the sequence (4); what is sent again to one reader, or to
/// the only one, has INFO_DST (16) in addition.
const BEFORE_SAMPLES: [usize; 2] = [64, 80];

/// The places at which packets have the probe, but for the one right behind EtherType or UDP's header; None: there are too many.
fn prefixes<'a>(loads: impl Iterator<Item = &'a (&'a str, Load)>) -> Option<Prefixes> {
    prefixes_of(loads.flat_map(|(_, load)| match load {
        Load::Frames { prefix, .. } => vec![*prefix],
        Load::Samples { .. } => BEFORE_SAMPLES.to_vec(),
        _ => Vec::new(),
    }))
}

/// Why a program cannot see the sequence of such a packet at this stage; None: it can.
fn unseen(stage: Stage, interface: &str, load: Load) -> Option<String> {
    let in_pages = |bytes: usize| {
        let bytes = bytes.min(interfaces::mtu(interface)?);
        (bytes > LARGEST_PIECE)
            .then(|| format!("a packet of {bytes} bytes is not in one piece in memory; {LARGEST_PIECE} are"))
    };
    let headers = |ipv6| if ipv6 { IPV6_UDP } else { IPV4_UDP };
    match (stage, load) {
        (Stage::RxSoft, Load::Datagrams { size, ipv6 }) => {
            let bytes = size + headers(ipv6);
            let mtu = interfaces::mtu(interface)?;
            // The socket's timestamp is that of the last fragment, which has no sequence.
            (bytes > mtu).then(|| format!("a datagram of {bytes} bytes comes in fragments (MTU {mtu} of {interface})"))
        }
        (_, Load::Frames { size, prefix }) => {
            let bytes = size + prefix;
            (bytes > LARGEST_FRAME)
                .then(|| format!("a frame of {bytes} bytes is not in one piece in memory; {LARGEST_FRAME} are"))
        }
        (Stage::TxSched | Stage::TxSoft, Load::Datagrams { size, ipv6 }) => in_pages(size + headers(ipv6)),
        (_, Load::Bytes(_)) => None,
        (_, Load::Samples { size, .. }) if size > LARGEST_IN_ONE => {
            Some(format!("a sample of {size} bytes is sent in several datagrams; of {LARGEST_IN_ONE} in one"))
        }
        (_, Load::Samples { size, .. }) => in_pages(size + IPV4_UDP + BEFORE_SAMPLES[0]),
        (_, Load::Unrecognised(what)) => Some(format!("programs do not recognise {what}")),
    }
}

/// Which timestamps the socket takes instead, one line a reason.
fn in_words(missing: &[(Stage, String)]) -> Vec<String> {
    let mut reasons: Vec<&String> = missing.iter().map(|(_, why)| why).collect();
    reasons.dedup();
    let line = |why: &String| {
        let stamps = missing.iter().filter(|(_, other)| other == why).map(|(stage, _)| stage.name());
        format!("no {} by eBPF: {why}", stamps.collect::<Vec<_>>().join(", "))
    };
    reasons.into_iter().map(line).collect()
}

fn failed(what: String, interface: &str) -> Failure {
    Failure {
        what,
        place: format!("timestamps by eBPF on {interface}"),
        remedy: "ask for the socket's timestamps".into(),
        errno: None,
    }
}

/// How many transmit timestamps each stream has.
#[derive(Default)]
pub struct Counted {
    /// The stream's number.
    stream: u16,
    sched: AtomicU64,
    soft: AtomicU64,
}

/// The tables that timestamps are in.
#[derive(Default)]
pub struct Taps {
    /// Of packets that leave.
    pub stamps: Option<Tap<Stamp>>,
    /// Of packets that came in.
    pub received: Option<Tap<Received>>,
}

/// Who fills them.
pub struct Fed {
    /// For whoever waits for the last timestamps of programs; None: there are none of packets that leave or come in.
    pub watch: Option<Watch>,
    /// What the socket's timestamps and received packets are handed to: the tables, or whoever brings timestamps to them.
    pub taps: Taps,
}

/// The tables that timestamps are brought to, and what is brought there from.
#[derive(Default)]
struct Rows {
    stamps: Option<Tap<Stamp>>,
    /// The socket's timestamps of packets that leave, where it takes some as well.
    of_socket: Option<Consumer<Stamp>>,
    received: Option<(Consumer<Received>, Tap<Received>)>,
}

/// The timestamps while they are taken, for whoever waits for the last of them.
pub struct Watch {
    streams: Arc<Vec<Counted>>,
    totals: Arc<Mutex<Option<StageTotals>>>,
    sched: bool,
    soft: bool,
}

impl Watch {
    /// Waits, `timeout` at most, until each stream has as many timestamps as packets were `sent` through it and were `left`
    /// by its qdisc.
    pub fn wait(&self, packets: &[(u64, u64)], timeout: Duration) {
        let deadline = Instant::now() + timeout;
        let complete = || {
            self.streams.iter().zip(packets).all(|(counted, (sent, left))| {
                (!self.sched || counted.sched.load(Ordering::Relaxed) >= *sent)
                    && (!self.soft || counted.soft.load(Ordering::Relaxed) >= *left)
            })
        };
        while !complete() && Instant::now() < deadline {
            std::thread::sleep(LOOK);
        }
    }

    /// Timestamps of the stream at this place, once the recordings are finished: entering the qdisc layer, handed to the
    /// driver. None: the socket's.
    pub fn counts(&self, place: usize) -> (Option<u64>, Option<u64>) {
        let counted = &self.streams[place];
        let of = |taken: bool, count: &AtomicU64| taken.then(|| count.load(Ordering::Relaxed));
        (of(self.sched, &counted.sched), of(self.soft, &counted.soft))
    }

    /// What came of the programs, once the recordings are finished.
    pub fn totals(&self) -> Option<StageTotals> {
        self.totals.lock().ok().and_then(|mut totals| totals.take())
    }
}

impl Stages {
    /// Has the recorder's thread bring the programs' timestamps to the tables of `taps`. `sends`: the streams that go out;
    /// `collects`: the socket's error queue is read as well; `capacity`: rows of the rings between the threads.
    pub fn feed(self, recorder: &mut Recorder, sends: &[u16], taps: Taps, collects: bool, capacity: usize) -> Fed {
        let (sched, soft, arrives) = (self.take(Stage::TxSched), self.take(Stage::TxSoft), self.take(Stage::RxSoft));
        let Some(programs) = self.programs else { return Fed { watch: None, taps } };
        let (mut rows, mut hot) = (Rows::default(), taps);
        if sched || soft {
            rows.stamps = hot.stamps.take();
            if collects {
                let (tap, of_socket) = recorder.ring(2 * capacity);
                (hot.stamps, rows.of_socket) = (Some(tap), Some(of_socket));
            }
        }
        if let Some(table) = hot.received.take_if(|_| arrives) {
            let (tap, received) = recorder.ring(capacity);
            (hot.received, rows.received) = (Some(tap), Some((received, table)));
        }
        let streams = sends.iter().map(|stream| Counted { stream: *stream, ..Counted::default() });
        let streams: Arc<Vec<Counted>> = Arc::new(streams.collect());
        let totals = Arc::new(Mutex::new(None));
        recorder.feed(Box::new(Bringer {
            realtime: Realtime::new(programs.tai),
            programs,
            rows,
            waiting: VecDeque::new(),
            arrivals: Arrivals::default(),
            comparison: (self.by == StampsBy::Both).then(Comparison::default),
            connection: self.connection.map(|connection| (connection, Messages::new(connection.size))),
            samples: self.hears.map(|stream| (stream, [(); Stage::ALL.len()].map(|()| Sequences::endless()))),
            streams: Arc::clone(&streams),
            lost: 0,
            full: recorder.full(),
            totals: Arc::clone(&totals),
        }));
        Fed { watch: Some(Watch { streams, totals, sched, soft }), taps: hot }
    }
}

/// Brings timestamps into their rows.
struct Bringer {
    programs: Programs,
    rows: Rows,
    /// Packets that came in and have no timestamp yet.
    waiting: VecDeque<Received>,
    arrivals: Arrivals,
    comparison: Option<Comparison>,
    connection: Option<(Connection, Messages)>,
    /// Of samples: the stream that comes in, and which of each stage were there.
    samples: Option<(u16, [Sequences; Stage::ALL.len()])>,
    streams: Arc<Vec<Counted>>,
    realtime: Realtime,
    lost: u64,
    full: Arc<AtomicU64>,
    totals: Arc<Mutex<Option<StageTotals>>>,
}

impl Feed for Bringer {
    fn bring(&mut self, last: bool) -> bool {
        self.realtime.look();
        // Rows first: a packet's record is written before its receiver has it.
        let more_rows = self.take_rows();
        let more_records = self.take_records();
        let more_stamps = self.pass_on();
        self.complete(last);
        let lost = self.programs.lost();
        self.full.fetch_add(lost - self.lost, Ordering::Relaxed);
        self.lost = lost;
        more_rows || more_records || more_stamps
    }

    fn end(&mut self) {
        let compared = self.comparison.take().map(Comparison::figures).unwrap_or_default();
        if let Ok(mut totals) = self.totals.lock() {
            *totals = Some(StageTotals { lost: self.lost, compared });
        }
    }
}

impl Bringer {
    /// Takes as many received packets as their table has room for; whether there are more.
    fn take_rows(&mut self) -> bool {
        let Some((rows, table)) = &mut self.rows.received else { return false };
        let room = table.room().saturating_sub(self.waiting.len());
        for _ in 0..room {
            let Ok(row) = rows.pop() else { return false };
            self.waiting.push_back(row);
        }
        !rows.is_empty()
    }

    /// Takes as many records as the table has room for; whether there are more.
    fn take_records(&mut self) -> bool {
        let room = self.rows.stamps.as_ref().map_or(usize::MAX, Tap::room);
        for _ in 0..room {
            let Some(record) = self.programs.next() else { return false };
            self.place(record);
        }
        true
    }

    fn place(&mut self, record: Record) {
        let Record { ns, stage, came } = record;
        let real_ns = self.realtime.of(ns);
        match (came, &mut self.connection) {
            (Came::Packet(packet), _) => {
                if self.is_first(stage, packet) {
                    self.note(stage, packet, real_ns);
                }
            }
            (Came::Bytes(segment), Some((connection, messages))) => {
                let stream = if stage == Stage::RxSoft { connection.hears } else { connection.sends };
                for number in messages.whole(stage, segment) {
                    self.note(stage, stage::packet(stream, number), real_ns);
                }
            }
            (Came::Bytes(_), None) => {}
        }
    }

    /// Whether the packet counts: of samples those of our two streams, each once however often it is sent.
    fn is_first(&mut self, stage: Stage, (stream, sequence): Packet) -> bool {
        let Some((hears, seen)) = &mut self.samples else { return true };
        let ours = match stage {
            Stage::RxSoft => stream == *hears,
            Stage::TxSched | Stage::TxSoft => self.streams.iter().any(|counted| counted.stream == stream),
        };
        let is_hello = sequence == HELLO as u32;
        ours && !is_hello
            && matches!(seen[stage as usize].arrive(sequence.into()), Arrival::InOrder | Arrival::Reordered)
    }

    fn note(&mut self, stage: Stage, packet: Packet, real_ns: i64) {
        if let Some(comparison) = &mut self.comparison {
            comparison.ebpf(stage, packet, real_ns);
        }
        let (Some(row), Some(stamps)) = (stage::row(stage, packet, real_ns), &mut self.rows.stamps) else {
            return self.arrivals.note(packet, real_ns);
        };
        if let Some(counted) = self.streams.iter().find(|counted| counted.stream == row.stream) {
            let counter = if stage == Stage::TxSched { &counted.sched } else { &counted.soft };
            counter.fetch_add(1, Ordering::Relaxed);
            stamps.push(row);
        }
    }

    /// Passes the socket's timestamps on that programs do not take; whether there are more.
    fn pass_on(&mut self) -> bool {
        let Self { rows, comparison, programs, .. } = self;
        let (Some(socket), Some(stamps)) = (&mut rows.of_socket, &mut rows.stamps) else { return false };
        while stamps.room() > 0 {
            let Ok(row) = socket.pop() else { return false };
            match (Stage::of(row.kind).filter(|stage| programs.stages.contains(stage)), &mut *comparison) {
                (Some(stage), Some(comparison)) => {
                    comparison.socket(stage, stage::packet(row.stream, row.sequence), row.stamp_ns);
                }
                (Some(_), None) => {}
                (None, _) => stamps.push(row),
            }
        }
        !socket.is_empty()
    }

    /// Gives received packets their timestamps, in their order; `last`: none is waited for.
    fn complete(&mut self, last: bool) {
        let Some((_, table)) = &mut self.rows.received else { return };
        let patient_since = if last { i64::MAX } else { tai_ns() - PATIENCE_NS };
        while let Some(row) = self.waiting.front() {
            let found = self.arrivals.take(row);
            if found.is_none() && row.rx_user_tai_ns > patient_since {
                return;
            }
            if let (Some(comparison), Some(socket_ns)) = (&mut self.comparison, row.rx_soft_real_ns) {
                comparison.socket(Stage::RxSoft, stage::packet(row.stream, row.sequence), socket_ns);
            }
            table.push(Received { rx_soft_real_ns: found, ..*row });
            self.waiting.pop_front();
        }
    }
}

/// Makes readings of the programs' clock such of CLOCK_REALTIME, as the kernel's other timestamps of packets are.
struct Realtime {
    tai: bool,
    /// CLOCK_REALTIME less the programs' clock.
    offset_ns: i64,
    /// By how much that may be wrong.
    bracket_ns: i64,
}

/// Of several tries the tightest is kept.
const TRIES: usize = 5;

impl Realtime {
    fn new(tai: bool) -> Self {
        let mut new = Self { tai, offset_ns: 0, bracket_ns: i64::MAX };
        new.look();
        new
    }

    /// Looks how the clocks stand to each other now. Between CLOCK_TAI and CLOCK_REALTIME are whole seconds; from
    /// CLOCK_MONOTONIC either differs by the same as long as nobody sets them.
    fn look(&mut self) {
        if self.tai {
            if let Ok(seconds) = sys::clock::tai_offset_s() {
                self.offset_ns = -i64::from(seconds) * 1_000_000_000;
            }
            return;
        }
        let look = || {
            let before = now_ns(Clock::Monotonic);
            let real = now_ns(Clock::Realtime);
            let after = now_ns(Clock::Monotonic);
            (after - before, real - before - (after - before) / 2)
        };
        let Some((bracket_ns, offset_ns)) = (0..TRIES).map(|_| look()).min() else { return };
        let was_set = (offset_ns - self.offset_ns).abs() > self.bracket_ns.saturating_add(bracket_ns);
        if was_set || bracket_ns < self.bracket_ns {
            (self.offset_ns, self.bracket_ns) = (offset_ns, bracket_ns);
        }
    }

    fn of(&self, ns: i64) -> i64 {
        ns + self.offset_ns
    }
}
