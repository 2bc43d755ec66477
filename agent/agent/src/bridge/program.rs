//! The BPF program in the kernel: loaded, attached to the ports, told what it has to know, its counters read.

use super::mirror::{Entry, Station};
use aya::maps::{Array, DevMapHash, HashMap, MapData, MapError, PerCpuArray};
use aya::programs::links::FdLink;
use aya::programs::{BtfTracePoint, ProgramError, Xdp, XdpFlags};
use aya::{Btf, Ebpf, EbpfLoader};
use std::os::unix::fs::MetadataExt;
use wire::event::Failure;
use wire::in_c::defined;
use wire::spec::XdpMode;

static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/bridge.bpf.o"));

const SOURCE: &str = include_str!("../../../bpf/bridge.bpf.c");
// Flags of an entry.
const LEAVES_UNTAGGED: u32 = defined(SOURCE, "LEAVES_UNTAGGED");
const ISOLATED: u32 = defined(SOURCE, "ISOLATED");
const GENERIC: u32 = defined(SOURCE, "GENERIC");

const EPERM: i32 = 1;
const E2BIG: i32 = 7;
const EBUSY: i32 = 16;
const EEXIST: i32 = 17;
const EOPNOTSUPP: i32 = 95;

/// Tracepoints at which refused frames are counted, by the program's name: with any port, and with a generic one.
const ANY_MODE: [(&str, &str); 2] = [("refused_by_driver", "xdp_devmap_xmit"), ("refused_before", "xdp_redirect_err")];
const GENERIC_MODE: [(&str, &str); 2] = [("freed_unsent", "kfree_skb"), ("handed_over", "xdp_redirect")];

/// A port as the program is attached to it.
#[derive(Clone, Debug)]
pub struct Port {
    /// Its name.
    pub name: String,
    /// The kernel's number for it.
    pub ifindex: u32,
    /// Runs in the kernel's receive path, not in the driver.
    pub generic: bool,
}

/// Frames that came in at a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Handed to another port.
    pub redirected: u64,
    /// Left to the kernel bridge.
    pub passed: u64,
    /// Of those redirected: refused by the other port.
    pub dropped: u64,
}

/// The program, in force as long as this lives: the kernel takes it off when the process ends, however it ends.
pub struct Program {
    /// Where it is attached.
    pub ports: Vec<Port>,
    /// Why refused frames are not counted.
    pub uncounted: Option<String>,
    filtering: bool,
    era: u32,
    netns: u32,
    settings: Array<MapData, [u32; 3]>,
    fdb: HashMap<MapData, [u8; 8], [u32; 4]>,
    known_ports: HashMap<MapData, u32, [u32; 2]>,
    counted: PerCpuArray<MapData, [u64; 3]>,
    _targets: DevMapHash<MapData>,
    _links: Vec<FdLink>,
    _object: Ebpf,
}

impl Program {
    /// Attached to all `ports` (name and number), passing everything until it is told of stations.
    ///
    /// # Errors
    /// The kernel refuses the program; a port has one already, or cannot run one in this mode.
    pub fn attach(ports: &[(String, u32)], mode: XdpMode) -> Result<Self, Failure> {
        let netns = std::fs::metadata("/proc/thread-self/ns/net").map_err(|error| unloaded(&error))?.ino() as u32;
        let mut object = EbpfLoader::new().load(OBJECT).map_err(|error| unloaded(&error))?;
        let (links, ports) = attach_ports(&mut object, ports, mode)?;
        let uncounted = count_refused(&mut object, ports.iter().any(|port| port.generic)).err();
        let mut program = Self {
            uncounted,
            filtering: false,
            era: 1,
            netns,
            settings: map(&mut object, "settings")?,
            fdb: map(&mut object, "fdb")?,
            known_ports: map(&mut object, "ports")?,
            counted: map(&mut object, "counted")?,
            _targets: map(&mut object, "targets")?,
            _links: links,
            _object: object,
            ports,
        };
        program.settle()?;
        for slot in 0..program.ports.len() {
            program.set_pvid(slot, 0)?;
            let ifindex = program.ports[slot].ifindex;
            program._targets.insert(ifindex, ifindex, None, 0).map_err(|error| unloaded(&error))?;
        }
        Ok(program)
    }

