//! The BPF programs that see packets come in and leave: loaded, told the points and rules, attached, their records read.

use super::row;
use crate::programs::{Records, kernel_types, map, ring_bytes, start, why};
use aya::EbpfLoader;
use aya::maps::{Array, HashMap, MapData};
use wire::event::OtherFlow;
use wire::record::Watched;
use wire::spec::Watch as Spec;
use wire::watch::{OTHER_BYTES, Other, RECORD_BYTES, RULE_BYTES, Record};

static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/watch.bpf.o"));

const PROGRAMS: [(&str, &str); 2] = [("watch_in", "netif_receive_skb"), ("watch_out", "net_dev_start_xmit")];
/// The ring's own header of a record.
const RING_HEADER: usize = 8;

/// The programs, in force as long as this lives: the kernel takes them off when the process ends, however it ends.
pub struct Programs {
    /// Records are made by CLOCK_TAI, else by CLOCK_MONOTONIC.
    pub tai: bool,
    records: Records,
    others: HashMap<MapData, [u8; OTHER_BYTES], u64>,
    _object: aya::Ebpf,
}

impl Programs {
    /// Attached.
    ///
    /// # Errors
    /// The kernel does not let them be; why.
    pub fn attach(spec: &Spec) -> Result<Self, String> {
        // Before 6.1 the kernel has no bpf_ktime_get_tai_ns, and refuses whatever calls it.
        Self::attach_by(spec, true).or_else(|_| Self::attach_by(spec, false))
    }

    fn attach_by(spec: &Spec, tai: bool) -> Result<Self, String> {
        let kernel = kernel_types()?;
        let snap = spec.snap.next_multiple_of(size_of::<u64>());
        let mut object = EbpfLoader::new()
            .btf(Some(&kernel))
            .set_global("use_tai", &u32::from(tai), true)
            .set_global("rule_count", &(spec.rules.len() as u32), true)
            .set_global("snap", &(snap as u32), true)
            .set_max_entries("records", ring_bytes(spec.ring_records, RING_HEADER + RECORD_BYTES + snap))
            .load(OBJECT)
            .map_err(|error| why(&error))?;
        let mut points: HashMap<_, [u32; 2], u32> = map(&mut object, "points")?;
        for (number, point) in (0..).zip(&spec.points) {
            points.insert([point.netns, point.ifindex], number, 0).map_err(|error| why(&error))?;
        }
        let mut rules: Array<_, [u8; RULE_BYTES]> = map(&mut object, "rules")?;
        for (number, rule) in (0..).zip(&spec.rules) {
            rules.set(number, rule.bytes(), 0).map_err(|error| why(&error))?;
        }
        let (records, others) = (Records::of(&mut object)?, map(&mut object, "others")?);
        for one in PROGRAMS {
            start(&mut object, one, &kernel)?;
        }
        Ok(Self { tai, records, others, _object: object })
    }

    /// The next packet; None: there is none now.
    pub fn next(&mut self) -> Option<Watched> {
        self.records.next(|bytes| row(&Record::read(bytes)?))
    }

    /// How many records the ring had no room for.
    pub fn lost(&self) -> u64 {
        self.records.lost()
    }

    /// The flows that no rule fitted, with their packets until one first fitted there.
    pub fn others(&self) -> Vec<OtherFlow> {
        let flows = self.others.iter().filter_map(Result::ok);
        flows.map(|(flow, packets)| OtherFlow { packets, flow: Other::read(&flow) }).collect()
    }
}
