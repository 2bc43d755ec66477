//! What the BPF program at the kernel's `kfree_skb` tracepoint says of dropped packets (`agent/bpf/drops.bpf.c`), and what its
//! numbers mean.

use crate::btf::Btf;
use crate::in_c::defined;
use std::collections::HashMap;

/// Where a packet was that was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Inode of the network namespace; None: unknown.
    pub netns: Option<u32>,
    /// Number of the interface; None: unknown.
    pub ifindex: Option<u32>,
    /// Name of the interface; None: unknown.
    pub device: Option<[u8; NAME_BYTES]>,
}

impl Place {
    /// As `struct drop_place` lays it out (`agent/bpf/drop_place.h`).
    pub fn read(bytes: &[u8; PLACE_BYTES]) -> Self {
        let word = |at: usize| known(u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]));
        let device: [u8; NAME_BYTES] = std::array::from_fn(|n| bytes[8 + n]);
        Self { netns: word(0), ifindex: word(4), device: (device[0] != 0).then_some(device) }
    }
}

/// A number of which 0 says that it is unknown.
pub(crate) fn known(number: u32) -> Option<u32> {
    (number != 0).then_some(number)
}

/// Bytes of a record.
pub const RECORD_BYTES: usize = 56;
/// Bytes of a place.
pub const PLACE_BYTES: usize = 24;
/// Bytes of an interface's name, the zero at its end included (IFNAMSIZ).
pub const NAME_BYTES: usize = defined(include_str!("../../bpf/drop_place.h"), "NAME_BYTES") as usize;

/// A packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// When, ns, on the clock the program was told to use.
    pub ns: i64,
    /// Position in the stream.
    pub sequence: u64,
    /// The kernel's instruction that had it freed.
    pub location: u64,
    /// Where it was.
    pub place: Place,
    /// As `enum skb_drop_reason` has it; None: the kernel gives none.
    pub reason: Option<u32>,
    /// Number of the stream.
    pub stream: u16,
}

impl Record {
    /// The record as the program lays it out; None: these bytes are none.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; RECORD_BYTES] = bytes.try_into().ok()?;
        let long = |at: usize| Some(u64::from_ne_bytes(bytes[at..at + 8].try_into().ok()?));
        Some(Self {
            ns: i64::from_ne_bytes(long(0)?.to_ne_bytes()),
            sequence: long(8)?,
            location: long(16)?,
            place: Place::read(bytes[24..48].try_into().ok()?),
            reason: known(u32::from_ne_bytes(bytes[48..52].try_into().ok()?)),
            stream: u16::from_ne_bytes([bytes[52], bytes[53]]),
        })
    }
}

const REASONS: &str = "skb_drop_reason";
const SUBSYSTEMS: &str = "skb_drop_reason_subsys";
const REASON: &str = "SKB_DROP_REASON_";
const SUBSYSTEM: &str = "SKB_DROP_REASON_SUBSYS_";
/// Those of the network core are of subsystem 0; include/net/dropreason-core.h.
const SUBSYSTEM_SHIFT: u32 = 16;
const OPEN_VSWITCH: &str = "ovs_drop_reason";
const OF_OPEN_VSWITCH: &str = "OVS_DROP_";

/// The names of the running kernel's reasons, by their numbers.
#[derive(Debug, Default)]
pub struct Reasons {
    names: HashMap<u32, String>,
    subsystems: HashMap<u32, String>,
}

impl Reasons {
    /// As the kernel's own types have them; none where it has no such enumeration.
    pub fn of(kernel: &Btf) -> Self {
        let named = |of: &str, prefix: &str| {
            let all = kernel.enumerators(of).into_iter();
            let own = all.filter_map(|(number, name)| Some((number, name.strip_prefix(prefix)?.to_owned())));
            own.collect::<HashMap<_, _>>()
        };
        let subsystems = named(SUBSYSTEMS, SUBSYSTEM);
        let mut names = named(REASONS, REASON);
        names.retain(|_, name| !name.starts_with("SUBSYS_") && name != "MAX");
        Self { names, subsystems }
    }

    /// Adds those of Open vSwitch, whose module has types of its own.
    pub fn add_open_vswitch(&mut self, module: &Btf) {
        for (number, name) in module.enumerators(OPEN_VSWITCH) {
            self.names.entry(number).or_insert_with(|| match name.strip_prefix(OF_OPEN_VSWITCH) {
                Some(own) => format!("OVS_{own}"),
                None => name.to_owned(),
            });
        }
    }

