//! The probe packet: what a talker writes and a listener believes.

/// Bytes of a probe's header; the smallest size of a stream.
pub const HEADER_BYTES: usize = 40;
/// Largest probe: a UDP datagram over IPv4.
pub const MAX_BYTES: usize = 65_507;

const MAGIC: [u8; 4] = *b"LATL";
const VERSION: u8 = 2;
const SUMMED_BYTES: usize = 36;
/// [`Probe::crowded`], among the flags.
const CROWDED: u8 = 1;

/// One probe's header, as in `docs/reference/agent.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Number of the stream, as in the spec.
    pub stream: u16,
    /// Random for each cell: tells this run's packets from replayed ones.
    pub run_id: u64,
    /// Position in the stream, from 0.
    pub sequence: u64,
    /// When it was meant to leave, on the talker's TAI clock, in ns.
    pub launch_tai_ns: i64,
    /// Bytes of the whole probe, header and padding.
    pub size: u32,
    /// The sender's recording falls behind: who sets its own pace is to leave it time.
    pub crowded: bool,
}

/// Why bytes are not a probe of anybody's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No magic, another version, or a sum that does not fit.
    Foreign,
    /// Shorter than a header, or than the size the header declares.
    Truncated,
}

impl Probe {
    /// Writes the header over the first [`HEADER_BYTES`] of `packet`; the rest is left as it is.
    ///
    /// # Panics
    /// If `packet` is shorter than a header: sizes are checked with the spec.
    pub fn write(&self, packet: &mut [u8]) {
        let header = &mut packet[..HEADER_BYTES];
        header[0..4].copy_from_slice(&MAGIC);
        header[4] = VERSION;
        header[5] = if self.crowded { CROWDED } else { 0 };
        header[6..8].copy_from_slice(&self.stream.to_le_bytes());
        header[8..16].copy_from_slice(&self.run_id.to_le_bytes());
        header[16..24].copy_from_slice(&self.sequence.to_le_bytes());
        header[24..32].copy_from_slice(&self.launch_tai_ns.to_le_bytes());
        header[32..36].copy_from_slice(&self.size.to_le_bytes());
        let sum = crc32c::crc32c(&header[..SUMMED_BYTES]);
        header[36..40].copy_from_slice(&sum.to_le_bytes());
    }

    /// The beginning of every probe of a stream in a run, in words as the network has them: bits that count, and their values.
    pub fn beginning(stream: u16, run_id: u64) -> [(u32, u32); 4] {
        let (mut mask, mut bytes) = ([u8::MAX; HEADER_BYTES], [0; HEADER_BYTES]);
        Self { stream, run_id, sequence: 0, launch_tai_ns: 0, size: 0, crowded: false }.write(&mut bytes);
        mask[5] = 0; // the flags
        let word = |bytes: &[u8; HEADER_BYTES], n: usize| u32::from_be_bytes(field(bytes, 4 * n));
        std::array::from_fn(|n| (word(&mask, n), word(&bytes, n)))
    }

    /// Reads the probe at the start of `packet`, which may be longer than the probe (Ethernet pads).
    ///
    /// # Errors
    /// The [`Refusal`] under which a listener counts these bytes.
    pub fn read(packet: &[u8]) -> Result<Self, Refusal> {
        let magic_seen = packet.len().min(MAGIC.len());
        if packet[..magic_seen] != MAGIC[..magic_seen] {
            return Err(Refusal::Foreign);
        }
        let Some(header) = packet.first_chunk::<HEADER_BYTES>() else {
            return Err(Refusal::Truncated);
        };
        let sum = u32::from_le_bytes(field(header, 36));
        if header[4] != VERSION || header[5] & !CROWDED != 0 || crc32c::crc32c(&header[..SUMMED_BYTES]) != sum {
            return Err(Refusal::Foreign);
        }
        let probe = Self {
            stream: u16::from_le_bytes(field(header, 6)),
            run_id: u64::from_le_bytes(field(header, 8)),
            sequence: u64::from_le_bytes(field(header, 16)),
            launch_tai_ns: i64::from_le_bytes(field(header, 24)),
            size: u32::from_le_bytes(field(header, 32)),
            crowded: header[5] == CROWDED,
        };
        if packet.len() < probe.size as usize {
            return Err(Refusal::Truncated);
        }
        Ok(probe)
    }
}

