//! The BPF programs at the kernel's tracepoints: loaded, attached, told whose packets to look at.

use crate::programs::{READABLE, Records, Room, kernel_types, linked, map, start, why};
use crate::session::network_namespace;
use crate::stages::Connection;
use aya::maps::{Array, HashMap, MapData};
use aya::{Btf, Ebpf, EbpfLoader};
use wire::iec61850::Prefixes;
use wire::in_c::defined;
use wire::stage::{RECORD_BYTES, Record, Stage};

static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/stages-rings.bpf.o"));
/// The same for kernels that do not have what our own rings take: their own ring, which costs a call.
static OF_OLDER: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/stages.bpf.o"));

/// Interfaces of any network namespace.
const ANY: u32 = 0;

/// A program and its tracepoint.
type Place = (&'static str, &'static str);

const fn at(stage: Stage) -> Place {
    match stage {
        Stage::TxSched => ("stage_tx_sched", "net_dev_queue"),
        Stage::TxSoft => ("stage_tx_soft", "net_dev_start_xmit"),
        Stage::RxSoft => ("stage_rx_soft", "netif_receive_skb"),
    }
}

/// Where an interface puts packets into the kernel's backlog, which come to `netif_receive_skb` only after that.
const INTO_BACKLOG: Place = ("stage_rx_queued", "netif_rx");
/// Where packets are before some of them are merged.
const BEFORE_MERGING: Place = ("stage_rx_gro", "napi_gro_receive_entry");

/// Where the programs look for probes.
pub struct Looked<'a> {
    /// What may stand between EtherType and probe.
    pub prefixes: Prefixes,
    /// The interface by which all that leaves is looked at, whose socket it may be; None: what known sockets send.
    pub out: Option<&'a str>,
    /// A connection.
    pub connection: Option<Connection>,
    /// IP may cut the datagrams that have them.
    pub may_be_cut: bool,
}

/// What a kernel has.
#[derive(Clone, Copy)]
struct Has {
    /// A clock for records that is CLOCK_TAI.
    tai: bool,
    /// Reading its memory takes no call.
    direct_reads: bool,
    /// What our own rings take.
    own_rings: bool,
}

/// Why a stage has no program, in a few words.
pub type Refused = Vec<(Stage, String)>;

/// The programs, in force as long as this lives: the kernel takes them off when the process ends, however it ends.
pub struct Programs {
    /// Stages that have one.
    pub stages: Vec<Stage>,
    /// Records are stamped by CLOCK_TAI, else by CLOCK_MONOTONIC.
    pub tai: bool,
    netns: u32,
    few: Array<MapData, [u64; FEW_WORDS]>,
    known: Known,
    senders: HashMap<MapData, u64, u32>,
    arrivals: HashMap<MapData, u32, u32>,
    records: Records,
    object: Ebpf,
    kernel: Btf,
}

impl Programs {
    /// Programs at as many of `stages` as the kernel takes, none of which looks at any packet yet, and why it refuses the
    /// others. `backlog`: all that comes in goes into the kernel's backlog. `records`: for how many there is to be room. `looked`:
    /// where probes are.
    pub fn attach(
        stages: &[Stage],
        backlog: bool,
        run_id: u64,
        records: usize,
        looked: &Looked,
    ) -> (Option<Self>, Refused) {
        let at = |stage| if stage == Stage::RxSoft && backlog { INTO_BACKLOG } else { at(stage) };
        let wanted: Vec<_> = stages.iter().map(|stage| (*stage, at(*stage))).collect();
        // Before 6.1 the kernel has no bpf_ktime_get_tai_ns, before 6.2 no bpf_rdonly_cast, before 5.12 (5.18 for ARM) not what own
        // rings take: it refuses whatever has them.
        let mut best: Result<(Self, Refused), String> = Err(String::new());
        for has in [
            Has { tai: true, direct_reads: true, own_rings: true },
            Has { tai: true, direct_reads: false, own_rings: true },
            Has { tai: false, direct_reads: false, own_rings: true },
            Has { tai: false, direct_reads: false, own_rings: false },
        ] {
            let tried = Self::attach_by(has, &wanted, run_id, records, looked);
            let attached = |found: &Result<(Self, Refused), String>| {
                found.as_ref().map_or(-1, |(programs, _)| programs.stages.len() as isize)
            };
            if best.is_err() || attached(&tried) > attached(&best) {
                best = tried;
            }
            if attached(&best) == wanted.len() as isize {
                break;
            }
        }
        match best {
            Ok((programs, refused)) => (Some(programs).filter(|programs| !programs.stages.is_empty()), refused),
            Err(why) => (None, stages.iter().map(|stage| (*stage, why.clone())).collect()),
        }
    }

