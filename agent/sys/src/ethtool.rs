//! What a network interface's driver says of itself (the SIOCETHTOOL ioctl, `include/uapi/linux/ethtool.h`).
//!
//! Read only. Every structure asked for is made of 32-bit words (text and 64-bit counters are multiples of them), so
//! one call with a buffer of words serves all of them. A question a driver does not answer is EOPNOTSUPP.

use crate::{Error, check};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// A structure of `ethtool.h` or `net_tstamp.h`: how it is asked for, and its fixed size.
struct Question {
    request: u32,
    /// First word of the structure; None for structures that do not begin with a command.
    command: Option<u32>,
    words: usize,
    name: &'static str,
}

const SIOCETHTOOL: u32 = 0x8946;
const SIOCGHWTSTAMP: u32 = 0x89b1;

const fn ethtool(command: u32, words: usize, name: &'static str) -> Question {
    Question { request: SIOCETHTOOL, command: Some(command), words, name }
}

const DRIVER: Question = ethtool(0x03, 49, "ETHTOOL_GDRVINFO");
const COALESCING: Question = ethtool(0x0e, 23, "ETHTOOL_GCOALESCE");
const RINGS: Question = ethtool(0x10, 9, "ETHTOOL_GRINGPARAM");
const PAUSE: Question = ethtool(0x12, 4, "ETHTOOL_GPAUSEPARAM");
const STRINGS: Question = ethtool(0x1b, 3, "ETHTOOL_GSTRINGS");
const STATISTICS: Question = ethtool(0x1d, 2, "ETHTOOL_GSTATS");
const STRING_SET: Question = ethtool(0x37, 5, "ETHTOOL_GSSET_INFO");
const FEATURES: Question = ethtool(0x3a, 2, "ETHTOOL_GFEATURES");
const CHANNELS: Question = ethtool(0x3c, 9, "ETHTOOL_GCHANNELS");
const TIMESTAMPING: Question = ethtool(0x41, 11, "ETHTOOL_GET_TS_INFO");
const EEE: Question = ethtool(0x44, 10, "ETHTOOL_GEEE");
const STAMPING_NOW: Question = Question { request: SIOCGHWTSTAMP, command: None, words: 3, name: "SIOCGHWTSTAMP" };

/// String sets (`enum ethtool_stringset`).
const SET_STATISTICS: u32 = 1;
const SET_FEATURES: u32 = 4;
const STRING_WORDS: usize = 8;

/// `struct ethtool_drvinfo`; what the driver leaves empty is an empty string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Driver {
    /// The driver's name.
    pub name: String,
    /// Its version: the kernel's release for most.
    pub version: String,
    /// The NIC's firmware.
    pub firmware: String,
    /// Where the NIC is, such as a PCI address.
    pub bus: String,
}

/// `struct ethtool_ts_info`: what the NIC and its driver can stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timestamping {
    /// SOF_TIMESTAMPING_* bits.
    pub flags: u32,
    /// Number of its PTP hardware clock.
    pub phc_index: Option<u32>,
    /// One bit an `enum hwtstamp_tx_types`.
    pub tx_types: u32,
    /// One bit an `enum hwtstamp_rx_filters`.
    pub rx_filters: u32,
}

/// `struct hwtstamp_config`: what the NIC stamps now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StampingNow {
    /// An `enum hwtstamp_tx_types`.
    pub tx_type: u32,
    /// An `enum hwtstamp_rx_filters`.
    pub rx_filter: u32,
}

/// `struct ethtool_channels`: in use, and at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Channels {
    /// Receive only, transmit only, other, combined: in use.
    pub in_use: [u32; 4],
    /// The same: at most.
    pub most: [u32; 4],
}

/// `struct ethtool_coalesce`, the part every driver may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coalescing {
    /// Longest wait before a receive interrupt, µs.
    pub rx_us: u32,
    /// Most packets before a receive interrupt.
    pub rx_frames: u32,
    /// Longest wait before a transmit interrupt, µs.
    pub tx_us: u32,
    /// Most packets before a transmit interrupt.
    pub tx_frames: u32,
    /// The receive wait follows the load.
    pub adaptive_rx: bool,
    /// The transmit wait follows the load.
    pub adaptive_tx: bool,
}

/// `struct ethtool_ringparam`: descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rings {
    /// Of a receive ring.
    pub rx: u32,
    /// Of a receive ring, at most.
    pub rx_most: u32,
    /// Of a transmit ring.
    pub tx: u32,
    /// Of a transmit ring, at most.
    pub tx_most: u32,
}

/// `struct ethtool_pauseparam`: IEEE 802.3 flow control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// Negotiated with the link partner.
    pub autonegotiated: bool,
    /// Pause frames are obeyed.
    pub rx: bool,
    /// Pause frames are sent.
    pub tx: bool,
}

