//! The memory by which a host and a board take turns.
//!
//! A board in virtual time counts the instructions it executes, so its clock must not go on while the host thinks, nor may
//! anything reach it at an instant that depends on the host's speed. They take turns: the board halts its machine as soon as
//! it has something to say, and is let go on when the host wants to know what comes next. Each owns the memory in its turn.
//!
//! Two batches of records, each an area and its length: what the host says, and what the board does. A record is the number of
//! a program, a kind and the payload's length, four bytes each in the machine's own order, and the payload.

use serde::Serialize;

/// Value of the first eight bytes: name and version. The host writes it.
pub const IDENTITY: u64 = u64::from_ne_bytes(*b"LATLTRN1");
/// Where the identity is; all places count words of eight bytes.
pub const IDENTITY_AT: usize = 0;
/// Where the length of what the host says is, bytes. The board sets it to 0 once it has taken it.
pub const IN_LENGTH_AT: usize = 1;
/// Where the length of what the board says is, bytes.
pub const OUT_LENGTH_AT: usize = 2;
/// Where the board's CLOCK_TAI is as it halts, ns.
pub const HALTED_TAI_NS_AT: usize = 3;
/// Where the board's CLOCK_TAI is when its watch looked last, ns.
pub const WATCHED_TAI_NS_AT: usize = 4;
/// Where the length of a [`Starved`] is, bytes of JSON. The host sets it to 0 before each turn.
pub const STARVED_LENGTH_AT: usize = 5;
/// Where it is.
pub const STARVED_AT: usize = 6;
/// Bytes that it may take.
pub const STARVED_BYTES: usize = (IN_AT - STARVED_AT) * 8;
/// Where the host's records are.
pub const IN_AT: usize = 512;
/// Bytes that an area takes.
pub const AREA_BYTES: usize = 512 * 1024;
/// Where the board's records are.
pub const OUT_AT: usize = IN_AT + AREA_BYTES / 8;
/// All words.
pub const WORDS: usize = OUT_AT + AREA_BYTES / 8;
/// Bytes of the file or device: what a PCI device's memory can be, a power of two.
pub const FILE_BYTES: u64 = 1 << 21;

const HEADER: usize = 12;

/// Why a board halted in the middle of its turn: real-time threads keep its ordinary threads from the CPU.
#[derive(Clone, Debug, Serialize, PartialEq, Eq)]
pub struct Starved {
    /// CPUs that ordinary threads may use.
    pub cpus: Vec<usize>,
    /// So long the board looked, ns.
    pub window_ns: u64,
    /// The real-time threads that ran on these CPUs meanwhile, the longest first.
    pub threads: Vec<Holder>,
}

/// A thread that held a CPU.
#[derive(Clone, Debug, Serialize, PartialEq, Eq)]
pub struct Holder {
    /// Its number.
    pub tid: usize,
    /// The number of its process; of a kernel's vhost thread that of the QEMU it works for.
    pub pid: usize,
    /// Its name (proc_pid_comm(5)).
    pub name: String,
    /// The virtual machine that its process runs, as QEMU's `-name` has it.
    pub machine: Option<String>,
    /// Its policy, such as `SCHED_FIFO`.
    pub policy: String,
    /// Its real-time priority.
    pub priority: i32,
    /// The CPU it ran on last.
    pub cpu: usize,
    /// So long it ran, ns.
    pub ran_ns: u64,
}

/// What is said of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Host: start it; its name and arguments, each ended by a zero byte.
    Start = 1,
    /// Host: bytes of its standard input.
    Input = 2,
    /// Host: there are no more.
    InputEnd = 3,
    /// Host: send its process group this signal, one byte.
    Signal = 4,
    /// Host: more is to come; halt at once.
    More = 5,
    /// Board: bytes of its standard output.
    Out = 6,
    /// Board: bytes of its standard error.
    Err = 7,
    /// Board: it is gone, with this exit status, one byte.
    Exit = 8,
}

const KINDS: [Kind; 8] =
    [Kind::Start, Kind::Input, Kind::InputEnd, Kind::Signal, Kind::More, Kind::Out, Kind::Err, Kind::Exit];

/// Something said of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// The program's number, which the host gave it.
    pub program: u32,
    /// What is said.
    pub kind: Kind,
    /// And its bytes.
    pub payload: &'a [u8],
}

impl Record<'_> {
    /// Appends it.
    pub fn put(&self, to: &mut Vec<u8>) {
        for number in [self.program, self.kind as u32, self.payload.len() as u32] {
            to.extend_from_slice(&number.to_ne_bytes());
        }
        to.extend_from_slice(self.payload);
    }

    /// Bytes it takes.
    pub fn length(&self) -> usize {
        HEADER + self.payload.len()
    }
}

/// The records of a batch; what is none ends it.
pub fn records(mut bytes: &[u8]) -> impl Iterator<Item = Record<'_>> {
    std::iter::from_fn(move || {
        let (header, rest) = bytes.split_at_checked(HEADER)?;
        let number = |at: usize| Some(u32::from_ne_bytes(*header.get(at..)?.first_chunk()?));
        let kind = KINDS.into_iter().find(|kind| number(4) == Some(*kind as u32))?;
        let (payload, rest) = rest.split_at_checked(number(8)? as usize)?;
        bytes = rest;
        Some(Record { program: number(0)?, kind, payload })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_put_is_read(said in proptest::collection::vec((any::<u32>(), 0usize..8, any::<Vec<u8>>()), 0..20)) {
            let record = |(program, kind, payload)| Record { program, kind: KINDS[kind], payload };
            let said: Vec<_> = said.iter().map(|(program, kind, payload)| record((*program, *kind, payload))).collect();
            let mut bytes = Vec::new();
            said.iter().for_each(|record| record.put(&mut bytes));
            prop_assert_eq!(bytes.len(), said.iter().map(Record::length).sum::<usize>());
            prop_assert_eq!(records(&bytes).collect::<Vec<_>>(), said);
        }

        #[test]
        fn any_bytes_end(bytes: Vec<u8>) {
            prop_assert!(records(&bytes).count() <= bytes.len());
        }
    }
}
