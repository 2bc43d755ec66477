//! The ends of a way there and back, on this side: what goes out and what comes in, over each transport.
//!
//! Transmit timestamps come back at the socket that sends, and wake whoever waits at it for something else
//! (`sock_queue_err_skb`, net/core/skbuff.c, tells waiters; `receiver_wake_function`, net/core/datagram.c, heeds it): with the
//! timestamps of a qdisc or a NIC that would be just while the answer is awaited. So where there are to be timestamps, what goes
//! out has a socket of its own. Where there are none it goes by the one socket there is.

use crate::receiving::inlet::{Datagrams, Heed, Messages};
use crate::receiving::{ETHERNET_HEADER, Manner, untagged};
use crate::round::Side;
use crate::sending::lane::{self, Lane, Load, NO_INTERFACE, PRIVILEGED, ethernet_header, own_mac};
use crate::session::failed;
use std::net::SocketAddr;
use std::sync::Arc;
use sys::socket::{FrameCount, Frames, Socket};
use wire::event::Failure;
use wire::spec::{Mode, PingSide, Stamps};

/// So often a thread that waits for room in a connection looks whether it is to end.
const SEND_TIMEOUT_MS: i64 = 100;

/// A way out and a way in.
pub enum Ends {
    /// Of datagrams or frames.
    Packets(Lane, Box<Datagrams>),
    /// Of messages, both over one connection.
    Bytes(Lane, Messages),
}

impl Ends {
    /// The way out.
    pub fn lane_mut(&mut self) -> &mut Lane {
        let (Self::Packets(lane, _) | Self::Bytes(lane, _)) = self;
        lane
    }
}

/// What the ends are made by.
pub struct Wiring {
    /// The probe's name and interface, for messages.
    pub place: String,
    /// What both ends go by.
    pub interface: String,
    /// SO_PRIORITY.
    pub priority: u32,
    /// Which transmit timestamps.
    pub stamps: Stamps,
    /// How packets are waited for.
    pub manner: Manner,
    /// What is heeded of packets that come in.
    pub heed: Heed,
    /// What goes out.
    pub load: Load,
    /// Number of the stream that comes in.
    pub hears: u16,
    /// Tells this run's packets from others'.
    pub run_id: u64,
}

impl Wiring {
    /// What `spec` asks for, of `side`: so many packets handed over `at_once`. `answers`: to wherever packets come from.
    pub fn new(spec: &PingSide, side: &Side, at_once: usize, answers: bool) -> Self {
        let &PingSide { mode, busy_poll_us, hardware_stamps, .. } = spec;
        let software_stamps = side.software_stamps;
        Self {
            place: format!("probe {} on {}", spec.name, spec.interface),
            interface: spec.interface.clone(),
            priority: spec.priority,
            stamps: side.stamps.clone(),
            manner: Manner { mode, busy_poll_us, hardware_stamps, software_stamps },
            heed: Heed { stamps: hardware_stamps || software_stamps, sender: answers },
            load: Load { stream: side.sends, size: side.size, at_once, ids: side.ids },
            hears: side.hears,
            run_id: side.run_id,
        }
    }

    /// What a failed call comes to, with what to do about it.
    pub fn problem(&self, remedy: &'static str) -> impl FnOnce(sys::Error) -> Failure {
        move |error| failed(error, &self.place, remedy)
    }

    /// Datagrams, in and out at the address of `socket`.
    ///
    /// # Errors
    /// A missing privilege, or timestamps that the interface does not have.
    pub fn datagrams(&self, socket: Socket) -> Result<Ends, Failure> {
        let socket = Arc::new(socket);
        let out = if self.stamps.any() {
            Arc::new(Socket::udp_beside(&socket, &self.interface).map_err(self.problem(PRIVILEGED))?)
        } else {
            Arc::clone(&socket)
        };
        self.packets(out, &[], socket, None)
    }

    /// Frames of `ethertype`; those that go out go to `destination`.
    ///
    /// # Errors
    /// No such interface, or one without a MAC address; a missing privilege, or timestamps that it does not have.
    pub fn frames(
        &self,
        destination: [u8; 6],
        ethertype: u16,
        vlan: Option<u16>,
        pcp: Option<u8>,
    ) -> Result<Ends, Failure> {
        let open = |frames| Socket::ethernet(&self.interface, frames).map_err(self.problem(NO_INTERFACE));
        let frames = Frames { ethertype, vlan };
        let (out, back) = (open(None)?, open(Some(frames))?);
        let untagged = untagged(&self.interface, frames, ETHERNET_HEADER, self.hears, self.run_id)
            .map_err(self.problem(NO_INTERFACE))?;
        let header = ethernet_header(destination, own_mac(&self.interface)?, ethertype, vlan, pcp);
        self.packets(Arc::new(out), &header, Arc::new(back), untagged)
    }

    fn packets(
        &self,
        out: Arc<Socket>,
        header: &[u8],
        back: Arc<Socket>,
        untagged: Option<FrameCount>,
    ) -> Result<Ends, Failure> {
        lane::give(&out, self.priority, &self.stamps, self.load.ids, &self.place)?;
        self.manner.give(&back, &self.place)?;
        Ok(Ends::Packets(
            Lane::through(out, header, &self.load),
            Box::new(Datagrams::new(back, self.heed).counting(untagged)),
        ))
    }

    /// A TCP socket on `local`, for a connection or for taking them.
    ///
    /// # Errors
    /// The address is not this host's or the port is taken; there is no such interface.
    pub fn tcp(&self, local: SocketAddr) -> Result<Socket, Failure> {
        Socket::tcp(local, &self.interface).map_err(self.problem(
            "check that the interface exists, has the address (ip addr) and nothing else uses the port (ss -tlpn)",
        ))
    }

    /// Messages, in and out over a connection that is made; or none, of a socket that takes connections.
    ///
    /// # Errors
    /// A missing privilege.
    pub fn messages(&self, connection: Socket) -> Result<Ends, Failure> {
        let give = || {
            connection.set_nodelay()?;
            connection.set_priority(self.priority)?;
            connection.set_send_buffer(lane::SEND_BYTES)?;
            connection.set_send_timeout_ms(SEND_TIMEOUT_MS)?;
            match (self.manner.mode, self.manner.busy_poll_us) {
                (Mode::BusyPoll, Some(us)) => connection.set_busy_poll(us),
                _ => Ok(()),
            }
        };
        give().map_err(self.problem(PRIVILEGED))?;
        let connection = Arc::new(connection);
        let messages = Messages::new(Arc::clone(&connection), self.load.size);
        Ok(Ends::Bytes(Lane::of_bytes(connection, &self.load), messages))
    }
}
