//! Sockets for probes: UDP and raw Ethernet, with the options measuring needs.

use crate::clock::Clock;
use crate::peer::Peer;
use crate::{Error, check};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// A socket probes go through.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
}

impl AsRawFd for Socket {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

/// Which timestamps a socket is to deliver (`Documentation/networking/timestamping.rst`).
#[derive(Clone, Copy, Debug, Default)]
pub struct Timestamping {
    /// Transmit: entering the qdisc layer.
    pub tx_sched: bool,
    /// Transmit: handed to the driver.
    pub tx_software: bool,
    /// Transmit: left the NIC.
    pub tx_hardware: bool,
    /// Receive: taken in by the kernel.
    pub rx_software: bool,
    /// Receive: taken in by the NIC.
    pub rx_hardware: bool,
    /// Transmit stamps come with an id and without the packet.
    pub ids: bool,
}

/// Which Ethernet frames a socket takes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frames {
    /// Their EtherType, inside the VLAN tag if there is one.
    pub ethertype: u16,
    /// The VLAN id of their tag; None: those without a VLAN.
    pub vlan: Option<u16>,
}

/// A word of a frame, as the network has it: where it begins, which of its bits count, and what they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word {
    /// Bytes from the frame's beginning, the VLAN tag left out.
    pub at: u32,
    /// The bits that count.
    pub mask: u32,
    /// What they are.
    pub value: u32,
}

impl Frames {
    /// A classic BPF program that lets in only these, and of these only such that have all the `words`.
    fn filter(self, words: &[Word]) -> Vec<libc::sock_filter> {
        const PROTOCOL: u32 = (libc::SKF_AD_OFF + libc::SKF_AD_PROTOCOL) as u32;
        const VLAN_TAG: u32 = (libc::SKF_AD_OFF + libc::SKF_AD_VLAN_TAG) as u32;
        const VLAN_ID: u32 = 0x0fff;
        const IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
        let instruction = |code: u32, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
        let unless_equal = |k: u32| libc::sock_filter { code: IF_EQUAL, jt: 0, jf: 0, k };
        let masked = |mask: u32| instruction(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, mask);
        let mut program = vec![
            instruction(libc::BPF_LD | libc::BPF_H | libc::BPF_ABS, PROTOCOL),
            unless_equal(u32::from(self.ethertype)),
            // 0 without a tag, and with one that only carries a priority (IEEE 802.1Q, 6.9: VLAN id 0).
            instruction(libc::BPF_LD | libc::BPF_H | libc::BPF_ABS, VLAN_TAG),
            masked(VLAN_ID),
            unless_equal(u32::from(self.vlan.unwrap_or(0))),
        ];
        for word in words {
            program.push(instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, word.at));
            program.extend([masked(word.mask), unless_equal(word.value)]);
        }
        program.push(instruction(libc::BPF_RET | libc::BPF_K, u32::MAX));
        // What is not equal goes to the last instruction.
        let last = program.len();
        for (at, jump) in program.iter_mut().enumerate().filter(|(_, one)| one.code == IF_EQUAL) {
            jump.jf = (last - at - 1) as u8;
        }
        program.push(instruction(libc::BPF_RET | libc::BPF_K, 0));
        program
    }
}

/// A count of Ethernet frames that come in, by the kernel: none of them reaches anybody.
pub struct FrameCount(Socket);

impl FrameCount {
    /// Of those of `frames` on `interface` that have all the `words`.
    ///
    /// # Errors
    /// There is no such interface; no CAP_NET_RAW.
    pub fn new(interface: &str, frames: Frames, words: &[Word]) -> Result<Self, Error> {
        let socket = Socket::of_frames(interface, libc::ETH_P_ALL, &mut frames.filter(words))?;
        // Nobody reads them: the kernel keeps a few, drops the rest, and counts both.
        socket.set(libc::SOL_SOCKET, libc::SO_RCVBUF, &0_i32, "SO_RCVBUF")?;
        Ok(Self(socket))
    }

