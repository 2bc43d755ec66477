//! The type of our samples, as Cyclone's serialiser is told of it: `struct Octets { sequence<octet> bytes; };`

use crate::{Error, check};
use cyclors as c;
use std::ffi::{CStr, c_char};

/// A sample in memory, as the C binding of IDL lays out a structure of one sequence of octets.
#[repr(C)]
pub struct Octets {
    maximum: u32,
    length: u32,
    buffer: *mut u8,
    release: bool,
}

impl Octets {
    /// A sample that holds these bytes, or has room for as many; Cyclone neither frees nor moves them.
    pub fn over(bytes: &mut [u8]) -> Self {
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        Self { maximum: length, length, buffer: bytes.as_mut_ptr(), release: false }
    }

    /// Bytes that it holds.
    pub fn length(&self) -> usize {
        self.length as usize
    }
}

const TYPE_NAME: &CStr = c"latlab::Octets";
const NO_XML: &CStr = c"";

/// The serialiser's program for it: one member at offset 0, a sequence of single bytes; the end. The numbers are those of
/// dds_opcodes.h: DDS_OP_ADR in the first byte, DDS_OP_TYPE_SEQ in the second, DDS_OP_SUBTYPE_1BY in the third.
static PROGRAM: [u32; 3] = [0x01 << 24 | 0x07 << 16 | 0x01 << 8, 0, 0];

/// Makes the topic of that name in a participant.
pub fn topic(participant: i32, name: &CStr) -> Result<i32, Error> {
    // SAFETY: all-zero is a valid description, of a type without keys and without XTypes data.
    let empty: c::dds_topic_descriptor_t = unsafe { std::mem::zeroed() };
    let description = c::dds_topic_descriptor_t {
        m_size: size_of::<Octets>() as u32,
        m_align: align_of::<Octets>() as u32,
        m_typename: TYPE_NAME.as_ptr().cast::<c_char>(),
        m_nops: 2,
        m_ops: PROGRAM.as_ptr(),
        m_meta: NO_XML.as_ptr().cast::<c_char>(),
        ..empty
    };
    // SAFETY: the description and all it points to are valid; Cyclone copies what it keeps.
    let topic = unsafe {
        c::dds_create_topic(participant, &raw const description, name.as_ptr(), std::ptr::null(), std::ptr::null())
    };
    check(topic, "dds_create_topic")
}
