//! How the rate of the observed clock is steered.

use std::fs::File;
use sys::timex::frequency_ppt;
use wire::event::Failure;

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
    /// It cannot be read.
    pub fn open(clock: Option<&str>) -> Result<Self, Failure> {
        let Some(name) = clock else { return Ok(Self::Unknown) };
        let unread = |what: String, errno: Option<i32>| Failure {
            what: format!("its frequency cannot be read: {what}"),
            place: name.into(),
            remedy: "name the PTP clock of ptp4l's interface (ethtool -T), realtime or null, and run as root".into(),
            errno,
        };
        let steered = match name {
            "realtime" => Self::Realtime,
            path => {
                // Older kernels tell the rate only to those who could set it.
                let device = File::options().read(true).write(true).open(path).or_else(|_| File::open(path));
                Self::Device(device.map_err(|error| unread(error.to_string(), error.raw_os_error()))?)
            }
        };
        match steered.read() {
            Some(Err(error)) => Err(unread(error.to_string(), Some(error.errno))),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_clock_is_told_with_what_to_do() {
        for path in ["/dev/null", "/dev/there-is-none"] {
            let failure = Steered::open(Some(path)).err().unwrap();
            assert_eq!(failure.place, path);
            assert!(failure.errno.is_some() && failure.remedy.contains("ethtool -T"), "{failure:?}");
        }
        assert!(Steered::open(None).unwrap().ppt().is_none());
        assert!(Steered::open(Some("realtime")).unwrap().ppt().is_some());
    }
}