    /// How many there were since the last time.
    ///
    /// # Errors
    /// The call failed.
    pub fn take(&self) -> Result<u64, Error> {
        // struct tpacket_stats: tp_packets, those dropped among them, and tp_drops.
        let mut counted = [0_u32; 2];
        let mut length = size_of_val(&counted) as libc::socklen_t;
        let (level, name) = (libc::SOL_PACKET, libc::PACKET_STATISTICS);
        // SAFETY: `counted` is valid for writing `length` bytes.
        let result =
            unsafe { libc::getsockopt(self.0.as_raw_fd(), level, name, counted.as_mut_ptr().cast(), &raw mut length) };
        check(result, "getsockopt PACKET_STATISTICS")?;
        Ok(u64::from(counted[0]))
    }
}

/// include/uapi/linux/if_packet.h
const PACKET_IGNORE_OUTGOING: libc::c_int = 23;

// Not in the libc crate; include/uapi/asm-generic/socket.h, the same on all architectures the agent is built for.
const SO_SNDBUFFORCE: libc::c_int = 32;
const SO_RCVBUFFORCE: libc::c_int = 33;
const SO_MEMINFO: libc::c_int = 55;
const SO_COOKIE: libc::c_int = 57;
const SO_PREFER_BUSY_POLL: libc::c_int = 69;
const SK_MEMINFO_DROPS: usize = 8;
const SK_MEMINFO_VARS: usize = 9;

impl Socket {
    /// A UDP socket on `local`, bound to `interface` if given.
    ///
    /// # Errors
    /// The address is not this host's, the port is taken, there is no such interface, no CAP_NET_RAW.
    pub fn udp(local: SocketAddr, interface: Option<&str>) -> Result<Self, Error> {
        let socket = Self::udp_of(local)?;
        if let Some(interface) = interface {
            socket.bind_to_device(interface)?;
        }
        socket.bind(local)?;
        Ok(socket)
    }

    /// A UDP socket on `local` that sends to `peer` and hears nobody else. Others of this kind may be on `local` too, each
    /// with another peer.
    ///
    /// # Errors
    /// The address is not this host's, the port is taken by a socket of another kind, there is no route.
    pub fn udp_between(local: SocketAddr, peer: SocketAddr) -> Result<Self, Error> {
        let socket = Self::udp_of(local)?;
        socket.set(libc::SOL_SOCKET, libc::SO_REUSEADDR, &1_i32, "SO_REUSEADDR")?;
        socket.bind(local)?;
        socket.connect(peer)?;
        Ok(socket)
    }

    /// A second UDP socket on the address of `first`, which is bound to `interface`: for sending only, by that interface.
    ///
    /// What comes in goes to the first: of sockets that both could take a packet, the kernel chooses the one bound to the
    /// interface, and sooner still one that is connected to its sender (`compute_score`, net/ipv4/udp.c).
    ///
    /// # Errors
    /// The first is no UDP socket, or has no address; there is no such interface.
    pub fn udp_beside(first: &Self, interface: &str) -> Result<Self, Error> {
        let local = first
            .local_address()
            .map_err(|error| Error { call: "getsockname".into(), errno: error.raw_os_error().unwrap_or(0) })?;
        let second = Self::udp_of(local)?;
        // Set once the first is bound, so that it was bound to a port that nobody else had.
        for socket in [first, &second] {
            socket.set(libc::SOL_SOCKET, libc::SO_REUSEADDR, &1_i32, "SO_REUSEADDR")?;
        }
        // What came in by another interface would stay in its queue for good.
        second.attach(&mut [libc::sock_filter { code: (libc::BPF_RET | libc::BPF_K) as u16, jt: 0, jf: 0, k: 0 }])?;
        let index = interface_index(interface)?.to_be();
        match local {
            SocketAddr::V4(_) => second.set(libc::IPPROTO_IP, libc::IP_UNICAST_IF, &index, "IP_UNICAST_IF")?,
            SocketAddr::V6(_) => second.set(libc::IPPROTO_IPV6, libc::IPV6_UNICAST_IF, &index, "IPV6_UNICAST_IF")?,
        }
        second.bind(local)?;
        Ok(second)
    }

    fn udp_of(local: SocketAddr) -> Result<Self, Error> {
        let family = if local.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
        Self::new(family, libc::SOCK_DGRAM, 0)
    }

    pub(crate) fn bind(&self, local: SocketAddr) -> Result<(), Error> {
        let Peer { address, length } = Peer::from(local);
        // SAFETY: `address` is valid for reading `length` bytes.
        let result = unsafe { libc::bind(self.as_raw_fd(), (&raw const address).cast(), length) };
        check(result, &format!("bind {local}")).map(drop)
    }

