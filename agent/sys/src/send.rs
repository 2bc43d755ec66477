//! Sending several packets with one call, each with its launch time and its id.

use crate::call;
use crate::peer::Peer;
use crate::socket::Socket;
use crate::{Error, check, message::Control};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::AsRawFd;

/// SCM_TS_OPT_ID (include/uapi/asm-generic/socket.h, Linux 6.13): the id a packet's timestamps will carry.
const SCM_TS_OPT_ID: libc::c_int = 81;

/// What stands next to each packet of a batch.
#[derive(Clone, Copy, Debug, Default)]
pub struct Beside {
    /// SCM_TXTIME: when it must leave.
    pub launch_time: bool,
    /// SCM_TS_OPT_ID: the id of its timestamps.
    pub id: bool,
}

/// Packets being prepared for one `sendmmsg`, all memory allocated beforehand.
pub struct Batch {
    packet_bytes: usize,
    beside: Beside,
    packets: Vec<u8>,
    /// Where they go, if their socket does not say it.
    destination: Peer,
    controls: Vec<Control>,
    vectors: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
}

// SAFETY: the pointers in `vectors` and `headers` are written just before each call that reads them, and point into the
// same batch; nothing outlives the call.
unsafe impl Send for Batch {}

impl Batch {
    /// A batch of up to `capacity` packets of `packet_bytes`, all zero.
    pub fn new(capacity: usize, packet_bytes: usize, beside: Beside) -> Self {
        // SAFETY: all-zero is a valid mmsghdr and iovec.
        let (header, vector): (libc::mmsghdr, libc::iovec) = unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        Self {
            packet_bytes,
            beside,
            packets: vec![0; capacity * packet_bytes],
            destination: Peer::default(),
            controls: vec![Control::new(); capacity],
            vectors: vec![vector; capacity],
            headers: vec![header; capacity],
        }
    }

    /// Has all packets go to `destination` from now on: for a socket that is not connected.
    pub fn set_destination(&mut self, destination: &Peer) {
        self.destination = *destination;
    }

    /// The bytes of packet `n`.
    pub fn packet(&self, n: usize) -> &[u8] {
        &self.packets[n * self.packet_bytes..(n + 1) * self.packet_bytes]
    }

    /// The bytes of packet `n`, to be written.
    pub fn packet_mut(&mut self, n: usize) -> &mut [u8] {
        &mut self.packets[n * self.packet_bytes..(n + 1) * self.packet_bytes]
    }

    /// Sets what stands next to packet `n`, as far as this batch has it: its launch time (ns) and its id.
    pub fn set_beside(&mut self, n: usize, launch_ns: i64, id: u32) {
        let control = &mut self.controls[n].0;
        let mut at = 0;
        if self.beside.launch_time {
            at += put(&mut control[at..], libc::SCM_TXTIME, &(launch_ns as u64).to_ne_bytes());
        }
        if self.beside.id {
            put(&mut control[at..], SCM_TS_OPT_ID, &id.to_ne_bytes());
        }
    }

    /// Hands packets `from..to` to the kernel; returns how many it took, at least 1.
    ///
    /// # Errors
    /// The kernel refused packet `from`; those after it were not tried.
    pub fn send(&mut self, socket: &Socket, from: usize, to: usize) -> Result<usize, Error> {
        let mut control_bytes = 0;
        // SAFETY: CMSG_SPACE only computes.
        unsafe {
            if self.beside.launch_time {
                control_bytes += libc::CMSG_SPACE(8) as usize;
            }
            if self.beside.id {
                control_bytes += libc::CMSG_SPACE(4) as usize;
            }
        }
        if control_bytes == 0 && to - from == 1 {
            // Nothing next to the packet, as it is with every answer: the shortest way in.
            let packet = self.packet(from);
            let (bytes, room) = (packet.as_ptr(), packet.len());
            let Peer { address, length } = &self.destination;
            let to = if *length > 0 { (&raw const *address).cast() } else { std::ptr::null() };
            // SAFETY: the packet's bytes and the address are valid for the call.
            let sent = unsafe { call::sendto(socket.as_raw_fd(), bytes, room, 0, to, *length) };
            return check(sent as libc::c_int, "sendto").map(|_| 1);
        }
        for n in from..to {
            let base = self.packets[n * self.packet_bytes..].as_mut_ptr();
            self.vectors[n] = libc::iovec { iov_base: base.cast(), iov_len: self.packet_bytes };
            let header = &mut self.headers[n].msg_hdr;
            header.msg_iov = &raw mut self.vectors[n];
            header.msg_iovlen = 1;
            if self.destination.length > 0 {
                header.msg_name = (&raw mut self.destination.address).cast();
                header.msg_namelen = self.destination.length;
            }
            if control_bytes > 0 {
                header.msg_control = self.controls[n].0.as_mut_ptr().cast();
                header.msg_controllen = control_bytes as _;
            }
        }
        if to - from == 1 {
            // One packet is the rule, and this call is the shorter way in.
            // SAFETY: the header and all it points to were just set up within this batch.
            let sent = unsafe { call::sendmsg(socket.as_raw_fd(), &raw const self.headers[from].msg_hdr, 0) };
            return check(sent as libc::c_int, "sendmsg").map(|_| 1);
        }
        let headers = self.headers[from..to].as_mut_ptr();
        // SAFETY: the headers and all they point to were just set up within this batch.
        let taken = unsafe { call::sendmmsg(socket.as_raw_fd(), headers, (to - from) as libc::c_uint, 0) };
        check(taken as libc::c_int, "sendmmsg").map(|taken| taken as usize)
    }
}

/// Writes one SOL_SOCKET control message and returns the room it takes.
fn put(at: &mut [u8], kind: libc::c_int, data: &[u8]) -> usize {
    // SAFETY: these only compute.
    let (length, space) =
        unsafe { (libc::CMSG_LEN(data.len() as u32) as usize, libc::CMSG_SPACE(data.len() as u32) as usize) };
    let header = length - data.len();
    at[..space].fill(0);
    at[..8].copy_from_slice(&(length as u64).to_ne_bytes());
    at[8..12].copy_from_slice(&libc::SOL_SOCKET.to_ne_bytes());
    at[12..16].copy_from_slice(&kind.to_ne_bytes());
    at[header..length].copy_from_slice(data);
    space
}

/// Whether this kernel lets a packet carry the id of its timestamps.
///
/// Asked by sending one byte to the discard port of the loopback address. Where ids are unknown the call is refused before
/// a route is looked up, so the answer is the same in a namespace whose loopback is down; that is also why the packet is
/// addressed and the socket not connected, which would need the route first (`udp_sendmsg`, net/ipv4/udp.c).
pub fn ids_supported() -> bool {
    const DISCARD: u16 = 9;
    let ask = || -> Result<Result<usize, Error>, Error> {
        let socket = Socket::udp(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)), None)?;
        socket.set_timestamping(crate::socket::Timestamping { tx_software: true, ids: true, ..Default::default() })?;
        let mut batch = Batch::new(1, 1, Beside { id: true, launch_time: false });
        batch.set_beside(0, 0, 1);
        batch.set_destination(&SocketAddr::from((Ipv4Addr::LOCALHOST, DISCARD)).into());
        Ok(batch.send(&socket, 0, 1))
    };
    // Anything else than a refusal of the id was looked at after the id: no route, for instance.
    ask().is_ok_and(|answer| !matches!(answer, Err(Error { errno: libc::EINVAL, .. })))
}
