//! Which interrupts there are, where they may go, and where they went.

use super::tree::Tree;
use serde::Serialize;
use std::collections::BTreeMap;

/// Which interrupts there are, where they may go, and where they went.
#[derive(Debug, Serialize)]
pub struct Interrupts {
    /// CPUs that new interrupts may go to.
    default_affinity: Option<Vec<usize>>,
    /// Devices' interrupts, by number.
    irqs: BTreeMap<u32, Irq>,
    /// The CPUs' own interrupts, by the kernel's short name.
    local: BTreeMap<String, Counts>,
}

/// A device's interrupt.
#[derive(Debug, Serialize)]
pub struct Irq {
    /// CPUs it may go to.
    affinity: Option<Vec<usize>>,
    /// CPUs it does go to.
    effective_affinity: Option<Vec<usize>>,
    #[serde(flatten)]
    counts: Counts,
}

/// How often an interrupt came since boot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// What it is for.
    name: String,
    /// On all CPUs together.
    count: u64,
    /// On each CPU it ever came to.
    cpu_counts: BTreeMap<usize, u64>,
}

impl Interrupts {
    /// The interrupts of `tree`.
    pub fn read(tree: &Tree) -> Self {
        let (mut irqs, mut local) = (BTreeMap::new(), BTreeMap::new());
        for (label, counts) in parse(&tree.text("proc/interrupts").unwrap_or_default()) {
            match label.parse() {
                Ok(number) => drop(irqs.insert(number, irq(tree, number, counts))),
                Err(_) => drop(local.insert(label, counts)),
            }
        }
        Self { default_affinity: tree.cpu_mask("proc/irq/default_smp_affinity"), irqs, local }
    }

    /// Numbers of the interrupts that are named after `interface`, such as `eth0-rx-0`.
    pub fn named_after(&self, interface: &str) -> Vec<u32> {
        self.irqs.iter().filter(|(_, irq)| contains_name(&irq.counts.name, interface)).map(|(n, _)| *n).collect()
    }
}

fn irq(tree: &Tree, number: u32, counts: Counts) -> Irq {
    // /proc/interrupts joins chip, trigger and name without telling where one ends.
    let name = tree.text(format!("sys/kernel/irq/{number}/actions")).unwrap_or(counts.name);
    Irq {
        affinity: tree.cpu_list(format!("proc/irq/{number}/smp_affinity_list")),
        effective_affinity: tree.cpu_list(format!("proc/irq/{number}/effective_affinity_list")),
        counts: Counts { name, ..counts },
    }
}

/// Each line of /proc/interrupts: its label and what it counts. The first line names the CPUs of the columns.
fn parse(text: &str) -> Vec<(String, Counts)> {
    let mut lines = text.lines();
    let columns: Vec<usize> = lines
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .filter_map(|word| word.strip_prefix("CPU")?.parse().ok())
        .collect();
    lines
        .filter_map(|line| {
            let (label, rest) = line.split_once(':')?;
            let mut words = rest.split_whitespace().peekable();
            let mut counts = Counts { name: String::new(), count: 0, cpu_counts: BTreeMap::new() };
            for cpu in &columns {
                // Some lines have one number for all CPUs.
                let Some(count) = words.peek().and_then(|word| word.parse::<u64>().ok()) else { break };
                words.next();
                counts.count += count;
                if count > 0 {
                    counts.cpu_counts.insert(*cpu, count);
                }
            }
            counts.name = words.collect::<Vec<_>>().join(" ");
            Some((label.trim().to_owned(), counts))
        })
        .collect()
}

/// Whether `name` stands in `text` with no letter or digit next to it.
fn contains_name(text: &str, name: &str) -> bool {
    !name.is_empty()
        && text.match_indices(name).any(|(at, _)| {
            let (before, after) = (text[..at].chars().next_back(), text[at + name.len()..].chars().next());
            !before.is_some_and(char::is_alphanumeric) && !after.is_some_and(char::is_alphanumeric)
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::fixture::Fixture;

    #[test]
    fn an_interrupt_tells_where_it_may_go_and_where_it_went() {
        let interrupts = Interrupts::read(&Fixture::virtio_guest());
        let input = &interrupts.irqs[&38];
        assert_eq!(input.counts.name, "virtio2-input.0");
        assert_eq!(input.counts.cpu_counts, BTreeMap::from([(1, 10_961)]));
        assert_eq!((input.affinity.clone(), input.effective_affinity.clone()), (Some(vec![0, 1]), Some(vec![1])));
    }

    #[test]
    fn the_cpus_own_interrupts_are_counted_apart() {
        let interrupts = Interrupts::read(&Fixture::virtio_guest());
        let timer = &interrupts.local["LOC"];
        assert_eq!((timer.name.as_str(), timer.count), ("Local timer interrupts", 906_343 + 345_956));
        assert_eq!(interrupts.local["ERR"].count, 0);
    }

    #[test]
    fn columns_belong_to_the_cpus_that_run() {
        let found = parse("      CPU0   CPU3\n 24:   5   7  GICv3  34 Level     eth0\nERR:   2\n");
        assert_eq!(found[0].1.cpu_counts, BTreeMap::from([(0, 5), (3, 7)]));
        assert_eq!(found[0].1.name, "GICv3 34 Level eth0");
        assert_eq!((found[1].1.count, found[1].1.name.as_str()), (2, ""));
    }

    #[test]
    fn an_interface_is_not_mistaken_for_one_whose_name_begins_alike() {
        assert!(contains_name("GICv3 34 Level eth1", "eth1"));
        assert!(contains_name("eth1-TxRx-0", "eth1"));
        assert!(!contains_name("eth10:rx", "eth1"));
        assert!(!contains_name("veth1", "eth1"));
        assert!(!contains_name("veth1", ""));
    }
}