/// `struct ethtool_eee`: Energy-Efficient Ethernet, which lets an idle link sleep and wake late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Eee {
    /// Switched on.
    pub enabled: bool,
    /// In force: the link partner agreed.
    pub active: bool,
    /// The link rests when there is nothing to send.
    pub tx_idle: bool,
    /// After how long without a packet, µs.
    pub tx_idle_us: u32,
}

/// A socket through which drivers are asked. It sees the interfaces of the network namespace it was opened in.
#[derive(Debug)]
pub struct Ethtool {
    fd: OwnedFd,
}

impl Ethtool {
    /// A socket for asking.
    ///
    /// # Errors
    /// No socket can be had.
    pub fn open() -> Result<Self, Error> {
        // SAFETY: no pointer is passed.
        let fd = check(unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) }, "socket")?;
        // SAFETY: `fd` is new and nobody else's.
        Ok(Self { fd: unsafe { OwnedFd::from_raw_fd(fd) } })
    }

    /// The driver of `interface`.
    ///
    /// # Errors
    /// ENODEV; EOPNOTSUPP.
    pub fn driver(&self, interface: &str) -> Result<Driver, Error> {
        let words = self.ask(interface, &DRIVER, &[], 0)?;
        let field = |first: usize| text(&words[first..first + STRING_WORDS]);
        Ok(Driver { name: field(1), version: field(9), firmware: field(17), bus: field(25) })
    }

    /// What `interface` can stamp.
    ///
    /// # Errors
    /// ENODEV; EOPNOTSUPP.
    pub fn timestamping(&self, interface: &str) -> Result<Timestamping, Error> {
        let words = self.ask(interface, &TIMESTAMPING, &[], 0)?;
        Ok(Timestamping {
            flags: words[1],
            phc_index: u32::try_from(words[2] as i32).ok(),
            tx_types: words[3],
            rx_filters: words[7],
        })
    }

    /// What the NIC of `interface` stamps now.
    ///
    /// # Errors
    /// ENODEV; EOPNOTSUPP, as without hardware stamps.
    pub fn stamping_now(&self, interface: &str) -> Result<StampingNow, Error> {
        let words = self.ask(interface, &STAMPING_NOW, &[], 0)?;
        Ok(StampingNow { tx_type: words[1], rx_filter: words[2] })
    }

    /// Queues of `interface`, as the driver groups them.
    ///
    /// # Errors
    /// ENODEV; EOPNOTSUPP.
    pub fn channels(&self, interface: &str) -> Result<Channels, Error> {
        let words = self.ask(interface, &CHANNELS, &[], 0)?;
        Ok(Channels {
            most: [words[1], words[2], words[3], words[4]],
            in_use: [words[5], words[6], words[7], words[8]],
        })
    }

    /// How `interface` gathers packets before it interrupts.
    ///
    /// # Errors
    /// ENODEV; EOPNOTSUPP.
    pub fn coalescing(&self, interface: &str) -> Result<Coalescing, Error> {
        let words = self.ask(interface, &COALESCING, &[], 0)?;
        Ok(Coalescing {
            rx_us: words[1],
            rx_frames: words[2],
            tx_us: words[5],
            tx_frames: words[6],
            adaptive_rx: words[10] != 0,
            adaptive_tx: words[11] != 0,
        })
    }

    /// Descriptor rings of `interface`.
    ///
    /// # Errors
    /// ENODEV; EOPNOTSUPP.
    pub fn rings(&self, interface: &str) -> Result<Rings, Error> {
        let words = self.ask(interface, &RINGS, &[], 0)?;
        Ok(Rings { rx_most: words[1], tx_most: words[4], rx: words[5], tx: words[8] })
    }

    /// Flow control of `interface`.
    ///
    /// # Errors
    /// ENODEV; EOPNOTSUPP.
    pub fn pause(&self, interface: &str) -> Result<Pause, Error> {
        let words = self.ask(interface, &PAUSE, &[], 0)?;
        Ok(Pause { autonegotiated: words[1] != 0, rx: words[2] != 0, tx: words[3] != 0 })
    }

    /// Energy-Efficient Ethernet on `interface`.
    ///
    /// # Errors
    /// ENODEV; EOPNOTSUPP.
    pub fn eee(&self, interface: &str) -> Result<Eee, Error> {
        let words = self.ask(interface, &EEE, &[], 0)?;
        Ok(Eee { active: words[4] != 0, enabled: words[5] != 0, tx_idle: words[6] != 0, tx_idle_us: words[7] })
    }

    /// Each offload `interface` could have, by the kernel's name for it, and whether it is on.
    ///
    /// # Errors
    /// ENODEV; EOPNOTSUPP.
    pub fn features(&self, interface: &str) -> Result<Vec<(String, bool)>, Error> {
        let names = self.strings(interface, SET_FEATURES)?;
        // Blocks of 32 features: available, requested, active, never changed.
        let blocks = names.len().div_ceil(32);
        let words = self.ask(interface, &FEATURES, &[blocks as u32], 4 * blocks)?;
        let active = |n: usize| words[2 + n / 32 * 4 + 2] >> (n % 32) & 1 == 1;
        Ok(names
            .into_iter()
            .enumerate()
            .filter(|(_, name)| !name.is_empty())
            .map(|(n, name)| (name, active(n)))
            .collect())
    }

    /// The driver's own counters of `interface`, in its order. Names may repeat.
    ///
    /// # Errors
    /// ENODEV; EOPNOTSUPP.
    pub fn statistics(&self, interface: &str) -> Result<Vec<(String, u64)>, Error> {
        let names = self.strings(interface, SET_STATISTICS)?;
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let words = self.ask(interface, &STATISTICS, &[names.len() as u32], spare(names.len()) * 2)?;
        let values = words[2..].chunks_exact(2).map(|pair| {
            let [a, b] = [pair[0].to_ne_bytes(), pair[1].to_ne_bytes()];
            u64::from_ne_bytes([a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3]])
        });
        Ok(names.into_iter().zip(values).take(words[1] as usize).collect())
    }

    /// The strings of a set; none if the driver has no such set.
    fn strings(&self, interface: &str, set: u32) -> Result<Vec<String>, Error> {
        // reserved, then the mask of sets asked for (u64): its low word comes first on little-endian machines.
        let mask = (1_u64 << set).to_ne_bytes();
        let half = |at: usize| u32::from_ne_bytes([mask[at], mask[at + 1], mask[at + 2], mask[at + 3]]);
        let answer = self.ask(interface, &STRING_SET, &[0, half(0), half(4)], 0)?;
        let known = answer[2] != 0 || answer[3] != 0;
        let count = if known { answer[4] as usize } else { 0 };
        if count == 0 {
            return Ok(Vec::new());
        }
        let words = self.ask(interface, &STRINGS, &[set, count as u32], spare(count) * STRING_WORDS)?;
        Ok(words[3..].chunks_exact(STRING_WORDS).take(count.min(words[2] as usize)).map(text).collect())
    }

    /// The structure the kernel filled in: its fixed words and `more` after them. `beside` follows the command.
    fn ask(&self, interface: &str, question: &Question, beside: &[u32], more: usize) -> Result<Vec<u32>, Error> {
        let call = || format!("{} {interface}", question.name);
        let mut words = vec![0_u32; question.words + more];
        let start = question.command.iter().chain(beside);
        words.iter_mut().zip(start).for_each(|(word, value)| *word = *value);

        // SAFETY: all-zero is a valid ifreq.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        // The last byte stays zero, so the name is terminated.
        if interface.is_empty() || interface.len() >= request.ifr_name.len() {
            return Err(Error { call: call(), errno: libc::ENODEV });
        }
        for (to, from) in request.ifr_name.iter_mut().zip(interface.bytes()) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
        // SAFETY: `request` is a valid ifreq whose data has the size of the structure its command is for. Where the
        // kernel itself chooses how many strings or counters to write, `spare` left room for four times as many as
        // there were just before.
        let result = unsafe { libc::ioctl(self.fd.as_raw_fd(), question.request as _, &raw mut request) };
        check(result, question.name).map_err(|error| Error { call: call(), ..error })?;
        Ok(words)
    }
}

