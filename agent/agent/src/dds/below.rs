//! What happens below the samples: Cyclone's threads, and what the kernel dropped at its sockets.

use crate::facts::{self, Tree};
use wire::dds::Thread;

/// Cyclone's own threads of this process, which it gives names, by number.
pub fn threads(tree: &Tree) -> Vec<Thread> {
    let process = std::process::id() as usize;
    let ours = tree.text(format!("proc/{process}/comm")).unwrap_or_default();
    facts::threads::of_process(tree, process)
        .into_iter()
        .filter(|(name, _)| *name != ours)
        .map(|(name, thread)| Thread { name, policy: thread.policy, priority: thread.priority, cpus: thread.cpus })
        .collect()
}

/// Datagrams that the kernel dropped because one of this process's UDP sockets had no room for them.
pub fn socket_drops(tree: &Tree) -> u64 {
    let own = own_sockets();
    let tables = ["proc/self/net/udp", "proc/self/net/udp6"].map(|path| tree.text(path).unwrap_or_default());
    tables
        .iter()
        .flat_map(|table| drops_by_socket(table))
        .filter(|(socket, _)| own.contains(socket))
        .map(|(_, n)| n)
        .sum()
}

/// Inode and dropped datagrams of each socket in /proc/net/udp (`udp4_format_sock`, net/ipv4/udp.c).
fn drops_by_socket(table: &str) -> impl Iterator<Item = (u64, u64)> + '_ {
    table.lines().skip(1).filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        Some((fields.get(9)?.parse().ok()?, fields.get(12)?.parse().ok()?))
    })
}

/// The inodes of the sockets that this process has.
fn own_sockets() -> Vec<u64> {
    let entries = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let links = entries.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    links.filter_map(|link| link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    const TABLE: &str = "\
   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops
  371: 010A4E0A:1CF2 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 48211 2 000000000bd1d0c5 17
  372: 010A4E0A:1CF3 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 48212 2 000000000bd1d0c6 0";

    #[test]
    fn each_socket_s_drops_stand_in_the_last_column() {
        assert_eq!(drops_by_socket(TABLE).collect::<Vec<_>>(), [(48211, 17), (48212, 0)]);
        assert_eq!(drops_by_socket("").count(), 0);
    }

    #[test]
    fn this_process_s_sockets_are_found_in_the_kernel_s_table() {
        let _socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let table = std::fs::read_to_string("/proc/self/net/udp").unwrap();
        let own = own_sockets();
        assert!(drops_by_socket(&table).any(|(socket, _)| own.contains(&socket)));
    }

    #[test]
    fn threads_with_names_of_their_own_are_told() {
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::Builder::new().name("recv-of-test".into()).spawn(move || stopped.recv()).unwrap();
        // A thread gives itself its name once it runs.
        let found = std::iter::repeat_with(|| threads(&Tree::machine()))
            .find_map(|threads| threads.into_iter().find(|thread| thread.name == "recv-of-test"));
        assert_eq!(found.unwrap().policy, Some("SCHED_OTHER"));
        drop(stop);
        assert!(thread.join().unwrap().is_err());
    }
}