    /// From now on the program distinguishes VLANs, or does not.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn set_filtering(&mut self, filtering: bool) -> Result<(), Failure> {
        self.filtering = filtering;
        self.settle()
    }

    /// A new era begins: stations are in use if they are the source of a frame from now on.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn next_era(&mut self) -> Result<(), Failure> {
        self.era = self.era.wrapping_add(1).max(1);
        self.settle()
    }

    /// Untagged frames that come in at the port of this slot are in this VLAN; 0: in none.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn set_pvid(&mut self, slot: usize, pvid: u16) -> Result<(), Failure> {
        let value = [slot as u32, u32::from(pvid)];
        self.known_ports.insert(self.ports[slot].ifindex, value, 0).map_err(|error| unloaded(&error))
    }

    /// The station is there, or unknown. One for which there is no room any more is unknown: the kernel bridge serves it.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn set_station(&mut self, station: &Station, entry: Option<Entry>) -> Result<(), Failure> {
        let slot_of = |ifindex| self.ports.iter().position(|port| port.ifindex == ifindex);
        let Some((entry, slot)) = entry.and_then(|entry| Some((entry, slot_of(entry.ifindex)?))) else {
            return match self.fdb.remove(&key(station)) {
                Ok(()) | Err(MapError::KeyNotFound) => Ok(()),
                Err(MapError::SyscallError(error)) if error.io_error.kind() == std::io::ErrorKind::NotFound => Ok(()),
                Err(error) => Err(unloaded(&error)),
            };
        };
        let flag = |on: bool, bit: u32| if on { bit } else { 0 };
        let flags = flag(entry.untagged, LEAVES_UNTAGGED)
            | flag(entry.isolated, ISOLATED)
            | flag(self.ports[slot].generic, GENERIC);
        match self.fdb.insert(key(station), [entry.ifindex, slot as u32, flags, 0], 0) {
            Err(MapError::SyscallError(error)) if error.io_error.raw_os_error() == Some(E2BIG) => Ok(()),
            other => other.map_err(|error| unloaded(&error)),
        }
    }

    /// Stations that have been the source of a redirected frame in this era, and their ports' numbers.
    pub fn in_use(&self) -> Vec<(Station, u32)> {
        let entries = self.fdb.iter().filter_map(Result::ok);
        entries.filter(|(_, entry)| entry[3] == self.era).map(|(key, entry)| (station(&key), entry[0])).collect()
    }

    /// Frames so far, port by port as in `ports`.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn counters(&self) -> Result<Vec<Counters>, Failure> {
        let slot = |slot: usize| {
            let cpus = self.counted.get(&(slot as u32), 0).map_err(|error| unloaded(&error))?;
            let sum = |at: usize| cpus.iter().map(|cpu| cpu[at]).sum();
            Ok(Counters { redirected: sum(0), passed: sum(1), dropped: sum(2) })
        };
        (0..self.ports.len()).map(slot).collect()
    }

    fn settle(&mut self) -> Result<(), Failure> {
        let settings = [u32::from(self.filtering), self.era, self.netns];
        self.settings.set(0, settings, 0).map_err(|error| unloaded(&error))
    }
}

fn key(station: &Station) -> [u8; 8] {
    let [a, b, c, d, e, f] = station.mac;
    let [g, h] = station.vid.to_ne_bytes();
    [a, b, c, d, e, f, g, h]
}

fn station(key: &[u8; 8]) -> Station {
    let [a, b, c, d, e, f, g, h] = *key;
    Station { mac: [a, b, c, d, e, f], vid: u16::from_ne_bytes([g, h]) }
}

fn map<T: TryFrom<aya::maps::Map, Error = MapError>>(object: &mut Ebpf, name: &str) -> Result<T, Failure> {
    let map = object.take_map(name).ok_or_else(|| unloaded(&format!("map {name} is missing")))?;
    T::try_from(map).map_err(|error| unloaded(&error))
}

