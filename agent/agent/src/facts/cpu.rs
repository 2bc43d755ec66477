//! Which CPUs there are, how they are set apart, and how they save power.

use super::times::{Stat, Times};
use super::tree::Tree;
use super::{cpus, kernel};
use serde::Serialize;
use std::collections::BTreeMap;

/// Which CPUs there are, and what they have done.
#[derive(Debug, Serialize)]
pub struct Cpu {
    /// The model's name.
    model: Option<String>,
    /// Revision of its microcode.
    microcode: Option<String>,
    /// CPUs that run.
    online: Option<Vec<usize>>,
    /// CPUs the kernel could run.
    possible: Option<Vec<usize>>,
    /// NUMA nodes.
    numa_nodes: Option<Vec<usize>>,
    /// Sibling threads run.
    smt: Option<bool>,
    /// Taken from the scheduler's hands.
    isolated: Option<Vec<usize>>,
    /// Without a tick while one task runs.
    nohz_full: Option<Vec<usize>>,
    /// RCU callbacks are run elsewhere.
    rcu_nocbs: Option<Vec<usize>>,
    /// The driver of idle states.
    idle_driver: Option<String>,
    /// What chooses the idle state.
    idle_governor: Option<String>,
    /// Frequencies above the nominal one may be used.
    boost: Option<bool>,
    /// Longest wake-up from idle anyone allows now.
    dma_latency_us: Option<i32>,
    /// All CPUs together.
    #[serde(flatten)]
    times: Times,
    /// Each CPU, by number.
    cpus: BTreeMap<usize, OneCpu>,
}

/// One CPU.
#[derive(Debug, Serialize)]
pub struct OneCpu {
    /// What core it is, where CPUs of one machine may be of several.
    core_type: Option<String>,
    /// Its speed, 1024 being that of the machine's fastest.
    capacity: Option<u32>,
    /// Its core.
    core: Option<i64>,
    /// Its package.
    package: Option<i64>,
    /// Its NUMA node.
    numa_node: Option<usize>,
    /// Threads of its core, itself included.
    siblings: Option<Vec<usize>>,
    /// Frequency driver.
    scaling_driver: Option<String>,
    /// Frequency governor.
    governor: Option<String>,
    /// What the hardware is asked to prefer.
    energy_preference: Option<String>,
    /// Frequency now.
    current_khz: Option<u64>,
    /// Lowest frequency the governor may choose.
    minimum_khz: Option<u64>,
    /// Highest frequency the governor may choose.
    maximum_khz: Option<u64>,
    /// What it has done.
    #[serde(flatten)]
    times: Times,
    /// Idle states, shallowest first, by number.
    idle_states: BTreeMap<usize, IdleState>,
}

/// A way for a CPU to rest.
#[derive(Debug, Serialize)]
pub struct IdleState {
    /// Its name.
    name: Option<String>,
    /// Time to wake from it.
    latency_us: Option<u64>,
    /// Shortest rest for which it pays.
    residency_us: Option<u64>,
    /// Switched off.
    disabled: Option<bool>,
    /// How often it was entered since boot.
    entered: Option<u64>,
    /// Time spent in it since boot.
    time_us: Option<u64>,
}

const CPU: &str = "sys/devices/system/cpu";
const COUNTERS: &str = "sys/bus/event_source/devices";

