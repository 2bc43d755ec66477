//! Where whole packets come from, one at a time: a socket of datagrams or frames, or a connection cut into messages.
//!
//! The hot loops are made for one kind of inlet each, so that none of them asks which it is.

use crate::session::failed;
use std::sync::Arc;
use sys::peer::Peer;
use sys::receive::{Buffer, Packet, Wait};
use sys::socket::{FrameCount, Socket};
use sys::tcp::CUT;
use wire::event::{Failure, Rejected};

/// What stands for an errno when the other side has closed its connection, which is no error of a call.
const CLOSED: i32 = 0;

/// Where packets come in.
pub trait Inlet: Send {
    /// The next packet; None if there is none, or none in time.
    ///
    /// # Errors
    /// There will be none any more: [`ended`] says why.
    fn receive(&mut self, wait: Wait) -> Result<Option<Packet<'_>>, sys::Error>;

    /// Where the last one came from, if that is heeded; else nobody.
    fn from(&self) -> &Peer;

    /// How many packets the kernel had no room for.
    ///
    /// # Errors
    /// The call failed.
    fn drops(&self) -> Result<u64, sys::Error>;

    /// How many came without the VLAN tag that they have.
    ///
    /// # Errors
    /// The call failed.
    fn untagged(&self) -> Result<u64, sys::Error> {
        Ok(0)
    }

    /// Which ICMP answers to packets that went out by its socket came in by it.
    fn rejected(&self) -> Rejected {
        Rejected::default()
    }
}

/// What is heeded of a packet besides what it holds: the kernel is not asked for more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heed {
    /// The timestamps of the kernel and the NIC.
    pub stamps: bool,
    /// Whom it came from.
    pub sender: bool,
}

/// Datagrams or frames.
pub struct Datagrams {
    socket: Arc<Socket>,
    buffer: Buffer,
    from: Peer,
    heed: Heed,
    untagged: Option<FrameCount>,
    rejected: Rejected,
}

impl Datagrams {
    /// Those that come in at `socket`.
    pub fn new(socket: Arc<Socket>, heed: Heed) -> Self {
        Self {
            socket,
            buffer: Buffer::default(),
            from: Peer::default(),
            heed,
            untagged: None,
            rejected: Rejected::default(),
        }
    }

    /// The same; `untagged` counts those that come without their VLAN tag.
    pub fn counting(self, untagged: Option<FrameCount>) -> Self {
        Self { untagged, ..self }
    }
}

impl Inlet for Datagrams {
    #[inline]
    fn receive(&mut self, wait: Wait) -> Result<Option<Packet<'_>>, sys::Error> {
        let Self { socket, buffer, from, heed, rejected, .. } = self;
        let from = heed.sender.then_some(from);
        let received =
            if heed.stamps { buffer.receive_from(socket, wait, from) } else { buffer.receive_bare(socket, wait, from) };
        match received {
            // The peer is not there yet, or not any more: what was sent is lost, and that is all.
            Err(error) if error.may_be_icmp() => {
                rejected.note(error.errno);
                Ok(None)
            }
            received => received,
        }
    }

    fn from(&self) -> &Peer {
        &self.from
    }

    fn drops(&self) -> Result<u64, sys::Error> {
        self.socket.receive_drops()
    }

    fn untagged(&self) -> Result<u64, sys::Error> {
        self.untagged.as_ref().map_or(Ok(0), FrameCount::take)
    }

    fn rejected(&self) -> Rejected {
        self.rejected
    }
}

/// Messages of one size, one after the other in a stream of bytes.
pub struct Messages {
    socket: Arc<Socket>,
    /// The message that is coming in.
    bytes: Vec<u8>,
    /// How much of it has come in.
    have: usize,
    nowhere: Peer,
}

impl Messages {
    /// Those of `size` bytes that come over the connection `socket`.
    pub fn new(socket: Arc<Socket>, size: usize) -> Self {
        Self { socket, bytes: vec![0; size], have: 0, nowhere: Peer::default() }
    }
}

impl Inlet for Messages {
    #[inline]
    fn receive(&mut self, wait: Wait) -> Result<Option<Packet<'_>>, sys::Error> {
        if self.have == self.bytes.len() {
            self.have = 0;
        }
        // Never more than the rest of this message: the next one's arrival is then told by the next call.
        match self.socket.receive_bytes(&mut self.bytes[self.have..], wait)? {
            None => Ok(None),
            Some(0) => Err(sys::Error { call: "recv".into(), errno: CLOSED }),
            Some(more) => {
                self.have += more;
                let whole = self.have == self.bytes.len();
                Ok(whole.then_some(Packet { bytes: &self.bytes, software_ns: None, hardware_ns: None }))
            }
        }
    }

    fn from(&self) -> &Peer {
        &self.nowhere
    }

    /// None: TCP has the sender wait.
    fn drops(&self) -> Result<u64, sys::Error> {
        Ok(0)
    }
}

