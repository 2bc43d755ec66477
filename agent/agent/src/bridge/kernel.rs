//! The kernel bridge, asked and listened to over rtnetlink.

use super::mirror::{Membership, Port, Station};
use netlink_packet_core::{NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::link::{
    AfSpecBridge, BridgePortState, BridgeVlanInfo, BridgeVlanInfoFlags, InfoBridge, InfoBridgePort, InfoData,
    InfoPortData, LinkAttribute, LinkExtentMask, LinkFlags, LinkInfo, LinkMessage, VlanProtocol,
};
use netlink_packet_route::neighbour::{
    NeighbourAttribute, NeighbourExtFlags, NeighbourFlags, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};
use std::collections::HashMap;
use std::io::ErrorKind;
use std::os::fd::AsRawFd;
use std::time::Duration;
use sys::Error;

/// Multicast groups (linux/rtnetlink.h): changes of links, and of neighbours, which the entries of a bridge are.
const GROUPS: [u32; 2] = [1, 3];
/// ENOBUFS: notices came faster than they were read, and some are lost.
const LOST: i32 = 105;
/// Room for notices that arrive while the thread does not run.
const NOTICE_BYTES: usize = 4 << 20;
/// The bridge counts its times in ticks of USER_HZ, which is 100 a second on every Linux of today.
const TICK: Duration = Duration::from_millis(10);

/// An interface, as far as a bridge is concerned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// The kernel's number for it.
    pub ifindex: u32,
    /// The bridge (or other master) it is a port of.
    pub master: Option<u32>,
    /// It is a bridge, and how it is set.
    pub bridge: Option<Settings>,
    /// It is a port, and in what state.
    pub port: Port,
}

/// How a bridge is set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// It distinguishes VLANs.
    pub filtering: bool,
    /// Its VLANs are those of IEEE 802.1ad (0x88a8).
    pub service_tags: bool,
    /// How long an entry stays that nobody uses.
    pub ageing: Duration,
}

/// What the kernel said unasked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The interface has changed, or is gone.
    Link(u32),
    /// A station is behind this interface, or is forgotten.
    Station(Station, Option<u32>),
    /// Some notices are lost, or cannot be understood: ask for everything again.
    Lost,
}

/// A conversation with the kernel of this network namespace.
pub struct Kernel {
    questions: Socket,
    notices: Socket,
    sequence: u32,
}

impl Kernel {
    /// A conversation; from now on no change goes unnoticed.
    ///
    /// # Errors
    /// No socket can be had.
    pub fn open() -> Result<Self, Error> {
        let socket = || {
            let mut socket = Socket::new(NETLINK_ROUTE)?;
            socket.bind_auto()?;
            Ok(socket)
        };
        let questions: Socket = socket().map_err(called("socket NETLINK_ROUTE"))?;
        questions.connect(&SocketAddr::new(0, 0)).map_err(called("connect NETLINK_ROUTE"))?;
        let notices: Socket = socket().map_err(called("socket NETLINK_ROUTE"))?;
        notices.set_rx_buf_sz(NOTICE_BYTES).map_err(called("setsockopt SO_RCVBUF"))?;
        notices.set_non_blocking(true).map_err(called("fcntl O_NONBLOCK"))?;
        for group in GROUPS {
            notices.add_membership(group).map_err(called("setsockopt NETLINK_ADD_MEMBERSHIP"))?;
        }
        Ok(Self { questions, notices, sequence: 0 })
    }

    /// The interface of this name.
    ///
    /// # Errors
    /// ENODEV.
    pub fn named(&mut self, name: &str) -> Result<Interface, Error> {
        self.interface(0, vec![LinkAttribute::IfName(name.into())], name)
    }

    /// The interface of this number. Its VLANs are not among what is found.
    ///
    /// # Errors
    /// ENODEV.
    pub fn numbered(&mut self, ifindex: u32) -> Result<Interface, Error> {
        self.interface(ifindex, vec![], &format!("interface {ifindex}"))
    }

    fn interface(&mut self, index: u32, mut by: Vec<LinkAttribute>, name: &str) -> Result<Interface, Error> {
        let mut question = LinkMessage::default();
        question.header.index = index;
        by.push(LinkAttribute::ExtMask(vec![LinkExtentMask::SkipStats]));
        question.attributes = by;
        let call = format!("RTM_GETLINK {name}");
        let answers = self.ask(RouteNetlinkMessage::GetLink(question), 0, &call)?;
        let found = answers.into_iter().find_map(|answer| match answer {
            RouteNetlinkMessage::NewLink(link) => Some(interface(&link)),
            _ => None,
        });
        found.ok_or(Error { call, errno: 19 })
    }