/// Room for `count` entries whose number the driver may raise before the next call.
fn spare(count: usize) -> usize {
    4 * count + 256
}

/// The text in a fixed-size field, up to its first zero byte.
fn text(words: &[u32]) -> String {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&bytes).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_stamps_in_software_and_has_no_clock_of_its_own() {
        let found = Ethtool::open().unwrap().timestamping("lo").unwrap();
        assert_eq!(found.phc_index, None);
        assert_ne!(found.flags & libc::SOF_TIMESTAMPING_RX_SOFTWARE, 0);
    }

    #[test]
    fn features_carry_the_names_the_kernel_gives_them() {
        let features = Ethtool::open().unwrap().features("lo").unwrap();
        assert!(features.iter().any(|(name, on)| name == "loopback" && *on), "{features:?}");
    }

    #[test]
    fn an_interface_that_is_not_there_is_named_in_the_error() {
        let error = Ethtool::open().unwrap().driver("no-such-nic").unwrap_err();
        assert_eq!((error.call.as_str(), error.errno), ("ETHTOOL_GDRVINFO no-such-nic", libc::ENODEV));
        let long = Ethtool::open().unwrap().driver("a-name-too-long-for-the-kernel").unwrap_err();
        assert_eq!(long.errno, libc::ENODEV);
    }

    #[test]
    fn a_question_the_driver_does_not_answer_is_an_error() {
        let error = Ethtool::open().unwrap().channels("lo").unwrap_err();
        assert_eq!(error.errno, libc::EOPNOTSUPP);
    }

    #[test]
    fn text_ends_at_its_first_zero_byte() {
        let mut words = [0_u32; 2];
        words[0] = u32::from_ne_bytes(*b"igc\0");
        words[1] = u32::from_ne_bytes(*b"junk");
        assert_eq!(text(&words), "igc");
    }
}
