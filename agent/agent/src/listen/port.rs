//! The places a listener's packets come in at.

use crate::receiving::ETHERNET_HEADER;
use std::net::SocketAddr;
use sys::socket::Frames;
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
    pub fn header_bytes(&self) -> usize {
        match self.kind {
            PortKind::Udp(_) => 0,
            PortKind::Ethernet(_) => ETHERNET_HEADER,
        }
    }
}
