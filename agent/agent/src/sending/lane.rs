//! One stream's way out: its socket, and its packets prepared as far as they do not change.

use crate::launch_clock::LaunchClock;
use crate::session::failed;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use sys::peer::Peer;
use sys::send::{Batch, Beside};
use sys::socket::{Socket, Timestamping};
use wire::event::Failure;
use wire::iec61850::Prefix;
use wire::probe::Probe;
use wire::prp;
use wire::record::Late;
use wire::schedule::{Due, Schedule};
use wire::spec::{LaunchTime, MAX_BATCH, Stamps, TalkStream, TalkTransport};

/// What a socket may hold of packets not yet gone, and of timestamps not yet read: the talker must never wait for room, and
/// no timestamp may be dropped for want of it.
pub const SEND_BYTES: i32 = 32 << 20;
const STAMP_BYTES: i32 = 256 << 20;
/// A send call that the kernel keeps waiting this long is an error of the packet, not the end of the talker.
const SEND_TIMEOUT_MS: i64 = 1000;

/// What to do about a socket that is refused something.
pub const PRIVILEGED: &str = "run as root or with CAP_NET_ADMIN";
/// What to do about an interface that frames cannot go by.
pub const NO_INTERFACE: &str = "check that the interface exists; run as root or with CAP_NET_RAW";

const VLAN_ETHERTYPE: u16 = 0x8100;

/// A stream ready to be sent.
pub struct Lane {
    /// Shared with the thread that reads its error queue.
    pub socket: Arc<Socket>,
    /// Packets to be filled in and sent.
    pub batch: Batch,
    /// Number of the stream.
    pub stream: u16,
    /// What its packets say from now on of whoever sends them: [`Probe::crowded`].
    pub crowded: bool,
    /// Number of the stream in its packets: another one, if they are a copy of another stream's.
    carries: u16,
    /// Where the probe begins in a packet: after the Ethernet header, if it is ours to write, and what carries the probe.
    probe_at: usize,
    /// Bytes of the probe.
    size: usize,
    /// Which packet stands written in the batch's first place.
    written: Option<u64>,
    /// How its packets are launched, and in which clock; None: sent when due.
    launching: Option<(LaunchTime, LaunchClock)>,
    /// Where what carries the probe begins in a packet; its protocol counts packets there.
    numbered: Option<(usize, Prefix)>,
    /// Its packets end in PRP's trailer.
    trailed: bool,
    /// Its socket is a stream of bytes, which has no bounds of packets of its own.
    stream_of_bytes: bool,
}

/// What goes through a lane.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Number of the stream.
    pub stream: u16,
    /// Bytes of the probe.
    pub size: usize,
    /// Most packets that are handed over together.
    pub at_once: usize,
    /// Packets carry the ids of their timestamps.
    pub ids: bool,
}

impl Lane {
    /// A lane through `socket` as it is, for tests that need no privilege: launch times in CLOCK_MONOTONIC need none.
    #[cfg(test)]
    pub fn plain(socket: Socket, stream: u16, size: usize, launch_time: Option<LaunchTime>) -> Self {
        let launching = launch_time.map(|launch| (launch, LaunchClock::new(launch.clock)));
        if let Some((launch, clock)) = &launching {
            socket.set_launch_time(clock.clock(), launch.deadline).unwrap();
        }
        let load = Load { stream, size, at_once: MAX_BATCH as usize, ids: false };
        Self::laid_out(Arc::new(socket), &[], &load, launching, &[])
    }

    /// Writes packet `sequence` into place `n` of the batch, unless it stands there already.
    #[inline]
    pub fn write(&mut self, n: usize, run_id: u64, sequence: u64, launch_tai_ns: i64) {
        if n == 0 && self.written.replace(sequence) == Some(sequence) {
            return;
        }
        let Self { carries, crowded, .. } = *self;
        let probe = Probe { stream: carries, run_id, sequence, launch_tai_ns, size: self.size as u32, crowded };
        let packet = self.batch.packet_mut(n);
        probe.write(&mut packet[self.probe_at..]);
        if let Some((at, prefix)) = &self.numbered {
            prefix.number(&mut packet[*at..self.probe_at], sequence);
        }
        if self.trailed {
            prp::number(&mut packet[self.probe_at + self.size..], sequence);
        }
        if self.launching.is_none() {
            self.batch.set_beside(n, 0, sequence as u32);
        }
    }

