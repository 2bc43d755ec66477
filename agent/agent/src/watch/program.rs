//! The BPF programs that see packets come in and leave, be sent and received, and dropped: loaded, told the points and tests,
//! attached, their records read.

use crate::programs::{
    Function, READABLE, Records, Room, kernel_types, linked, map, skipped, start, start_all, start_at_function, why,
};
use aya::maps::{HashMap, MapData, PerCpuArray};
use aya::{Btf, EbpfLoader};
use wire::event::OtherFlow;
use wire::in_c::defined;
use wire::spec::{Watch as Spec, WatchPoint};
use wire::watch::{DROP_BYTES, OTHER_BYTES, Other, RECORD_BYTES, Record, filter_table, slot_table, test_table};

static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/watch-rings.bpf.o"));
/// The same for kernels that do not have what our own rings take: their own ring, which costs a call.
static OF_OLDER: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/watch.bpf.o"));
/// What stands in for the bytes of a slot: maps have their size in the object.
const SLOT_BYTES: u32 = defined(include_str!("../../../bpf/watch.bpf.c"), "SLOT_BYTES");

const PROGRAMS: [(&str, &str); 2] = [("watch_in", "netif_receive_skb"), ("watch_out", "net_dev_start_xmit")];
/// What is read from taps.
const OF_READ: (&str, &str) = ("watch_read", "skb_copy_datagram_iovec");
/// What programs send. Every system call passes the last one: it is not attached where the other cannot be.
const OF_SENT: [(&str, &str); 2] = [("watch_sent", "net_dev_queue"), ("watch_call", "sys_enter")];
/// What they receive, by functions of the kernel.
const OF_TAKEN: [(&str, &str); 2] = [("taken_datagram", "skb_consume_udp"), ("taken_packet", "skb_free_datagram")];
/// The same where the kernel lets no program there, by tracepoints, which are there from Linux 6.3 on. Every packet that comes to a
/// socket passes the last one.
const OF_RECEIVED: [(&str, &str); 2] = [("watch_received", "sock_recv_length"), ("watch_queued", "sk_data_ready")];
/// What the tracepoint tells grew over time: with the socket that was to receive (6.11), with the reason (5.17), with neither.
const OF_DROPS: [(&str, &str); 3] =
    [("dropped_at_socket", "kfree_skb"), ("dropped_for_reason", "kfree_skb"), ("dropped_somewhere", "kfree_skb")];
const WITHOUT_REASON: &str = "dropped_somewhere";
/// Sockets with a packet in their queue, at most; of more those that were not used for longest are forgotten.
const SOCKETS: u32 = defined(include_str!("../../../bpf/watch_sockets.h"), "MAX_SOCKETS");
/// The kernel's functions that the programs call: they read packets whose bytes lie in pages, and memory of the kernel's without a call.
const CALLED: [Function; 2] = [("bpf_dynptr_from_skb", 0x4c41_544c), READABLE];

/// The programs, in force as long as this lives: the kernel takes them off when the process ends, however it ends.
pub struct Programs {
    /// Records are made by CLOCK_TAI, else by CLOCK_MONOTONIC.
    pub tai: bool,
    /// What of a packet lies in pages is read, too.
    pub reads_pages: bool,
    /// Drops are recorded, with the kernel's reasons or without; Err: why they are not; None: they were not asked for.
    pub drops: Option<Result<bool, String>>,
    /// What of the sockets that are asked for is not seen, and why.
    pub missing: Vec<String>,
    records: Records,
    passed: PerCpuArray<MapData, u64>,
    unread: PerCpuArray<MapData, u64>,
    others: HashMap<MapData, [u8; OTHER_BYTES], u64>,
    object: aya::Ebpf,
}

impl Programs {
    /// Attached.
    ///
    /// # Errors
    /// The kernel does not let them be; why.
    pub fn attach(spec: &Spec) -> Result<Self, String> {
        // Before 6.1 the kernel has no bpf_ktime_get_tai_ns, before 6.12 no packets' pages for tracepoints, before 5.12 (5.18 for ARM)
        // not what own rings take: it refuses whatever has them.
        let (tai, pages, own_rings) = (true, true, true);
        Self::attach_by(spec, tai, pages, own_rings)
            .or_else(|_| Self::attach_by(spec, tai, !pages, own_rings))
            .or_else(|_| Self::attach_by(spec, !tai, !pages, own_rings))
            .or_else(|_| Self::attach_by(spec, !tai, !pages, !own_rings))
    }