/// ARM_CPU_IMP_ARM, and ARM_CPU_PART_ of that implementer (arch/arm64/include/asm/cputype.h), of cores that boards have.
const ARM: u64 = 0x41;
const CORES: &[(u64, &str)] = &[
    (0xd03, "Cortex-A53"),
    (0xd04, "Cortex-A35"),
    (0xd05, "Cortex-A55"),
    (0xd07, "Cortex-A57"),
    (0xd08, "Cortex-A72"),
    (0xd09, "Cortex-A73"),
    (0xd0a, "Cortex-A75"),
    (0xd0b, "Cortex-A76"),
    (0xd0c, "Neoverse-N1"),
    (0xd0d, "Cortex-A77"),
    (0xd0e, "Cortex-A76AE"),
    (0xd40, "Neoverse-V1"),
    (0xd41, "Cortex-A78"),
    (0xd42, "Cortex-A78AE"),
    (0xd44, "Cortex-X1"),
    (0xd46, "Cortex-A510"),
    (0xd47, "Cortex-A710"),
    (0xd48, "Cortex-X2"),
    (0xd49, "Neoverse-N2"),
    (0xd4b, "Cortex-A78C"),
    (0xd4d, "Cortex-A715"),
    (0xd4e, "Cortex-X3"),
    (0xd80, "Cortex-A520"),
    (0xd81, "Cortex-A720"),
    (0xd82, "Cortex-X4"),
];

impl Cpu {
    /// The CPUs of `tree`; `stat` is what they have done.
    pub fn read(tree: &Tree, stat: &Stat) -> Self {
        let at = |name: &str| format!("{CPU}/{name}");
        let cpuinfo = tree.text("proc/cpuinfo").unwrap_or_default();
        let types = Types::read(tree);
        let online = tree.cpu_list(at("online"));
        Self {
            model: field(&cpuinfo, "model name").or_else(|| tree.text(at("cpu0/of_node/compatible"))),
            microcode: field(&cpuinfo, "microcode"),
            possible: tree.cpu_list(at("possible")),
            numa_nodes: tree.cpu_list("sys/devices/system/node/online"),
            smt: tree.switch(at("smt/active")),
            isolated: tree.cpu_list(at("isolated")),
            nohz_full: tree.cpu_list(at("nohz_full")),
            rcu_nocbs: rcu_nocbs(tree),
            idle_driver: tree.text(at("cpuidle/current_driver")),
            idle_governor: tree
                .text(at("cpuidle/current_governor_ro"))
                .or_else(|| tree.text(at("cpuidle/current_governor"))),
            boost: tree
                .switch(at("cpufreq/boost"))
                .or_else(|| tree.switch(at("intel_pstate/no_turbo")).map(|without| !without)),
            dma_latency_us: tree.bytes("dev/cpu_dma_latency").and_then(|bytes| dma_latency_us(&bytes)),
            times: stat.total,
            cpus: online
                .iter()
                .flatten()
                .map(|cpu| (*cpu, one(tree, &types, *cpu, stat.cpus.get(cpu).copied().unwrap_or_default())))
                .collect(),
            online,
        }
    }
}

fn one(tree: &Tree, types: &Types, number: usize, times: Times) -> OneCpu {
    let cpu = format!("{CPU}/cpu{number}");
    let frequency = |name: &str| format!("{cpu}/cpufreq/{name}");
    let idle = format!("{cpu}/cpuidle");
    OneCpu {
        core_type: types.of(tree, number),
        capacity: capacity(tree, number),
        core: tree.value(format!("{cpu}/topology/core_id")),
        package: tree.value(format!("{cpu}/topology/physical_package_id")),
        numa_node: tree.numbered(&cpu, "node").and_then(|nodes| nodes.first().copied()),
        siblings: tree.cpu_list(format!("{cpu}/topology/thread_siblings_list")),
        scaling_driver: tree.text(frequency("scaling_driver")),
        governor: tree.text(frequency("scaling_governor")),
        energy_preference: tree.text(frequency("energy_performance_preference")),
        current_khz: tree.value(frequency("scaling_cur_freq")),
        minimum_khz: tree.value(frequency("scaling_min_freq")),
        maximum_khz: tree.value(frequency("scaling_max_freq")),
        times,
        idle_states: tree
            .numbered(&idle, "state")
            .unwrap_or_default()
            .into_iter()
            .map(|n| (n, idle_state(tree, &format!("{idle}/state{n}"))))
            .collect(),
    }
}

