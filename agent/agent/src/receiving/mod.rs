//! Packets on their way in: what sockets that take them in must have, and what becomes of each packet.

pub mod inlet;
pub mod intake;

use crate::session::failed;
use std::time::Duration;
use sys::socket::{FrameCount, Frames, Socket, Timestamping, Word};
use wire::event::Failure;
use wire::probe::Probe;
use wire::spec::Mode;

/// Destination, source, EtherType: what stands before the probe in a frame. A VLAN tag has been taken off by the kernel.
pub const ETHERNET_HEADER: usize = 14;
/// What a socket may hold of packets not yet read: a listener that is held up for a second must lose none.
const SOCKET_BYTES: i32 = 64 << 20;
/// The kernel starts to stamp received packets a little after it is asked to: `net_enable_timestamp` (net/core/dev.c) leaves
/// it to a work item. Packets that come before that have no software timestamp.
pub const STAMPING_STARTS: Duration = Duration::from_millis(50);

/// Counts the probes of a stream in a run that come in at `interface` without the tag that `frames` have; None: they have none.
/// `header`: how many bytes stand before the probe then.
///
/// Whatever took a tag off on their way, the filter of the stream's own socket keeps them from it.
///
/// # Errors
/// There is no such interface; no CAP_NET_RAW.
pub fn untagged(
    interface: &str,
    frames: Frames,
    header: usize,
    stream: u16,
    run_id: u64,
) -> Result<Option<FrameCount>, sys::Error> {
    if frames.vlan.is_none() {
        return Ok(None);
    }
    let mut at = header as u32;
    let words = Probe::beginning(stream, run_id).map(|(mask, value)| {
        at += 4;
        Word { at: at - 4, mask, value }
    });
    FrameCount::new(interface, Frames { vlan: None, ..frames }, &words).map(Some)
}

/// How packets are to be taken in.
#[derive(Clone, Copy, Debug)]
pub struct Manner {
    /// How the thread waits for them.
    pub mode: Mode,
    /// How long a receive call polls the NIC, µs, with [`Mode::BusyPoll`].
    pub busy_poll_us: Option<u32>,
    /// Ask for the NIC's receive timestamps.
    pub hardware_stamps: bool,
    /// Ask for the kernel's receive timestamps.
    pub software_stamps: bool,
}

impl Manner {
    /// Gives a socket of datagrams or frames what it takes; `place` is for messages.
    ///
    /// # Errors
    /// A missing privilege, or timestamps that the interface does not have.
    pub fn give(&self, socket: &Socket, place: &str) -> Result<(), Failure> {
        let problem = |remedy: &'static str| move |error: sys::Error| failed(error, place, remedy);
        let privileged = "run as root or with CAP_NET_ADMIN";
        socket.set_receive_buffer(SOCKET_BYTES).map_err(problem(privileged))?;
        if let (Mode::BusyPoll, Some(us)) = (self.mode, self.busy_poll_us) {
            socket.set_busy_poll(us).map_err(problem(privileged))?;
        }
        let wanted = Timestamping {
            rx_software: self.software_stamps,
            rx_hardware: self.hardware_stamps,
            ..Timestamping::default()
        };
        socket.set_timestamping(wanted).map_err(problem("ask only for timestamps the interface has (ethtool -T)"))
    }
}