    /// Sends to `peer` from now on, with the route looked up once.
    ///
    /// # Errors
    /// There is no route.
    pub fn connect(&self, peer: SocketAddr) -> Result<(), Error> {
        let Peer { address, length } = Peer::from(peer);
        // SAFETY: `address` is valid for reading `length` bytes.
        let result = unsafe { libc::connect(self.as_raw_fd(), (&raw const address).cast(), length) };
        check(result, &format!("connect {peer}")).map(drop)
    }

    /// A socket for Ethernet frames on `interface`: takes in those of `frames`, or none with None.
    ///
    /// # Errors
    /// There is no such interface; no CAP_NET_RAW.
    pub fn ethernet(interface: &str, frames: Option<Frames>) -> Result<Self, Error> {
        let Some(frames) = frames else { return Self::of_frames(interface, 0, &mut []) };
        let socket = Self::of_frames(interface, libc::ETH_P_ALL, &mut frames.filter(&[]))?;
        if frames.vlan.is_some() {
            // A card drops the frames of VLANs that no interface of the kernel's is for, unless it takes in everything.
            let everything = libc::packet_mreq {
                mr_ifindex: interface_index(interface)? as i32,
                mr_type: libc::PACKET_MR_PROMISC as u16,
                mr_alen: 0,
                mr_address: [0; 8],
            };
            socket.set(libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &everything, "PACKET_ADD_MEMBERSHIP")?;
        }
        Ok(socket)
    }

