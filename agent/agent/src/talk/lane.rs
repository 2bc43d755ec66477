//! One stream's way out: its socket, and its packets prepared as far as they do not change.

use super::launch_clock::LaunchClock;
use crate::session::failed;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use sys::send::{Batch, Beside};
use sys::socket::{Socket, Timestamping};
use wire::event::Failure;
use wire::launch::Late;
use wire::probe::Probe;
use wire::schedule::{Due, Schedule};
use wire::spec::{LaunchTime, MAX_BATCH, Talk, TalkStream, TalkTransport};

/// What a socket may hold of packets not yet gone, and of timestamps not yet read: the talker must never wait for room, and
/// no timestamp may be dropped for want of it.
const SEND_BYTES: i32 = 32 << 20;
const STAMP_BYTES: i32 = 256 << 20;
/// A send call that the kernel keeps waiting this long is an error of the packet, not the end of the talker.
const SEND_TIMEOUT_MS: i64 = 1000;

const VLAN_ETHERTYPE: u16 = 0x8100;

/// A stream ready to be sent.
pub struct Lane {
    /// Shared with the thread that reads its error queue.
    pub socket: Arc<Socket>,
    /// Packets to be filled in and sent.
    pub batch: Batch,
    /// Number of the stream.
    pub stream: u16,
    /// Where the probe begins in a packet: after the Ethernet header, if it is ours to write.
    probe_at: usize,
    /// Bytes of the probe.
    size: usize,
    /// Which packet stands written in the batch's first place.
    written: Option<u64>,
    /// How its packets are launched, and in which clock; None: sent when due.
    launching: Option<(LaunchTime, LaunchClock)>,
}

impl Lane {
    /// A lane through `socket` as it is, for tests that need no privilege: launch times in CLOCK_MONOTONIC need none.
    #[cfg(test)]
    pub fn plain(socket: Socket, stream: u16, size: usize, launch_time: Option<LaunchTime>) -> Self {
        let launching = launch_time.map(|launch| (launch, LaunchClock::new(launch.clock)));
        if let Some((launch, clock)) = &launching {
            socket.set_launch_time(clock.clock(), launch.deadline).unwrap();
        }
        let batch = Batch::new(MAX_BATCH as usize, size, Beside { launch_time: launching.is_some(), id: false });
        Self { socket: Arc::new(socket), batch, stream, probe_at: 0, size, written: None, launching }
    }

    /// Writes packet `sequence` into place `n` of the batch, unless it stands there already.
    #[inline]
    pub fn write(&mut self, n: usize, run_id: u64, sequence: u64, launch_tai_ns: i64) {
        if n == 0 && self.written.replace(sequence) == Some(sequence) {
            return;
        }
        let probe = Probe { stream: self.stream, run_id, sequence, launch_tai_ns, size: self.size as u32 };
        probe.write(&mut self.batch.packet_mut(n)[self.probe_at..]);
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
    pub fn open(spec: &Talk, stream: &TalkStream, ids: bool) -> Result<Self, Failure> {
        let problem = |remedy: &'static str| {
            move |error: sys::Error| failed(error, &format!("stream {} on {}", stream.name, stream.interface), remedy)
        };
        let (socket, header) = match &stream.transport {
            TalkTransport::Udp { source, destination } => {
                let socket = Socket::udp(*source, Some(&stream.interface))
                    .map_err(problem("check that the interface exists and has the source address (ip addr)"))?;
                socket.connect(*destination).map_err(problem("check the route to the listener (ip route get)"))?;
                (socket, Vec::new())
            }
            TalkTransport::Ethernet { destination, ethertype, vlan, pcp } => {
                let socket = Socket::ethernet(&stream.interface, None)
                    .map_err(problem("check that the interface exists; run as root or with CAP_NET_RAW"))?;
                let source = own_mac(&stream.interface)?;
                (socket, ethernet_header(destination.0, source, *ethertype, *vlan, *pcp))
            }
        };
        let privileged = "run as root or with CAP_NET_ADMIN";
        socket.set_priority(stream.priority).map_err(problem(privileged))?;
        socket.set_send_buffer(SEND_BYTES).map_err(problem(privileged))?;
        socket.set_receive_buffer(STAMP_BYTES).map_err(problem(privileged))?;
        socket.set_send_timeout_ms(SEND_TIMEOUT_MS).map_err(problem(privileged))?;
        let stamps = &spec.stamps;
        socket
            .set_timestamping(Timestamping {
                tx_sched: stamps.sched,
                tx_software: stamps.software,
                tx_hardware: stamps.hardware,
                ids,
                ..Timestamping::default()
            })
            .map_err(problem("ask only for timestamps the interface has (ethtool -T)"))?;
        let launching = stream.launch_time.map(|launch| (launch, LaunchClock::new(launch.clock)));
        if let Some((launch, clock)) = &launching {
            socket.set_launch_time(clock.clock(), launch.deadline).map_err(problem(privileged))?;
        }
        let probe_at = header.len();
        let beside = Beside { launch_time: launching.is_some(), id: ids };
        let mut batch = Batch::new(MAX_BATCH as usize, probe_at + stream.size, beside);
        for n in 0..MAX_BATCH as usize {
            batch.packet_mut(n)[..probe_at].copy_from_slice(&header);
        }
        Ok(Self {
            socket: Arc::new(socket),
            batch,
            stream: stream.stream,
            probe_at,
            size: stream.size,
            written: None,
            launching,
        })
    }

    /// The socket's local address, or its descriptor where it has none.
    pub fn local(&self) -> String {
        self.socket.local_address().map_or_else(|_| format!("packet:{}", self.socket.as_raw_fd()), |a| a.to_string())
    }
}

fn own_mac(interface: &str) -> Result<[u8; 6], Failure> {
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
fn ethernet_header(
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
