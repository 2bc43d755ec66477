//! Cyclone DDS behind a safe interface: samples of octets, written, taken and waited for. All `unsafe` of DDS is here.
//!
//! Cyclone's entities are numbers that it checks with each call: one that is gone gives an error, never undefined behaviour.
//! So a [`Writer`] or [`Reader`] can be copied, and may outlive its [`Domain`]; it is of no use then.
//!
//! A listener is called with locks of its reader's held, which most of a reader's functions take, too: whoever calls one
//! must hold no lock that the listener waits for.

mod domain;
mod log;
mod octets;
mod reader;
mod statistics;
mod writer;

pub use domain::{Domain, Quality};
pub use log::said;
pub use reader::{Reader, Waitset};
pub use writer::Writer;

use cyclors as c;
use std::ffi::CStr;

/// The version of Cyclone DDS that is built in: the one that comes with [`BINDINGS`] of cyclors.
pub const VERSION: &str = "11.0.1";
/// The version of cyclors for which [`VERSION`] is right.
#[cfg(test)]
const BINDINGS: &str = "0.4.0";

/// A call that Cyclone refused: which, and its return code (DDS 1.4, section 2.2.1.1; negative).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The function, such as `dds_create_domain`.
    pub call: &'static str,
    /// What it returned.
    pub code: i32,
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // SAFETY: for any number it returns a string that lives as long as the program.
        let text = unsafe { CStr::from_ptr(c::dds_strretcode(self.code)) };
        write!(f, "{}: {}", self.call, text.to_string_lossy())
    }
}

impl std::error::Error for Error {}

/// The value, if it is none of Cyclone's error codes.
fn check(value: i32, call: &'static str) -> Result<i32, Error> {
    if value < 0 { Err(Error { call, code: value }) } else { Ok(value) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_of_the_bindings_that_are_built() {
        let lock = include_str!("../../../Cargo.lock");
        assert!(lock.contains(&format!("name = \"cyclors\"\nversion = \"{BINDINGS}\"\n")));
    }

    #[test]
    fn an_error_says_what_was_called_and_what_came_back() {
        let error = Error { call: "dds_write", code: -10 };
        assert_eq!(error.to_string(), "dds_write: Timeout");
    }
}