    /// A packet socket on `interface` for what `filter` lets in.
    ///
    /// Only a socket for everything (ETH_P_ALL) sees the VLAN tag: the kernel forgets the tag of a VLAN it has no interface
    /// for before it looks for the EtherType's own sockets (__netif_receive_skb_core, net/core/dev.c). What it takes in is
    /// then the filter's choice, made before a frame is copied for it.
    fn of_frames(interface: &str, protocol: i32, filter: &mut [libc::sock_filter]) -> Result<Self, Error> {
        // Made with protocol 0, it takes nothing in before it is bound to the interface.
        let socket = Self::new(libc::AF_PACKET, libc::SOCK_RAW, 0)?;
        if !filter.is_empty() {
            socket.set(libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, &1_i32, "PACKET_IGNORE_OUTGOING")?;
            socket.attach(filter)?;
        }
        // SAFETY: all-zero is a valid sockaddr_ll.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = (protocol as u16).to_be();
        address.sll_ifindex = interface_index(interface)? as i32;
        let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        // SAFETY: `address` is valid for reading `length` bytes.
        let result = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) };
        check(result, &format!("bind {interface}"))?;
        Ok(socket)
    }

    fn attach(&self, program: &mut [libc::sock_filter]) -> Result<(), Error> {
        let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
        self.set(libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &filter, "SO_ATTACH_FILTER")
    }

    /// The owner of a socket just made.
    ///
    /// # Safety
    /// `fd` is open and nobody else's.
    pub(crate) unsafe fn from_new(fd: RawFd) -> Self {
        // SAFETY: guaranteed by the caller.
        Self { fd: unsafe { OwnedFd::from_raw_fd(fd) } }
    }

    /// Lets the socket send and hear by this interface only.
    pub(crate) fn bind_to_device(&self, interface: &str) -> Result<(), Error> {
        self.set_bytes(libc::SOL_SOCKET, libc::SO_BINDTODEVICE, interface.as_bytes(), "SO_BINDTODEVICE")
    }

    pub(crate) fn new(family: libc::c_int, kind: libc::c_int, protocol: libc::c_int) -> Result<Self, Error> {
        // SAFETY: no pointer is passed.
        let fd = check(unsafe { libc::socket(family, kind | libc::SOCK_CLOEXEC, protocol) }, "socket")?;
        // SAFETY: `fd` is new and nobody else's.
        Ok(unsafe { Self::from_new(fd) })
    }

    /// The address the socket is bound to (UDP).
    ///
    /// # Errors
    /// It is no UDP socket.
    pub fn local_address(&self) -> std::io::Result<SocketAddr> {
        UdpSocket::from(self.fd.try_clone()?).local_addr()
    }

    /// SO_PRIORITY: chooses the qdisc's class, and the VLAN PCP by its map. Above 6 needs CAP_NET_ADMIN.
    ///
    /// # Errors
    /// EPERM.
    pub fn set_priority(&self, priority: u32) -> Result<(), Error> {
        self.set(libc::SOL_SOCKET, libc::SO_PRIORITY, &priority, "SO_PRIORITY")
    }

    /// Room for `bytes` waiting to be received, or to be read from the error queue.
    ///
    /// # Errors
    /// EPERM without CAP_NET_ADMIN.
    pub fn set_receive_buffer(&self, bytes: i32) -> Result<(), Error> {
        self.set(libc::SOL_SOCKET, SO_RCVBUFFORCE, &bytes, "SO_RCVBUFFORCE")
    }

    /// Room for `bytes` waiting to be sent.
    ///
    /// # Errors
    /// EPERM without CAP_NET_ADMIN.
    pub fn set_send_buffer(&self, bytes: i32) -> Result<(), Error> {
        self.set(libc::SOL_SOCKET, SO_SNDBUFFORCE, &bytes, "SO_SNDBUFFORCE")
    }

    /// A blocking receive gives up after `ms`.
    ///
    /// # Errors
    /// The call failed.
    pub fn set_receive_timeout_ms(&self, ms: i64) -> Result<(), Error> {
        self.set(libc::SOL_SOCKET, libc::SO_RCVTIMEO, &timeval(ms), "SO_RCVTIMEO")
    }

    /// A blocking send gives up after `ms`.
    ///
    /// # Errors
    /// The call failed.
    pub fn set_send_timeout_ms(&self, ms: i64) -> Result<(), Error> {
        self.set(libc::SOL_SOCKET, libc::SO_SNDTIMEO, &timeval(ms), "SO_SNDTIMEO")
    }

    /// A receive call polls the NIC for up to `us`, and its interrupts stay masked meanwhile where the driver can.
    ///
    /// # Errors
    /// EPERM without CAP_NET_ADMIN.
    pub fn set_busy_poll(&self, us: u32) -> Result<(), Error> {
        self.set(libc::SOL_SOCKET, libc::SO_BUSY_POLL, &us, "SO_BUSY_POLL")?;
        self.set(libc::SOL_SOCKET, SO_PREFER_BUSY_POLL, &1_i32, "SO_PREFER_BUSY_POLL")
    }

    /// Asks for timestamps.
    ///
    /// # Errors
    /// The kernel or the NIC cannot.
    pub fn set_timestamping(&self, wanted: Timestamping) -> Result<(), Error> {
        let mut flags = 0;
        for (on, flag) in [
            (wanted.tx_sched, libc::SOF_TIMESTAMPING_TX_SCHED),
            (wanted.tx_software, libc::SOF_TIMESTAMPING_TX_SOFTWARE),
            (wanted.tx_hardware, libc::SOF_TIMESTAMPING_TX_HARDWARE),
            (wanted.rx_software, libc::SOF_TIMESTAMPING_RX_SOFTWARE),
            (wanted.rx_hardware, libc::SOF_TIMESTAMPING_RX_HARDWARE),
            (wanted.tx_sched || wanted.tx_software || wanted.rx_software, libc::SOF_TIMESTAMPING_SOFTWARE),
            (wanted.tx_hardware || wanted.rx_hardware, libc::SOF_TIMESTAMPING_RAW_HARDWARE),
            (wanted.tx_hardware && wanted.tx_software, libc::SOF_TIMESTAMPING_OPT_TX_SWHW),
            (wanted.ids, libc::SOF_TIMESTAMPING_OPT_ID | libc::SOF_TIMESTAMPING_OPT_TSONLY),
        ] {
            if on {
                flags |= flag;
            }
        }
        self.set(libc::SOL_SOCKET, libc::SO_TIMESTAMPING, &flags, "SO_TIMESTAMPING")
    }

    /// Lets packets carry a launch time (SCM_TXTIME) on `clock`, and has the qdisc report those it drops.
    ///
    /// # Errors
    /// EPERM without CAP_NET_ADMIN, which all but CLOCK_MONOTONIC need; EINVAL for CLOCK_MONOTONIC_RAW.
    pub fn set_launch_time(&self, clock: Clock, deadline: bool) -> Result<(), Error> {
        let flags = libc::SOF_TXTIME_REPORT_ERRORS | if deadline { libc::SOF_TXTIME_DEADLINE_MODE } else { 0 };
        let txtime = libc::sock_txtime { clockid: clock.id(), flags };
        self.set(libc::SOL_SOCKET, libc::SO_TXTIME, &txtime, "SO_TXTIME")
    }

    /// Packets dropped because the socket's receive queue was full (`SK_MEMINFO_DROPS`).
    ///
    /// # Errors
    /// The call failed.
    pub fn receive_drops(&self) -> Result<u64, Error> {
        let mut info = [0_u32; SK_MEMINFO_VARS];
        let mut length = size_of_val(&info) as libc::socklen_t;
        // SAFETY: `info` is valid for writing `length` bytes.
        let result = unsafe {
            libc::getsockopt(self.as_raw_fd(), libc::SOL_SOCKET, SO_MEMINFO, info.as_mut_ptr().cast(), &raw mut length)
        };
        check(result, "getsockopt SO_MEMINFO")?;
        Ok(u64::from(info[SK_MEMINFO_DROPS]))
    }

    /// What the kernel tells it from all other sockets by, which it has as long as it lives.
    ///
    /// # Errors
    /// The call failed.
    pub fn cookie(&self) -> Result<u64, Error> {
        let mut cookie = 0_u64;
        let mut length = size_of_val(&cookie) as libc::socklen_t;
        // SAFETY: `cookie` is valid for writing `length` bytes.
        let result = unsafe {
            let at = std::ptr::from_mut(&mut cookie).cast();
            libc::getsockopt(self.as_raw_fd(), libc::SOL_SOCKET, SO_COOKIE, at, &raw mut length)
        };
        check(result, "getsockopt SO_COOKIE").map(|_| cookie)
    }

    pub(crate) fn set<T>(&self, level: libc::c_int, name: libc::c_int, value: &T, call: &str) -> Result<(), Error> {
        // SAFETY: `value` is valid for reading its own size.
        let result = unsafe {
            let (at, length) = (std::ptr::from_ref(value).cast(), size_of::<T>() as libc::socklen_t);
            libc::setsockopt(self.as_raw_fd(), level, name, at, length)
        };
        check(result, &format!("setsockopt {call}")).map(drop)
    }

    fn set_bytes(&self, level: libc::c_int, name: libc::c_int, value: &[u8], call: &str) -> Result<(), Error> {
        // SAFETY: `value` is valid for reading its length.
        let result = unsafe {
            libc::setsockopt(self.as_raw_fd(), level, name, value.as_ptr().cast(), value.len() as libc::socklen_t)
        };
        check(result, &format!("setsockopt {call}")).map(drop)
    }
}

