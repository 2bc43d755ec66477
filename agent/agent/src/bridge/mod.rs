//! `bridge`: a fast path next to a kernel bridge. A BPF program forwards what the bridge has learnt; the bridge does the rest.

mod kernel;
mod mirror;
mod program;

use crate::realtime::{prepare_process, prepare_thread};
use crate::session::{self, emit, failed, refused};
use kernel::{Interface, Kernel, Notice, Settings};
use mirror::{Change, Mirror};
use program::Program;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use sys::clock::tai_ns;
use wire::event::{BridgePort, Done, Event, Failure, PortTotals};
use wire::spec::Bridge as Spec;

/// Longest wait for news of the kernel bridge, after which it is seen whether the lab wants an end.
const WAIT_MS: i32 = 20;
const PROGRESS: Duration = Duration::from_secs(1);
/// Entries in use are refreshed as often within the time after which the kernel bridge forgets them.
const REFRESHES: u32 = 4;
const SHORTEST_REFRESH: Duration = Duration::from_millis(100);
/// Bytes of an interface's name at most.
const LONGEST_NAME: usize = 15;
const NO_SUCH_DEVICE: i32 = 19;

/// The kernel bridge, the program next to it, and what each knows.
struct Bridge {
    name: String,
    ifindex: u32,
    settings: Settings,
    kernel: Kernel,
    program: Program,
    mirror: Mirror,
}

/// Runs the verb; its result has been reported when this returns.
///
/// # Errors
/// What the lab needs to know.
pub fn run() -> Result<(), Failure> {
    let (spec, session) = session::open::<Spec>("bridge")?;
    spec.check().map_err(refused)?;
    let process = prepare_process(&spec.realtime)?;
    let mut realtime = prepare_thread(&spec.realtime, &process)?;
    let mut bridge = Bridge::open(&spec)?;
    bridge.read_again()?;
    realtime.problems.extend(bridge.program.uncounted.clone());
    emit(&Event::BridgeReady {
        ready: session::ready("bridge", realtime, vec![])?,
        ports: bridge.program.ports.iter().map(port_set_up).collect(),
        fdb: bridge.mirror.len(),
    });
    let (mut reported, mut refreshed) = (Instant::now(), Instant::now());
    while !session.stopped() {
        bridge.follow(WAIT_MS)?;
        if reported.elapsed() >= PROGRESS {
            reported = Instant::now();
            emit(&Event::BridgeProgress { tai_ns: tai_ns(), ports: bridge.totals()? });
        }
        if refreshed.elapsed() >= (bridge.settings.ageing / REFRESHES).max(SHORTEST_REFRESH) {
            refreshed = Instant::now();
            bridge.refresh()?;
        }
    }
    emit(&Event::Done(Done::Bridge { ports: bridge.totals()? }));
    Ok(())
}

fn port_set_up(port: &program::Port) -> BridgePort {
    let mode = if port.generic { "generic" } else { "native" };
    BridgePort { interface: port.name.clone(), ifindex: port.ifindex, mode }
}

impl Bridge {
    /// The program on all ports; it knows no station yet.
    fn open(spec: &Spec) -> Result<Self, Failure> {
        let mut kernel = Kernel::open().map_err(|error| failed(error, "rtnetlink", ""))?;
        let mut named = |name: &str| -> Result<Interface, Failure> {
            let remedy = "name an interface of this network namespace (ip link)";
            // The kernel's names are as short (linux/if.h, IFNAMSIZ); the netlink library panics over longer ones.
            if !(1..=LONGEST_NAME).contains(&name.len()) || name.contains('\0') {
                return Err(wrong(name, "it is the name of no interface", remedy));
            }
            kernel.named(name).map_err(|error| failed(error, name, remedy))
        };
        let found = named(&spec.bridge)?;
        let Some(settings) = found.bridge else {
            return Err(wrong(&spec.bridge, "it is no bridge", "name a bridge (ip link show type bridge)"));
        };
        let mut ports = Vec::new();
        for name in &spec.ports {
            let port = named(name)?;
            if port.master != Some(found.ifindex) {
                let remedy = format!("make it one: ip link set dev {name} master {}", spec.bridge);
                return Err(wrong(name, &format!("it is no port of {}", spec.bridge), &remedy));
            }
            ports.push((name.clone(), port.ifindex));
        }
        let program = Program::attach(&ports, spec.mode)?;
        let (name, ifindex) = (spec.bridge.clone(), found.ifindex);
        Ok(Self { name, ifindex, settings, kernel, program, mirror: Mirror::default() })
    }

