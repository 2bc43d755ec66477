//! How the rate of the observed clock is steered.

use std::fs::File;
use sys::timex::frequency_ppt;

/// The clock whose rate is read.
pub enum Steered {
    /// None, or none that can be read.
    Unknown,
    /// CLOCK_REALTIME.
    Realtime,
    /// A PTP clock's device.
    Device(File),
}

impl Steered {
    /// The clock a spec names: None, `realtime`, or a path.
    ///
    /// # Errors
    /// In words: it cannot be read.
    pub fn open(clock: Option<&str>) -> Result<Self, String> {
        let steered = match clock {
            None => return Ok(Self::Unknown),
            Some("realtime") => Self::Realtime,
            Some(path) => {
                // Older kernels tell the rate only to those who could set it.
                let device = File::options().read(true).write(true).open(path).or_else(|_| File::open(path));
                Self::Device(device.map_err(|error| format!("frequency_ppt: {path}: {error}"))?)
            }
        };
        match steered.read() {
            Some(Err(error)) => Err(format!("frequency_ppt: {}: {error}", clock.unwrap_or_default())),
            _ => Ok(steered),
        }
    }

    /// Its rate's steering now, parts per 10¹².
    pub fn ppt(&self) -> Option<i64> {
        self.read()?.ok()
    }

    fn read(&self) -> Option<Result<i64, sys::Error>> {
        match self {
            Self::Unknown => None,
            Self::Realtime => Some(frequency_ppt(None)),
            Self::Device(device) => Some(frequency_ppt(Some(device))),
        }
    }
}
