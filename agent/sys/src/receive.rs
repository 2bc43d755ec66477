//! Receiving one packet with its timestamps.

use crate::call;
use crate::message::{Control, for_each_control, timestamps};
use crate::peer::Peer;
use crate::socket::Socket;
use crate::{Error, check};
use std::os::fd::AsRawFd;
use std::ptr::null_mut;

/// Room for one packet, allocated beforehand.
pub struct Buffer {
    bytes: Vec<u8>,
    control: Control,
}

/// A packet as it was received.
#[derive(Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// What it holds: a datagram's payload, or a whole frame without its VLAN tag.
    pub bytes: &'a [u8],
    /// The kernel's receive timestamp, CLOCK_REALTIME ns.
    pub software_ns: Option<i64>,
    /// The NIC's receive timestamp, NIC clock ns.
    pub hardware_ns: Option<i64>,
}

/// Whether a receive call sleeps until there is a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// It does, up to the socket's receive timeout if it has one, or until a signal comes.
    Block,
    /// It returns at once.
    Never,
}

impl Wait {
    pub(crate) fn flags(self) -> libc::c_int {
        if self == Self::Never { libc::MSG_DONTWAIT } else { 0 }
    }
}

const LARGEST_PACKET: usize = 65_536;

impl Default for Buffer {
    fn default() -> Self {
        Self { bytes: vec![0; LARGEST_PACKET], control: Control::new() }
    }
}

impl Buffer {
    /// Receives one packet; None if there was none (or not in time, or a signal came).
    ///
    /// # Errors
    /// The interface went away, or another error of the socket.
    pub fn receive(&mut self, socket: &Socket, wait: Wait) -> Result<Option<Packet<'_>>, Error> {
        self.receive_from(socket, wait, None)
    }

    /// As [`Self::receive`], and notes in `from`, if there is one, where it came from.
    ///
    /// # Errors
    /// As of [`Self::receive`].
    #[inline]
    pub fn receive_from(
        &mut self,
        socket: &Socket,
        wait: Wait,
        mut from: Option<&mut Peer>,
    ) -> Result<Option<Packet<'_>>, Error> {
        let mut vector = libc::iovec { iov_base: self.bytes.as_mut_ptr().cast(), iov_len: self.bytes.len() };
        // SAFETY: all-zero is a valid msghdr.
        let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
        header.msg_iov = &raw mut vector;
        header.msg_iovlen = 1;
        header.msg_control = self.control.0.as_mut_ptr().cast();
        header.msg_controllen = self.control.0.len() as _;
        if let Some(from) = from.as_deref_mut() {
            header.msg_name = (&raw mut from.address).cast();
            header.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
        }
        // SAFETY: the header and all it points to are valid for the call.
        let received = unsafe { call::recvmsg(socket.as_raw_fd(), &raw mut header, wait.flags()) };
        let Some(length) = received_length(received, "recvmsg")? else { return Ok(None) };
        if let Some(from) = from {
            from.length = header.msg_namelen;
        }
        let (mut software_ns, mut hardware_ns) = (None, None);
        // SAFETY: `header` was just filled, and its control buffer is ours.
        unsafe {
            for_each_control(&header, |level, kind, data| {
                if (level, kind) == (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) {
                    (software_ns, hardware_ns) = timestamps(data);
                }
            });
        }
        Ok(Some(Packet { bytes: &self.bytes[..length], software_ns, hardware_ns }))
    }

    /// As [`Self::receive`], without timestamps, and with a call that is quicker by what it costs the kernel to look for them.
    ///
    /// # Errors
    /// As of [`Self::receive`].
    #[inline]
    pub fn receive_bare(
        &mut self,
        socket: &Socket,
        wait: Wait,
        from: Option<&mut Peer>,
    ) -> Result<Option<Packet<'_>>, Error> {
        let (bytes, room) = (self.bytes.as_mut_ptr(), self.bytes.len());
        let received = match from {
            None => {
                // SAFETY: `bytes` is valid for writing `room`.
                unsafe { call::recvfrom(socket.as_raw_fd(), bytes, room, wait.flags(), null_mut(), null_mut()) }
            }
            Some(Peer { address, length }) => {
                *length = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
                let (address, length) = ((&raw mut *address).cast(), &raw mut *length);
                // SAFETY: `bytes` is valid for writing `room`, and `address` for `length`.
                unsafe { call::recvfrom(socket.as_raw_fd(), bytes, room, wait.flags(), address, length) }
            }
        };
        let received = received_length(received, "recv")?;
        Ok(received.map(|length| Packet { bytes: &self.bytes[..length], software_ns: None, hardware_ns: None }))
    }
}

/// What a receive call returned, as a number of bytes; None: there was nothing, or a signal came.
pub(crate) fn received_length(returned: isize, call: &str) -> Result<Option<usize>, Error> {
    // An error is put into words, which takes memory, only if it is one: a thread that spins gets EAGAIN all the time.
    match usize::try_from(returned) {
        Ok(length) => Ok(Some(length)),
        Err(_) if matches!(crate::errno(), libc::EAGAIN | libc::EINTR) => Ok(None),
        Err(_) => Err(Error::last(call)),
    }
}

/// Waits until one of `sockets` has a packet, or a signal comes; calls `ready(position)` for each that has.
///
/// # Errors
/// `poll` failed.
pub fn wait_for_any(sockets: &mut PollSet, mut ready: impl FnMut(usize)) -> Result<(), Error> {
    // SAFETY: the array is valid for reading and writing its length.
    let result = unsafe { libc::poll(sockets.0.as_mut_ptr(), sockets.0.len() as libc::nfds_t, -1) };
    match check(result, "poll") {
        Err(Error { errno: libc::EINTR, .. }) => Ok(()),
        Err(error) => Err(error),
        Ok(_) => {
            sockets.0.iter().enumerate().filter(|(_, poll)| poll.revents != 0).for_each(|(n, _)| ready(n));
            Ok(())
        }
    }
}

/// Sockets to wait for, prepared beforehand.
pub struct PollSet(Vec<libc::pollfd>);

impl PollSet {
    /// Of these sockets, which must outlive it.
    pub fn new(sockets: &[Socket]) -> Self {
        Self(sockets.iter().map(|s| libc::pollfd { fd: s.as_raw_fd(), events: libc::POLLIN, revents: 0 }).collect())
    }
}
