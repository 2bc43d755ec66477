//! What a relay and the server of a port say: one program at a time, its three streams, how it ended.
//! `docs/reference/agent.md`.
//!
//! A guest's port is a pair of byte streams that outlive their speakers: one that dies in the middle of a frame leaves what
//! it had said to whoever comes next; and a login may print before our first frame. So every session opens with a mark that
//! nothing else on a port can contain, and a mark is looked for even inside what seems to be a payload. Three properties
//! make that sure: the mark has no byte of a frame's fence and no beginning that is also its end, a header is shorter than
//! the mark and fenced on both sides, and a payload that contains the mark is cut there into two frames.

mod decode;
mod encode;

pub use decode::{Decoder, Heard};
pub use encode::{open, put};

/// How many bytes of one stream may be on their way: sent, and not yet taken by who reads them.
pub const WINDOW: usize = 256 * 1024;

/// Bytes of a frame besides its payload.
pub const OVERHEAD: usize = HEADER + 1;

/// The most bytes of payload in a frame: a whole frame is what the kernel's driver passes on at once.
pub const MAX_PAYLOAD: usize = 32 * 1024 - OVERHEAD;

/// Opens a session; its nonce follows, eight bytes, little endian, and FENCE_TO.
const MARK: &[u8; 16] = b"\xf5latlab ports 1\n";
const NONCE: usize = 8;

/// FENCE_FROM, kind, bytes of payload (two bytes, little endian), FENCE_TO; after the payload FENCE_TO again.
const HEADER: usize = 5;
const FENCE_FROM: u8 = 0xfe;
const FENCE_TO: u8 = 0xfd;

/// A program's standard stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard input: the relay sends it.
    In,
    /// Standard output: the server sends it.
    Out,
    /// Standard error: the server sends it.
    Err,
}

/// One thing said within a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// Relay: a part of the program's name and arguments, each of which ends with a zero byte.
    Words(&'a [u8]),
    /// Relay: the words are whole; run them.
    Run,
    /// Relay: send the program's process group this signal.
    Signal(u8),
    /// The stream's sender: these bytes come next. A payload of any length may be put; it is read back in pieces.
    Data(Stream, &'a [u8]),
    /// The stream's sender: there are no more bytes.
    End(Stream),
    /// The stream's reader: nobody reads it any more.
    Deaf(Stream),
    /// The stream's reader: so many of the bytes sent were taken, and as many more may be sent.
    Taken(Stream, u32),
    /// Server: the program is gone, with this exit status; the last frame of a session.
    Exit(u8),
}

const STREAMS: [Stream; 3] = [Stream::In, Stream::Out, Stream::Err];

/// The kinds of frames that have a stream: the first of three numbers, one a stream.
const DATA: u8 = 0x10;
const END: u8 = 0x20;
const DEAF: u8 = 0x30;
const TAKEN: u8 = 0x40;

/// The kinds that have none.
const WORDS: u8 = 1;
const RUN: u8 = 2;
const SIGNAL: u8 = 3;
const EXIT: u8 = 4;
