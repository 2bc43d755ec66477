//! Management of a PTP clock, as far as looking at it goes (IEEE 1588-2019, clause 15): questions, answers, and what
//! several answers together say of the clock. Nothing here can change a clock: the only action is GET.
//!
//! Big endian throughout. linuxptp's ptp4l takes these messages at a Unix socket of its own (`uds_address`).

mod data_sets;
mod inquiry;
mod memory;
mod message;

pub use data_sets::{
    CurrentDataSet, DefaultDataSet, DelayMechanism, ParentDataSet, PortDataSet, TimePropertiesDataSet, TimeStatus,
};
pub use inquiry::{Inquiry, Status};
pub use memory::Memory;
pub use message::{Answer, Asker, Content, Id, MAX_BYTES, QUESTION_BYTES};

use std::fmt;

/// A clock's identity, an EUI-64 (clause 7.5.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockIdentity(pub u64);

impl fmt::Display for ClockIdentity {
    /// As linuxptp writes it: `a1b2c3.fffe.d4e5f6`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:06x}.{:04x}.{:06x}", self.0 >> 40, self.0 >> 24 & 0xffff, self.0 & 0xff_ffff)
    }
}

/// A port of a clock (clause 7.5.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortIdentity {
    /// The clock.
    pub clock: ClockIdentity,
    /// Its number, from 1.
    pub port: u16,
}

/// What a port is doing (clause 9.2.5; numbers of table 20).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs)] // the standard's own names
pub enum PortState {
    Initializing = 1,
    Faulty = 2,
    Disabled = 3,
    Listening = 4,
    PreMaster = 5,
    Master = 6,
    Passive = 7,
    Uncalibrated = 8,
    Slave = 9,
}

impl PortState {
    /// Each with the standard's name.
    const NAMES: [(Self, &str); 9] = [
        (Self::Initializing, "INITIALIZING"),
        (Self::Faulty, "FAULTY"),
        (Self::Disabled, "DISABLED"),
        (Self::Listening, "LISTENING"),
        (Self::PreMaster, "PRE_MASTER"),
        (Self::Master, "MASTER"),
        (Self::Passive, "PASSIVE"),
        (Self::Uncalibrated, "UNCALIBRATED"),
        (Self::Slave, "SLAVE"),
    ];

    /// The state of this number; None: there is none.
    pub fn of(number: u8) -> Option<Self> {
        Self::NAMES.into_iter().map(|(state, _)| state).find(|state| *state as u8 == number)
    }

    /// The standard's name.
    pub fn name(self) -> &'static str {
        Self::NAMES[usize::from(self as u8 - 1)].1
    }

    /// Whether the port follows a master: its clock's offset is then measured.
    pub fn follows(self) -> bool {
        matches!(self, Self::Uncalibrated | Self::Slave)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_written_as_linuxptp_writes_it() {
        assert_eq!(ClockIdentity(0xa1b2_c3ff_fed4_e5f6).to_string(), "a1b2c3.fffe.d4e5f6");
        assert_eq!(ClockIdentity(1).to_string(), "000000.0000.000001");
    }

    #[test]
    fn states_have_the_standards_numbers() {
        let numbers: Vec<u8> = (0..=255).filter(|&number| PortState::of(number).is_some()).collect();
        assert_eq!(numbers, (1..=9).collect::<Vec<u8>>());
        for (state, name) in PortState::NAMES {
            assert_eq!((PortState::of(state as u8), state.name()), (Some(state), name));
        }
        assert_eq!(PortState::of(6).map(PortState::name), Some("MASTER"));
    }
}
