//! The BPF program at the kernel's `kfree_skb`: loaded, attached, its records read.

use crate::programs::{READABLE, Records, Room, kernel_types, linked, start, why};
use aya::EbpfLoader;
use wire::drops::{RECORD_BYTES, Record};
use wire::iec61850::Prefixes;

static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/drops.bpf.o"));

const TRACEPOINT: &str = "kfree_skb";
/// What the tracepoint tells grew over time: with the socket that was to receive (6.11), with the reason (5.17), with neither.
const AT_SOCKET: &str = "dropped_at_socket";
const FOR_REASON: &str = "dropped_for_reason";
const SOMEWHERE: &str = "dropped_somewhere";

/// The program, in force as long as this lives: the kernel takes it off when the process ends, however it ends.
pub struct Program {
    /// Records are made by CLOCK_TAI, else by CLOCK_MONOTONIC.
    pub tai: bool,
    /// They have the kernel's reasons.
    pub reasons: bool,
    records: Records,
    _object: aya::Ebpf,
}

impl Program {
    /// The one that tells most of those that this kernel takes. `records`: how many the ring holds. `prefixes`: what may stand
    /// between EtherType and probe.
    ///
    /// # Errors
    /// It takes none; why.
    pub fn attach(run_id: u64, records: usize, prefixes: &Prefixes) -> Result<Self, String> {
        let mut refused = String::new();
        for name in [AT_SOCKET, FOR_REASON, SOMEWHERE] {
            // Before 6.1 the kernel has no bpf_ktime_get_tai_ns, and refuses whatever calls it.
            for tai in [true, false] {
                match Self::attach_one(name, tai, run_id, records, prefixes) {
                    Ok(program) => return Ok(program),
                    Err(why) => refused = why,
                }
            }
        }
        Err(refused)
    }

    fn attach_one(name: &str, tai: bool, run_id: u64, records: usize, prefixes: &Prefixes) -> Result<Self, String> {
        let kernel = kernel_types()?;
        // Dropped packets are few: reading them takes a call, which every kernel has.
        let code = linked(OBJECT, &[READABLE], false, &kernel)?;
        // For the same reason the kernel's ring is fast enough for them.
        let room = Room::new(false, records, RECORD_BYTES)?;
        let mut object = room
            .set(
                EbpfLoader::new()
                    .btf(Some(&kernel))
                    .set_global("run_id", &run_id, true)
                    .set_global("use_tai", &u32::from(tai), true)
                    .set_global("prefixes", prefixes, true),
            )
            .load(&code)
            .map_err(|error| why(&error))?;
        let records = Records::of(&mut object, &room)?;
        start(&mut object, (name, TRACEPOINT), &kernel)?;
        Ok(Self { tai, reasons: name != SOMEWHERE, records, _object: object })
    }

    /// The next record; None: there is none now.
    pub fn next(&mut self) -> Option<Record> {
        self.records.next(Record::read)
    }

    /// How many records the ring had no room for.
    pub fn lost(&self) -> u64 {
        self.records.lost()
    }
}
