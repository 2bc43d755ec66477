//! What becomes of a packet that came in: recorded, or counted by the kind of its fault.
//!
//! Nothing in [`Intake::take_in`] allocates, locks, formats or prints.

use crate::recording::Tap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use sys::receive::Packet;
use sys::socket::Frames;
use wire::event::{ListenTotals, Refused};
use wire::probe::{Probe, Refusal};
use wire::record::Received;
use wire::sequence::{Arrival, Sequences};
use wire::spec::{Listen, ListenStream, ListenTransport};

/// Destination, source, EtherType: what stands before the probe in a frame. A VLAN tag has been taken off by the kernel.
const ETHERNET_HEADER: usize = 14;

/// A place packets come in at: a socket each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    interface: String,
    kind: PortKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PortKind {
    Udp(SocketAddr),
    Ethernet(Frames),
}

impl Port {
    /// Where packets of this stream come in.
    pub fn of(stream: &ListenStream) -> Self {
        let kind = match &stream.transport {
            ListenTransport::Udp { listen } => PortKind::Udp(*listen),
            ListenTransport::Ethernet { ethertype, vlan } => {
                PortKind::Ethernet(Frames { ethertype: *ethertype, vlan: *vlan })
            }
        };
        Self { interface: stream.interface.clone(), kind }
    }

    /// Bytes that stand before the probe.
    fn header_bytes(&self) -> usize {
        match self.kind {
            PortKind::Udp(_) => 0,
            PortKind::Ethernet(_) => ETHERNET_HEADER,
        }
    }
}

struct Stream {
    port: usize,
    size: u32,
    sequences: Sequences,
    totals: ListenTotals,
}

/// The listening thread's books.
pub struct Intake {
    run_id: u64,
    ports: Vec<Port>,
    streams: Vec<Stream>,
    refused: Refused,
    empty_wakeups: u64,
    tap: Tap<Received>,
    received: Arc<Vec<AtomicU64>>,
    complete: Arc<AtomicBool>,
    open_streams: usize,
}

impl Intake {
    /// For the streams of `spec`, coming in at `ports`.
    pub fn new(
        spec: &Listen,
        ports: Vec<Port>,
        tap: Tap<Received>,
        received: Arc<Vec<AtomicU64>>,
        complete: Arc<AtomicBool>,
    ) -> Self {
        let streams = spec.streams.iter().map(|stream| Stream {
            port: ports.iter().position(|port| *port == Port::of(stream)).unwrap_or(usize::MAX),
            size: stream.size as u32,
            sequences: Sequences::new(stream.count),
            totals: ListenTotals { stream: stream.stream, ..ListenTotals::default() },
        });
        Self {
            run_id: spec.run_id,
            streams: streams.collect(),
            ports,
            refused: Refused::default(),
            empty_wakeups: 0,
            tap,
            received,
            complete,
            open_streams: spec.streams.len(),
        }
    }

    /// Takes in a packet that the receive call returned at `rx_user_tai_ns`, from the socket of port `port`.
    pub fn take_in(&mut self, port: usize, packet: &Packet<'_>, rx_user_tai_ns: i64) {
        let header = self.ports[port].header_bytes();
        let probe = match packet.bytes.get(header..).map_or(Err(Refusal::Truncated), Probe::read) {
            Ok(probe) => probe,
            Err(Refusal::Foreign) => return self.refused.foreign += 1,
            Err(Refusal::Truncated) => return self.refused.truncated += 1,
        };
        if probe.run_id != self.run_id {
            return self.refused.other_run += 1;
        }
        let known =
            |stream: &Stream| stream.totals.stream == probe.stream && stream.port == port && stream.size == probe.size;
        let Some(position) = self.streams.iter().position(known) else {
            return self.refused.unknown_stream += 1;
        };
        let stream = &mut self.streams[position];
        match stream.sequences.arrive(probe.sequence) {
            Arrival::OutOfRange => return stream.totals.out_of_range += 1,
            Arrival::Repeated => return stream.totals.repeated += 1,
            Arrival::Reordered => stream.totals.reordered += 1,
            Arrival::InOrder => {}
        }
        stream.totals.received += 1;
        self.received[position].store(stream.totals.received, Ordering::Relaxed);
        self.tap.push(Received {
            stream: probe.stream,
            sequence: probe.sequence,
            launch_tai_ns: probe.launch_tai_ns,
            rx_hard_phc_ns: packet.hardware_ns,
            rx_soft_real_ns: packet.software_ns,
            rx_user_tai_ns,
        });
        if stream.sequences.complete() {
            self.open_streams -= 1;
            if self.open_streams == 0 {
                self.complete.store(true, Ordering::Release);
            }
        }
    }

