//! Which of a machine's interfaces a packet comes in at, where the one it is for stands on others.

use super::program::Entry;
use std::path::{Path, PathBuf};
use sys::ethtool::Ethtool;

const VETH: &str = "veth";
/// With it a veth has a NAPI, which hands packets on without a backlog.
const NAPI_OF_VETH: &str = "rx-gro";
/// Kinds of interfaces that stand on another one, which may be in another network namespace.
const UPPER: [&str; 3] = ["DEVTYPE=vlan", "DEVTYPE=macvlan", "DEVTYPE=ipvlan"];
/// Features by which the kernel merges datagrams that no socket asked it to merge.
const MERGING: [&str; 2] = ["rx-gro-list", "rx-udp-gro-forwarding"];

/// The interfaces that have none below them on which this one stands, or itself.
///
/// # Errors
/// There is no such interface.
pub fn entries(interface: &str) -> Result<Vec<Entry>, sys::Error> {
    let mut found = Vec::new();
    for name in lowest(interface, 0) {
        let own = sys::socket::interface_index(&name)?;
        found.push(
            stands_on(&name)
                .filter(|below| *below != own)
                .map_or(Entry { ifindex: own, elsewhere: false }, |below| Entry { ifindex: below, elsewhere: true }),
        );
    }
    Ok(found)
}

/// Whether datagrams that come in for this interface may be merged before anybody looks at them.
pub fn merge_datagrams(interface: &str) -> bool {
    let Ok(ethtool) = Ethtool::open() else { return false };
    let merges = |name: &String| {
        let features = ethtool.features(name).unwrap_or_default();
        features.iter().any(|(feature, on)| *on && MERGING.contains(&feature.as_str()))
    };
    lowest(interface, 0).iter().any(merges)
}

/// Whether all that comes in here goes into the kernel's backlog, as it does at a veth that has no NAPI of its own
/// (`veth_xmit`, drivers/net/veth.c).
pub fn fills_backlog(interface: &str) -> bool {
    let Ok(ethtool) = Ethtool::open() else { return false };
    let is_veth = ethtool.driver(interface).is_ok_and(|driver| driver.name == VETH);
    let polls =
        || ethtool.features(interface).map_or(true, |all| all.iter().any(|(name, on)| *on && name == NAPI_OF_VETH));
    is_veth && !polls()
}

/// Its largest packet; None: unknown.
pub fn mtu(interface: &str) -> Option<usize> {
    std::fs::read_to_string(folder(interface).join("mtu")).ok()?.trim().parse().ok()
}

fn folder(interface: &str) -> PathBuf {
    Path::new("/sys/class/net").join(interface)
}

/// Deeper than any interfaces stand on each other (`MAX_NEST_DEV`, include/linux/netdevice.h).
const DEEPEST: usize = 8;

fn lowest(interface: &str, depth: usize) -> Vec<String> {
    let links = std::fs::read_dir(folder(interface)).into_iter().flatten().flatten();
    let below = links.filter_map(|link| link.file_name().to_str()?.strip_prefix("lower_").map(str::to_owned));
    let below: Vec<String> = below.collect();
    if below.is_empty() || depth == DEEPEST {
        return vec![interface.to_owned()];
    }
    below.iter().flat_map(|name| lowest(name, depth + 1)).collect()
}

/// The number of the interface below this one, in its own network namespace; None: it stands on none.
fn stands_on(interface: &str) -> Option<u32> {
    let kind = std::fs::read_to_string(folder(interface).join("uevent")).ok()?;
    if !kind.lines().any(|line| UPPER.contains(&line)) {
        return None;
    }
    std::fs::read_to_string(folder(interface).join("iflink")).ok()?.trim().parse().ok()
}
