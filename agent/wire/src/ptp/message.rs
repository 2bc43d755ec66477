//! Management messages (IEEE 1588-2019, 13.3, 15.4 and 15.5; linuxptp's msg.h and tlv.h).
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 1 | majorSdoId (transportSpecific), messageType 0xD |
//! | 1 | 1 | minorVersionPTP, versionPTP 2 |
//! | 2 | 2 | messageLength |
//! | 4 | 1 | domainNumber |
//! | 20 | 10 | sourcePortIdentity |
//! | 30 | 2 | sequenceId |
//! | 32 | 2 | controlField 4, logMessageInterval 0x7F |
//! | 34 | 10 | targetPortIdentity: all ones in a question; in an answer, who asked |
//! | 44 | 2 | startingBoundaryHops, boundaryHops |
//! | 46 | 1 | actionField: 0 GET, 2 RESPONSE |
//! | 48 | 4 | tlvType, lengthField |
//! | 52 | 2 | of MANAGEMENT: managementId, then its data; of MANAGEMENT_ERROR_STATUS: managementErrorId, then managementId |

use super::{ClockIdentity, PortIdentity};

/// Bytes of a question.
pub const QUESTION_BYTES: usize = 54;
/// Most bytes of a message (linuxptp's `struct message_data`).
pub const MAX_BYTES: usize = 1500;

const MANAGEMENT_MESSAGE: u8 = 0xd;
const VERSION: u8 = 2;
const CONTROL: u8 = 4;
const NO_INTERVAL: u8 = 0x7f;
const RESPONSE: u8 = 2;
const TLV_MANAGEMENT: u16 = 1;
const TLV_MANAGEMENT_ERROR_STATUS: u16 = 2;
/// Where the first TLV is.
const TLV: usize = 48;
/// Of a MANAGEMENT_ERROR_STATUS without text: error, id, four reserved (table 109).
const ERROR_STATUS_BYTES: usize = 8;

/// What can be asked for (table 59; linuxptp's own from 0xC000 on).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
#[allow(missing_docs)] // the standard's own names
pub enum Id {
    DefaultDataSet = 0x2000,
    CurrentDataSet = 0x2001,
    ParentDataSet = 0x2002,
    TimePropertiesDataSet = 0x2003,
    PortDataSet = 0x2004,
    TimeStatusNp = 0xc000,
}

/// Who asks, and which clocks are to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asker {
    /// domainNumber: clocks of another domain are silent.
    pub domain: u8,
    /// majorSdoId, 0 to 15: 1 for IEEE 802.1AS.
    pub transport_specific: u8,
    /// As which port it asks. Answers are addressed to it, so a number that nobody guesses tells them from others'.
    pub source: PortIdentity,
}

impl Asker {
    /// A question to every port of the clock that is asked. It goes no further than that clock (boundaryHops 0).
    pub fn question(&self, sequence: u16, id: Id) -> [u8; QUESTION_BYTES] {
        let mut bytes = [0; QUESTION_BYTES];
        bytes[0] = self.transport_specific << 4 | MANAGEMENT_MESSAGE;
        bytes[1] = VERSION;
        bytes[2..4].copy_from_slice(&(QUESTION_BYTES as u16).to_be_bytes());
        bytes[4] = self.domain;
        bytes[20..28].copy_from_slice(&self.source.clock.0.to_be_bytes());
        bytes[28..30].copy_from_slice(&self.source.port.to_be_bytes());
        bytes[30..32].copy_from_slice(&sequence.to_be_bytes());
        bytes[32] = CONTROL;
        bytes[33] = NO_INTERVAL;
        bytes[34..44].fill(0xff);
        bytes[TLV..TLV + 2].copy_from_slice(&TLV_MANAGEMENT.to_be_bytes());
        bytes[TLV + 2..TLV + 4].copy_from_slice(&2_u16.to_be_bytes());
        bytes[TLV + 4..].copy_from_slice(&(id as u16).to_be_bytes());
        bytes
    }
}

/// An answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer<'a> {
    /// domainNumber.
    pub domain: u8,
    /// The port that answers; of port 0 is what is said of the whole clock.
    pub source: PortIdentity,
    /// Who had asked.
    pub target: PortIdentity,
    /// The question's.
    pub sequence: u16,
    /// managementId: any, not only those of [`Id`].
    pub id: u16,
    /// What it says.
    pub content: Content<'a>,
}

