//! What the agent itself may do here: limits and cgroup.

use super::tree::Tree;
use serde::Serialize;

/// What the agent itself may do here.
#[derive(Debug, Serialize)]
pub struct Agent {
    /// Its version.
    version: &'static str,
    /// CPUs it may run on.
    cpus: Option<Vec<usize>>,
    /// Capabilities in effect, bits of `include/uapi/linux/capability.h` in hexadecimal.
    capabilities: Option<String>,
    /// Highest real-time priority it may take without CAP_SYS_NICE; −1: any.
    realtime_priority_limit: Option<i64>,
    /// Memory it may lock without CAP_IPC_LOCK; −1: any amount.
    locked_memory_limit_bytes: Option<i64>,
    /// Its cgroup, as far as it limits CPU time.
    cgroup: Cgroup,
}

/// A cgroup, as far as it limits CPU time.
#[derive(Debug, Default, Serialize)]
pub struct Cgroup {
    /// Its path in the hierarchy of the cpu controller.
    path: Option<String>,
    /// What its real-time threads may use of each period (version 1); 0: there can be none.
    rt_runtime_us: Option<i64>,
    /// The period (version 1).
    rt_period_us: Option<i64>,
    /// What its threads may use of each period, and the period (version 2), µs: `max 100000`.
    cpu_max: Option<String>,
    /// CPUs its threads may use (version 2).
    cpus: Option<Vec<usize>>,
}

impl Agent {
    /// The agent, as `tree` sees it.
    pub fn read(tree: &Tree) -> Self {
        let status = tree.text("proc/self/status").unwrap_or_default();
        let limits = tree.text("proc/self/limits").unwrap_or_default();
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        Self {
            version: env!("CARGO_PKG_VERSION"),
            cpus: field("Cpus_allowed_list:").and_then(super::cpus::list),
            capabilities: field("CapEff:").map(str::to_owned),
            realtime_priority_limit: limit(&limits, "Max realtime priority"),
            locked_memory_limit_bytes: limit(&limits, "Max locked memory"),
            cgroup: tree.text("proc/self/cgroup").map(|text| cgroup(tree, &text)).unwrap_or_default(),
        }
    }
}

/// A soft limit of /proc/self/limits; −1 if it is unlimited.
fn limit(limits: &str, name: &str) -> Option<i64> {
    let value = limits.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()?;
    if value == "unlimited" { Some(-1) } else { value.parse().ok() }
}

/// The cgroup of the cpu controller: version 1's hierarchy where there is one, else version 2's.
fn cgroup(tree: &Tree, text: &str) -> Cgroup {
    const MOUNTED: &str = "sys/fs/cgroup";
    let mut hierarchies = text.lines().filter_map(|line| {
        let (_, rest) = line.split_once(':')?;
        rest.split_once(':')
    });
    let version_1 = hierarchies.clone().find(|(controllers, _)| controllers.split(',').any(|name| name == "cpu"));
    if let Some((controllers, path)) = version_1 {
        let at = |name: &str| format!("{MOUNTED}/{controllers}{path}/{name}");
        return Cgroup {
            path: Some(path.to_owned()),
            rt_runtime_us: tree.value(at("cpu.rt_runtime_us")),
            rt_period_us: tree.value(at("cpu.rt_period_us")),
            ..Cgroup::default()
        };
    }
    let Some((_, path)) = hierarchies.find(|(controllers, _)| controllers.is_empty()) else { return Cgroup::default() };
    let at = |name: &str| format!("{MOUNTED}{path}/{name}");
    Cgroup {
        path: Some(path.to_owned()),
        cpu_max: tree.text(at("cpu.max")),
        cpus: tree.cpu_list(at("cpuset.cpus.effective")),
        ..Cgroup::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::fixture::Fixture;

    #[test]
    fn limits_are_numbers_and_no_limit_is_minus_one() {
        let agent = Agent::read(&Fixture::virtio_guest());
        assert_eq!(agent.locked_memory_limit_bytes, Some(8_388_608));
        assert_eq!(agent.realtime_priority_limit, Some(0));
        assert_eq!(agent.cpus, Some(vec![0, 1]));
        assert_eq!(limit("Max locked memory   unlimited  unlimited  bytes", "Max locked memory"), Some(-1));
    }

    #[test]
    fn version_1_tells_the_real_time_budget() {
        let tree = Fixture::from_text(
            "=== proc/self/cgroup\n4:cpu,cpuacct:/lab\n0::/elsewhere\n\
             === sys/fs/cgroup/cpu,cpuacct/lab/cpu.rt_runtime_us\n0\n",
        );
        let cgroup = Agent::read(&tree).cgroup;
        assert_eq!((cgroup.path.as_deref(), cgroup.rt_runtime_us), (Some("/lab"), Some(0)));
    }

    #[test]
    fn version_2_tells_the_cpu_budget() {
        let cgroup = Agent::read(&Fixture::i225_board()).cgroup;
        assert_eq!(cgroup.path.as_deref(), Some("/system.slice/lab.service"));
        assert_eq!((cgroup.cpu_max.as_deref(), cgroup.cpus), (Some("max 100000"), Some(vec![0, 1, 2, 3])));
    }

    #[test]
    fn a_process_without_cgroups_has_none() {
        assert_eq!(Agent::read(&Fixture::empty()).cgroup.path, None);
    }
}