    /// Which VLANs each port of any bridge is a member of, by the port's number.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn vlans(&mut self) -> Result<HashMap<u32, Vec<Membership>>, Error> {
        let mut question = LinkMessage::default();
        question.header.interface_family = AddressFamily::Bridge;
        question.attributes.push(LinkAttribute::ExtMask(vec![LinkExtentMask::Brvlan]));
        let answers = self.ask(RouteNetlinkMessage::GetLink(question), NLM_F_DUMP, "RTM_GETLINK AF_BRIDGE")?;
        Ok(answers.iter().filter_map(memberships).collect())
    }

    /// Every station the bridge has learnt or was given, and the interface it is behind.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn stations(&mut self, bridge: u32) -> Result<Vec<(Station, u32)>, Error> {
        let mut question = NeighbourMessage::default();
        question.header.family = AddressFamily::Bridge;
        let answers = self.ask(RouteNetlinkMessage::GetNeighbour(question), NLM_F_DUMP, "RTM_GETNEIGH AF_BRIDGE")?;
        let station = |answer: &RouteNetlinkMessage| match answer {
            RouteNetlinkMessage::NewNeighbour(message) => {
                let (station, ifindex) = station(message, bridge)?;
                Some((station, ifindex?))
            }
            _ => None,
        };
        Ok(answers.iter().filter_map(station).collect())
    }

    /// The bridge's entry is as young as if a frame of the station had just come in at this port.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn refresh(&mut self, station: &Station, ifindex: u32) -> Result<(), Error> {
        let mut message = NeighbourMessage::default();
        message.header.family = AddressFamily::Bridge;
        message.header.ifindex = ifindex;
        message.header.state = NeighbourState::Reachable;
        // "Use" is what the bridge itself does with a frame's source (br_fdb_add in net/bridge/br_fdb.c).
        message.header.flags = NeighbourFlags::Controller | NeighbourFlags::Use;
        message.attributes.push(NeighbourAttribute::LinkLayerAddress(station.mac.to_vec()));
        if station.vid != 0 {
            message.attributes.push(NeighbourAttribute::Vlan(station.vid));
        }
        self.ask(RouteNetlinkMessage::NewNeighbour(message), NLM_F_ACK, "RTM_NEWNEIGH NTF_USE").map(drop)
    }

    /// What was said about the bridge and its ports since the last call; waits up to `timeout_ms` for it.
    ///
    /// # Errors
    /// The socket broke.
    pub fn notices(&mut self, bridge: u32, timeout_ms: i32) -> Result<Vec<Notice>, Error> {
        let mut found = Vec::new();
        if !sys::poll::readable(self.notices.as_raw_fd(), timeout_ms)? {
            return Ok(found);
        }
        loop {
            match self.notices.recv_from_full() {
                Ok((bytes, _)) => match messages(&bytes) {
                    Some(said) => found.extend(said.iter().filter_map(|message| notice(message, bridge))),
                    None => found.push(Notice::Lost),
                },
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(found),
                Err(error) if error.raw_os_error() == Some(LOST) => found.push(Notice::Lost),
                Err(error) => return Err(called("recv NETLINK_ROUTE")(error)),
            }
        }
    }

    /// The answers to a question.
    fn ask(
        &mut self,
        question: RouteNetlinkMessage,
        flags: u16,
        call: &str,
    ) -> Result<Vec<RouteNetlinkMessage>, Error> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | flags;
        header.sequence_number = self.sequence;
        let mut message = NetlinkMessage::new(header, NetlinkPayload::from(question));
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.questions.send(&bytes, 0).map_err(called(call))?;
        let mut answers = Vec::new();
        loop {
            let (bytes, _) = self.questions.recv_from_full().map_err(called(call))?;
            let unreadable = || Error { call: format!("{call}: an answer that cannot be read"), errno: 74 };
            for answer in messages(&bytes).ok_or_else(unreadable)? {
                if answer.header.sequence_number != self.sequence {
                    continue;
                }
                match answer.payload {
                    NetlinkPayload::InnerMessage(inner) => answers.push(inner),
                    NetlinkPayload::Error(error) => {
                        return match error.code {
                            Some(code) => Err(Error { call: call.into(), errno: code.get().abs() }),
                            None => Ok(answers),
                        };
                    }
                    _ => return Ok(answers),
                }
                if flags == 0 {
                    return Ok(answers);
                }
            }
        }
    }
}

