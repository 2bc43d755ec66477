//! `turns`: runs what the host asks for in its turns, and halts the machine whenever it has something to tell ([`wire::turns`]).

use super::program::{NotStarted, Program};
use super::watch::Watch;
use crate::outbox::Outbox;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::process::ExitCode;
use sys::descriptor::{Wanted, wait};
use sys::halt::Halt;
use sys::order::settle;
use sys::shared::SharedWords;
use wire::port::{Decoder, Frame, Heard, Stream, open};
use wire::turns::{self, Kind, Record};

/// On the kernel's command line of a board in virtual time.
pub const ASKED: &str = "latlab.turns";

struct Board {
    words: SharedWords,
    halt: Halt,
    watch: Watch,
    programs: BTreeMap<u32, Running>,
}

struct Running {
    program: Program,
    /// What it says, as a relay would be told it.
    outbox: Outbox,
    decoder: Decoder,
}

/// Runs the verb, as long as the machine runs.
pub fn run() -> ExitCode {
    let Err(fatal) = Board::new().and_then(Board::live);
    super::say(&format!("turns: {fatal}"));
    ExitCode::FAILURE
}

impl Board {
    fn new() -> Result<Self, String> {
        let device =
            crate::shared_memory::find_emulated().map_err(|failure| format!("{}: {}", failure.place, failure.what))?;
        let file =
            File::options().read(true).write(true).open(&device).map_err(|error| format!("{device:?}: {error}"))?;
        let map = || SharedWords::map(&file, turns::WORDS, true).map_err(|error| error.to_string());
        let words = map()?;
        if words.load(turns::IDENTITY_AT) != turns::IDENTITY {
            return Err(format!("{}: the host takes no turns there", Path::display(&device)));
        }
        let halt = Halt::open().map_err(|error| error.to_string())?;
        let watch = Watch::start(map()?)?;
        Ok(Self { words, halt, watch, programs: BTreeMap::new() })
    }

    fn live(mut self) -> Result<std::convert::Infallible, String> {
        let mut said = Vec::new();
        loop {
            self.tell(&mut said);
            self.halt();
            if self.take(&mut said) {
                continue;
            }
            while said.is_empty() && !self.programs.is_empty() {
                self.attend(&mut said).map_err(|error| error.to_string())?;
            }
        }
    }

    /// The host's turn.
    fn halt(&self) {
        self.words.store(turns::HALTED_TAI_NS_AT, sys::clock::tai_ns() as u64);
        settle();
        self.halt.halt();
        settle();
    }

    /// As much of `said` as the host can be told in one turn, which is then no longer in it.
    fn tell(&self, said: &mut Vec<u8>) {
        let mut length = 0;
        for record in turns::records(said) {
            if length + record.length() > turns::AREA_BYTES {
                break;
            }
            length += record.length();
        }
        for (n, piece) in said[..length].chunks(8).enumerate() {
            let mut word = [0; 8];
            word[..piece.len()].copy_from_slice(piece);
            self.words.store(turns::OUT_AT + n, u64::from_ne_bytes(word));
        }
        self.words.store(turns::OUT_LENGTH_AT, length as u64);
        said.drain(..length);
    }

    /// Does what the host said; whether more is to come.
    fn take(&mut self, said: &mut Vec<u8>) -> bool {
        let length = (self.words.load(turns::IN_LENGTH_AT) as usize).min(turns::AREA_BYTES);
        let words = (0..length.div_ceil(8)).flat_map(|n| self.words.load(turns::IN_AT + n).to_ne_bytes());
        let bytes: Vec<u8> = words.take(length).collect();
        self.words.store(turns::IN_LENGTH_AT, 0);
        let mut more = false;
        for record in turns::records(&bytes) {
            match record.kind {
                Kind::More => more = true,
                Kind::Start => self.start(&record, said),
                kind => {
                    if let Some(running) = self.programs.get_mut(&record.program) {
                        running.told(kind, record.payload);
                    }
                }
            }
        }
        more
    }

    fn start(&mut self, record: &Record, said: &mut Vec<u8>) {
        match Program::start(record.payload, "on the board") {
            Ok(program) => drop(self.programs.insert(record.program, Running::new(program))),
            Err(NotStarted { what, status }) => {
                let what = format!("latlab-agent: {what}\n");
                Record { kind: Kind::Err, payload: what.as_bytes(), ..*record }.put(said);
                Record { kind: Kind::Exit, payload: &[status], ..*record }.put(said);
            }
        }
    }

    /// Waits until programs say something or end, and puts what can be told at once.
    fn attend(&mut self, said: &mut Vec<u8>) -> Result<(), sys::Error> {
        let mut wanted: Vec<Vec<Wanted>> = self.programs.values().map(|running| running.program.wanted(0)).collect();
        let counts: Vec<usize> = wanted.iter().map(Vec::len).collect();
        wanted.push(vec![Wanted { fd: self.watch.question(), read: true, write: false }]);
        let mut ready = wait(&wanted.concat(), None)?;
        for (running, count) in self.programs.values_mut().zip(counts) {
            let rest = ready.split_off(count);
            running.program.attend_to(&ready, &mut running.outbox)?;
            ready = rest;
        }
        if ready.iter().any(|asked| asked.read) {
            self.watch.answer();
        }
        let numbers: Vec<u32> = self.programs.keys().copied().collect();
        for program in numbers {
            let Some(running) = self.programs.get_mut(&program) else { continue };
            running.tell(program, said);
            if let Some(status) = running.program.ended() {
                Record { program, kind: Kind::Exit, payload: &[status] }.put(said);
                self.programs.remove(&program);
            }
        }
        Ok(())
    }
}

impl Running {
    fn new(program: Program) -> Self {
        let mut running = Self { program, outbox: Outbox::default(), decoder: Decoder::default() };
        open(0, &mut running.outbox.bytes);
        running
    }

    fn told(&mut self, kind: Kind, payload: &[u8]) {
        let frame = match kind {
            Kind::Input => Frame::Data(Stream::In, payload),
            Kind::InputEnd => Frame::End(Stream::In),
            Kind::Signal => Frame::Signal(payload.first().copied().unwrap_or_default()),
            _ => return,
        };
        self.program.told(frame, &mut self.outbox);
    }

    /// Puts what the program said, which the host takes at once.
    fn tell(&mut self, program: u32, said: &mut Vec<u8>) {
        self.decoder.feed(self.outbox.waiting());
        self.outbox = Outbox::default();
        while let Some(heard) = self.decoder.hear() {
            let Heard::Frame(Frame::Data(stream, payload)) = heard else { continue };
            let kind = if stream == Stream::Out { Kind::Out } else { Kind::Err };
            Record { program, kind, payload }.put(said);
            self.program.told(Frame::Taken(stream, payload.len() as u32), &mut self.outbox);
        }
    }
}
