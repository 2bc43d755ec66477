//! How much work softirqs did, and what the network's part of them had to leave.

use super::tree::Tree;
use serde::Serialize;
use std::collections::BTreeMap;

/// How much work softirqs did since boot.
#[derive(Debug, Serialize)]
pub struct Softirqs {
    /// How often each kind ran, all CPUs together.
    raised: BTreeMap<String, u64>,
    /// What the network's receive softirq did.
    network: Backlog,
}

/// What the network's receive softirq did since boot, all CPUs together.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct Backlog {
    /// Packets taken in.
    processed: Option<u64>,
    /// Packets dropped because a CPU's backlog was full.
    dropped: Option<u64>,
    /// Times it stopped with work left.
    time_squeezed: Option<u64>,
}

impl Softirqs {
    /// The softirqs of `tree`.
    pub fn read(tree: &Tree) -> Self {
        Self {
            raised: tree.text("proc/softirqs").map(|text| raised(&text)).unwrap_or_default(),
            network: tree.text("proc/net/softnet_stat").map(|text| backlog(&text)).unwrap_or_default(),
        }
    }
}

/// The text of /proc/softirqs: after a line of CPUs, `NAME: count count …`.
fn raised(text: &str) -> BTreeMap<String, u64> {
    text.lines()
        .filter_map(|line| {
            let (name, counts) = line.split_once(':')?;
            Some((name.trim().to_owned(), counts.split_whitespace().flat_map(str::parse::<u64>).sum()))
        })
        .collect()
}

/// The text of /proc/net/softnet_stat: a line a CPU, hexadecimal; `net/core/net-procfs.c`, `softnet_seq_show`.
fn backlog(text: &str) -> Backlog {
    let column = |n: usize| -> Option<u64> {
        text.lines().map(|line| u64::from_str_radix(line.split_whitespace().nth(n)?, 16).ok()).sum()
    };
    Backlog { processed: column(0), dropped: column(1), time_squeezed: column(2) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::fixture::Fixture;

    #[test]
    fn counts_of_all_cpus_are_added_up() {
        let softirqs = Softirqs::read(&Fixture::virtio_guest());
        assert_eq!(softirqs.raised["NET_RX"], 1_613_318 + 225_429);
        assert_eq!(softirqs.network.processed, Some(0x18_8e58 + 0x3_c540));
    }

    #[test]
    fn the_columns_are_hexadecimal() {
        let line = "0000000a 00000010 000000ff 00000000\n00000001 00000001 00000001 00000000\n";
        let expected = Backlog { processed: Some(11), dropped: Some(17), time_squeezed: Some(256) };
        assert_eq!(backlog(line), expected);
    }

    #[test]
    fn a_line_of_another_form_makes_its_column_unknown() {
        assert_eq!(backlog("0000000a zz\n").processed, Some(10));
        assert_eq!(backlog("0000000a zz\n").dropped, None);
    }
}
