//! The redundancy control trailer of PRP (IEC 62439-3, 4.2.7): sequence number, LAN and size of what is behind the EtherType, suffix.

use crate::in_c::defined;
use crate::spec::Lan;

/// Bytes of a trailer.
pub const TRAILER_BYTES: usize = defined(SAMPLE, "PRP_TRAILER") as usize;
const SUFFIX: [u8; 2] = (defined(SAMPLE, "PRP_SUFFIX") as u16).to_be_bytes();
const SAMPLE: &str = include_str!("../../bpf/watch_sample.h");
/// An Ethernet header, without and with a VLAN tag.
const HEADERS: [usize; 2] = [14, 18];

/// The trailer of frame 0 of a stream; `size`: bytes between the EtherType and the trailer.
pub fn trailer(lan: Lan, size: usize) -> [u8; TRAILER_BYTES] {
    let lan: u16 = match lan {
        Lan::A => 0xa,
        Lan::B => 0xb,
    };
    let [high, low] = (lan << 12 | (size + TRAILER_BYTES) as u16 & 0xfff).to_be_bytes();
    [0, 0, high, low, SUFFIX[0], SUFFIX[1]]
}

/// Writes the number of packet `sequence` into a trailer.
#[inline]
pub fn number(trailer: &mut [u8], sequence: u64) {
    trailer[..2].copy_from_slice(&(sequence as u16).to_be_bytes());
}

/// A frame without its trailer, if it has one. Its VLAN tag may have been taken off.
#[inline]
pub fn without_trailer(frame: &[u8]) -> &[u8] {
    let Some((rest, &[_, _, high, low, first, second])) = frame.split_last_chunk::<TRAILER_BYTES>() else {
        return frame;
    };
    let lan_and_size = u16::from_be_bytes([high, low]);
    let size = usize::from(lan_and_size & 0xfff);
    let fits = HEADERS.iter().any(|header| header + size == frame.len());
    if [first, second] == SUFFIX && matches!(lan_and_size >> 12, 0xa | 0xb) && fits { rest } else { frame }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trailer_is_what_the_standard_says_and_is_found_again() {
        let mut behind = trailer(Lan::B, 46);
        number(&mut behind, 65_536 + 258);
        assert_eq!(behind, [1, 2, 0xb0, 52, 0x88, 0xfb]);
        for header in HEADERS {
            let frame = [vec![7; header + 46], behind.to_vec()].concat();
            assert_eq!(without_trailer(&frame), &frame[..header + 46]);
        }
    }

    #[test]
    fn what_is_no_trailer_stays() {
        let whole = [vec![7; 60], trailer(Lan::A, 46).to_vec()].concat();
        for change in 0..TRAILER_BYTES {
            let mut frame = whole.clone();
            let place = frame.len() - 1 - change;
            frame[place] ^= 0x70;
            assert_eq!(without_trailer(&frame).len() < frame.len(), change >= 4, "{change}");
        }
        assert_eq!(without_trailer(&whole[1..]), &whole[1..]);
        assert_eq!(without_trailer(&[0x88, 0xfb]), [0x88, 0xfb]);
    }
}