fn timeval(ms: i64) -> libc::timeval {
    libc::timeval { tv_sec: ms / 1000, tv_usec: ms % 1000 * 1000 }
}

/// The kernel's number of an interface.
///
/// # Errors
/// ENODEV: there is none of that name here.
pub fn interface_index(interface: &str) -> Result<u32, Error> {
    let call = format!("if_nametoindex {interface}");
    let name = std::ffi::CString::new(interface).map_err(|_| Error { call: call.clone(), errno: libc::ENODEV })?;
    // SAFETY: `name` is a terminated string.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(Error::last(call)),
        index => Ok(index),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::receive::{Buffer, Wait};
    use std::net::{Ipv4Addr, UdpSocket};

    #[test]
    fn sockets_on_one_address_hear_each_its_own_peer() {
        let peers = [(); 2].map(|()| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
        let [to_first, to_second] = [0, 1].map(|n: usize| peers[n].local_addr().unwrap());
        let first = Socket::udp_between((Ipv4Addr::LOCALHOST, 0).into(), to_first).unwrap();
        let local = first.local_address().unwrap();
        let second = Socket::udp_between(local, to_second).unwrap();
        peers[1].send_to(b"second", local).unwrap();
        peers[0].send_to(b"first", local).unwrap();
        let mut buffer = Buffer::default();
        for (socket, words) in [(&first, "first"), (&second, "second")] {
            socket.set_receive_timeout_ms(5000).unwrap();
            assert_eq!(buffer.receive(socket, Wait::Block).unwrap().unwrap().bytes, words.as_bytes());
            assert_eq!(buffer.receive(socket, Wait::Never), Ok(None));
        }
    }
}