    fn attach_by(
        Has { tai, direct_reads, own_rings }: Has,
        wanted: &[(Stage, Place)],
        run_id: u64,
        records: usize,
        looked: &Looked,
    ) -> Result<(Self, Refused), String> {
        let kernel = kernel_types()?;
        let netns = network_namespace().map_err(|error| why(&error))?;
        let (port, asks) = looked.connection.map_or((0, false), |one| (u32::from(one.port), one.asks));
        let ifindex = looked.out.map_or(Ok(0), sys::socket::interface_index).map_err(|error| error.to_string())?;
        let code = linked(if own_rings { OBJECT } else { OF_OLDER }, &[READABLE], direct_reads, &kernel)?;
        let room = Room::new(own_rings, records, RECORD_BYTES)?;
        let mut object = room
            .set(
                EbpfLoader::new()
                    .btf(Some(&kernel))
                    .set_global("run_id", &run_id, true)
                    .set_global("reads_directly", &u32::from(direct_reads), true)
                    .set_global("use_tai", &u32::from(tai), true)
                    .set_global("prefixes", &looked.prefixes, true)
                    .set_global("may_be_cut", &u32::from(looked.may_be_cut), true)
                    .set_global("tcp_port", &port, true)
                    .set_global("tcp_asks", &u32::from(asks), true)
                    .set_global("out_netns", &netns, true)
                    .set_global("out_ifindex", &ifindex, true),
            )
            .load(&code)
            .map_err(|error| why(&error))?;
        let records = Records::of(&mut object, &room)?;
        let mut refused = Refused::new();
        let mut attached = Vec::new();
        for (stage, place) in wanted {
            match start(&mut object, *place, &kernel) {
                Ok(()) => attached.push(*stage),
                Err(why) => refused.push((*stage, why)),
            }
        }
        let programs = Self {
            stages: attached,
            tai,
            netns,
            few: map(&mut object, "few")?,
            known: Known::default(),
            senders: map(&mut object, "senders")?,
            arrivals: map(&mut object, "arrivals")?,
            records,
            object,
            kernel,
        };
        Ok((programs, refused))
    }

    /// Packets of the socket with this cookie are looked at from now on, which is bound to the interface of this number.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn add_sender(&mut self, cookie: u64, ifindex: u32) -> Result<(), String> {
        let known = &mut self.known;
        if known.senders < FEW {
            known.words[known.senders] = cookie;
            known.words[FEW + known.senders] = u64::from(ifindex);
        } else {
            known.words[3 * FEW] = 1;
            self.senders.insert(cookie, ifindex, 0).map_err(|error| why(&error))?;
        }
        known.senders += 1;
        self.few.set(0, known.words, 0).map_err(|error| why(&error))
    }

    /// Packets that come in at this interface are looked at from now on.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn add_arrival(&mut self, from: Entry) -> Result<(), String> {
        let netns = if from.elsewhere { ANY } else { self.netns };
        let (known, entry) = (&mut self.known, u64::from(netns) << 32 | u64::from(from.ifindex));
        if known.words[2 * FEW..3 * FEW].contains(&entry) {
            return Ok(());
        }
        if known.entries < FEW {
            known.words[2 * FEW + known.entries] = entry;
        } else {
            known.words[3 * FEW + 1] = 1;
            self.arrivals.insert(from.ifindex, netns, 0).map_err(|error| why(&error))?;
        }
        known.entries += 1;
        self.few.set(0, known.words, 0).map_err(|error| why(&error))
    }

    /// Packets are looked at before some of them are merged, too.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn look_before_merging(&mut self) -> Result<(), String> {
        start(&mut self.object, BEFORE_MERGING, &self.kernel)
    }

    /// The next record; None: there is none now.
    pub fn next(&mut self) -> Option<Record> {
        self.records.next(Record::read)
    }

    /// How many records had no room.
    pub fn lost(&self) -> u64 {
        self.records.lost()
    }
}

/// Senders and interfaces that are looked at first: so many of each.
const FEW: usize = defined(include_str!("../../../bpf/stages.bpf.c"), "FEW") as usize;
/// Cookies; what they are bound to; interfaces; whether there are more of either in the maps.
const FEW_WORDS: usize = 3 * FEW + 2;

/// What the programs were told.
#[derive(Default)]
struct Known {
    words: [u64; FEW_WORDS],
    senders: usize,
    entries: usize,
}

/// An interface that packets come in at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The kernel's number for it.
    pub ifindex: u32,
    /// It may be in another network namespace.
    pub elsewhere: bool,
}