    fn attach_by(spec: &Spec, tai: bool, reads_pages: bool, own_rings: bool) -> Result<Self, String> {
        let kernel = kernel_types()?;
        let snap = spec.snap.next_multiple_of(size_of::<u64>());
        let has_sockets = spec.points.iter().any(WatchPoint::is_sockets);
        let bytes = snap + if spec.drops { DROP_BYTES } else { RECORD_BYTES };
        let mut code = linked(if own_rings { OBJECT } else { OF_OLDER }, &CALLED, reads_pages, &kernel)?;
        replace(&mut code, SLOT_BYTES, bytes as u32);
        let room = Room::new(own_rings, spec.ring_records, bytes)?;
        let (slots, tests) = (slot_table(&spec.points), test_table(&spec.flow));
        let (filter_length, filter) = filter_table(&spec.flow);
        let mut object = room
            .set(
                EbpfLoader::new()
                    .btf(Some(&kernel))
                    .set_global("use_tai", &u32::from(tai), true)
                    .set_global("reads_pages", &u32::from(reads_pages), true)
                    .set_global("sampled_below", &spec.sampled_below(), true)
                    .set_global("snap", &(snap as u32), true)
                    .set_global("slots", slots.as_slice(), true)
                    .set_global("tests", tests.as_slice(), true)
                    .set_global("filter_length", &filter_length, true)
                    .set_global("filter", filter.as_slice(), true)
                    .set_max_entries("queued", if has_sockets { SOCKETS } else { 1 }),
            )
            .load(&code)
            .map_err(|error| why(&error))?;
        let (records, passed) = (Records::of(&mut object, &room)?, map(&mut object, "passed")?);
        let (unread, others) = (map(&mut object, "unread")?, map(&mut object, "others")?);
        let missing = if has_sockets { start_sockets(&mut object, &kernel) } else { Vec::new() };
        let drops = spec.drops.then(|| start_drops(&mut object, &kernel));
        if spec.points.iter().any(|point| point.read) {
            start(&mut object, OF_READ, &kernel)?;
        }
        for one in PROGRAMS {
            start(&mut object, one, &kernel)?;
        }
        Ok(Self { tai, reads_pages, drops, missing, records, passed, unread, others, object })
    }

    /// What is made of the next record; None: there is none now.
    pub fn next<T>(&mut self, mut read: impl FnMut(&Record<'_>) -> Option<T>) -> Option<T> {
        self.records.next(|bytes| read(&Record::read(bytes)?))
    }

    /// How many packets have no record: there was no room, or the kernel did not run the program.
    pub fn lost(&self) -> u64 {
        self.records.lost() + skipped(&self.object)
    }

    /// How many packets of the flow passed a point, recorded or not. `out`: left there; else they came in.
    pub fn passed(&self, point: usize, out: bool) -> u64 {
        let entry = (2 * point + usize::from(out)) as u32;
        self.passed.get(&entry, 0).map_or(0, |cpus| cpus.iter().sum())
    }

    /// How many packets programs received at a point of sockets before they could be read.
    pub fn unread(&self, point: usize) -> u64 {
        self.unread.get(&(point as u32), 0).map_or(0, |cpus| cpus.iter().sum())
    }

    /// The flows that the tests rejected, with their packets until one was first accepted there.
    pub fn others(&self) -> Vec<OtherFlow> {
        let flows = self.others.iter().filter_map(Result::ok);
        flows.map(|(flow, packets)| OtherFlow { packets, flow: Other::read(&flow) }).collect()
    }
}

/// Replaces a number wherever it is in the object.
fn replace(object: &mut [u8], number: u32, by: u32) {
    let (number, by) = (number.to_le_bytes(), by.to_le_bytes());
    let mut at = 0;
    while let Some(found) = object[at..].windows(number.len()).position(|bytes| bytes == number) {
        at += found;
        object[at..at + by.len()].copy_from_slice(&by);
    }
}

/// Attaches the programs that see what programs send and receive; what of it is not seen, and why.
fn start_sockets(object: &mut aya::Ebpf, kernel: &Btf) -> Vec<String> {
    let sent = start_all(object, &OF_SENT, kernel);
    let [datagrams, others] = OF_TAKEN;
    let received = match start_at_function(object, datagrams, kernel) {
        Ok(()) => ("receive, but for UDP,", start_at_function(object, others, kernel)),
        Err(_) => ("receive", start_all(object, &OF_RECEIVED, kernel)),
    };
    let refused = [("send", sent), received];
    let refused = refused.into_iter().filter_map(|(what, result)| Some((what, result.err()?)));
    refused.map(|(what, why)| format!("what programs {what} is not seen: {why}")).collect()
}

/// Attaches the program that tells most of drops of those that this kernel takes; whether with reasons.
///
/// # Errors
/// It takes none; why.
fn start_drops(object: &mut aya::Ebpf, kernel: &Btf) -> Result<bool, String> {
    let mut refused = String::new();
    for one in OF_DROPS {
        match start(object, one, kernel) {
            Ok(()) => return Ok(one.0 != WITHOUT_REASON),
            Err(why) => refused = why,
        }
    }
    Err(refused)
}