fn called(call: &str) -> impl Fn(std::io::Error) -> Error + '_ {
    move |error| Error { call: call.into(), errno: error.raw_os_error().unwrap_or(0) }
}

/// The messages in what was received; None if they cannot be read.
fn messages(mut bytes: &[u8]) -> Option<Vec<NetlinkMessage<RouteNetlinkMessage>>> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let message = NetlinkMessage::deserialize(bytes).ok()?;
        let length = (message.header.length as usize).next_multiple_of(4).max(4);
        bytes = bytes.get(length..).unwrap_or_default();
        found.push(message);
    }
    Some(found)
}

fn notice(message: &NetlinkMessage<RouteNetlinkMessage>, bridge: u32) -> Option<Notice> {
    let NetlinkPayload::InnerMessage(inner) = &message.payload else { return None };
    match inner {
        RouteNetlinkMessage::NewLink(link) | RouteNetlinkMessage::DelLink(link) => {
            Some(Notice::Link(link.header.index))
        }
        RouteNetlinkMessage::NewNeighbour(said) => {
            station(said, bridge).map(|(station, ifindex)| Notice::Station(station, ifindex))
        }
        RouteNetlinkMessage::DelNeighbour(said) => {
            station(said, bridge).map(|(station, _)| Notice::Station(station, None))
        }
        _ => None,
    }
}

/// The station an entry of this bridge is about, and the interface it is behind: none if frames to it are the bridge's
/// own, or may not be forwarded.
fn station(message: &NeighbourMessage, bridge: u32) -> Option<(Station, Option<u32>)> {
    let (mut mac, mut vid, mut master, mut locked) = (None, 0, None, false);
    for attribute in &message.attributes {
        match attribute {
            NeighbourAttribute::LinkLayerAddress(bytes) => mac = bytes.as_slice().try_into().ok(),
            NeighbourAttribute::Vlan(id) => vid = *id,
            NeighbourAttribute::Controller(ifindex) => master = Some(*ifindex),
            NeighbourAttribute::ExtFlags(flags) => locked = flags.contains(NeighbourExtFlags::Locked),
            _ => {}
        }
    }
    if message.header.family != AddressFamily::Bridge || master != Some(bridge) {
        return None;
    }
    let own = message.header.state == NeighbourState::Permanent || message.header.ifindex == bridge;
    Some((Station { mac: mac?, vid }, (!own && !locked).then_some(message.header.ifindex)))
}

fn interface(link: &LinkMessage) -> Interface {
    let mut found = Interface { ifindex: link.header.index, ..Interface::default() };
    for attribute in &link.attributes {
        match attribute {
            LinkAttribute::Controller(ifindex) => found.master = Some(*ifindex),
            LinkAttribute::LinkInfo(infos) => {
                for info in infos {
                    match info {
                        LinkInfo::Data(InfoData::Bridge(set)) => found.bridge = Some(settings(set)),
                        LinkInfo::PortData(InfoPortData::BridgePort(state)) => found.port = port(state),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    found.port.forwarding &= link.header.flags.contains(LinkFlags::Up);
    found
}

fn settings(set: &[InfoBridge]) -> Settings {
    let mut found = Settings::default();
    for one in set {
        match one {
            InfoBridge::VlanFiltering(on) => found.filtering = *on,
            InfoBridge::VlanProtocol(protocol) => found.service_tags = *protocol == VlanProtocol::Ieee8021Ad,
            InfoBridge::AgeingTime(ticks) => found.ageing = TICK * *ticks,
            _ => {}
        }
    }
    found
}

fn port(state: &[InfoBridgePort]) -> Port {
    let mut found = Port::default();
    for one in state {
        match one {
            InfoBridgePort::State(state) => found.forwarding = *state == BridgePortState::Forwarding,
            InfoBridgePort::Isolated(on) => found.isolated = *on,
            _ => {}
        }
    }
    found
}

fn memberships(answer: &RouteNetlinkMessage) -> Option<(u32, Vec<Membership>)> {
    let RouteNetlinkMessage::NewLink(link) = answer else { return None };
    let mut found = Vec::new();
    for attribute in &link.attributes {
        let LinkAttribute::AfSpecBridge(specs) = attribute else { continue };
        for spec in specs {
            let AfSpecBridge::VlanInfo(BridgeVlanInfo { flags, vid }) = spec else { continue };
            found.push(Membership {
                vid: *vid,
                pvid: flags.contains(BridgeVlanInfoFlags::Pvid),
                untagged: flags.contains(BridgeVlanInfoFlags::Untagged),
            });
        }
    }
    Some((link.header.index, found))
}
