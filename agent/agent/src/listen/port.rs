//! The places a listener's packets come in at.

use crate::receiving::ETHERNET_HEADER;
use std::net::SocketAddr;
use sys::socket::Frames;
use wire::iec61850::Prefix;
use wire::spec::{ListenStream, ListenTransport};

/// A place packets come in at: a socket each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    interface: String,
    kind: PortKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PortKind {
    Udp(SocketAddr),
    /// And how many bytes stand before the probe.
    Ethernet(Frames, usize),
}

impl Port {
    /// Where packets of this stream come in.
    pub fn of(stream: &ListenStream) -> Self {
        let kind = match &stream.transport {
            ListenTransport::Udp { listen } => PortKind::Udp(*listen),
            ListenTransport::Ethernet { ethertype, vlan, payload } => {
                let prefix = payload.map_or(0, |payload| Prefix::length(payload, stream.size));
                PortKind::Ethernet(Frames { ethertype: *ethertype, vlan: *vlan }, ETHERNET_HEADER + prefix)
            }
        };
        Self { interface: stream.interface.clone(), kind }
    }

    /// Bytes that stand before the probe.
    pub fn header_bytes(&self) -> usize {
        match self.kind {
            PortKind::Udp(_) => 0,
            PortKind::Ethernet(_, header) => header,
        }
    }
}
