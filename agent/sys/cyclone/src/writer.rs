//! Writing samples.

use crate::octets::Octets;
use crate::{Error, check, statistics};
use cyclors as c;

/// Writes samples of one topic.
#[derive(Clone, Copy, Debug)]
pub struct Writer(i32);

impl Writer {
    pub(crate) fn new(entity: i32) -> Self {
        Self(entity)
    }

    /// Hands a sample of these bytes to Cyclone, which has sent it, or copied it, when this returns. Returns 0 or Cyclone's
    /// return code, which is negative.
    #[inline]
    pub fn write(&self, bytes: &mut [u8]) -> i32 {
        let sample = Octets::over(bytes);
        // SAFETY: the sample is of the topic's type, and is only read.
        unsafe { c::dds_write(self.0, (&raw const sample).cast()) }
    }

    /// How many readers it writes to.
    ///
    /// # Errors
    /// Cyclone refuses.
    pub fn readers(&self) -> Result<u32, Error> {
        // SAFETY: all-zero is a valid status.
        let mut status: c::dds_publication_matched_status_t = unsafe { std::mem::zeroed() };
        // SAFETY: the status is valid for writing.
        let code = unsafe { c::dds_get_publication_matched_status(self.0, &raw mut status) };
        check(code, "dds_get_publication_matched_status")?;
        Ok(status.current_count)
    }

    /// Bytes that were sent again, and how often a write was delayed.
    pub fn resent_and_throttled(&self) -> (u64, u64) {
        let [resent, throttled] = statistics::of(self.0, [c"rexmit_bytes", c"throttle_count"]);
        (resent, throttled)
    }
}
