//! How each network interface is made, tuned and doing.

use super::interrupts::Interrupts;
use super::nic::Nic;
use super::qdiscs::Qdiscs;
use super::tree::Tree;
use serde::Serialize;
use std::collections::BTreeMap;

/// How a network interface is made, tuned and doing.
#[derive(Debug, Default, Serialize)]
pub struct Interface {
    /// There is an interface of this name.
    exists: bool,
    /// Its number.
    index: Option<u32>,
    /// What kind of device it is, if it is no plain one: `bridge`, `vlan`, …
    kind: Option<String>,
    /// Its MAC address.
    mac: Option<String>,
    /// Largest packet.
    mtu_bytes: Option<u32>,
    /// Switched on.
    up: Option<bool>,
    /// Whether packets get through, as RFC 2863 puts it.
    operstate: Option<String>,
    /// There is a link.
    carrier: Option<bool>,
    /// How often the link came or went since boot.
    carrier_changes: Option<u64>,
    /// The link's speed.
    speed_mbps: Option<u64>,
    /// `full` or `half`.
    duplex: Option<String>,
    /// Packets its qdisc may hold by default.
    tx_queue_packets: Option<u64>,
    /// Its NUMA node; −1: the machine has none.
    numa_node: Option<i64>,
    /// Its link to the machine, if it is a PCI Express one.
    pcie: Pcie,
    /// Its receive queues, by number.
    rx_queues: BTreeMap<usize, RxQueue>,
    /// Its transmit queues, by number.
    tx_queues: BTreeMap<usize, TxQueue>,
    /// Packets are taken in by kernel threads.
    threaded_napi: Option<bool>,
    /// How long received packets may wait to be merged.
    gro_flush_timeout_ns: Option<u64>,
    /// Empty polls before the interrupt is let through again.
    defer_hard_irqs: Option<u64>,
    /// Numbers of its interrupts.
    irqs: Vec<u32>,
    /// The kernel's counters.
    statistics: BTreeMap<String, Option<u64>>,
    /// What its driver says.
    #[serde(flatten)]
    nic: Nic,
    /// Its qdiscs.
    #[serde(flatten)]
    qdiscs: Qdiscs,
}

/// A PCI Express link.
#[derive(Debug, Default, Serialize)]
pub struct Pcie {
    /// Such as `5.0 GT/s PCIe`.
    speed: Option<String>,
    /// Lanes.
    lanes: Option<u64>,
}

/// A receive queue.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct RxQueue {
    /// CPUs that its packets are passed on to; empty: none but the interrupt's own.
    rps_cpus: Option<Vec<usize>>,
}

/// A transmit queue.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct TxQueue {
    /// CPUs that send through it.
    xps_cpus: Option<Vec<usize>>,
}

/// The names of the interfaces of `tree`, loopback left out.
pub fn names(tree: &Tree) -> Vec<String> {
    let names = tree.names("sys/class/net").unwrap_or_default();
    // Next to the interfaces the folder may hold files such as `bonding_masters`.
    names.into_iter().filter(|name| name != "lo" && tree.exists(format!("sys/class/net/{name}/ifindex"))).collect()
}

impl Interface {
    /// The interface `name` of `tree`. `nic` and `qdiscs` are asked only if it exists.
    pub fn read(
        tree: &Tree,
        name: &str,
        interrupts: &Interrupts,
        nic: impl FnOnce() -> Nic,
        qdiscs: impl FnOnce() -> Qdiscs,
    ) -> Self {
        let at = |file: &str| format!("sys/class/net/{name}/{file}");
        // Asked for by a person: it may be anything.
        let possible = !name.is_empty() && !name.contains('/') && name != "." && name != "..";
        if !possible || !tree.exists(at("ifindex")) {
            return Self::default();
        }
        Self {
            exists: true,
            index: tree.value(at("ifindex")),
            kind: tree.text(at("uevent")).and_then(|text| device_type(&text)),
            mac: tree.text(at("address")),
            mtu_bytes: tree.value(at("mtu")),
            up: tree.text(at("flags")).and_then(|text| is_up(&text)),
            operstate: tree.text(at("operstate")),
            carrier: tree.switch(at("carrier")),
            carrier_changes: tree.value(at("carrier_changes")),
            // −1 where nobody knows.
            speed_mbps: tree.value(at("speed")),
            duplex: tree.text(at("duplex")).filter(|duplex| duplex != "unknown"),
            tx_queue_packets: tree.value(at("tx_queue_len")),
            numa_node: tree.value(at("device/numa_node")),
            pcie: Pcie {
                speed: tree.text(at("device/current_link_speed")),
                lanes: tree.value(at("device/current_link_width")),
            },
            rx_queues: queues(tree, &at("queues"), "rx-", |queue| RxQueue {
                rps_cpus: tree.cpu_mask(format!("{queue}/rps_cpus")),
            }),
            tx_queues: queues(tree, &at("queues"), "tx-", |queue| TxQueue {
                xps_cpus: tree.cpu_mask(format!("{queue}/xps_cpus")),
            }),
            // Newer kernels have a third way: 2, threads that poll without pause.
            threaded_napi: tree.value::<u64>(at("threaded")).map(|how| how != 0),
            gro_flush_timeout_ns: tree.value(at("gro_flush_timeout")),
            defer_hard_irqs: tree.value(at("napi_defer_hard_irqs")),
            irqs: irqs(tree, name, interrupts),
            statistics: tree
                .names(at("statistics"))
                .unwrap_or_default()
                .into_iter()
                .map(|counter| (counter.clone(), tree.value(at(&format!("statistics/{counter}")))))
                .collect(),
            nic: nic(),
            qdiscs: qdiscs(),
        }
    }
}