    /// Whether there are any.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// A reason's name; of one that has none its subsystem and its number.
    pub fn name(&self, reason: u32) -> String {
        if let Some(name) = self.names.get(&reason) {
            return name.clone();
        }
        let (subsystem, number) = (reason >> SUBSYSTEM_SHIFT, reason & ((1 << SUBSYSTEM_SHIFT) - 1));
        match (subsystem, self.subsystems.get(&subsystem)) {
            (0, _) => format!("REASON_{number}"),
            (_, Some(name)) => format!("{name}_{number}"),
            (_, None) => format!("REASON_{subsystem}_{number}"),
        }
    }
}

/// The kernel's functions by their addresses, as `/proc/kallsyms` lists them.
#[derive(Debug, Default)]
pub struct Symbols {
    /// Each with its name, in the order of the addresses once all are in.
    functions: Vec<(u64, String)>,
}

impl Symbols {
    /// Takes a line in, such as `ffffffff81c0a0f0 T udp_queue_rcv_skb`, with `[module]` behind it for one of a module's.
    pub fn add(&mut self, line: &str) {
        let mut words = line.split_ascii_whitespace();
        let (Some(address), Some(kind), Some(name)) = (words.next(), words.next(), words.next()) else { return };
        let Ok(address) = u64::from_str_radix(address, 16) else { return };
        // Where addresses are kept from us they are all 0.
        if address != 0 && matches!(kind, "t" | "T" | "w" | "W") {
            self.functions.push((address, name.to_owned()));
        }
    }

    /// Puts them in order: none is found before that.
    pub fn sort(&mut self) {
        self.functions.sort_unstable();
        self.functions.shrink_to_fit();
    }

    /// Whether there are any.
    pub fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }

    /// The function that has this instruction; None: unknown.
    pub fn function(&self, instruction: u64) -> Option<&str> {
        let behind = self.functions.partition_point(|(address, _)| *address <= instruction);
        let (_, name) = self.functions.get(behind.checked_sub(1)?)?;
        Some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::btf::tests::kernel_types;

    #[test]
    fn a_record_is_read_as_the_program_lays_it_out() {
        let mut bytes = Vec::new();
        for long in [5_u64, 7, 0xffff_ffff_8100_0010] {
            bytes.extend(long.to_ne_bytes());
        }
        for word in [4_026_531_840_u32, 3] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend(*b"tap0\0\0\0\0\0\0\0\0\0\0\0\0");
        bytes.extend(0_u32.to_ne_bytes());
        bytes.extend(9_u16.to_ne_bytes());
        bytes.extend([0; 2]);
        assert_eq!(bytes.len(), RECORD_BYTES);
        let read = Record::read(&bytes).unwrap();
        assert_eq!((read.ns, read.sequence, read.stream, read.location), (5, 7, 9, 0xffff_ffff_8100_0010));
        assert_eq!((read.place.netns, read.place.ifindex, read.reason), (Some(4_026_531_840), Some(3), None));
        assert!(read.place.device.unwrap().starts_with(b"tap0\0"));
        assert_eq!(Record::read(&bytes[1..]), None);
    }

    #[test]
    fn reasons_have_the_running_kernels_names_and_those_without_one_their_numbers() {
        let types = kernel_types(&[
            (REASONS, &[("SKB_NOT_DROPPED_YET", 0), ("SKB_DROP_REASON_NOT_SPECIFIED", 2), ("SKB_DROP_REASON_MAX", 90)]),
            (SUBSYSTEMS, &[("SKB_DROP_REASON_SUBSYS_CORE", 0), ("SKB_DROP_REASON_SUBSYS_OPENVSWITCH", 3)]),
        ]);
        let mut reasons = Reasons::of(&Btf::read(&types).unwrap());
        let names = [2, 90, 3 << 16 | 1, 7 << 16 | 1].map(|reason| reasons.name(reason));
        assert_eq!(names, ["NOT_SPECIFIED", "REASON_90", "OPENVSWITCH_1", "REASON_7_1"]);
        let module = kernel_types(&[(OPEN_VSWITCH, &[("OVS_DROP_LAST_ACTION", 3 << 16 | 1)])]);
        reasons.add_open_vswitch(&Btf::read(&module).unwrap());
        assert_eq!(reasons.name(3 << 16 | 1), "OVS_LAST_ACTION");
        assert!(!reasons.is_empty() && Reasons::default().is_empty());
    }

    #[test]
    fn an_instruction_belongs_to_the_function_that_begins_before_it() {
        let mut symbols = Symbols::default();
        for line in [
            "0000000000000020 T second",
            "0000000000000010 t first\t[module]",
            "0000000000000018 d data",
            "0000 T hidden",
            "x",
        ] {
            symbols.add(line);
        }
        symbols.sort();
        assert_eq!(
            [0x0f, 0x10, 0x1f, 0x20].map(|at| symbols.function(at)),
            [None, Some("first"), Some("first"), Some("second")]
        );
    }
}
