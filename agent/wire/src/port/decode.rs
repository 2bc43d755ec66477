//! What was said, found in bytes.

use super::{
    DATA, DEAF, END, EXIT, FENCE_FROM, FENCE_TO, Frame, HEADER, MARK, NONCE, OVERHEAD, RUN, SIGNAL, STREAMS, TAKEN,
    WORDS,
};
use memchr::memmem::Finder;

/// What was heard on a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard<'a> {
    /// A session begins, and any other is over.
    Open(u64),
    /// A frame of the session.
    Frame(Frame<'a>),
    /// What is no frame: the session is over. Nothing more is heard until one begins.
    Garbled,
}

/// Finds sessions and their frames in what comes out of a port, in whatever pieces it comes.
#[derive(Default)]
pub struct Decoder {
    bytes: Vec<u8>,
    /// How many of `bytes` have been dealt with.
    at: usize,
    /// How many of `bytes` are known to hold no beginning of a mark, other than at `mark`.
    searched: usize,
    mark: Option<usize>,
    in_session: bool,
}

impl Decoder {
    /// Takes in what came.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.at);
        self.searched = self.searched.saturating_sub(self.at);
        self.mark = self.mark.map(|mark| mark - self.at);
        self.at = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// The next thing heard; None until more is fed.
    pub fn hear(&mut self) -> Option<Heard<'_>> {
        self.search();
        if self.in_session {
            let end = self.mark.unwrap_or(self.bytes.len());
            match measure(&self.bytes[self.at..end]) {
                Measured::Whole(length) => {
                    let whole = self.at..self.at + length;
                    self.at = whole.end;
                    if let Some(frame) = read(&self.bytes[whole]) {
                        return Some(Heard::Frame(frame));
                    }
                }
                Measured::Short if self.mark.is_none() => return None,
                Measured::Short => return self.opening(),
                Measured::Wrong => {}
            }
            self.in_session = false;
            return Some(Heard::Garbled);
        }
        self.opening()
    }

    /// The session that begins next.
    fn opening(&mut self) -> Option<Heard<'_>> {
        self.in_session = false;
        loop {
            self.at = self.mark.unwrap_or(self.searched.max(self.at));
            let rest = self.bytes.get(self.mark? + MARK.len()..)?;
            let nonce = u64::from_le_bytes(*rest.first_chunk::<NONCE>()?);
            let whole = *rest.get(NONCE)? == FENCE_TO;
            // One that was cut in its nonce is no opening, and the next may begin within those bytes.
            self.at += if whole { MARK.len() + NONCE + 1 } else { 1 };
            self.searched = self.at;
            self.mark = None;
            if whole {
                self.in_session = true;
                return Some(Heard::Open(nonce));
            }
            self.search();
        }
    }

    /// Looks for a mark in what has not been searched.
    fn search(&mut self) {
        if self.mark.is_none() {
            let from = self.searched.max(self.at);
            self.mark = Finder::new(MARK).find(&self.bytes[from..]).map(|at| from + at);
            self.searched = from.max((self.bytes.len() + 1).saturating_sub(MARK.len()));
        }
    }
}

enum Measured {
    /// A frame of so many bytes.
    Whole(usize),
    /// The beginning of a frame.
    Short,
    /// No frame.
    Wrong,
}

fn measure(bytes: &[u8]) -> Measured {
    let &[from, _, low, high, to, ..] = bytes else {
        return Measured::Short;
    };
    let length = OVERHEAD + usize::from(u16::from_le_bytes([low, high]));
    if from != FENCE_FROM || to != FENCE_TO {
        return Measured::Wrong;
    }
    match bytes.get(length - 1) {
        None => Measured::Short,
        Some(&FENCE_TO) => Measured::Whole(length),
        Some(_) => Measured::Wrong,
    }
}