fn idle_state(tree: &Tree, path: &str) -> IdleState {
    let at = |name: &str| format!("{path}/{name}");
    IdleState {
        name: tree.text(at("name")),
        latency_us: tree.value(at("latency")),
        residency_us: tree.value(at("residency")),
        // Bits of who disabled it, not a switch.
        disabled: tree.value::<u64>(at("disable")).map(|by| by != 0),
        entered: tree.value(at("usage")),
        time_us: tree.value(at("time")),
    }
}

/// Which CPUs are of which type by the names of their performance counters: `core` and `atom` of hybrid x86 processors
/// (arch/x86/events/intel/core.c). ARM's are named by each CPU itself.
pub struct Types(Vec<(String, Vec<usize>)>);

impl Types {
    /// Those of `tree`.
    pub fn read(tree: &Tree) -> Self {
        let named = |name: String| {
            let cpus = tree.cpu_list(format!("{COUNTERS}/{name}/cpus"))?;
            Some((name.strip_prefix("cpu_")?.to_owned(), cpus))
        };
        Self(tree.names(COUNTERS).unwrap_or_default().into_iter().filter_map(named).collect())
    }

    /// What core a CPU is; None: the kernel does not say.
    pub fn of(&self, tree: &Tree, cpu: usize) -> Option<String> {
        let midr = tree.text(format!("{CPU}/cpu{cpu}/regs/identification/midr_el1"));
        midr.and_then(|midr| core_of(&midr))
            .or_else(|| self.0.iter().find(|(_, cpus)| cpus.contains(&cpu)).map(|(name, _)| name.clone()))
    }
}

/// A CPU's speed, 1024 being that of the machine's fastest (Documentation/devicetree/bindings/cpu/cpu-capacity.txt); None: the
/// kernel does not say.
pub fn capacity(tree: &Tree, cpu: usize) -> Option<u32> {
    tree.value(format!("{CPU}/cpu{cpu}/cpu_capacity"))
}

/// The name of the core that an ARM CPU's main ID register says it is: implementer in bits 31 to 24, part in bits 15 to 4.
fn core_of(midr: &str) -> Option<String> {
    let midr = u64::from_str_radix(midr.strip_prefix("0x")?, 16).ok()?;
    let (implementer, part) = (midr >> 24 & 0xff, midr >> 4 & 0xfff);
    let known = CORES.iter().find(|(number, _)| implementer == ARM && *number == part);
    Some(
        known
            .map_or_else(|| format!("implementer {implementer:#04x} part {part:#05x}"), |(_, name)| (*name).to_owned()),
    )
}

/// The first `NAME : VALUE` of /proc/cpuinfo.
fn field(cpuinfo: &str, name: &str) -> Option<String> {
    let line = cpuinfo.lines().find_map(|line| line.strip_prefix(name)?.trim_start().strip_prefix(':'))?;
    Some(line.trim().to_owned())
}

/// CPUs whose RCU callbacks are run by threads: what the command line asks for. `nohz_full` implies it.
fn rcu_nocbs(tree: &Tree) -> Option<Vec<usize>> {
    let last = tree.cpu_list(format!("{CPU}/possible"))?.last().copied()?;
    let command_line = tree.text("proc/cmdline")?;
    let mut found = Vec::new();
    for name in ["rcu_nocbs", "nohz_full"] {
        if let Some(text) = kernel::parameter(&command_line, name) {
            found.extend(cpus::parameter(text, last)?);
        }
    }
    found.sort_unstable();
    found.dedup();
    Some(found)
}

