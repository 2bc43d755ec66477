//! `latlab-agent facts`: what the machine is and how it is tuned, as one JSON object on one line.
//!
//! A file a question. What cannot be read is null: facts are taken on machines of all kinds, and a missing one is
//! itself a fact. Every key, its unit and its source are in `docs/reference/facts.md`.

mod agent;
mod clock;
pub mod cpu;
pub mod cpus;
#[cfg(test)]
pub mod fixture;
mod interrupts;
mod kernel;
mod machine;
mod memory;
mod network;
mod nic;
mod processes;
mod qdiscs;
mod scheduler;
mod softirqs;
pub mod threads;
mod times;
mod tree;

use network::Interface;
use nic::Nic;
use qdiscs::Qdiscs;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::Write;
use std::process::ExitCode;
use sys::ethtool::Ethtool;
pub use tree::Tree;

/// What the machine is and how it is tuned, at one moment.
#[derive(Debug, Serialize)]
pub struct Facts {
    format: &'static str,
    taken_tai_ns: i64,
    agent: agent::Agent,
    clock: clock::Clock,
    cpu: cpu::Cpu,
    interfaces: BTreeMap<String, Interface>,
    interrupts: interrupts::Interrupts,
    kernel: kernel::Kernel,
    machine: machine::Machine,
    memory: memory::Memory,
    processes: processes::Processes,
    scheduler: scheduler::Scheduler,
    softirqs: softirqs::Softirqs,
}

/// How long the hypervisor has run something else while CPUs were ready to run, all of them together, ns since boot; None: the
/// kernel does not count it.
pub fn steal_ns(tree: &Tree) -> Option<i64> {
    times::stat(&tree.text("proc/stat")?).total.steal_ns
}

/// The facts of this machine, with those of `interfaces`, or of all but loopback if none is named.
pub fn collect(interfaces: &[String]) -> Facts {
    let tree = Tree::machine();
    let taken_tai_ns = sys::clock::tai_ns();
    let log = sys::log::kernel_log().ok();
    let stat = tree.text("proc/stat").map(|text| times::stat(&text)).unwrap_or_default();
    let interrupts = interrupts::Interrupts::read(&tree);
    let ethtool = Ethtool::open().ok();
    let names = if interfaces.is_empty() { network::names(&tree) } else { interfaces.to_vec() };
    let interfaces = names.into_iter().map(|name| {
        let nic = || ethtool.as_ref().map(|ethtool| Nic::ask(ethtool, &name)).unwrap_or_default();
        let found = Interface::read(&tree, &name, &interrupts, nic, || Qdiscs::ask(&name));
        (name, found)
    });
    Facts {
        format: "latlab.facts/1",
        taken_tai_ns,
        agent: agent::Agent::read(&tree),
        clock: clock::Clock::read(&tree, sys::timex::timex().ok(), sys::clock::tick_ns()),
        cpu: cpu::Cpu::read(&tree, &stat),
        interfaces: interfaces.collect(),
        interrupts,
        kernel: kernel::Kernel::read(&tree, log.as_deref()),
        machine: machine::Machine::read(&tree, sys::hypervisor::signature()),
        memory: memory::Memory::read(&tree),
        processes: processes::Processes::read(&tree),
        scheduler: scheduler::Scheduler::read(&tree, &stat, log.as_deref()),
        softirqs: softirqs::Softirqs::read(&tree),
    }
}

