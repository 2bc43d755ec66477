//! Enumerations in the kernel's description of its own types (Documentation/bpf/btf.rst).

const MAGIC: u16 = 0xeb9f;
/// The header up to the length of the strings.
const HEADER_BYTES: usize = 24;
/// Each type's first words: its name, what it is, its size.
const TYPE_BYTES: usize = 12;
const ENUM: u32 = 6;
const ENUM_BYTES: usize = 8;

/// The types of a kernel, or of a module.
#[derive(Clone, Copy, Debug)]
pub struct Btf<'a> {
    types: &'a [u8],
    strings: &'a [u8],
    /// Those of the kernel, which come before a module's own.
    before: &'a [u8],
}

impl<'a> Btf<'a> {
    /// Of a kernel, as `/sys/kernel/btf/vmlinux` has them; None: these bytes are none of this machine's.
    pub fn read(bytes: &'a [u8]) -> Option<Self> {
        if bytes.get(..2)? != MAGIC.to_ne_bytes() || bytes.len() < HEADER_BYTES {
            return None;
        }
        let header = word(bytes, 4)?;
        let part = |at: usize| {
            let (from, length) = (word(bytes, at)?, word(bytes, at + 4)?);
            let from = header.checked_add(from)?;
            bytes.get(from..from.checked_add(length)?)
        };
        Some(Self { types: part(8)?, strings: part(16)?, before: &[] })
    }

    /// Of a module of this kernel.
    pub fn read_module(bytes: &'a [u8], kernel: &Self) -> Option<Self> {
        Some(Self { before: kernel.strings, ..Self::read(bytes)? })
    }

    /// The names and values of the enumeration of this name; none: there is no such.
    pub fn enumerators(&self, name: &str) -> Vec<(u32, &'a str)> {
        let mut rest = self.types;
        while let (Some(named), Some(info)) = (word(rest, 0), word(rest, 4)) {
            let (kind, members) = ((info >> 24 & 0x1f) as u32, info & 0xffff);
            let Some(behind) = rest.get(TYPE_BYTES..) else { break };
            let Some(bytes) = bytes_of(kind, members) else { break };
            let Some(own) = behind.get(..bytes) else { break };
            // An enumeration that is only announced has no members.
            if kind == ENUM && members > 0 && self.string(named) == Some(name) {
                return own.chunks_exact(ENUM_BYTES).filter_map(|member| self.enumerator(member)).collect();
            }
            rest = &behind[bytes..];
        }
        Vec::new()
    }

    fn enumerator(&self, member: &[u8]) -> Option<(u32, &'a str)> {
        Some((word(member, 4)? as u32, self.string(word(member, 0)?)?))
    }

    fn string(&self, at: usize) -> Option<&'a str> {
        let from = match at.checked_sub(self.before.len()) {
            Some(own) => self.strings.get(own..)?,
            None => self.before.get(at..)?,
        };
        std::str::from_utf8(from.split(|byte| *byte == 0).next()?).ok()
    }
}

fn word(bytes: &[u8], at: usize) -> Option<usize> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?) as usize)
}

/// Bytes behind a type's first words; None: it is of a kind that is not known.
fn bytes_of(kind: u32, members: usize) -> Option<usize> {
    Some(match kind {
        // Pointers, forward declarations, typedefs, volatile, const, restrict, functions, floats, type tags.
        2 | 7..=12 | 16 | 18 => 0,
        // Integers, variables, declaration tags.
        1 | 14 | 17 => 4,
        // Arrays.
        3 => 12,
        // Structures, unions, sections, 64-bit enumerations.
        4 | 5 | 15 | 19 => 12 * members,
        // Enumerations, parameters.
        ENUM | 13 => ENUM_BYTES * members,
        _ => return None,
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Types as a kernel has them, with these enumerations among others.
    pub(crate) fn kernel_types(enumerations: &[(&str, &[(&str, u32)])]) -> Vec<u8> {
        let (mut types, mut strings) = (Vec::<u8>::new(), vec![0_u8]);
        let put = |types: &mut Vec<u8>, words: &[u32]| words.iter().for_each(|w| types.extend(w.to_ne_bytes()));
        let mut name = |text: &str| {
            let at = strings.len() as u32;
            strings.extend(text.bytes().chain([0]));
            at
        };
        // An integer, a structure of one member, an announced enumeration.
        put(&mut types, &[name("int"), 1 << 24, 4, 0]);
        put(&mut types, &[name("sk_buff"), 4 << 24 | 1, 8, name("len"), 1, 0]);
        for (of, members) in enumerations {
            put(&mut types, &[name(of), ENUM << 24, 4]);
            put(&mut types, &[name(of), ENUM << 24 | members.len() as u32, 4]);
            for (member, value) in *members {
                put(&mut types, &[name(member), *value]);
            }
        }
        let mut whole = MAGIC.to_ne_bytes().to_vec();
        whole.extend([1, 0]);
        put(&mut whole, &[24, 0, types.len() as u32, types.len() as u32, strings.len() as u32]);
        whole.extend(types.into_iter().chain(strings));
        whole
    }

    #[test]
    fn an_enumeration_is_found_by_its_name() {
        let bytes = kernel_types(&[("colour", &[("RED", 2), ("BLUE", 70_000)]), ("other", &[("RED", 1)])]);
        let types = Btf::read(&bytes).unwrap();
        assert_eq!(types.enumerators("colour"), [(2, "RED"), (70_000, "BLUE")]);
        assert_eq!(types.enumerators("sk_buff"), []);
        assert_eq!(types.enumerators("none"), []);
    }

    #[test]
    fn a_modules_names_come_behind_those_of_the_kernel() {
        let (kernel, module) = (kernel_types(&[]), kernel_types(&[("colour", &[("RED", 2)])]));
        let kernel = Btf::read(&kernel).unwrap();
        let mut shifted = module.clone();
        // Names of the enumeration, 40 bytes of other types behind the header, and of its member.
        for at in [24 + 40, 24 + 52, 24 + 64] {
            let own = word(&module, at).unwrap() + kernel.strings.len();
            shifted[at..at + 4].copy_from_slice(&(own as u32).to_ne_bytes());
        }
        let found = Btf::read_module(&shifted, &kernel).unwrap().enumerators("colour");
        assert_eq!(found, [(2, "RED")]);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), cut in 0..300_usize) {
            let _ = Btf::read(&bytes).map(|types| types.enumerators("x"));
            let whole = kernel_types(&[("colour", &[("RED", 2), ("BLUE", 3)])]);
            let mut broken = whole[..cut.min(whole.len())].to_vec();
            let _ = Btf::read(&broken).map(|types| types.enumerators("colour"));
            for (at, byte) in bytes.iter().enumerate() {
                if let Some(place) = broken.get_mut(24 + at) { *place ^= byte; }
            }
            let _ = Btf::read(&broken).map(|types| types.enumerators("colour"));
        }
    }
}