/// The constraint in force, as /dev/cpu_dma_latency gives it: an i32, not text.
fn dma_latency_us(bytes: &[u8]) -> Option<i32> {
    Some(i32::from_ne_bytes(*bytes.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::fixture::Fixture;
    use crate::facts::times;

    fn board() -> Cpu {
        let tree = Fixture::i225_board();
        Cpu::read(&tree, &times::stat(&tree.text("proc/stat").unwrap()))
    }

    #[test]
    fn cpus_that_are_set_apart_are_listed() {
        let cpu = board();
        assert_eq!(cpu.online, Some(vec![0, 1, 2, 3]));
        assert_eq!((cpu.isolated, cpu.nohz_full), (Some(vec![2, 3]), Some(vec![3])));
        assert_eq!(cpu.rcu_nocbs, Some(vec![2, 3]));
    }

    #[test]
    fn a_machine_that_sets_none_apart_lists_none() {
        let cpu = Cpu::read(&Fixture::virtio_guest(), &Stat::default());
        assert_eq!((cpu.isolated, cpu.rcu_nocbs), (Some(vec![]), Some(vec![])));
        assert_eq!(cpu.nohz_full, None);
        assert_eq!(cpu.model.as_deref(), Some("Intel(R) Xeon(R) Processor"));
    }

    #[test]
    fn each_cpu_tells_its_frequency_and_its_idle_states() {
        let cpu = board();
        let third = &cpu.cpus[&3];
        assert_eq!((third.governor.as_deref(), third.maximum_khz), (Some("performance"), Some(1_500_000)));
        let deepest = &third.idle_states[&1];
        assert_eq!(
            (deepest.name.as_deref(), deepest.latency_us, deepest.disabled),
            (Some("C6"), Some(150), Some(true))
        );
        assert_eq!(cpu.cpus[&0].idle_states[&1].disabled, Some(false));
        assert_eq!(cpu.boost, Some(false));
    }

    #[test]
    fn stolen_time_is_told_for_the_machine_and_for_each_cpu() {
        let tree = Fixture::virtio_guest();
        let cpu = Cpu::read(&tree, &times::stat(&tree.text("proc/stat").unwrap()));
        let json = serde_json::to_value(&cpu).unwrap();
        assert_eq!(json["steal_ns"], 1_560_000_000_i64);
        assert_eq!(json["cpus"]["1"]["steal_ns"], 790_000_000_i64);
    }

    #[test]
    fn the_kind_of_each_core_is_told_by_arm_and_by_hybrid_x86_processors() {
        let tree = Fixture::from_text(
            "=== sys/devices/system/cpu/online\n0-2\n\
             === sys/devices/system/cpu/cpu0/regs/identification/midr_el1\n0x00000000410fd034\n\
             === sys/devices/system/cpu/cpu0/cpu_capacity\n446\n\
             === sys/devices/system/cpu/cpu1/regs/identification/midr_el1\n0x00000000410fd083\n\
             === sys/devices/system/cpu/cpu1/cpu_capacity\n1024\n\
             === sys/devices/system/cpu/cpu2/regs/identification/midr_el1\n0x000000004e0f0040\n",
        );
        let cpus = Cpu::read(&tree, &Stat::default()).cpus;
        let found = [0, 1, 2].map(|cpu| (cpus[&cpu].core_type.as_deref(), cpus[&cpu].capacity));
        assert_eq!(
            found,
            [
                (Some("Cortex-A53"), Some(446)),
                (Some("Cortex-A72"), Some(1024)),
                (Some("implementer 0x4e part 0x004"), None)
            ]
        );
        let hybrid = Fixture::from_text(
            "=== sys/bus/event_source/devices/cpu_core/cpus\n0-1\n=== sys/bus/event_source/devices/cpu_atom/cpus\n2-5\n\
             === sys/bus/event_source/devices/power/cpumask\n0\n",
        );
        let types = Types::read(&hybrid);
        assert_eq!([0, 5, 6].map(|cpu| types.of(&hybrid, cpu)), [Some("core".into()), Some("atom".into()), None]);
        assert_eq!(core_of("410fd034"), None);
    }

    #[test]
    fn the_latency_constraint_is_a_binary_number() {
        assert_eq!(dma_latency_us(&2_000_000_000_i32.to_ne_bytes()), Some(2_000_000_000));
        assert_eq!(dma_latency_us(b"0"), None);
    }
}