/// Success once the facts are on standard output; failure if they cannot be written there.
pub fn run(interfaces: &[String]) -> ExitCode {
    let line = serde_json::to_string(&collect(interfaces)).expect("facts have only text for keys");
    match writeln!(std::io::stdout().lock(), "{line}") {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("latlab-agent facts: standard output: {error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::fixture::Fixture;
    use super::*;
    use serde_json::Value;
    use std::collections::BTreeSet;

    const DOCUMENT: &str = include_str!("../../../../docs/reference/facts.md");

    /// Keys whose values are keyed by things of the machine: a CPU, a counter, an option, …
    const BY_THING: &[&str] = &[
        "complaints",
        "config",
        "cpu_counts",
        "cpus",
        "driver_statistics",
        "fair_servers",
        "features",
        "idle_states",
        "interfaces",
        "irqs",
        "kernel_threads",
        "local",
        "phcs",
        "raised",
        "rx_queues",
        "statistics",
        "sysctl",
        "threads",
        "tx_queues",
        "vulnerabilities",
    ];

    /// Adds every key in `value` to `found`, those of things left out.
    fn keys(value: &Value, found: &mut BTreeSet<String>) {
        for (key, value) in value.as_object().into_iter().flatten() {
            found.insert(key.clone());
            match value.as_object() {
                // What tc prints is its own.
                _ if key == "qdiscs" => {}
                Some(things) if BY_THING.contains(&key.as_str()) => things.values().for_each(|v| keys(v, found)),
                _ => keys(value, found),
            }
        }
    }

    #[test]
    fn every_key_is_documented() {
        let board = Fixture::i225_board();
        let debugfs = Fixture::from_text("=== sys/kernel/debug/sched/fair_server/cpu0/runtime\n50000000\n");
        let stat = times::Stat::default();
        let mut found = BTreeSet::new();
        for facts in [
            serde_json::to_value(collect(&["lo".to_owned()])).unwrap(),
            serde_json::to_value(nic::tests::answered()).unwrap(),
            serde_json::to_value(clock::Clock::read(&board, None, None)).unwrap(),
            serde_json::to_value(cpu::Cpu::read(&board, &stat)).unwrap(),
            serde_json::to_value(processes::Processes::read(&board)).unwrap(),
            serde_json::to_value(scheduler::Scheduler::read(&debugfs, &stat, None)).unwrap(),
        ] {
            keys(&facts, &mut found);
        }
        assert!(found.len() > 150, "{found:?}");
        let undocumented: Vec<_> = found.iter().filter(|key| !DOCUMENT.contains(&format!("`{key}`"))).collect();
        assert!(undocumented.is_empty(), "not in docs/reference/facts.md: {undocumented:?}");
    }

    #[test]
    fn this_machine_tells_what_every_linux_machine_tells() {
        let facts = serde_json::to_value(collect(&[])).unwrap();
        assert!(facts["kernel"]["release"].is_string());
        assert!(facts["kernel"]["boot_id"].is_string());
        assert!(facts["cpu"]["cpus"]["0"]["idle_ns"].is_i64());
        assert!(facts["memory"]["total_bytes"].as_u64().unwrap() > 0);
        assert!(facts["scheduler"]["rt_runtime_us"].is_i64());
        assert!(facts["taken_tai_ns"].as_i64().unwrap() > 0);
        assert!(facts["clock"]["tick_ns"].as_i64().unwrap() >= 1_000_000 / 2);
        assert!(facts["interfaces"].get("lo").is_none());
    }

    #[test]
    fn an_interface_that_is_not_there_is_told_as_such() {
        let facts = serde_json::to_value(collect(&["no-such-nic".to_owned()])).unwrap();
        assert_eq!(facts["interfaces"]["no-such-nic"]["exists"], false);
        assert_eq!(facts["interfaces"]["no-such-nic"]["driver"], Value::Null);
    }

    #[test]
    fn a_machine_that_tells_nothing_has_facts_that_are_null() {
        let tree = Fixture::empty();
        let cpu = serde_json::to_value(cpu::Cpu::read(&tree, &times::Stat::default())).unwrap();
        assert_eq!((&cpu["online"], &cpu["steal_ns"], &cpu["isolated"]), (&Value::Null, &Value::Null, &Value::Null));
        let scheduler = scheduler::Scheduler::read(&tree, &times::Stat::default(), None);
        assert_eq!(serde_json::to_value(scheduler).unwrap()["rt_runtime_us"], Value::Null);
        let clock = serde_json::to_value(clock::Clock::read(&tree, None, None)).unwrap();
        assert_eq!(clock["synchronised"], Value::Null);
        for section in [
            serde_json::to_value(memory::Memory::read(&tree)).unwrap(),
            serde_json::to_value(kernel::Kernel::read(&tree, None)).unwrap(),
            serde_json::to_value(softirqs::Softirqs::read(&tree)).unwrap(),
            serde_json::to_value(machine::Machine::read(&tree, None)).unwrap(),
            serde_json::to_value(interrupts::Interrupts::read(&tree)).unwrap(),
            serde_json::to_value(processes::Processes::read(&tree)).unwrap(),
            serde_json::to_value(agent::Agent::read(&tree)).unwrap(),
        ] {
            assert!(section.is_object());
        }
    }
}