/// What an answer says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content<'a> {
    /// The data of a MANAGEMENT TLV.
    Data(&'a [u8]),
    /// managementErrorId of a MANAGEMENT_ERROR_STATUS TLV (table 110): 2 NO_SUCH_ID, 6 NOT_SUPPORTED, …
    Refused(u16),
}

impl<'a> Answer<'a> {
    /// The answer in `bytes`; None if they are none: another message, another action, or lengths that do not fit.
    ///
    /// A TLV after the first (linuxptp 4.x may add AUTHENTICATION) is passed over.
    pub fn read(bytes: &'a [u8]) -> Option<Self> {
        let length = usize::from(u16_at(bytes, 2)?);
        let message = bytes.get(..length).filter(|message| message.len() >= TLV + 4)?;
        if message[0] & 0xf != MANAGEMENT_MESSAGE || message[1] & 0xf != VERSION || message[46] & 0xf != RESPONSE {
            return None;
        }
        let value = message.get(TLV + 4..TLV + 4 + usize::from(u16_at(message, TLV + 2)?))?;
        let (id, content) = match u16_at(message, TLV)? {
            TLV_MANAGEMENT => (u16_at(value, 0)?, Content::Data(&value[2..])),
            TLV_MANAGEMENT_ERROR_STATUS if value.len() >= ERROR_STATUS_BYTES => {
                (u16_at(value, 2)?, Content::Refused(u16_at(value, 0)?))
            }
            _ => return None,
        };
        let (source, target) = (port_at(message, 20)?, port_at(message, 34)?);
        Some(Self { domain: message[4], source, target, sequence: u16_at(message, 30)?, id, content })
    }
}

/// The big-endian number at an offset; None: the bytes end before it does.
pub(super) fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(offset..)?.first_chunk()?))
}

/// The same of eight bytes.
pub(super) fn u64_at(bytes: &[u8], offset: usize) -> Option<u64> {
    Some(u64::from_be_bytes(*bytes.get(offset..)?.first_chunk()?))
}

