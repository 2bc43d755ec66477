//! How much memory there is, and whether it is swapped or moved under running programs.

use super::tree::Tree;
use serde::Serialize;

/// How much memory there is, and whether it is swapped or moved under running programs.
#[derive(Debug, Serialize)]
pub struct Memory {
    /// Of a page.
    page_bytes: usize,
    /// All of it.
    total_bytes: Option<u64>,
    /// What new programs could have without swapping.
    available_bytes: Option<u64>,
    /// Locked by mlock(2).
    locked_bytes: Option<u64>,
    /// Swap space.
    swap_total_bytes: Option<u64>,
    /// Swap space not used.
    swap_free_bytes: Option<u64>,
    /// Pages read back from swap since boot.
    swapped_in_pages: Option<u64>,
    /// Pages written to swap since boot.
    swapped_out_pages: Option<u64>,
    /// Page faults that waited for a disk since boot.
    major_faults: Option<u64>,
    /// Times a program waited while the kernel moved pages together, since boot.
    compaction_stalls: Option<u64>,
    /// Huge pages made of a program's small ones, since boot.
    huge_pages_collapsed: Option<u64>,
    /// Reserved huge pages.
    huge_pages: Option<u64>,
    /// Reserved huge pages nobody uses.
    huge_pages_free: Option<u64>,
    /// Size of one.
    huge_page_bytes: Option<u64>,
    /// `always`, `madvise` or `never`.
    transparent_huge_pages: Option<String>,
    /// When the kernel stops a program to make room for one.
    transparent_huge_page_defrag: Option<String>,
    /// Kernel samepage merging runs.
    samepage_merging: Option<bool>,
}

impl Memory {
    /// The memory of `tree`.
    pub fn read(tree: &Tree) -> Self {
        let meminfo = tree.text("proc/meminfo").unwrap_or_default();
        let vmstat = tree.text("proc/vmstat").unwrap_or_default();
        let (bytes, count) = (|name| bytes(&meminfo, name), |name| count(&vmstat, name));
        let transparent = |name| tree.choice(format!("sys/kernel/mm/transparent_hugepage/{name}"), ('[', ']'));
        Self {
            page_bytes: sys::shared::page_bytes(),
            total_bytes: bytes("MemTotal:"),
            available_bytes: bytes("MemAvailable:"),
            locked_bytes: bytes("Mlocked:"),
            swap_total_bytes: bytes("SwapTotal:"),
            swap_free_bytes: bytes("SwapFree:"),
            swapped_in_pages: count("pswpin"),
            swapped_out_pages: count("pswpout"),
            major_faults: count("pgmajfault"),
            compaction_stalls: count("compact_stall"),
            huge_pages_collapsed: count("thp_collapse_alloc"),
            huge_pages: bytes("HugePages_Total:"),
            huge_pages_free: bytes("HugePages_Free:"),
            huge_page_bytes: bytes("Hugepagesize:"),
            transparent_huge_pages: transparent("enabled"),
            transparent_huge_page_defrag: transparent("defrag"),
            samepage_merging: tree.value::<u64>("sys/kernel/mm/ksm/run").map(|run| run == 1),
        }
    }
}

/// A value of /proc/meminfo: bytes where the file says kB, else the bare number.
fn bytes(meminfo: &str, name: &str) -> Option<u64> {
    let mut words = meminfo.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace();
    let value: u64 = words.next()?.parse().ok()?;
    match words.next() {
        Some("kB") => value.checked_mul(1024),
        _ => Some(value),
    }
}

/// A counter of /proc/vmstat.
fn count(vmstat: &str, name: &str) -> Option<u64> {
    vmstat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::fixture::Fixture;

    #[test]
    fn kilobytes_become_bytes_and_pages_stay_counts() {
        let memory = Memory::read(&Fixture::virtio_guest());
        assert_eq!(memory.total_bytes, Some(24_731_708 * 1024));
        assert_eq!(memory.huge_page_bytes, Some(2048 * 1024));
        assert_eq!(memory.huge_pages, Some(0));
        assert_eq!(memory.swapped_out_pages, Some(0));
        assert_eq!(memory.transparent_huge_pages.as_deref(), Some("madvise"));
        assert_eq!((memory.compaction_stalls, memory.huge_pages_collapsed), (None, None));
    }

    #[test]
    fn what_the_kernel_did_to_make_huge_pages_is_counted() {
        let tree = Fixture::from_text("=== proc/vmstat\ncompact_stall 3\nthp_collapse_alloc 17\n");
        let memory = Memory::read(&tree);
        assert_eq!((memory.compaction_stalls, memory.huge_pages_collapsed), (Some(3), Some(17)));
    }

    #[test]
    fn a_counters_name_is_matched_whole() {
        assert_eq!(count("pswpin_x 3\npswpin 4\n", "pswpin"), Some(4));
        assert_eq!(count("", "pswpin"), None);
    }
}