fn field<const N: usize>(header: &[u8; HEADER_BYTES], at: usize) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&header[at..at + N]);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn written(probe: Probe) -> Vec<u8> {
        let mut packet = vec![0; probe.size as usize];
        probe.write(&mut packet);
        packet
    }

    prop_compose! {
        fn any_probe()(stream: u16, run_id: u64, sequence: u64, launch_tai_ns: i64,
                       size in HEADER_BYTES as u32..2000, crowded: bool) -> Probe {
            Probe { stream, run_id, sequence, launch_tai_ns, size, crowded }
        }
    }

    proptest! {
        #[test]
        fn it_begins_as_all_of_its_stream_and_run_and_as_no_other(probe in any_probe(), other in any_probe()) {
            let bytes = written(probe);
            let fits = |stream, run_id| {
                let words = bytes.chunks_exact(4).map(|word| u32::from_be_bytes(word.try_into().unwrap()));
                Probe::beginning(stream, run_id).iter().zip(words).all(|((mask, value), word)| word & mask == *value)
            };
            prop_assert!(fits(probe.stream, probe.run_id));
            prop_assert_eq!(fits(other.stream, probe.run_id), other.stream == probe.stream);
            prop_assert_eq!(fits(probe.stream, other.run_id), other.run_id == probe.run_id);
        }

        #[test]
        fn what_is_written_is_read_back(probe in any_probe()) {
            prop_assert_eq!(Probe::read(&written(probe)), Ok(probe));
        }

        #[test]
        fn padding_after_the_probe_changes_nothing(probe in any_probe(), pad in 0usize..100) {
            let mut packet = written(probe);
            packet.resize(packet.len() + pad, 0xff);
            prop_assert_eq!(Probe::read(&packet), Ok(probe));
        }

        #[test]
        fn any_shortened_probe_is_refused_as_truncated(probe in any_probe(), keep in 0.0f64..1.0) {
            let packet = written(probe);
            let cut = (packet.len() as f64 * keep) as usize;
            prop_assert_eq!(Probe::read(&packet[..cut]), Err(Refusal::Truncated));
        }

        #[test]
        fn one_flipped_bit_in_the_header_is_never_believed(probe in any_probe(), bit in 0usize..HEADER_BYTES * 8) {
            let mut packet = written(probe);
            packet[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(Probe::read(&packet).is_err());
        }

        #[test]
        fn random_bytes_never_panic_and_are_never_believed(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assume!(!bytes.starts_with(&MAGIC));
            prop_assert!(Probe::read(&bytes).is_err());
        }

        #[test]
        fn random_bytes_after_the_magic_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut packet = MAGIC.to_vec();
            packet.extend(bytes);
            prop_assert!(Probe::read(&packet).is_err());
        }
    }

    /// CRC-32C bit by bit (RFC 3385, section 3): reflected, begun with ones, inverted.
    fn castagnoli(bytes: &[u8]) -> u32 {
        !bytes.iter().fold(u32::MAX, |sum, byte| {
            (0..8).fold(sum ^ u32::from(*byte), |sum, _| sum >> 1 ^ if sum & 1 == 1 { 0x82f6_3b78 } else { 0 })
        })
    }

    #[test]
    fn the_sum_is_crc_32c() {
        // The check value of the catalogues, and RFC 3720's, B.4, of 32 zeros.
        assert_eq!((castagnoli(b"123456789"), castagnoli(&[0; 32])), (0xe306_9283, 0x8a91_36aa));
    }

    #[test]
    fn the_layout_on_the_wire_is_the_documented_one() {
        let probe = Probe {
            stream: 0x0102,
            run_id: 0x1112_1314_1516_1718,
            sequence: 0x2122,
            launch_tai_ns: -2,
            size: 64,
            crowded: false,
        };
        assert_eq!(written(Probe { crowded: true, ..probe })[5], 1);
        let packet = written(probe);
        assert_eq!(&packet[..8], b"LATL\x02\x00\x02\x01");
        assert_eq!(&packet[8..16], &[0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11]);
        assert_eq!(&packet[16..24], &[0x22, 0x21, 0, 0, 0, 0, 0, 0]);
        assert_eq!(&packet[24..32], &[0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
        assert_eq!(&packet[32..36], &[64, 0, 0, 0]);
        assert_eq!(packet[36..40], castagnoli(&packet[..36]).to_le_bytes());
        assert_eq!(packet.len(), 64);
    }
}