/// The port identity at an offset, ten bytes.
pub(super) fn port_at(bytes: &[u8], offset: usize) -> Option<PortIdentity> {
    Some(PortIdentity { clock: ClockIdentity(u64_at(bytes, offset)?), port: u16_at(bytes, offset + 8)? })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What a ptp4l of linuxptp 3.1.1 answered to [`ASKER`]: UDPv4, E2E, following a master, numbered from 0x100 on.
    pub const DEFAULT: &str = "0d02004a000000000000000000000000000000000a8a29fffeab97c300000100047f8f3c5e0d12ab34cd0001000002000001001620000300000180fffeffff800a8a29fffeab97c30000";
    pub const CURRENT: &str = "0d020048000000000000000000000000000000000a8a29fffeab97c300000101047f8f3c5e0d12ab34cd0001000002000001001420010001000000000117000000000000090b0000";
    pub const PARENT: &str = "0d020056000000000000000000000000000000000a8a29fffeab97c300000102047f8f3c5e0d12ab34cd0001000002000001002220026ebc3bfffe295eef00010000ffff7fffffff0af8feffff806ebc3bfffe295eef";
    pub const TIME_PROPERTIES: &str = "0d02003a000000000000000000000000000000000a8a29fffeab97c300000103047f8f3c5e0d12ab34cd000100000200000100062003002500a0";
    pub const PORT: &str = "0d020050000000000000000000000000000000000a8a29fffeab97c300010104047f8f3c5e0d12ab34cd0001000002000001001c20040a8a29fffeab97c3000108fd0000000000000000ff03fd010002";
    pub const TIME_STATUS: &str = "0d020068000000000000000000000000000000000a8a29fffeab97c300000105047f8f3c5e0d12ab34cd00010000020000010034c000000000000000011718ea884a8ba8809700000000000000000000000000000000000000000000000000016ebc3bfffe295eef";
    /// NOT_SUPPORTED, of UTC_PROPERTIES.
    pub const NOT_SUPPORTED: &str = "0d02003c000000000000000000000000000000000a8a29fffeab97c300000106047f8f3c5e0d12ab34cd000100000200000200080006201100000000";
    /// NO_SUCH_ID, of 0xDEAD.
    const NO_SUCH_ID: &str = "0d02003c000000000000000000000000000000000a8a29fffeab97c300010107047f8f3c5e0d12ab34cd000100000200000200080002dead00000000";

    pub const ASKER: Asker = Asker {
        domain: 0,
        transport_specific: 0,
        source: PortIdentity { clock: ClockIdentity(0x8f3c_5e0d_12ab_34cd), port: 1 },
    };

    pub fn bytes(hexadecimal: &str) -> Vec<u8> {
        (0..hexadecimal.len()).step_by(2).map(|n| u8::from_str_radix(&hexadecimal[n..n + 2], 16).unwrap()).collect()
    }

    #[test]
    fn a_question_is_the_bytes_that_ptp4l_answers() {
        let asker = Asker { domain: 24, transport_specific: 1, ..ASKER };
        let expected = [
            ["1d020036", "18000000", "0000000000000000", "00000000"].concat(),
            ["8f3c5e0d12ab34cd0001", "0105", "047f", "ffffffffffffffffffff"].concat(),
            ["00000000", "00010002c000"].concat(),
        ];
        assert_eq!(asker.question(0x105, Id::TimeStatusNp).to_vec(), bytes(&expected.concat()));
    }

    #[test]
    fn an_answer_of_ptp4l_says_who_whom_to_what_and_the_data() {
        let port = bytes(PORT);
        let answer = Answer::read(&port).unwrap();
        let clock = ClockIdentity(0x0a8a_29ff_feab_97c3);
        assert_eq!(answer.source, PortIdentity { clock, port: 1 });
        assert_eq!((answer.domain, answer.target, answer.sequence, answer.id), (0, ASKER.source, 0x104, 0x2004));
        assert_eq!(answer.content, Content::Data(&port[54..]));
    }

    #[test]
    fn an_error_status_is_no_data() {
        let read = |text: &str| Answer::read(&bytes(text)).map(|a| (a.id, matches!(a.content, Content::Refused(_))));
        assert_eq!(read(NOT_SUPPORTED), Some((0x2011, true)));
        assert_eq!(Answer::read(&bytes(NOT_SUPPORTED)).unwrap().content, Content::Refused(6));
        assert_eq!(Answer::read(&bytes(NO_SUCH_ID)).unwrap().content, Content::Refused(2));
        // One cut inside its reserved bytes.
        let mut short = bytes(NOT_SUPPORTED);
        short[51] = 7;
        assert_eq!(Answer::read(&short), None);
    }

    #[test]
    fn an_answer_cut_at_any_byte_is_none() {
        for text in [DEFAULT, CURRENT, PARENT, TIME_PROPERTIES, PORT, TIME_STATUS, NOT_SUPPORTED] {
            let whole = bytes(text);
            assert!(Answer::read(&whole).is_some());
            for cut in 0..whole.len() {
                assert_eq!(Answer::read(&whole[..cut]), None, "{text} after {cut} bytes");
                // The same where the header says that it is as short.
                let mut shorter = whole[..cut].to_vec();
                if let Some(place) = shorter.get_mut(2..4) {
                    place.copy_from_slice(&(cut as u16).to_be_bytes());
                }
                assert_eq!(Answer::read(&shorter), None, "{text} of {cut} bytes");
            }
        }
    }

    #[test]
    fn a_tlv_that_follows_the_first_is_passed_over() {
        let mut two = bytes(TIME_PROPERTIES);
        two.extend([0x80, 0x09, 0, 2, 1, 2]);
        let length = two.len() as u16;
        two[2..4].copy_from_slice(&length.to_be_bytes());
        assert_eq!(Answer::read(&two).unwrap().content, Content::Data(&[0, 37, 0, 0xa0]));
    }

    proptest! {
        #[test]
        fn a_question_is_no_answer(domain: u8, transport_specific in 0_u8..16, clock: u64, port: u16, sequence: u16) {
            let asker = Asker { domain, transport_specific, source: PortIdentity { clock: ClockIdentity(clock), port } };
            let question = asker.question(sequence, Id::PortDataSet);
            prop_assert_eq!(Answer::read(&question), None);
            // Nor is one of another action: but what RESPONSE makes of it says what was asked.
            let mut answer = question;
            answer[46] = RESPONSE;
            let read = Answer::read(&answer).unwrap();
            prop_assert_eq!((read.domain, read.source, read.sequence), (domain, asker.source, sequence));
            prop_assert_eq!((read.id, read.content), (Id::PortDataSet as u16, Content::Data(&[])));
        }

        #[test]
        fn other_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Answer::read(&bytes);
        }

        #[test]
        fn a_damaged_answer_never_panics(at in 0_usize..104, with: u8, cut in 0_usize..105) {
            let mut damaged = bytes(TIME_STATUS);
            damaged[at] = with;
            damaged.truncate(cut);
            let _ = Answer::read(&damaged);
        }
    }
}
