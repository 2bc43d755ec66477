//! What is said, as bytes.

use super::{DATA, DEAF, END, EXIT, FENCE_FROM, FENCE_TO, Frame, MARK, MAX_PAYLOAD, RUN, SIGNAL, TAKEN, WORDS};
use memchr::memmem::Finder;

/// Appends the opening of a session.
pub fn open(nonce: u64, to: &mut Vec<u8>) {
    to.extend_from_slice(MARK);
    to.extend_from_slice(&nonce.to_le_bytes());
    to.push(FENCE_TO);
}

/// Appends a frame, or as many as its payload needs.
pub fn put(frame: Frame, to: &mut Vec<u8>) {
    match frame {
        Frame::Words(bytes) => put_pieces(WORDS, bytes, to),
        Frame::Run => put_one(RUN, &[], to),
        Frame::Signal(number) => put_one(SIGNAL, &[number], to),
        Frame::Data(stream, bytes) => put_pieces(DATA + stream as u8, bytes, to),
        Frame::End(stream) => put_one(END + stream as u8, &[], to),
        Frame::Deaf(stream) => put_one(DEAF + stream as u8, &[], to),
        Frame::Taken(stream, bytes) => put_one(TAKEN + stream as u8, &bytes.to_le_bytes(), to),
        Frame::Exit(status) => put_one(EXIT, &[status], to),
    }
}

/// Frames of one kind that together carry `bytes`, none of which contains the mark.
fn put_pieces(kind: u8, bytes: &[u8], to: &mut Vec<u8>) {
    let finder = Finder::new(MARK);
    for mut piece in bytes.chunks(MAX_PAYLOAD) {
        while let Some(at) = finder.find(piece) {
            let (before, rest) = piece.split_at(at + 1);
            put_one(kind, before, to);
            piece = rest;
        }
        put_one(kind, piece, to);
    }
}

fn put_one(kind: u8, payload: &[u8], to: &mut Vec<u8>) {
    let [low, high] = (payload.len() as u16).to_le_bytes();
    to.extend_from_slice(&[FENCE_FROM, kind, low, high, FENCE_TO]);
    to.extend_from_slice(payload);
    to.push(FENCE_TO);
}
