//! Memory shared with another process or with a guest: a file, or a PCI device's memory, as 64-bit words.

use crate::{Error, check};
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a page of memory: 4096, of some kernels for ARM 16384 or 65536.
pub fn page_bytes() -> usize {
    // SAFETY: no pointer is passed.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
}

/// Takes the file's lock for as long as it stays open.
///
/// # Errors
/// EWOULDBLOCK if another holds it.
pub fn lock(file: &File) -> Result<(), Error> {
    // SAFETY: no pointer is passed.
    check(unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) }, "flock").map(drop)
}

/// A mapping of a file's beginning, unmapped when dropped.
pub struct SharedWords {
    words: NonNull<AtomicU64>,
    count: usize,
    writable: bool,
}

// SAFETY: the words are atomic and belong to no thread.
unsafe impl Send for SharedWords {}

impl SharedWords {
    /// The first `count` words of `file`, or of a BPF map that can be mapped. It must stay that long: another process that cuts a file
    /// short ends this one with SIGBUS. `writable`: it was opened for reading and writing.
    ///
    /// # Errors
    /// The file cannot be mapped (`mmap`).
    pub fn map(file: impl AsFd, count: usize, writable: bool) -> Result<Self, Error> {
        let protection = libc::PROT_READ | if writable { libc::PROT_WRITE } else { 0 };
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        // SAFETY: the kernel chooses where; nothing that exists is replaced.
        let start =
            unsafe { libc::mmap(std::ptr::null_mut(), count * 8, protection, flags, file.as_fd().as_raw_fd(), 0) };
        if start == libc::MAP_FAILED {
            return Err(Error::last("mmap of shared memory"));
        }
        let words = NonNull::new(start.cast()).ok_or_else(|| Error { call: "mmap".into(), errno: libc::ENOMEM })?;
        Ok(Self { words, count, writable })
    }

    /// The word at `index`; loads after it are not done before it.
    ///
    /// # Panics
    /// There is no such word.
    #[inline]
    pub fn load(&self, index: usize) -> u64 {
        self.word(index).load(Ordering::Acquire)
    }

    /// Sets the word at `index`; stores before it are seen before it.
    ///
    /// # Panics
    /// There is no such word, or it was mapped for reading only.
    #[inline]
    pub fn store(&self, index: usize, value: u64) {
        assert!(self.writable, "shared words were mapped for reading only");
        self.word(index).store(value, Ordering::Release);
    }

    #[inline]
    fn word(&self, index: usize) -> &AtomicU64 {
        assert!(index < self.count, "word {index} of {}", self.count);
        // SAFETY: within the mapping, which lives as long as `self`; mappings are page-aligned, so each word is aligned.
        unsafe { self.words.add(index).as_ref() }
    }
}

impl wire::rings::Words for SharedWords {
    #[inline]
    fn load(&self, index: usize) -> u64 {
        self.load(index)
    }

    #[inline]
    fn store(&self, index: usize, value: u64) {
        self.store(index, value);
    }
}

impl Drop for SharedWords {
    fn drop(&mut self) {
        // SAFETY: what `map` mapped, and nothing borrows from it any more.
        unsafe { libc::munmap(self.words.as_ptr().cast(), self.count * 8) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> File {
        let path = std::env::temp_dir().join(format!(
            "latlab-shared-{}-{:?}",
            std::process::id(),
            std::thread::current().id()
        ));
        let file = File::options().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
        file.set_len(4096).unwrap();
        std::fs::remove_file(path).unwrap();
        file
    }

    #[test]
    fn what_one_mapping_stores_another_loads() {
        let file = file();
        let writer = SharedWords::map(&file, 512, true).unwrap();
        let reader = SharedWords::map(&file, 512, false).unwrap();
        writer.store(511, 7);
        crate::order::settle();
        assert_eq!((reader.load(511), reader.load(0)), (7, 0));
    }

    #[test]
    fn a_page_is_a_power_of_two_of_bytes() {
        assert!(page_bytes().is_power_of_two() && page_bytes() >= 4096);
    }

    #[test]
    fn words_in_part_of_a_page_and_beyond_it_are_mapped_whatever_its_size() {
        for count in [1, 512, 513, 3 * page_bytes() / 8 + 1] {
            let file = file();
            file.set_len(count as u64 * 8).unwrap();
            let writer = SharedWords::map(&file, count, true).unwrap();
            writer.store(count - 1, 7);
            assert_eq!(SharedWords::map(&file, count, false).unwrap().load(count - 1), 7);
        }
    }

    #[test]
    #[should_panic(expected = "word 512 of 512")]
    fn nothing_beyond_the_mapping_is_read() {
        SharedWords::map(file(), 512, false).unwrap().load(512);
    }
}
