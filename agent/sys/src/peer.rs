//! Where a packet came from or is to go, as the kernel writes it.

use std::net::SocketAddr;

/// An address of a socket, or nobody's.
#[derive(Clone, Copy)]
pub struct Peer {
    pub(crate) address: libc::sockaddr_storage,
    pub(crate) length: libc::socklen_t,
}

impl Default for Peer {
    fn default() -> Self {
        // SAFETY: all-zero is a valid sockaddr_storage, of an unspecified family.
        Self { address: unsafe { std::mem::zeroed() }, length: 0 }
    }
}

impl From<SocketAddr> for Peer {
    fn from(address: SocketAddr) -> Self {
        // SAFETY: all-zero is a valid sockaddr_storage, which is large and aligned enough for either family.
        let mut storage: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
        let length = match address {
            SocketAddr::V4(v4) => {
                let raw = libc::sockaddr_in {
                    sin_family: libc::AF_INET as u16,
                    sin_port: v4.port().to_be(),
                    sin_addr: libc::in_addr { s_addr: u32::from(*v4.ip()).to_be() },
                    sin_zero: [0; 8],
                };
                // SAFETY: see above.
                unsafe { (&raw mut storage).cast::<libc::sockaddr_in>().write(raw) };
                size_of::<libc::sockaddr_in>()
            }
            SocketAddr::V6(v6) => {
                let raw = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as u16,
                    sin6_port: v6.port().to_be(),
                    sin6_flowinfo: v6.flowinfo(),
                    sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                    sin6_scope_id: v6.scope_id(),
                };
                // SAFETY: see above.
                unsafe { (&raw mut storage).cast::<libc::sockaddr_in6>().write(raw) };
                size_of::<libc::sockaddr_in6>()
            }
        };
        Self { address: storage, length: length as libc::socklen_t }
    }
}

impl Peer {
    /// The MAC address a frame came from; None if this is where no frame came from.
    pub fn mac(&self) -> Option<[u8; 6]> {
        if i32::from(self.address.ss_family) != libc::AF_PACKET {
            return None;
        }
        // SAFETY: what the kernel writes for this family is a sockaddr_ll, which is smaller and no more strictly aligned.
        let link = unsafe { &*(&raw const self.address).cast::<libc::sockaddr_ll>() };
        (link.sll_halen == 6).then(|| [0, 1, 2, 3, 4, 5].map(|n: usize| link.sll_addr[n]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::receive::{Buffer, Wait};
    use crate::send::{Batch, Beside};
    use crate::socket::Socket;
    use std::net::{Ipv4Addr, Ipv6Addr, UdpSocket};

    /// Sockets that share a port of an address: what the second sends comes from it, what comes back goes to the first.
    #[test]
    fn an_answer_finds_the_first_of_two_sockets_and_a_question_says_where_to() {
        for address in [SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), SocketAddr::from((Ipv6Addr::LOCALHOST, 0))] {
            let Ok(other) = UdpSocket::bind(address) else { continue };
            let first = Socket::udp(address, Some("lo")).unwrap();
            let second = Socket::udp_beside(&first, "lo").unwrap();
            first.set_receive_timeout_ms(5000).unwrap();
            for connected in [false, true] {
                if connected {
                    first.connect(other.local_addr().unwrap()).unwrap();
                }
                let mut batch = Batch::new(1, 5, Beside::default());
                batch.set_destination(&other.local_addr().unwrap().into());
                batch.packet_mut(0).copy_from_slice(b"where");
                batch.send(&second, 0, 1).unwrap();
                let mut asked = [0; 8];
                let (length, from) = other.recv_from(&mut asked).unwrap();
                assert_eq!((&asked[..length], from), (&b"where"[..], first.local_address().unwrap()));
                other.send_to(b"here", from).unwrap();
                let (mut buffer, mut peer) = (Buffer::default(), Peer::default());
                let answer = buffer.receive_from(&first, Wait::Block, Some(&mut peer)).unwrap().unwrap();
                assert_eq!(answer.bytes, b"here");
                assert_eq!(peer.mac(), None);
                // And so back once more, to where it came from.
                batch.set_destination(&peer);
                batch.send(&second, 0, 1).unwrap();
                assert_eq!(other.recv(&mut asked).unwrap(), 5);
            }
            assert_eq!(
                UdpSocket::bind(first.local_address().unwrap()).unwrap_err().raw_os_error(),
                Some(libc::EADDRINUSE)
            );
        }
    }
}