/// Why an inlet at `place` came to its end, as the lab gets it.
pub fn ended(error: sys::Error, place: &str) -> Failure {
    match error.errno {
        CLOSED => Failure {
            what: "the other side closed the connection".into(),
            place: place.into(),
            remedy: "see why the agent at the other end stopped: its error or its host's log says it".into(),
            errno: None,
        },
        errno if CUT.contains(&errno) => failed(
            error,
            place,
            "see why the agent at the other end stopped, or what between the two cut the connection",
        ),
        _ => failed(error, place, "see whether the interface went away"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};

    const ALL: Heed = Heed { stamps: true, sender: true };
    const NOTHING: Heed = Heed { stamps: false, sender: false };

    #[test]
    fn what_is_not_heeded_is_not_there() {
        let socket = Socket::udp((Ipv4Addr::LOCALHOST, 0).into(), None).unwrap();
        let wanted = sys::socket::Timestamping { rx_software: true, ..Default::default() };
        socket.set_timestamping(wanted).unwrap();
        socket.set_receive_timeout_ms(5000).unwrap();
        std::thread::sleep(crate::receiving::STAMPING_STARTS);
        let (to, socket) = (socket.local_address().unwrap(), Arc::new(socket));
        let other = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut answer = [0; 16];
        other.set_read_timeout(Some(std::time::Duration::from_secs(5))).unwrap();
        for heed in [ALL, NOTHING, Heed { stamps: false, ..ALL }, Heed { sender: false, ..ALL }] {
            let mut inlet = Datagrams::new(Arc::clone(&socket), heed);
            other.send_to(b"question", to).unwrap();
            let packet = inlet.receive(Wait::Block).unwrap().unwrap();
            assert_eq!(packet.bytes, b"question");
            assert_eq!((packet.software_ns.is_some(), packet.hardware_ns), (heed.stamps, None));
            let mut batch = sys::send::Batch::new(1, 6, sys::send::Beside::default());
            batch.packet_mut(0).copy_from_slice(b"answer");
            batch.set_destination(inlet.from());
            assert_eq!(batch.send(&socket, 0, 1).is_ok(), heed.sender);
            if heed.sender {
                assert_eq!(other.recv_from(&mut answer).unwrap(), (6, to));
            }
        }
    }

    fn connected() -> (Messages, TcpStream) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let socket = Socket::tcp((Ipv4Addr::LOCALHOST, 0).into(), "lo").unwrap();
        socket.connect_within(listener.local_addr().unwrap(), 5000).unwrap();
        (Messages::new(Arc::new(socket), 4), listener.accept().unwrap().0)
    }

    fn next(inlet: &mut impl Inlet) -> Vec<u8> {
        loop {
            if let Some(packet) = inlet.receive(Wait::Block).unwrap() {
                return packet.bytes.to_vec();
            }
        }
    }

    #[test]
    fn messages_are_whole_however_their_bytes_come_in() {
        let (mut inlet, mut other) = connected();
        other.set_nodelay(true).unwrap();
        other.write_all(b"oneptwopth").unwrap();
        assert_eq!((next(&mut inlet), next(&mut inlet)), (b"onep".to_vec(), b"twop".to_vec()));
        assert!(inlet.receive(Wait::Block).unwrap().is_none(), "half a message is none");
        other.write_all(b"rr").unwrap();
        assert_eq!(next(&mut inlet), b"thrr");
        assert!(inlet.receive(Wait::Never).unwrap().is_none());
        drop(other);
        let failure = ended(inlet.receive(Wait::Block).unwrap_err(), "here");
        assert_eq!((failure.what.as_str(), failure.errno), ("the other side closed the connection", None));
    }

    #[test]
    fn a_peer_that_is_not_there_is_no_error() {
        let gone = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
        let socket = Socket::udp((Ipv4Addr::LOCALHOST, 0).into(), None).unwrap();
        socket.connect(gone).unwrap();
        let mut batch = sys::send::Batch::new(1, 4, sys::send::Beside::default());
        batch.send(&socket, 0, 1).unwrap();
        socket.set_receive_timeout_ms(5000).unwrap();
        assert!(Datagrams::new(Arc::new(socket), ALL).receive(Wait::Block).unwrap().is_none());
    }

    #[test]
    fn looking_in_vain_allocates_nothing() {
        let (mut messages, _other) = connected();
        let socket = Socket::udp((Ipv4Addr::LOCALHOST, 0).into(), None).unwrap();
        let socket = Arc::new(socket);
        let mut datagrams = Datagrams::new(Arc::clone(&socket), ALL);
        let mut bare = Datagrams::new(socket, NOTHING);
        let before = sys::allocations::made_by_this_thread();
        for _ in 0..10 {
            assert!(messages.receive(Wait::Never).unwrap().is_none());
            assert!(datagrams.receive(Wait::Never).unwrap().is_none());
            assert!(bare.receive(Wait::Never).unwrap().is_none());
        }
        assert_eq!(sys::allocations::made_by_this_thread(), before);
    }
}