/// Attached to every port, and how.
fn attach_ports(
    object: &mut Ebpf,
    ports: &[(String, u32)],
    mode: XdpMode,
) -> Result<(Vec<FdLink>, Vec<Port>), Failure> {
    let xdp: &mut Xdp = object
        .program_mut("bridge_port")
        .ok_or_else(|| unloaded(&"program bridge_port is missing"))?
        .try_into()
        .map_err(|error: ProgramError| unloaded(&error))?;
    if xdp.fd().is_err() {
        xdp.load().map_err(|error| unloaded(&error))?;
    }
    let (mut links, mut attached) = (Vec::new(), Vec::new());
    let mut all_generic = mode == XdpMode::Generic;
    for (name, ifindex) in ports {
        let refused = |errno: Option<i32>, generic: bool| refusal(name, errno, generic);
        let mut generic = all_generic;
        let mut link = attach_one(xdp, *ifindex, generic);
        if let (Err(errno), XdpMode::Auto, false) = (&link, mode, all_generic) {
            if !matches!(errno, Some(EPERM | EBUSY | EEXIST)) {
                // A driver without XDP takes no frames from one that has it: then none of them may be native.
                all_generic = *errno == Some(EOPNOTSUPP);
                generic = true;
                link = attach_one(xdp, *ifindex, generic);
            }
        }
        links.push(link.map_err(|errno| refused(errno, generic))?);
        attached.push(Port { name: name.clone(), ifindex: *ifindex, generic });
    }
    if all_generic && attached.iter().any(|port| !port.generic) {
        drop(links);
        return attach_ports(object, ports, XdpMode::Generic);
    }
    Ok((links, attached))
}

/// Attached to one port by a link that ends with the process; else the kernel's errno, None if it has no such links.
fn attach_one(xdp: &mut Xdp, ifindex: u32, generic: bool) -> Result<FdLink, Option<i32>> {
    let flags = if generic { XdpFlags::SKB_MODE } else { XdpFlags::DRV_MODE };
    let link = xdp.attach_to_if_index(ifindex, flags).and_then(|id| xdp.take_link(id));
    match link {
        Ok(link) => FdLink::try_from(link).map_err(|_| None),
        Err(ProgramError::SyscallError(error)) => Err(error.io_error.raw_os_error()),
        Err(_) => Err(None),
    }
}

fn refusal(name: &str, errno: Option<i32>, generic: bool) -> Failure {
    let mode = if generic { "generic" } else { "native" };
    let (what, remedy) = match errno {
        Some(EBUSY | EEXIST) => (
            "it has an XDP program already, which stays".to_owned(),
            format!("see whose it is (ip link show dev {name}), and end that, or leave this port out"),
        ),
        Some(EOPNOTSUPP) => (format!("its driver has no {mode} XDP"), r#"say "mode": "auto" or "generic""#.to_owned()),
        Some(EPERM) => ("the program may not be attached".to_owned(), "run as root".to_owned()),
        Some(errno) => (
            format!("no {mode} XDP: {}", std::io::Error::from_raw_os_error(errno)),
            format!(
                "see why in the kernel's log (dmesg); an MTU above a page less headers allows no native XDP \
                     (ip link show dev {name}, and the other end of a veth)"
            ),
        ),
        None => ("this kernel has no links for XDP programs".to_owned(), "use Linux 5.9 or newer".to_owned()),
    };
    Failure { what, place: name.into(), remedy, errno }
}

/// Refused frames are counted from now on; else why not.
fn count_refused(object: &mut Ebpf, generic: bool) -> Result<(), String> {
    let told = |error: &dyn std::fmt::Display| {
        format!(
            "refused frames are not counted, as the kernel's tracepoints cannot be read (CONFIG_DEBUG_INFO_BTF): {error}"
        )
    };
    let kernel = Btf::from_sys_fs().map_err(|error| told(&error))?;
    let wanted = ANY_MODE.iter().chain(GENERIC_MODE.iter().filter(|_| generic));
    for (name, tracepoint) in wanted {
        let program: &mut BtfTracePoint = object
            .program_mut(name)
            .ok_or_else(|| told(&format!("program {name} is missing")))?
            .try_into()
            .map_err(|error: ProgramError| told(&error))?;
        program.load(tracepoint, &kernel).map_err(|error| told(&error))?;
        program.attach().map_err(|error| told(&error))?;
    }
    Ok(())
}

fn unloaded(error: &dyn std::fmt::Display) -> Failure {
    Failure {
        what: error.to_string(),
        place: "the bridge's BPF program".into(),
        remedy: "run as root (or with CAP_BPF and CAP_NET_ADMIN) on Linux 5.11 or newer with CONFIG_BPF_SYSCALL".into(),
        errno: None,
    }
}
