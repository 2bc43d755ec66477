//! TCP connections for probes: made, taken, and messages cut out of their streams of bytes.

use crate::call;
use crate::receive::{Wait, received_length};
use crate::socket::Socket;
use crate::{Error, check};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::ptr::{null, null_mut};

/// The errnos that say that the other side, or something between, has cut the connection.
pub const CUT: [i32; 2] = [libc::ECONNRESET, libc::EPIPE];

/// Connections that wait while one is served.
const BACKLOG: libc::c_int = 16;

impl Socket {
    /// A TCP socket on `local`, bound to `interface`.
    ///
    /// # Errors
    /// The address is not this host's, the port is taken, there is no such interface, no CAP_NET_RAW.
    pub fn tcp(local: SocketAddr, interface: &str) -> Result<Self, Error> {
        let family = if local.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
        let socket = Self::new(family, libc::SOCK_STREAM, 0)?;
        socket.bind_to_device(interface)?;
        // Connections of an earlier listener that linger (TIME_WAIT) are no obstacle then.
        socket.set(libc::SOL_SOCKET, libc::SO_REUSEADDR, &1_i32, "SO_REUSEADDR")?;
        socket.bind(local)?;
        Ok(socket)
    }

    /// Connects to `peer`, waiting at most `ms`.
    ///
    /// # Errors
    /// ECONNREFUSED: nobody listens; ETIMEDOUT: no answer within that time; others.
    pub fn connect_within(&self, peer: SocketAddr, ms: i64) -> Result<(), Error> {
        // A blocking connect goes by the send timeout, and then says that it is still in progress (socket(7)).
        self.set_send_timeout_ms(ms)?;
        self.connect(peer).map_err(|error| match error.errno {
            libc::EINPROGRESS | libc::EAGAIN => Error { errno: libc::ETIMEDOUT, ..error },
            _ => error,
        })
    }

    /// Takes connections from now on.
    ///
    /// # Errors
    /// Another socket listens there.
    pub fn listen(&self) -> Result<(), Error> {
        // SAFETY: no pointer is passed.
        check(unsafe { libc::listen(self.as_raw_fd(), BACKLOG) }, "listen").map(drop)
    }

    /// The next connection; None if there was none within the socket's receive timeout.
    ///
    /// # Errors
    /// Another error of the socket than of one connection.
    pub fn accept(&self) -> Result<Option<Self>, Error> {
        let (address, length) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: the peer's address is not asked for.
        let fd = unsafe { libc::accept4(self.as_raw_fd(), address, length, libc::SOCK_CLOEXEC) };
        match check(fd, "accept4") {
            // SAFETY: `fd` is new and nobody else's.
            Ok(fd) => Ok(Some(unsafe { Self::from_new(fd) })),
            Err(Error { errno: libc::EAGAIN | libc::EINTR | libc::ECONNABORTED, .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Has every message sent at once, however small (TCP_NODELAY).
    ///
    /// # Errors
    /// It is no TCP socket.
    pub fn set_nodelay(&self) -> Result<(), Error> {
        self.set(libc::IPPROTO_TCP, libc::TCP_NODELAY, &1_i32, "TCP_NODELAY")
    }

    /// Hands all of `bytes` to the kernel, waiting for room while `going`.
    ///
    /// # Errors
    /// EAGAIN: not `going` any more, and some of them may be sent; EPIPE, ECONNRESET: the other side is gone; others.
    pub fn send_all(&self, mut bytes: &[u8], going: impl Fn() -> bool) -> Result<(), Error> {
        while !bytes.is_empty() {
            // SAFETY: `bytes` is valid for reading its length.
            let sent =
                unsafe { call::sendto(self.as_raw_fd(), bytes.as_ptr(), bytes.len(), libc::MSG_NOSIGNAL, null(), 0) };
            let errno = crate::errno();
            match usize::try_from(sent) {
                Ok(sent) => bytes = &bytes[sent..],
                Err(_) if matches!(errno, libc::EAGAIN | libc::EINTR) && going() => {}
                Err(_) => return Err(Error { call: "send".into(), errno }),
            }
        }
        Ok(())
    }

    /// Takes bytes in, as many as there are and fit; None if there are none (or not in time), Some(0) at the stream's end.
    ///
    /// # Errors
    /// ECONNRESET and others.
    pub fn receive_bytes(&self, into: &mut [u8], wait: Wait) -> Result<Option<usize>, Error> {
        // SAFETY: `into` is valid for writing its length.
        let received = unsafe {
            call::recvfrom(self.as_raw_fd(), into.as_mut_ptr(), into.len(), wait.flags(), null_mut(), null_mut())
        };
        received_length(received, "recv")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, TcpListener, TcpStream};

    const LOCAL: (Ipv4Addr, u16) = (Ipv4Addr::LOCALHOST, 0);

    #[test]
    fn a_connection_is_made_carries_bytes_both_ways_and_ends() {
        let listener = TcpListener::bind(LOCAL).unwrap();
        let socket = Socket::tcp(LOCAL.into(), "lo").unwrap();
        socket.connect_within(listener.local_addr().unwrap(), 5000).unwrap();
        socket.set_nodelay().unwrap();
        let (mut other, _) = listener.accept().unwrap();
        let mut buffer = [0; 8];
        assert_eq!(socket.receive_bytes(&mut buffer, Wait::Never), Ok(None));
        socket.send_all(b"question", || true).unwrap();
        other.read_exact(&mut buffer).unwrap();
        assert_eq!(&buffer, b"question");
        other.write_all(b"answer").unwrap();
        assert_eq!(socket.receive_bytes(&mut buffer, Wait::Block), Ok(Some(6)));
        drop(other);
        assert_eq!(socket.receive_bytes(&mut buffer, Wait::Block), Ok(Some(0)));
    }

    #[test]
    fn connections_are_taken_one_after_the_other_and_none_in_time_is_none() {
        let listener = Socket::tcp(LOCAL.into(), "lo").unwrap();
        listener.set_receive_timeout_ms(20).unwrap();
        listener.listen().unwrap();
        assert!(listener.accept().unwrap().is_none());
        let address = listener.local_address().unwrap();
        let asking = TcpStream::connect(address).unwrap();
        assert_eq!(asking.peer_addr().unwrap(), address);
        assert!(listener.accept().unwrap().is_some());
    }

    #[test]
    fn nobody_listening_is_refused() {
        let free = TcpListener::bind(LOCAL).unwrap().local_addr().unwrap();
        let socket = Socket::tcp(LOCAL.into(), "lo").unwrap();
        assert_eq!(socket.connect_within(free, 5000).unwrap_err().errno, libc::ECONNREFUSED);
    }

    #[test]
    fn a_message_that_finds_no_room_is_waited_for_only_while_it_goes_on() {
        let listener = TcpListener::bind(LOCAL).unwrap();
        let socket = Socket::tcp(LOCAL.into(), "lo").unwrap();
        socket.connect_within(listener.local_addr().unwrap(), 5000).unwrap();
        socket.set_send_timeout_ms(10).unwrap();
        let tries = std::cell::Cell::new(0);
        let going = || {
            tries.set(tries.get() + 1);
            tries.get() < 3
        };
        // More than the buffers of both ends can hold (tcp_wmem, tcp_rmem), and nobody reads.
        let error = socket.send_all(&vec![0; 64 << 20], going).unwrap_err();
        assert_eq!((error.errno, tries.get()), (libc::EAGAIN, 3));
    }
}
