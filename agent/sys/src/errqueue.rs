//! Reading a socket's error queue: transmit timestamps and launch-time errors.

use crate::message::{Control, for_each_control, timestamps};
use crate::socket::Socket;
use crate::{Error, check};
use std::os::fd::AsRawFd;
use wire::errqueue::Message;

/// Messages taken with one call; all memory is allocated beforehand.
const AT_ONCE: usize = 64;

/// Room for messages.
pub struct Buffer {
    packet_bytes: usize,
    packets: Vec<u8>,
    controls: Vec<Control>,
    vectors: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
}

// SAFETY: the pointers in `vectors` and `headers` are written just before each call that reads them, and point into the
// same buffer; nothing outlives the call.
unsafe impl Send for Buffer {}

impl Buffer {
    /// For packets of up to `packet_bytes`, headers included.
    pub fn new(packet_bytes: usize) -> Self {
        // SAFETY: all-zero is a valid mmsghdr and iovec.
        let (header, vector): (libc::mmsghdr, libc::iovec) = unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        Self {
            packet_bytes,
            packets: vec![0; AT_ONCE * packet_bytes],
            controls: vec![Control::new(); AT_ONCE],
            vectors: vec![vector; AT_ONCE],
            headers: vec![header; AT_ONCE],
        }
    }

    /// Takes what is in the queue now, up to one call's worth; returns how many messages there were. `each` is given the
    /// message and the packet spoken of with its headers, which is empty where only an id was asked for.
    ///
    /// # Errors
    /// Another error of the socket than an empty queue.
    pub fn drain(&mut self, socket: &Socket, mut each: impl FnMut(Message, &[u8])) -> Result<usize, Error> {
        for n in 0..AT_ONCE {
            let base = self.packets[n * self.packet_bytes..].as_mut_ptr();
            self.vectors[n] = libc::iovec { iov_base: base.cast(), iov_len: self.packet_bytes };
            let header = &mut self.headers[n].msg_hdr;
            header.msg_iov = &raw mut self.vectors[n];
            header.msg_iovlen = 1;
            header.msg_control = self.controls[n].0.as_mut_ptr().cast();
            header.msg_controllen = self.controls[n].0.len() as _;
            header.msg_flags = 0;
        }
        let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
        // SAFETY: the headers and all they point to were just set up within this buffer.
        let taken = unsafe {
            let headers = self.headers.as_mut_ptr();
            libc::recvmmsg(socket.as_raw_fd(), headers, AT_ONCE as libc::c_uint, flags as _, std::ptr::null_mut())
        };
        let taken = match check(taken, "recvmmsg MSG_ERRQUEUE") {
            Ok(taken) => taken as usize,
            Err(Error { errno: libc::EAGAIN | libc::EINTR, .. }) => return Ok(0),
            Err(error) => return Err(error),
        };
        for (n, header) in self.headers[..taken].iter().enumerate() {
            let at = n * self.packet_bytes;
            let length = (header.msg_len as usize).min(self.packet_bytes);
            let mut message = Message::default();
            // SAFETY: the header was just filled, and its control buffer is ours.
            unsafe { for_each_control(&header.msg_hdr, |level, kind, data| take_in(&mut message, level, kind, data)) };
            each(message, &self.packets[at..at + length]);
        }
        Ok(taken)
    }
}

fn take_in(message: &mut Message, level: libc::c_int, kind: libc::c_int, data: &[u8]) {
    match (level, kind) {
        (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) => {
            (message.software_ns, message.hardware_ns) = timestamps(data);
        }
        (libc::SOL_IP, libc::IP_RECVERR)
        | (libc::SOL_IPV6, libc::IPV6_RECVERR)
        | (libc::SOL_PACKET, libc::PACKET_TX_TIMESTAMP) => {
            // struct sock_extended_err: errno u32, origin u8, type u8, code u8, pad u8, info u32, data u32.
            let Some(error) = data.first_chunk::<16>() else { return };
            message.origin = error[4];
            message.code = error[6];
            message.info = u32::from_ne_bytes([error[8], error[9], error[10], error[11]]);
            message.data = u32::from_ne_bytes([error[12], error[13], error[14], error[15]]);
        }
        _ => {}
    }
}
