//! Captured file trees for tests: a whole tree in one text file, so that it can be read and reviewed as one page.
//!
//! `=== PATH` begins a file, which lasts up to the next such line; `=== PATH -> TARGET` is a symbolic link.
//! Lines before the first one are a note to the reader.

use super::tree::Tree;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A tree unpacked for one test, read like any [`Tree`]; removed with it.
pub struct Fixture {
    root: PathBuf,
    tree: Tree,
}

static UNPACKED: AtomicU32 = AtomicU32::new(0);

impl Fixture {
    /// A virtual machine with two CPUs and a virtio NIC, captured.
    pub fn virtio_guest() -> Self {
        Self::from_text(include_str!("../../tests/fixtures/facts/captured-virtio-guest.tree"))
    }

    /// A tuned two-CPU board with an i225-like NIC, written by hand.
    pub fn i225_board() -> Self {
        Self::from_text(include_str!("../../tests/fixtures/facts/handwritten-i225-board.tree"))
    }

    /// An empty tree: a machine that tells nothing.
    pub fn empty() -> Self {
        Self::from_text("")
    }

    /// The tree that `text` describes.
    pub fn from_text(text: &str) -> Self {
        let number = UNPACKED.fetch_add(1, Ordering::Relaxed);
        let root = std::env::temp_dir().join(format!("latlab-facts-{}-{number}", std::process::id()));
        std::fs::create_dir(&root).unwrap();
        let fixture = Self { tree: Tree::at(&root), root };
        for entry in format!("\n{text}").split("\n=== ").skip(1) {
            let (head, content) = entry.split_once('\n').unwrap_or((entry, ""));
            match head.split_once(" -> ") {
                Some((path, target)) => std::os::unix::fs::symlink(target, fixture.place(path)).unwrap(),
                None => std::fs::write(fixture.place(head), format!("{}\n", content.trim_end_matches('\n'))).unwrap(),
            }
        }
        fixture
    }

    fn place(&self, path: &str) -> PathBuf {
        let place = self.root.join(Path::new(path));
        std::fs::create_dir_all(place.parent().unwrap()).unwrap();
        place
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.root);
    }
}

impl std::ops::Deref for Fixture {
    type Target = Tree;

    fn deref(&self) -> &Tree {
        &self.tree
    }
}
