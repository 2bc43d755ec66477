//! What `bridge` is asked for.

use super::{Realtime, Wrong, wrong};
use crate::in_c::defined;
use schemars::JsonSchema;
use serde::Deserialize;

/// Most ports of one bridge; the BPF program's tables are as large.
pub const MAX_PORTS: usize = defined(include_str!("../../../bpf/bridge.bpf.c"), "MAX_PORTS") as usize;

/// Where the program runs in the path of a received frame.
#[derive(Clone, Copy, Debug, JsonSchema, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum XdpMode {
    /// In the driver where it can, else in the kernel's receive path.
    Auto,
    /// In the driver, before the kernel has made a packet of the frame.
    Native,
    /// In the kernel's receive path: with any driver.
    Generic,
}

/// `latlab-agent bridge`.
#[derive(Clone, Debug, JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bridge {
    /// The kernel bridge.
    pub bridge: String,
    /// Ports of it, between which frames are to be redirected.
    pub ports: Vec<String>,
    /// Where the program runs.
    pub mode: XdpMode,
    /// How the thread runs that follows the kernel bridge. Frames are forwarded in softirqs, which it does not change.
    pub realtime: Realtime,
}

impl Bridge {
    /// Checks what the types do not.
    ///
    /// # Errors
    /// What is wrong, and where in the spec.
    pub fn check(&self) -> Result<(), Wrong> {
        self.realtime.check()?;
        if !(2..=MAX_PORTS).contains(&self.ports.len()) {
            return wrong("ports", format!("{} of them; expected 2 to {MAX_PORTS}", self.ports.len()));
        }
        for (n, port) in self.ports.iter().enumerate() {
            if self.ports[..n].contains(port) {
                return wrong(format!("ports[{n}]"), format!("{port} is named twice"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(ports: &str) -> Result<(), Wrong> {
        let text = format!(r#"{{"bridge": "br0", "ports": {ports}, "mode": "auto", "realtime": {{}}}}"#);
        serde_json::from_str::<Bridge>(&text).unwrap().check()
    }

    #[test]
    fn a_bridge_has_at_least_two_different_ports() {
        assert_eq!(read(r#"["eth0", "tap0"]"#), Ok(()));
        assert_eq!(read(r#"["eth0"]"#).unwrap_err().at, "ports");
        assert_eq!(read(r#"["eth0", "tap0", "eth0"]"#).unwrap_err().at, "ports[2]");
    }
}
