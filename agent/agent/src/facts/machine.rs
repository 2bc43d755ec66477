//! What the machine is: distribution, board, hypervisor, and what it offers to guests.

use super::tree::Tree;
use serde::Serialize;
use std::collections::BTreeMap;

/// What the machine is.
#[derive(Debug, Serialize)]
pub struct Machine {
    /// PRETTY_NAME.
    distribution: Option<String>,
    /// Who made the board.
    vendor: Option<String>,
    /// What the board is called.
    product: Option<String>,
    /// Its firmware's version.
    firmware: Option<String>,
    /// Its system on a chip.
    soc: Soc,
    /// What it runs on, if it is a guest.
    hypervisor: Hypervisor,
    /// /dev/kvm is there.
    kvm: bool,
    /// How long KVM polls for a halted guest before it gives the CPU away.
    kvm_halt_poll_ns: Option<u64>,
    /// /dev/vhost-net is there.
    vhost_net: bool,
    /// IOMMUs, by name.
    iommus: Option<Vec<String>>,
    /// CPU vulnerabilities and what is done about them.
    vulnerabilities: BTreeMap<String, Option<String>>,
}

/// What the driver of a system on a chip says it is.
#[derive(Debug, Serialize)]
pub struct Soc {
    /// Its family.
    family: Option<String>,
    /// Its name or number in it.
    id: Option<String>,
    /// Its revision.
    revision: Option<String>,
}

/// What the machine runs on, if it is a guest.
#[derive(Debug, Serialize)]
pub struct Hypervisor {
    /// The CPU says that there is one.
    present: Option<bool>,
    /// As the hypervisor signs itself to its guests.
    signature: Option<String>,
    /// As the kernel calls it.
    kind: Option<String>,
}

impl Machine {
    /// The machine of `tree`; `signature` is that of its hypervisor.
    pub fn read(tree: &Tree, signature: Option<String>) -> Self {
        let dmi = |name: &str| tree.text(format!("sys/class/dmi/id/{name}"));
        let soc = |name: &str| tree.text(format!("sys/devices/soc0/{name}"));
        let vulnerabilities = "sys/devices/system/cpu/vulnerabilities";
        Self {
            distribution: distribution(tree),
            vendor: dmi("sys_vendor"),
            product: dmi("product_name").or_else(|| tree.text("sys/firmware/devicetree/base/model")),
            firmware: dmi("bios_version"),
            soc: Soc { family: soc("family"), id: soc("soc_id"), revision: soc("revision") },
            hypervisor: Hypervisor {
                present: hypervisor_present(tree),
                signature,
                kind: tree
                    .text("sys/hypervisor/type")
                    .or_else(|| tree.text("sys/firmware/devicetree/base/hypervisor/compatible")),
            },
            kvm: tree.exists("dev/kvm"),
            kvm_halt_poll_ns: tree.value("sys/module/kvm/parameters/halt_poll_ns"),
            vhost_net: tree.exists("dev/vhost-net"),
            iommus: tree.names("sys/class/iommu"),
            vulnerabilities: tree
                .names(vulnerabilities)
                .unwrap_or_default()
                .into_iter()
                .map(|name| (name.clone(), tree.text(format!("{vulnerabilities}/{name}"))))
                .collect(),
        }
    }
}

fn distribution(tree: &Tree) -> Option<String> {
    let text = tree.text("etc/os-release").or_else(|| tree.text("usr/lib/os-release"))?;
    let name = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(name.trim_matches(['"', '\'']).to_owned())
}

/// Whether the CPU's flags speak of a hypervisor; None where CPUs have no such flag (not x86).
fn hypervisor_present(tree: &Tree) -> Option<bool> {
    let cpuinfo = tree.text("proc/cpuinfo")?;
    let flags = cpuinfo.lines().find_map(|line| line.strip_prefix("flags")?.trim_start().strip_prefix(':'))?;
    Some(flags.split_whitespace().any(|flag| flag == "hypervisor"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::fixture::Fixture;

    #[test]
    fn a_guest_knows_its_hypervisor() {
        let machine = Machine::read(&Fixture::virtio_guest(), Some("KVMKVMKVM".to_owned()));
        assert_eq!(machine.hypervisor.present, Some(true));
        assert_eq!(machine.hypervisor.signature.as_deref(), Some("KVMKVMKVM"));
        assert_eq!(machine.distribution.as_deref(), Some("Debian GNU/Linux 12 (bookworm)"));
    }

    #[test]
    fn a_board_has_a_maker_and_no_hypervisor() {
        let machine = Machine::read(&Fixture::i225_board(), None);
        assert_eq!(machine.hypervisor.present, Some(false));
        assert_eq!(machine.product.as_deref(), Some("Example TSN Board"));
        assert_eq!((machine.kvm, machine.kvm_halt_poll_ns), (true, Some(200_000)));
        assert_eq!(machine.vulnerabilities["meltdown"].as_deref(), Some("Not affected"));
    }

    #[test]
    fn a_system_on_a_chip_says_what_it_is() {
        let tree = Fixture::from_text(
            "=== sys/devices/soc0/family\nFreescale i.MX\n=== sys/devices/soc0/soc_id\ni.MX8QM\n\
             === sys/devices/soc0/revision\n1.1\n=== sys/devices/soc0/serial_number\n0123456789ABCDEF\n",
        );
        let facts = serde_json::to_value(Machine::read(&tree, None)).unwrap();
        assert_eq!(facts["soc"], serde_json::json!({"family": "Freescale i.MX", "id": "i.MX8QM", "revision": "1.1"}));
    }

    #[test]
    fn a_device_trees_model_ends_in_a_zero_byte() {
        let tree = Fixture::from_text("=== sys/firmware/devicetree/base/model\nExample Board Rev B\0\n");
        assert_eq!(Machine::read(&tree, None).product.as_deref(), Some("Example Board Rev B"));
        assert_eq!(Machine::read(&tree, None).hypervisor.present, None);
    }
}
