//! Sets of CPUs in the kernel's two notations, as sorted numbers.

/// No machine has so many CPUs; a number beyond is not worth the memory.
const MOST: usize = 1 << 16;

/// The CPUs of a list the kernel wrote, such as `0-3,8`; None if it is no such list.
pub fn list(text: &str) -> Option<Vec<usize>> {
    // How some kernels print an empty nohz_full.
    if text.trim() == "(null)" { Some(Vec::new()) } else { parameter(text, 0) }
}

/// The CPUs of a list on the kernel's command line; None if it is no such list.
///
/// Next to what the kernel writes there may be `all`, `N` (the last CPU) and strides `0-15:2/4` (the first 2 of each 4):
/// `Documentation/admin-guide/kernel-parameters.rst`. `last` is the highest CPU the kernel knows.
pub fn parameter(text: &str, last: usize) -> Option<Vec<usize>> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (range, stride) = match part.split_once(':') {
            Some((range, stride)) => (range, Some(stride)),
            None => (part, None),
        };
        let number = |text: &str| if text == "N" { Some(last) } else { text.parse::<usize>().ok() };
        let (first, end) = match range.split_once('-') {
            _ if range == "all" => (0, last),
            Some((first, end)) => (number(first)?, number(end)?),
            None => (number(range)?, number(range)?),
        };
        let (used, group) = match stride {
            Some(stride) => {
                let (used, group) = stride.split_once('/')?;
                (used.parse().ok()?, group.parse().ok().filter(|group| *group > 0)?)
            }
            None => (1, 1),
        };
        if end >= MOST {
            return None;
        }
        cpus.extend((first..=end).filter(|cpu| (cpu - first) % group < used));
    }
    cpus.sort_unstable();
    cpus.dedup();
    Some(cpus)
}

/// The CPUs of a mask such as `00000000,0000000c`; None if it is no such mask.
pub fn mask(text: &str) -> Option<Vec<usize>> {
    let digits: String = text.trim().split(',').collect();
    let mut cpus = Vec::new();
    for (nibble, digit) in digits.chars().rev().enumerate() {
        let bits = digit.to_digit(16)?;
        cpus.extend((0..4).filter(|bit| bits >> bit & 1 == 1).map(|bit| 4 * nibble + bit));
    }
    (!digits.is_empty()).then_some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_name_single_cpus_and_ranges() {
        assert_eq!(list("0-2,5\n"), Some(vec![0, 1, 2, 5]));
        assert_eq!(list("3,1,1"), Some(vec![1, 3]));
        assert_eq!(list(""), Some(vec![]));
        assert_eq!(list("(null)"), Some(vec![]));
    }

    #[test]
    fn the_command_lines_notations_are_understood() {
        assert_eq!(parameter("all", 2), Some(vec![0, 1, 2]));
        assert_eq!(parameter("2-N", 4), Some(vec![2, 3, 4]));
        assert_eq!(parameter("N", 4), Some(vec![4]));
        assert_eq!(parameter("0-7:2/4", 7), Some(vec![0, 1, 4, 5]));
    }

    #[test]
    fn what_is_no_list_is_none() {
        for text in ["1-", "-1", "a", "0-3:1", "0-3:1/0", "0-99999999999"] {
            assert_eq!(parameter(text, 3), None, "{text}");
        }
    }

    #[test]
    fn masks_count_from_their_last_digit() {
        assert_eq!(mask("3"), Some(vec![0, 1]));
        assert_eq!(mask("00000001,00000000\n"), Some(vec![32]));
        assert_eq!(mask("f0"), Some(vec![4, 5, 6, 7]));
        assert_eq!(mask("0"), Some(vec![]));
        assert_eq!(mask("x"), None);
        assert_eq!(mask(""), None);
    }
}
