//! The BPF program at the kernel's `kfree_skb`: loaded, attached, its records read.

use crate::programs::{READABLE, Records, kernel_types, linked, ring_bytes, start, why};
use aya::EbpfLoader;
use wire::drops::{RING_BYTES, Record};
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
        let mut object = EbpfLoader::new()
            .btf(Some(&kernel))
            .set_global("run_id", &run_id, true)
            .set_global("use_tai", &u32::from(tai), true)
            .set_global("prefixes", prefixes, true)
            .set_max_entries("records", ring_bytes(records, RING_BYTES))
            .load(&code)
            .map_err(|error| why(&error))?;
        start(&mut object, (name, TRACEPOINT), &kernel)?;
        Ok(Self { tai, reasons: name != SOMEWHERE, records: Records::of(&mut object)?, _object: object })
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