/// The frame in its bytes; None if it is of no kind, or has not its kind's payload.
fn read(bytes: &[u8]) -> Option<Frame<'_>> {
    let (kind, payload) = (bytes[1], &bytes[HEADER..bytes.len() - 1]);
    match (kind, payload) {
        (WORDS, words) => return Some(Frame::Words(words)),
        (RUN, []) => return Some(Frame::Run),
        (SIGNAL, &[number]) => return Some(Frame::Signal(number)),
        (EXIT, &[status]) => return Some(Frame::Exit(status)),
        _ => {}
    }
    let stream = *STREAMS.get(usize::from(kind & 0x0f))?;
    match (kind & 0xf0, payload) {
        (DATA, data) => Some(Frame::Data(stream, data)),
        (END, []) => Some(Frame::End(stream)),
        (DEAF, []) => Some(Frame::Deaf(stream)),
        (TAKEN, &[a, b, c, d]) => Some(Frame::Taken(stream, u32::from_le_bytes([a, b, c, d]))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{MAX_PAYLOAD, Stream, open, put};
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    /// A frame that owns its payload.
    #[derive(Clone, Debug, PartialEq)]
    enum Said {
        Words(Vec<u8>),
        Data(Stream, Vec<u8>),
        Other(Frame<'static>),
    }

    impl Said {
        fn frame(&self) -> Frame<'_> {
            match self {
                Said::Words(words) => Frame::Words(words),
                Said::Data(stream, data) => Frame::Data(*stream, data),
                Said::Other(frame) => *frame,
            }
        }
    }

    fn streams() -> impl Strategy<Value = Stream> {
        prop::sample::select(STREAMS.to_vec())
    }

    /// Payloads that try to be a session's opening, a frame, or a part of one.
    fn payloads() -> impl Strategy<Value = Vec<u8>> {
        let whole = |cut: usize| {
            let mut bytes = Vec::new();
            put(Frame::Data(Stream::In, b"x"), &mut bytes);
            open(7, &mut bytes);
            bytes.drain(..cut);
            bytes
        };
        let piece = prop_oneof![
            vec(any::<u8>(), 0..40),
            (0usize..7).prop_map(whole),
            (0usize..16).prop_map(|end| MARK[..end].to_vec()),
            (0usize..16).prop_map(|start| MARK[start..].to_vec()),
            Just(vec![FENCE_FROM, DATA, 0xf5, 0x6c, FENCE_TO]),
        ];
        vec(piece, 1..6).prop_map(|pieces| pieces.concat())
    }

    fn frames() -> impl Strategy<Value = Said> {
        prop_oneof![
            payloads().prop_map(Said::Words),
            (streams(), payloads()).prop_map(|(stream, data)| Said::Data(stream, data)),
            Just(Said::Other(Frame::Run)),
            any::<u8>().prop_map(|number| Said::Other(Frame::Signal(number))),
            any::<u8>().prop_map(|status| Said::Other(Frame::Exit(status))),
            streams().prop_map(|stream| Said::Other(Frame::End(stream))),
            streams().prop_map(|stream| Said::Other(Frame::Deaf(stream))),
            (streams(), any::<u32>()).prop_map(|(stream, bytes)| Said::Other(Frame::Taken(stream, bytes))),
        ]
    }

    fn spoken(nonce: u64, said: &[Said]) -> Vec<u8> {
        let mut bytes = Vec::new();
        open(nonce, &mut bytes);
        said.iter().for_each(|said| put(said.frame(), &mut bytes));
        bytes
    }

    /// What was heard of each session: its nonce, and its frames with neighbouring pieces of one payload joined.
    fn heard(bytes: &[u8], pieces: &[usize]) -> Vec<(u64, Vec<Said>)> {
        let mut sessions: Vec<(u64, Vec<Said>)> = Vec::new();
        let mut decoder = Decoder::default();
        let (mut rest, mut sizes) = (bytes, pieces.iter().cycle());
        while !rest.is_empty() {
            let (piece, later) = rest.split_at((*sizes.next().unwrap()).min(rest.len()));
            rest = later;
            decoder.feed(piece);
            while let Some(heard) = decoder.hear() {
                match heard {
                    Heard::Open(nonce) => sessions.push((nonce, Vec::new())),
                    Heard::Frame(frame) => {
                        let said = match frame {
                            Frame::Words(words) => Said::Words(words.to_vec()),
                            Frame::Data(stream, data) => Said::Data(stream, data.to_vec()),
                            Frame::Run => Said::Other(Frame::Run),
                            Frame::Signal(number) => Said::Other(Frame::Signal(number)),
                            Frame::End(stream) => Said::Other(Frame::End(stream)),
                            Frame::Deaf(stream) => Said::Other(Frame::Deaf(stream)),
                            Frame::Taken(stream, bytes) => Said::Other(Frame::Taken(stream, bytes)),
                            Frame::Exit(status) => Said::Other(Frame::Exit(status)),
                        };
                        sessions.last_mut().unwrap().1.push(said);
                    }
                    Heard::Garbled => {}
                }
            }
        }
        sessions.into_iter().map(|(nonce, said)| (nonce, joined(said))).collect()
    }

    /// Neighbouring payloads of one kind as one, empty ones left out.
    fn joined(said: Vec<Said>) -> Vec<Said> {
        let mut joined: Vec<Said> = Vec::new();
        for said in said {
            match (joined.last_mut(), said) {
                (_, Said::Words(more) | Said::Data(_, more)) if more.is_empty() => {}
                (Some(Said::Words(words)), Said::Words(more)) => words.extend(more),
                (Some(Said::Data(stream, data)), Said::Data(of, more)) if *stream == of => data.extend(more),
                (_, said) => joined.push(said),
            }
        }
        joined
    }

    #[test]
    fn the_mark_has_nothing_of_a_fence_and_no_beginning_that_is_its_end() {
        assert!(!MARK.contains(&FENCE_FROM) && !MARK.contains(&FENCE_TO));
        assert!((1..MARK.len()).all(|length| MARK[..length] != MARK[MARK.len() - length..]));
    }

    #[test]
    fn a_payload_of_any_length_comes_through() {
        for length in [0, 1, MAX_PAYLOAD, MAX_PAYLOAD + 1, 3 * MAX_PAYLOAD + 5] {
            let data: Vec<u8> = (0..length).map(|n| n as u8).collect();
            let said = vec![Said::Data(Stream::Out, data)];
            assert_eq!(heard(&spoken(1, &said), &[4096]), [(1, joined(said))]);
        }
    }

    #[test]
    fn no_frame_is_larger_than_the_driver_passes_on() {
        let mut bytes = Vec::new();
        put(Frame::Data(Stream::Out, &vec![0; MAX_PAYLOAD]), &mut bytes);
        assert_eq!(bytes.len(), 32 * 1024);
    }

    #[test]
    fn what_is_no_frame_ends_the_session_and_is_said_once() {
        let mut decoder = Decoder::default();
        let mut bytes = spoken(1, &[]);
        bytes.extend_from_slice(b"somebody else's words");
        decoder.feed(&bytes);
        assert_eq!(decoder.hear(), Some(Heard::Open(1)));
        assert_eq!(decoder.hear(), Some(Heard::Garbled));
        assert_eq!(decoder.hear(), None);
    }

    #[test]
    fn what_a_login_prints_before_the_first_session_is_passed_over() {
        for banner in
            ["Welcome to board1\r\n".repeat(5000).into_bytes(), MARK[..MARK.len() - 1].to_vec(), vec![0xfe; 40]]
        {
            let said = vec![Said::Data(Stream::Out, b"first".to_vec())];
            let bytes = [banner, spoken(3, &said)].concat();
            for piece in [1, 17, bytes.len()] {
                assert_eq!(heard(&bytes, &[piece]), [(3, said.clone())]);
            }
        }
    }

    proptest! {
        #[test]
        fn what_is_said_is_heard_in_whatever_pieces_it_comes(
            nonce: u64, said in vec(frames(), 0..8), pieces in vec(1usize..80, 1..20),
        ) {
            prop_assert_eq!(heard(&spoken(nonce, &said), &pieces), [(nonce, joined(said))]);
        }

        #[test]
        fn a_session_is_heard_whole_after_one_that_was_cut_anywhere(
            nonces in any::<(u64, u64)>(), cut: prop::sample::Index, pieces in vec(1usize..80, 1..20),
            first in vec(frames(), 0..5), second in vec(frames(), 0..5),
        ) {
            let mut bytes = spoken(nonces.0, &first);
            bytes.truncate(cut.index(bytes.len() + 1));
            bytes.extend(spoken(nonces.1, &second));
            let sessions = heard(&bytes, &pieces);
            let (last, earlier) = sessions.split_last().unwrap();
            prop_assert_eq!(last, &(nonces.1, joined(second)));
            prop_assert!(earlier.len() <= 1);
        }

        #[test]
        fn nothing_is_heard_of_a_cut_session_but_what_it_said(
            cut: prop::sample::Index, pieces in vec(1usize..80, 1..20), data in payloads(), second in payloads(),
        ) {
            let mut bytes = spoken(1, &[Said::Data(Stream::In, data.clone())]);
            bytes.truncate(cut.index(bytes.len() + 1));
            bytes.extend(spoken(2, &[Said::Data(Stream::In, second)]));
            for (nonce, said) in heard(&bytes, &pieces) {
                for said in said {
                    let Said::Data(Stream::In, heard) = said else { panic!("{said:?}") };
                    prop_assert!(nonce == 2 || data.starts_with(&heard));
                }
            }
        }

        #[test]
        fn bytes_before_a_session_do_not_hide_it(noise in payloads(), said in vec(frames(), 0..4)) {
            let mut bytes = noise;
            bytes.extend(spoken(9, &said));
            let sessions = heard(&bytes, &[11]);
            prop_assert_eq!(sessions.last().cloned(), Some((9, joined(said))));
        }
    }
}
