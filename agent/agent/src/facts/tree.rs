//! Reading the small files in which the kernel describes itself.

use super::cpus;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// A file tree like `/`: the machine's own, or one captured from another machine.
///
/// Paths are relative to its root. What is not there, not readable or not of the expected form is None.
#[derive(Clone, Debug)]
pub struct Tree {
    root: PathBuf,
}

impl Tree {
    /// The tree below `root`.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// This machine's.
    pub fn machine() -> Self {
        Self::at("/")
    }

    /// The file's bytes.
    pub fn bytes(&self, path: impl AsRef<Path>) -> Option<Vec<u8>> {
        std::fs::read(self.root.join(path)).ok()
    }

    /// The file's text without the white space around it; None if nothing is left.
    pub fn text(&self, path: impl AsRef<Path>) -> Option<String> {
        let bytes = self.bytes(path)?;
        // Firmware's strings end in a zero byte.
        let text = String::from_utf8_lossy(&bytes).trim_matches(|c: char| c.is_whitespace() || c == '\0').to_owned();
        (!text.is_empty()).then_some(text)
    }

    /// The number, or whatever else is read from text, that the file holds.
    pub fn value<T: FromStr>(&self, path: impl AsRef<Path>) -> Option<T> {
        self.text(path)?.parse().ok()
    }

    /// A switch: 1, Y, on; 0, N, off.
    pub fn switch(&self, path: impl AsRef<Path>) -> Option<bool> {
        match self.text(path)?.as_str() {
            "1" | "Y" | "on" => Some(true),
            "0" | "N" | "off" => Some(false),
            _ => None,
        }
    }

    /// The choice in brackets, as in `always [madvise] never`.
    pub fn choice(&self, path: impl AsRef<Path>, brackets: (char, char)) -> Option<String> {
        let text = self.text(path)?;
        let (_, after) = text.split_once(brackets.0)?;
        let (choice, _) = after.split_once(brackets.1)?;
        Some(choice.to_owned())
    }

    /// The CPUs of a list such as `0-3,8`; an empty file is an empty list.
    pub fn cpu_list(&self, path: impl AsRef<Path>) -> Option<Vec<usize>> {
        cpus::list(std::str::from_utf8(&self.bytes(path)?).ok()?)
    }

    /// The CPUs of a mask such as `0000000c`.
    pub fn cpu_mask(&self, path: impl AsRef<Path>) -> Option<Vec<usize>> {
        cpus::mask(&self.text(path)?)
    }

    /// The names in a folder, sorted.
    pub fn names(&self, path: impl AsRef<Path>) -> Option<Vec<String>> {
        let entries = std::fs::read_dir(self.root.join(path)).ok()?;
        let mut names: Vec<String> =
            entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        Some(names)
    }

    /// The numbers n of the names `PREFIXn` in a folder, sorted.
    pub fn numbered(&self, path: impl AsRef<Path>, prefix: &str) -> Option<Vec<usize>> {
        let names = self.names(path)?;
        let mut numbers: Vec<usize> = names.iter().filter_map(|name| name.strip_prefix(prefix)?.parse().ok()).collect();
        numbers.sort_unstable();
        Some(numbers)
    }

    /// The last part of where a link points, such as the name of a device's driver.
    pub fn link(&self, path: impl AsRef<Path>) -> Option<String> {
        let target = std::fs::read_link(self.root.join(path)).ok()?;
        Some(target.file_name()?.to_str()?.to_owned())
    }

    /// Whether there is such a file or folder.
    pub fn exists(&self, path: impl AsRef<Path>) -> bool {
        self.root.join(path).exists()
    }
}

#[cfg(test)]
mod tests {
    use crate::facts::fixture::Fixture;

    #[test]
    fn what_is_not_there_or_of_another_form_is_none() {
        let tree = Fixture::from_text("=== a/word\nword\n=== a/empty\n\n=== a/number\n-7\n");
        assert_eq!(tree.text("a/missing"), None);
        assert_eq!(tree.text("a/empty"), None);
        assert_eq!(tree.value::<i64>("a/word"), None);
        assert_eq!(tree.value::<i64>("a/number"), Some(-7));
        assert_eq!(tree.value::<u64>("a/number"), None);
        assert_eq!(tree.names("b"), None);
        assert_eq!(tree.link("a/word"), None);
    }

    #[test]
    fn a_choice_is_what_stands_in_brackets() {
        let tree = Fixture::from_text("=== thp\nalways [madvise] never\n=== none\nalways never\n");
        assert_eq!(tree.choice("thp", ('[', ']')).as_deref(), Some("madvise"));
        assert_eq!(tree.choice("none", ('[', ']')), None);
    }

    #[test]
    fn numbered_names_come_in_the_order_of_their_numbers() {
        let tree = Fixture::from_text("=== cpu10/x\n1\n=== cpu2/x\n1\n=== cpufreq/x\n1\n");
        assert_eq!(tree.numbered("", "cpu"), Some(vec![2, 10]));
    }
}
