//! Numbers that the agent and its BPF programs (`agent/bpf`) share. C defines them; they are read from there at compile time.

/// The number that a source of C defines with `#define`: decimal or hexadecimal digits.
pub const fn defined(source: &str, name: &str) -> u32 {
    let (source, name) = (source.as_bytes(), name.as_bytes());
    let mut at = 0;
    while at < source.len() {
        if has(source, at, b"#define ") && has(source, at + 8, name) && has(source, at + 8 + name.len(), b" ") {
            return number(source, at + 9 + name.len());
        }
        at += 1;
    }
    panic!("the source does not define it")
}

const fn has(source: &[u8], at: usize, text: &[u8]) -> bool {
    let mut n = 0;
    while n < text.len() && at + n < source.len() && source[at + n] == text[n] {
        n += 1;
    }
    n == text.len()
}

const fn number(source: &[u8], mut at: usize) -> u32 {
    let base = if has(source, at, b"0x") { 16 } else { 10 };
    if base == 16 {
        at += 2;
    }
    let (first, mut number) = (at, 0);
    while let Some(digit) = (source[at] as char).to_digit(base) {
        number = number * base + digit;
        at += 1;
    }
    assert!(at > first && matches!(source[at], b'\n' | b' ' | b'U'), "it is defined as no plain number");
    number
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_read_in_decimal_and_hexadecimal() {
        let source = "/* FLAG */\n#define FLAGS 7\n#define FLAG 12 /* of one */\n#define LAST 0x80000000U\n";
        assert_eq!(["FLAGS", "FLAG", "LAST"].map(|name| defined(source, name)), [7, 12, 1 << 31]);
    }

    #[test]
    #[should_panic(expected = "does not define")]
    fn a_name_that_is_not_defined_is_an_error() {
        defined("#define FLAGS 7\n", "FLAG");
    }

    #[test]
    #[should_panic(expected = "no plain number")]
    fn what_has_to_be_computed_is_an_error() {
        defined("#define FLAG (1 << 3)\n", "FLAG");
    }
}
