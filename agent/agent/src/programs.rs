//! BPF programs at the kernel's tracepoints: how they are loaded, and why the kernel refuses them, in a few words.

use crate::facts::cpus;
use aya::maps::{Map, MapData, PerCpuArray, RingBuf};
use aya::programs::{BtfTracePoint, FEntry, ProgramError};
use aya::{Btf, Ebpf, EbpfLoader};
use aya_obj::btf::BtfKind;
use std::error::Error;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use sys::shared::SharedWords;
use wire::rings::{self, RING_WORDS, Rings};

/// The kernel's description of its own types.
pub const KERNEL_TYPES: &str = "/sys/kernel/btf/vmlinux";
const CPUS: &str = "/sys/devices/system/cpu";
const LOCKDOWN: &str = "/sys/kernel/security/lockdown";
const EPERM: i32 = 1;
const ENOSYS: i32 = 38;
/// The kernel's rings are a power of two of bytes, and whole pages: 64 KiB is one on every machine.
const LEAST_RING: usize = 64 << 10;
const LARGEST_RING: usize = 1 << 30;

/// The kernel's types, without which no program finds its way in the kernel's structures.
///
/// # Errors
/// It has none, or does not show them.
pub fn kernel_types() -> Result<Btf, String> {
    if !Path::new(KERNEL_TYPES).exists() {
        return Err("this kernel has no BTF (CONFIG_DEBUG_INFO_BTF)".into());
    }
    Btf::from_sys_fs().map_err(|error| why(&error))
}