    /// Gives the packets of `due` from place `from` on the launch times to hand them over with at `now_tai_ns`. Returns how
    /// many of them, from the first, are too late to be handed over, and before which place the next call is to end.
    ///
    /// Launches ascend: after the packets to be dropped come those to be moved, and then those in time. A packet that is moved
    /// goes by itself, so that the next one's new launch time counts from its own hand-over, and is not used up by a call that
    /// takes its time for all of them.
    #[inline]
    pub fn aim(&mut self, schedule: &Schedule, due: &Due, from: usize, now_tai_ns: i64) -> (usize, usize) {
        let packets = due.packets as usize;
        let Some((launch_time, clock)) = &mut self.launching else { return (0, packets) };
        clock.look();
        let mut dropped = 0;
        for n in from..packets {
            let sequence = due.first + n as u64;
            match launch_time.decide(schedule.launch(sequence), now_tai_ns) {
                (Late::Dropped, _) => dropped += 1,
                (late, asked_tai_ns) => {
                    self.batch.set_beside(n, clock.at(asked_tai_ns), sequence as u32);
                    if late == Late::Moved {
                        return (dropped, n + 1);
                    }
                }
            }
        }
        (dropped, packets)
    }

    /// What is done with a packet of this launch time that is handed over at `now_tai_ns`.
    #[inline]
    pub fn late(&self, launch_tai_ns: i64, now_tai_ns: i64) -> Late {
        self.launching.as_ref().map_or(Late::No, |(launch_time, _)| launch_time.decide(launch_tai_ns, now_tai_ns).0)
    }

    /// Opens the socket and lays out the packets.
    ///
    /// # Errors
    /// An address or interface that is not there, or a missing privilege.
    pub fn open(stamps: &Stamps, stream: &TalkStream, ids: bool) -> Result<Self, Failure> {
        let place = format!("stream {} on {}", stream.name, stream.interface);
        let problem = |remedy: &'static str| {
            let place = &place;
            move |error: sys::Error| failed(error, place, remedy)
        };
        let (mut numbered, mut trailer, mut carries) = (None, Vec::new(), stream.stream);
        let (socket, header) = match &stream.transport {
            TalkTransport::Udp { source, destination } => {
                let socket = Socket::udp(*source, Some(&stream.interface))
                    .map_err(problem("check that the interface exists and has the source address (ip addr)"))?;
                socket.connect(*destination).map_err(problem("check the route to the listener (ip route get)"))?;
                (socket, Vec::new())
            }
            TalkTransport::Ethernet { destination, ethertype, vlan, pcp, payload, prp } => {
                let socket = Socket::ethernet(&stream.interface, None).map_err(problem(NO_INTERFACE))?;
                let source = match prp.and_then(|copy| copy.source) {
                    Some(mac) => mac.0,
                    None => own_mac(&stream.interface)?,
                };
                carries = prp.map_or(stream.stream, |copy| copy.carries);
                let mut header = ethernet_header(destination.0, source, *ethertype, *vlan, *pcp);
                let behind_type = header.len();
                if let Some(payload) = payload {
                    let prefix = Prefix::new(*payload, carries, stream.size, stream.period_ns);
                    let at = header.len();
                    header.extend(&prefix.bytes);
                    numbered = Some((at, prefix));
                }
                if let Some(copy) = prp {
                    trailer.extend(prp::trailer(copy.lan, header.len() - behind_type + stream.size));
                }
                (socket, header)
            }
        };
        give(&socket, stream.priority, stamps, ids, &place)?;
        let launching = stream.launch_time.map(|launch| (launch, LaunchClock::new(launch.clock)));
        if let Some((launch, clock)) = &launching {
            socket.set_launch_time(clock.clock(), launch.deadline).map_err(problem(PRIVILEGED))?;
        }
        let load = Load { stream: stream.stream, size: stream.size, at_once: MAX_BATCH as usize, ids };
        Ok(Self { numbered, carries, ..Self::laid_out(Arc::new(socket), &header, &load, launching, &trailer) })
    }

    /// A lane through `socket` as it is: datagrams, or frames with this header. What is sent is sent when due.
    pub fn through(socket: Arc<Socket>, header: &[u8], load: &Load) -> Self {
        Self::laid_out(socket, header, load, None, &[])
    }

    /// A lane through the connection `socket`: messages, one after the other.
    pub fn of_bytes(socket: Arc<Socket>, load: &Load) -> Self {
        Self { stream_of_bytes: true, ..Self::laid_out(socket, &[], load, None, &[]) }
    }

    fn laid_out(
        socket: Arc<Socket>,
        header: &[u8],
        load: &Load,
        launching: Option<(LaunchTime, LaunchClock)>,
        trailer: &[u8],
    ) -> Self {
        let &Load { stream, size, at_once, ids } = load;
        let probe_at = header.len();
        let beside = Beside { launch_time: launching.is_some(), id: ids };
        let mut batch = Batch::new(at_once, probe_at + size + trailer.len(), beside);
        for n in 0..at_once {
            let packet = batch.packet_mut(n);
            packet[..probe_at].copy_from_slice(header);
            packet[probe_at + size..].copy_from_slice(trailer);
        }
        Self {
            socket,
            batch,
            stream,
            carries: stream,
            crowded: false,
            probe_at,
            size,
            written: None,
            launching,
            numbered: None,
            trailed: !trailer.is_empty(),
            stream_of_bytes: false,
        }
    }

    /// Hands packets `from..to` of the batch to the kernel; returns how many it took, at least 1. Where it has no room, it is
    /// waited for: for a datagram as long as the socket does, for a message while `going`, as half of one is none.
    ///
    /// # Errors
    /// The kernel refused packet `from`; those after it were not tried.
    #[inline]
    pub fn send(&mut self, from: usize, to: usize, going: impl Fn() -> bool) -> Result<usize, sys::Error> {
        if self.stream_of_bytes {
            return self.socket.send_all(self.batch.packet(from), going).map(|()| 1);
        }
        self.batch.send(&self.socket, from, to)
    }

    /// Has the packet that is handed over next go to where one came from. A connection goes where it goes.
    #[inline]
    pub fn turn_to(&mut self, peer: &Peer) {
        match peer.mac() {
            Some(mac) if self.probe_at > 0 => self.batch.packet_mut(0)[..mac.len()].copy_from_slice(&mac),
            _ if self.stream_of_bytes => {}
            _ => self.batch.set_destination(peer),
        }
    }

    /// The socket's local address, or its descriptor where it has none.
    pub fn local(&self) -> String {
        self.socket.local_address().map_or_else(|_| format!("packet:{}", self.socket.as_raw_fd()), |a| a.to_string())
    }
}