    /// Nothing; the program knows what the kernel bridge knows now.
    fn read_again(&mut self) -> Result<(), Failure> {
        self.read_ports()?;
        let place = self.name.clone();
        let stations = self.kernel.stations(self.ifindex).map_err(|error| failed(error, &place, ""))?;
        let changes = self.mirror.set_stations(stations);
        self.tell(changes)
    }

    /// Nothing; the program knows the bridge's settings and its ports' states.
    fn read_ports(&mut self) -> Result<(), Failure> {
        let found = self.interface(self.ifindex, &self.name.clone())?;
        let Some(settings) = found.bridge else {
            return Err(wrong(&self.name, "it is no bridge any more", "start again when it is one"));
        };
        // Frames of such a bridge all go its own way: the program does not know its tags.
        let unknown_tags = settings.filtering && settings.service_tags;
        let place = self.name.clone();
        let mut vlans = match settings.filtering {
            true => self.kernel.vlans().map_err(|error| failed(error, &place, ""))?,
            false => Default::default(),
        };
        let mut ports = BTreeMap::new();
        for (slot, port) in self.program.ports.clone().into_iter().enumerate() {
            let mut now = self.interface(port.ifindex, &port.name)?;
            if now.master != Some(self.ifindex) {
                let what = format!("it is no port of {} any more", self.name);
                return Err(wrong(&port.name, &what, "start again when it is one"));
            }
            now.port.vlans = vlans.remove(&port.ifindex).unwrap_or_default();
            now.port.forwarding &= !unknown_tags;
            self.program.set_pvid(slot, now.port.pvid())?;
            ports.insert(port.ifindex, now.port);
        }
        let filtering = settings.filtering;
        self.settings = settings;
        let changes = self.mirror.set_ports(filtering, ports);
        // Nothing is known while the meaning of an entry's VLAN changes.
        self.tell(changes.iter().filter(|(_, entry)| entry.is_none()).copied())?;
        self.program.set_filtering(filtering)?;
        self.tell(changes.into_iter().filter(|(_, entry)| entry.is_some()))
    }

    fn interface(&mut self, ifindex: u32, name: &str) -> Result<Interface, Failure> {
        self.kernel.numbered(ifindex).map_err(|error| match error.errno {
            NO_SUCH_DEVICE => {
                Failure { errno: Some(error.errno), ..wrong(name, "it is gone", "start again when it is back") }
            }
            _ => failed(error, name, ""),
        })
    }

    /// Nothing; the program knows what the kernel has told meanwhile.
    fn follow(&mut self, timeout_ms: i32) -> Result<(), Failure> {
        let notices = self.kernel.notices(self.ifindex, timeout_ms).map_err(|error| failed(error, "rtnetlink", ""))?;
        if notices.contains(&Notice::Lost) {
            return self.read_again();
        }
        let ours =
            |ifindex: u32| ifindex == self.ifindex || self.program.ports.iter().any(|port| port.ifindex == ifindex);
        if notices.iter().any(|notice| matches!(notice, Notice::Link(ifindex) if ours(*ifindex))) {
            self.read_ports()?;
        }
        for notice in notices {
            if let Notice::Station(station, ifindex) = notice {
                let change = self.mirror.set_station(station, ifindex);
                self.tell(change)?;
            }
        }
        Ok(())
    }

    fn tell(&mut self, changes: impl IntoIterator<Item = Change>) -> Result<(), Failure> {
        changes.into_iter().try_for_each(|(station, entry)| self.program.set_station(&station, entry))
    }

    /// Nothing; the kernel bridge, which sees no redirected frame, keeps the entries of stations that send some.
    fn refresh(&mut self) -> Result<(), Failure> {
        // What is known to have moved or gone must not be brought back.
        self.follow(0)?;
        for (station, ifindex) in self.program.in_use() {
            if self.mirror.told(&station).is_some_and(|entry| entry.ifindex == ifindex) {
                let place = self.name.clone();
                self.kernel.refresh(&station, ifindex).map_err(|error| failed(error, &place, ""))?;
            }
        }
        self.program.next_era()
    }

    fn totals(&self) -> Result<Vec<PortTotals>, Failure> {
        let counters = self.program.counters()?;
        let total = |(port, counted): (&program::Port, program::Counters)| PortTotals {
            interface: port.name.clone(),
            redirected: counted.redirected,
            passed: counted.passed,
            dropped: self.program.uncounted.is_none().then_some(counted.dropped),
        };
        Ok(self.program.ports.iter().zip(counters).map(total).collect())
    }
}

fn wrong(place: &str, what: &str, remedy: &str) -> Failure {
    Failure { what: what.into(), place: place.into(), remedy: remedy.into(), errno: None }
}