    /// Notes that the kernel announced a packet and there was none.
    pub fn note_empty_wakeup(&mut self) {
        self.empty_wakeups += 1;
    }

    /// Totals by stream, what was refused, and how often there was nothing where a packet was announced.
    pub fn totals(self) -> (Vec<ListenTotals>, Refused, u64) {
        (self.streams.into_iter().map(|stream| stream.totals).collect(), self.refused, self.empty_wakeups)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::Recorder;
    use serde_json::json;

    const RUN: u64 = 0xab;

    fn intake(transport: serde_json::Value) -> Intake {
        let spec: Listen = serde_json::from_value(json!({
            "run_id": format!("{RUN:016x}"), "recording": "unused", "realtime": {}, "mode": "block",
            "streams": [{"stream": 1, "name": "control", "interface": "eth0", "size": 64, "count": 3, "transport": transport}]}))
        .unwrap();
        let folder = std::env::temp_dir().join(format!("latlab-intake-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let tap = Recorder::new(&folder.join("x").to_string_lossy(), RUN).table(64).unwrap();
        let ports = vec![Port::of(&spec.streams[0])];
        Intake::new(&spec, ports, tap, Arc::new(vec![AtomicU64::new(0)]), Arc::default())
    }

    fn probe(change: impl FnOnce(&mut Probe)) -> Vec<u8> {
        let mut probe = Probe { stream: 1, run_id: RUN, sequence: 0, launch_tai_ns: 5, size: 64 };
        change(&mut probe);
        let mut bytes = vec![0; 64];
        probe.write(&mut bytes);
        bytes
    }

    fn packet(bytes: &[u8]) -> Packet<'_> {
        Packet { bytes, software_ns: Some(1), hardware_ns: None }
    }

    #[test]
    fn each_fault_is_counted_under_its_own_kind() {
        let mut intake = intake(json!({"kind": "udp", "listen": "10.0.0.2:5557"}));
        for bytes in [
            probe(|_| {}),
            probe(|p| p.sequence = 2),
            probe(|p| p.sequence = 1),
            probe(|_| {}),
            probe(|p| p.sequence = 3),
            probe(|p| p.run_id = 1),
            probe(|p| p.stream = 9),
            probe(|p| p.size = 65),
            probe(|_| {})[..39].to_vec(),
            b"something else entirely, of the right length or more........".to_vec(),
            Vec::new(),
        ] {
            intake.take_in(0, &packet(&bytes), 10);
        }
        assert!(intake.complete.load(Ordering::Relaxed));
        let (streams, refused, _) = intake.totals();
        let s = streams[0];
        assert_eq!((s.received, s.repeated, s.reordered, s.out_of_range), (3, 1, 1, 1));
        assert_eq!((refused.foreign, refused.truncated, refused.other_run, refused.unknown_stream), (1, 3, 1, 1));
    }

    #[test]
    fn the_probe_of_a_frame_stands_behind_its_header() {
        let mut intake = intake(json!({"kind": "ethernet", "ethertype": 0x88b5, "vlan": 5}));
        intake.take_in(0, &packet(&[vec![0; ETHERNET_HEADER], probe(|_| {})].concat()), 10);
        intake.take_in(0, &packet(&[0; ETHERNET_HEADER - 1]), 10);
        let (streams, refused, _) = intake.totals();
        assert_eq!((streams[0].received, refused.truncated), (1, 1));
    }

    #[test]
    fn taking_packets_in_allocates_nothing() {
        let mut intake = intake(json!({"kind": "udp", "listen": "10.0.0.2:5557"}));
        let packets: Vec<Vec<u8>> = (0..6).map(|n| probe(|p| p.sequence = n % 4)).collect();
        let before = sys::allocations::made_by_this_thread();
        assert!(before > 0, "the counting allocator is not in use");
        for bytes in &packets {
            intake.take_in(0, &packet(bytes), 10);
        }
        assert_eq!(sys::allocations::made_by_this_thread(), before);
    }
}