/// Gives a socket of datagrams or frames what sending takes; `place` is for messages.
///
/// # Errors
/// A missing privilege, or timestamps that the interface does not have.
pub fn give(socket: &Socket, priority: u32, stamps: &Stamps, ids: bool, place: &str) -> Result<(), Failure> {
    let problem = |remedy: &'static str| move |error: sys::Error| failed(error, place, remedy);
    socket.set_priority(priority).map_err(problem(PRIVILEGED))?;
    socket.set_send_buffer(SEND_BYTES).map_err(problem(PRIVILEGED))?;
    socket.set_receive_buffer(STAMP_BYTES).map_err(problem(PRIVILEGED))?;
    socket.set_send_timeout_ms(SEND_TIMEOUT_MS).map_err(problem(PRIVILEGED))?;
    let wanted = Timestamping {
        tx_sched: stamps.sched,
        tx_software: stamps.software,
        tx_hardware: stamps.hardware,
        ids,
        ..Timestamping::default()
    };
    socket.set_timestamping(wanted).map_err(problem("ask only for timestamps the interface has (ethtool -T)"))
}

/// The interface's own MAC address.
///
/// # Errors
/// It has none.
pub fn own_mac(interface: &str) -> Result<[u8; 6], Failure> {
    let path = format!("/sys/class/net/{interface}/address");
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    let bytes: Vec<u8> = text.trim().split(':').filter_map(|part| u8::from_str_radix(part, 16).ok()).collect();
    bytes.try_into().map_err(|_| Failure {
        what: format!("no MAC address in {path}: {:?}", text.trim()),
        place: interface.into(),
        remedy: "use an Ethernet interface for this transport".into(),
        errno: None,
    })
}

/// Destination, source, the 802.1Q tag if there is a VLAN, EtherType.
pub fn ethernet_header(
    destination: [u8; 6],
    source: [u8; 6],
    ethertype: u16,
    vlan: Option<u16>,
    pcp: Option<u8>,
) -> Vec<u8> {
    let mut header = [destination, source].concat();
    if let Some(vlan) = vlan {
        header.extend(VLAN_ETHERTYPE.to_be_bytes());
        // IEEE 802.1Q, 9.6: PCP in the three high bits, DEI, then the twelve bits of the VLAN id.
        header.extend((u16::from(pcp.unwrap_or(0)) << 13 | vlan).to_be_bytes());
    }
    header.extend(ethertype.to_be_bytes());
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_stands_between_the_addresses_and_the_ethertype() {
        let header = ethernet_header([1; 6], [2; 6], 0x88b5, Some(5), Some(7));
        assert_eq!(header, [1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 0x81, 0x00, 0xe0, 0x05, 0x88, 0xb5]);
        assert_eq!(ethernet_header([1; 6], [2; 6], 0x88b5, None, None).len(), 14);
    }
}