/// Each queue `PREFIXn` in `folder`, read from its own folder.
fn queues<Q>(tree: &Tree, folder: &str, prefix: &str, read: impl Fn(&str) -> Q) -> BTreeMap<usize, Q> {
    let numbers = tree.numbered(folder, prefix).unwrap_or_default();
    numbers.into_iter().map(|n| (n, read(&format!("{folder}/{prefix}{n}")))).collect()
}

/// The interrupts of an interface: those of its PCI device, and those that are named after it.
fn irqs(tree: &Tree, name: &str, interrupts: &Interrupts) -> Vec<u32> {
    let device = format!("sys/class/net/{name}/device");
    // A virtio device has its interrupts from the PCI device it is a part of. Above any other device there is a bridge,
    // whose interrupts are another matter.
    let of_pci = match tree.link(format!("{device}/subsystem")).as_deref() {
        Some("virtio") => format!("{device}/../msi_irqs"),
        _ => format!("{device}/msi_irqs"),
    };
    let mut found: Vec<u32> = tree.numbered(of_pci, "").unwrap_or_default().into_iter().map(|n| n as u32).collect();
    found.extend(interrupts.named_after(name));
    found.sort_unstable();
    found.dedup();
    found
}

fn device_type(uevent: &str) -> Option<String> {
    uevent.lines().find_map(|line| line.strip_prefix("DEVTYPE=")).map(str::to_owned)
}

fn is_up(flags: &str) -> Option<bool> {
    const IFF_UP: u32 = 1;
    Some(u32::from_str_radix(flags.strip_prefix("0x")?, 16).ok()? & IFF_UP != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::fixture::Fixture;

    fn read(tree: &Tree, name: &str) -> Interface {
        Interface::read(tree, name, &Interrupts::read(tree), Nic::default, Qdiscs::default)
    }

    #[test]
    fn a_board_tells_how_its_nic_is_tuned() {
        let nic = read(&Fixture::i225_board(), "enp3s0");
        assert_eq!((nic.index, nic.speed_mbps, nic.up), (Some(2), Some(1000), Some(true)));
        assert_eq!(nic.rx_queues[&1], RxQueue { rps_cpus: Some(vec![]) });
        assert_eq!(nic.tx_queues[&0], TxQueue { xps_cpus: Some(vec![2]) });
        assert_eq!((nic.pcie.speed.as_deref(), nic.pcie.lanes), (Some("5.0 GT/s PCIe"), Some(1)));
        assert_eq!(nic.statistics["rx_dropped"], Some(3));
        assert_eq!(nic.gro_flush_timeout_ns, Some(20_000));
    }

    #[test]
    fn a_pci_nics_interrupts_are_its_own_and_not_its_bridges() {
        assert_eq!(read(&Fixture::i225_board(), "enp3s0").irqs, [125, 126, 127]);
    }

    #[test]
    fn a_virtio_nics_interrupts_are_those_of_the_pci_device_above_it() {
        assert_eq!(read(&Fixture::virtio_guest(), "eth0").irqs, [37, 38, 39]);
    }

    #[test]
    fn a_nic_without_pci_has_the_interrupts_named_after_it() {
        let tree = Fixture::from_text(
            "=== sys/class/net/end0/ifindex\n2\n=== proc/interrupts\n  CPU0\n 40: 9 GICv3 55 Level end0\n",
        );
        assert_eq!(read(&tree, "end0").irqs, [40]);
    }

    #[test]
    fn a_speed_nobody_knows_is_none() {
        let nic = read(&Fixture::virtio_guest(), "eth0");
        assert_eq!((nic.speed_mbps, nic.duplex), (None, None));
        assert_eq!((nic.mtu_bytes, nic.carrier), (Some(1400), Some(true)));
    }

    #[test]
    fn an_interface_that_is_not_there_does_not_exist() {
        let tree = Fixture::virtio_guest();
        for name in ["eth9", "", "..", "../../class/net/eth0"] {
            assert!(!read(&tree, name).exists, "{name:?}");
        }
    }

    #[test]
    fn all_interfaces_but_loopback_are_listed() {
        assert_eq!(names(&Fixture::virtio_guest()), ["eth0"]);
        assert_eq!(names(&Fixture::i225_board()), ["br0", "enp3s0"]);
        assert_eq!(read(&Fixture::i225_board(), "br0").kind.as_deref(), Some("bridge"));
    }
}