/// A function of the kernel's, and the number that an object has in place of its type's in calls of it, which aya does not link.
pub type Function = (&'static str, u32);
/// What agent/bpf/readable.h calls.
pub const READABLE: Function = ("bpf_rdonly_cast", 0x4c41_544d);
const CALL: u8 = 0x85;
/// `r0 = -1`: the call fails, and is not made.
const NO_CALL: [u8; 8] = instruction(0xb7, 0, u32::MAX);

/// An instruction of BPF: its code, its registers, and its number.
const fn instruction(code: u8, registers: u8, number: u32) -> [u8; 8] {
    let [a, b, c, d] = number.to_le_bytes();
    [code, registers, 0, 0, a, b, c, d]
}

/// The object with calls of these functions of the kernel's, or, unless `calls`, without.
///
/// # Errors
/// The kernel lacks one.
pub fn linked(object: &[u8], functions: &[Function], calls: bool, kernel: &Btf) -> Result<Vec<u8>, String> {
    let mut linked = object.to_vec();
    for (function, stands_in) in functions {
        let call = if calls {
            let number = kernel.id_by_type_name_kind(function, BtfKind::Func);
            instruction(CALL, 0x20, number.map_err(|_| format!("this kernel has no {function}"))?)
        } else {
            NO_CALL
        };
        let placeholder = instruction(CALL, 0x20, *stands_in);
        linked.chunks_exact_mut(8).filter(|one| **one == placeholder).for_each(|one| one.copy_from_slice(&call));
    }
    Ok(linked)
}

/// What a ring of the kernel's keeps before each record.
const RING_HEADER: usize = 8;

/// Bytes of a ring of the kernel's that holds so many records of so many bytes.
fn ring_bytes(records: usize, each: usize) -> u32 {
    records.saturating_mul(each + RING_HEADER).clamp(LEAST_RING, LARGEST_RING).next_power_of_two() as u32
}

/// The rings that records go into (agent/bpf/records.h).
pub enum Room {
    /// Of our own, one for each CPU: so many slots of so many bytes.
    Own { slots: Vec<usize>, bytes: usize },
    /// One of the kernel's, of so many bytes.
    Kernels(u32),
}

impl Room {
    /// Room for so many records of so many bytes, which are a multiple of 8. `own`: the object's are rings of our own.
    ///
    /// # Errors
    /// It is not known which CPUs there may be.
    pub fn new(own: bool, records: usize, bytes: usize) -> Result<Self, String> {
        if !own {
            return Ok(Self::Kernels(ring_bytes(records, bytes)));
        }
        let read = |name: &str| {
            let path = format!("{CPUS}/{name}");
            let text = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
            cpus::list(&text).filter(|found| !found.is_empty()).ok_or_else(|| format!("{path} lists no CPUs"))
        };
        let (possible, online) = (read("possible")?, read("online")?);
        let count = possible.last().map_or(0, |last| last + 1);
        Ok(Self::Own { slots: rings::slots(records, bytes, count, |cpu| online.contains(&cpu)), bytes })
    }

    /// Has the maps of what is loaded made of this size.
    pub fn set<'l, 'a>(&self, loader: &'l mut EbpfLoader<'a>) -> &'l mut EbpfLoader<'a> {
        match self {
            Self::Own { slots, .. } => loader
                .set_max_entries("rings", slots.len() as u32)
                .set_max_entries("records", slots.iter().sum::<usize>() as u32)
                .set_global("stores_in_order", if cfg!(target_arch = "x86_64") { &1_u32 } else { &0 }, true),
            Self::Kernels(bytes) => loader.set_max_entries("records", *bytes),
        }
    }
}

/// Loads a program, if it is not yet, and attaches it to its tracepoint.
///
/// # Errors
/// The kernel refuses.
pub fn start(object: &mut Ebpf, (name, tracepoint): (&str, &str), kernel: &Btf) -> Result<(), String> {
    let missing = || format!("the program {name} is missing");
    let program: &mut BtfTracePoint =
        object.program_mut(name).ok_or_else(missing)?.try_into().map_err(|_| missing())?;
    let refused = |error: ProgramError| match error {
        ProgramError::Btf(_) => format!("this kernel has no tracepoint {tracepoint}"),
        other => why(&other),
    };
    if program.fd().is_err() {
        program.load(tracepoint, kernel).map_err(refused)?;
    }
    program.attach().map(drop).map_err(refused)
}

/// Attaches these programs to their tracepoints, in order, or none of them: one alone would cost time for nothing.
///
/// # Errors
/// The kernel refuses one.
pub fn start_all(object: &mut Ebpf, programs: &[(&str, &str)], kernel: &Btf) -> Result<(), String> {
    for (started, one) in programs.iter().enumerate() {
        if let Err(refused) = start(object, *one, kernel) {
            for (name, _) in &programs[..started] {
                let program = object.program_mut(name).map(<&mut BtfTracePoint>::try_from);
                if let Some(Ok(program)) = program {
                    program.unload().map_err(|error| why(&error))?;
                }
            }
            return Err(refused);
        }
    }
    Ok(())
}

/// Loads a program and attaches it to where a function of the kernel begins.
///
/// # Errors
/// The kernel refuses, or has no such function.
pub fn start_at_function(object: &mut Ebpf, (name, function): (&str, &str), kernel: &Btf) -> Result<(), String> {
    let missing = || format!("the program {name} is missing");
    let program: &mut FEntry = object.program_mut(name).ok_or_else(missing)?.try_into().map_err(|_| missing())?;
    let refused = |error: ProgramError| match error {
        ProgramError::Btf(_) => format!("this kernel has no function {function}"),
        other => why(&other),
    };
    program.load(function, kernel).map_err(refused)?;
    program.attach().map(drop).map_err(refused)
}

/// One of its maps.
///
/// # Errors
/// It is missing, or another one.
pub fn map<T: TryFrom<aya::maps::Map, Error = aya::maps::MapError>>(
    object: &mut Ebpf,
    name: &str,
) -> Result<T, String> {
    let map = object.take_map(name).ok_or_else(|| format!("the map {name} is missing"))?;
    T::try_from(map).map_err(|error| why(&error))
}

/// What programs record, and how much there was no room for.
pub enum Records {
    /// In rings of our own. Programs that are loaded later find the maps by their descriptors.
    Own { rings: Rings<SharedWords>, _maps: [MapData; 2] },
    /// In the kernel's.
    Kernels { ring: RingBuf<MapData>, lost: PerCpuArray<MapData, u64> },
}

impl Records {
    /// Those of the programs of this object, which is loaded with this room and of which none is attached yet.
    ///
    /// # Errors
    /// It has none; the kernel does not let its memory be mapped.
    pub fn of(object: &mut Ebpf, room: &Room) -> Result<Self, String> {
        let Room::Own { slots, bytes } = room else {
            return Ok(Self::Kernels { ring: map(object, "records")?, lost: map(object, "lost")? });
        };
        let mut mapped = |name: &str, words: usize| match object.take_map(name) {
            Some(Map::Array(map)) => {
                let memory = SharedWords::map(map.fd(), words, true).map_err(|error| error.to_string())?;
                Ok((memory, map))
            }
            _ => Err(format!("the map {name} is missing")),
        };
        let (state, rings) = mapped("rings", slots.len() * RING_WORDS)?;
        let (memory, records) = mapped("records", slots.iter().sum::<usize>() * bytes / size_of::<u64>())?;
        Ok(Self::Own { rings: Rings::new(state, memory, slots, *bytes), _maps: [rings, records] })
    }

    /// The next record that `read` makes something of; None: there is none now.
    pub fn next<T>(&mut self, mut read: impl FnMut(&[u8]) -> Option<T>) -> Option<T> {
        loop {
            let found = match self {
                Self::Own { rings, .. } => read(rings.next_record()?),
                Self::Kernels { ring, .. } => read(&ring.next()?),
            };
            if found.is_some() {
                return found;
            }
        }
    }

    /// How many there was no room for.
    pub fn lost(&self) -> u64 {
        match self {
            Self::Own { rings, .. } => rings.lost(),
            Self::Kernels { lost, .. } => lost.get(&0, 0).map_or(0, |cpus| cpus.iter().sum()),
        }
    }
}

/// How often the kernel did not run a program of this object, as one was running on that CPU already.
pub fn skipped(object: &Ebpf) -> u64 {
    let of = |program: &aya::programs::Program| -> Option<u64> {
        let number = program.fd().ok()?.as_fd().as_raw_fd();
        let said = std::fs::read_to_string(format!("/proc/self/fdinfo/{number}")).ok()?;
        said.lines().find_map(|line| line.strip_prefix("recursion_misses:"))?.trim().parse().ok()
    };
    object.programs().filter_map(|(_, program)| of(program)).sum()
}

/// What the kernel refused, on one line, with what it takes.
pub fn why(error: &(dyn Error + 'static)) -> String {
    let lockdown = std::fs::read_to_string(LOCKDOWN).unwrap_or_default();
    if lockdown.contains("[confidentiality]") {
        return "this kernel is locked down (lockdown=confidentiality)".into();
    }
    let mut errno = None;
    let mut said = error.to_string();
    let mut cause = Some(error);
    while let Some(one) = cause {
        errno = errno.or_else(|| one.downcast_ref::<std::io::Error>().and_then(std::io::Error::raw_os_error));
        said = one.to_string();
        cause = one.source();
    }
    match errno {
        // EACCES is the verifier's.
        Some(EPERM) => "it takes root, or CAP_BPF and CAP_PERFMON".into(),
        Some(ENOSYS) => "this kernel has no BPF (CONFIG_BPF_SYSCALL)".into(),
        _ => format!("the kernel refuses the program ({})", said.lines().next_back().unwrap_or_default().trim()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_is_a_power_of_two_of_whole_pages_whatever_their_size_and_holds_all_records() {
        for page in [4 << 10, 16 << 10, 64 << 10] {
            for records in [0, 1, 100, 65_536, usize::MAX] {
                let bytes = ring_bytes(records, 48) as usize;
                assert!(bytes.is_power_of_two() && bytes % page == 0, "{records}: {bytes} in pages of {page}");
                assert!(bytes >= records.saturating_mul(48 + RING_HEADER).min(LARGEST_RING), "{records}: {bytes}");
            }
        }
    }
}
