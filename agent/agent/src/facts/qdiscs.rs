//! Which qdiscs an interface has, as iproute2 prints them.

use serde::Serialize;
use serde_json::Value;
use std::process::{Command, Stdio};

/// Which qdiscs an interface has.
#[derive(Debug, Default, PartialEq, Serialize)]
pub struct Qdiscs {
    /// What `tc -s -j qdisc show dev INTERFACE` prints, as it prints it.
    qdiscs: Option<Value>,
    /// Why that is not known.
    qdiscs_unknown: Option<String>,
}

/// Where tc is. A shell opened over a network need not have the system's folders on its path.
const TC: &[&str] = &["tc", "/usr/sbin/tc", "/sbin/tc"];

impl Qdiscs {
    /// The qdiscs of `interface`.
    pub fn ask(interface: &str) -> Self {
        let show = |tc: &&str| {
            Command::new(tc).args(["-s", "-j", "qdisc", "show", "dev", interface]).stdin(Stdio::null()).output().ok()
        };
        match TC.iter().find_map(show) {
            Some(output) if output.status.success() => Self::parse(&output.stdout),
            Some(output) => Self::unknown(format!("tc: {}", String::from_utf8_lossy(&output.stderr).trim())),
            None => Self::unknown("tc cannot be run here: it is part of iproute2".to_owned()),
        }
    }

    /// What tc printed.
    fn parse(printed: &[u8]) -> Self {
        match serde_json::from_slice(printed) {
            Ok(qdiscs) => Self { qdiscs: Some(qdiscs), qdiscs_unknown: None },
            // Some releases of iproute2 print some qdiscs as no JSON at all.
            Err(error) => Self::unknown(format!("tc printed no JSON: {error}")),
        }
    }

    fn unknown(reason: String) -> Self {
        Self { qdiscs: None, qdiscs_unknown: Some(reason) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Printed by iproute2 6.1.0.
    const HTB: &[u8] = include_bytes!("../../tests/fixtures/facts/tc-htb-tbf-iproute2-6.1.0.json");

    #[test]
    fn what_tc_prints_is_kept_as_it_is() {
        let qdiscs = Qdiscs::parse(HTB).qdiscs.unwrap();
        assert_eq!((&qdiscs[0]["kind"], &qdiscs[0]["root"]), (&Value::from("htb"), &Value::from(true)));
        assert_eq!((&qdiscs[1]["kind"], &qdiscs[1]["parent"]), (&Value::from("tbf"), &Value::from("100:10")));
        assert_eq!(qdiscs[1]["options"]["rate"], 1_250_000);
    }

    #[test]
    fn what_is_no_json_is_unknown_with_a_reason() {
        let found = Qdiscs::parse(b"qdisc noqueue 0: root");
        assert_eq!(found.qdiscs, None);
        assert!(found.qdiscs_unknown.unwrap().starts_with("tc printed no JSON"));
    }
}
