//! `drops`: which packets of a run this kernel drops, where and for what reason, recorded by CLOCK_TAI.
//!
//! A BPF program sees every packet that the kernel frees as lost, in all its network namespaces. What it writes into its ring
//! wakes nobody: this verb comes round and empties it. Where the kernel does not let it be loaded the verb says so and waits for
//! its end nevertheless, so that whoever starts it everywhere need not know every kernel.

mod program;

use crate::launch_clock::LaunchClock;
use crate::realtime::{prepare_process, prepare_thread};
use crate::recording::{Recorder, Recording, Tap};
use crate::session::{self, emit, refused};
use program::Program;
use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::time::Duration;
use wire::btf::Btf;
use wire::drops::{Reasons, Record, Symbols};
use wire::event::{Done, DropsFound, Event, Failure};
use wire::iec61850::{Prefix, prefixes_of};
use wire::record::Dropped;
use wire::spec::{Drops as Spec, LaunchClock as Chosen};

/// How long rings are left alone: they hold what is dropped in that time many times over.
const PAUSE: Duration = Duration::from_millis(50);
const TOO_MANY: &str = "no places of losses of IEC 61850: its frames have the probe at more than two places";
const FUNCTIONS: &str = "/proc/kallsyms";
const OPEN_VSWITCH_TYPES: &str = "/sys/kernel/btf/openvswitch";

/// Runs the verb; its result has been reported when this returns.
///
/// # Errors
/// What the lab needs to know.
pub fn run() -> Result<(), Failure> {
    let (spec, session) = session::open::<Spec>("drops")?;
    spec.check().map_err(refused)?;
    let process = prepare_process(&spec.realtime)?;
    let mut recorder = Recorder::new(&spec.recording, spec.run_id);
    recorder.come_round(PAUSE);
    let tap = recorder.table(spec.ring_records)?;
    let (mut watch, drops) = watch(&spec, tap);
    let recording = recorder.start();
    let realtime = prepare_thread(&spec.realtime, &process)?;
    emit(&Event::DropsReady { ready: session::ready("drops", realtime, Vec::new())?, drops });

    while !session.stopped() && !recording.broken() {
        std::thread::sleep(PAUSE);
        if let Some(watch) = &mut watch {
            watch.pass(&recording);
        }
    }
    let (drops, lost) = watch.map_or((0, 0), |watch| watch.finish(&recording));
    let totals = recording.finish()?;
    emit(&Event::Done(Done::Drops { drops, lost, ring_full: totals.ring_full, recorded: totals.recorded }));
    Ok(())
}

/// Who watches, if the kernel lets anybody, and what it finds.
fn watch(spec: &Spec, tap: Tap<Dropped>) -> (Option<Watch>, DropsFound) {
    let prefixes = prefixes_of(spec.frames.iter().map(|one| Prefix::length(one.payload, one.size)));
    let program = match Program::attach(spec.run_id, spec.ring_records, &prefixes.unwrap_or_default()) {
        Ok(program) => program,
        Err(why) => {
            return (None, not_watched(&why));
        }
    };
    let names = Names::read();
    let (chosen, clock) = if program.tai { (Chosen::Tai, "CLOCK_TAI") } else { (Chosen::Monotonic, "CLOCK_MONOTONIC") };
    let mut found = names.found(program.reasons, clock);
    if prefixes.is_none() {
        found.missing.push(TOO_MANY.into());
    }
    (Some(Watch { program, names, clock: LaunchClock::new(chosen), tap, drops: 0 }), found)
}

/// What is said where the kernel does not let drops be watched.
pub fn not_watched(why: &str) -> DropsFound {
    let line = format!("where packets are dropped is not watched: {why}; losses are counted, and have no place");
    DropsFound { missing: vec![line], ..DropsFound::default() }
}

/// From the kernel's ring to the recording.
struct Watch {
    program: Program,
    names: Names,
    clock: LaunchClock,
    tap: Tap<Dropped>,
    drops: u64,
}

impl Watch {
    /// Takes what has come.
    fn pass(&mut self, recording: &Recording) {
        self.clock.look();
        // What the program's clock shows when CLOCK_TAI reads 0.
        let behind_ns = self.clock.at(0);
        while let Some(record) = self.program.next() {
            let Record { ns, sequence, location, place, reason, stream } = record;
            let row = Dropped {
                tai_ns: ns.saturating_sub(behind_ns),
                stream,
                sequence,
                reason: reason.map(|reason| self.names.reason(reason)),
                device: place.device,
                ifindex: place.ifindex,
                netns: place.netns,
                location: self.names.function(location),
            };
            self.drops += 1;
            // This thread may wait; what the kernel's ring then has no room for is counted there.
            self.tap.push_when_room(row, || !recording.broken());
        }
    }

    /// Takes the last; how many drops were recorded, and how many the kernel's ring had no room for.
    fn finish(mut self, recording: &Recording) -> (u64, u64) {
        self.pass(recording);
        (self.drops, self.program.lost())
    }
}

/// What this kernel calls its reasons and functions. Few of them drop packets that are asked for: those that do are kept for good,
/// so that rows have them without a copy.
#[derive(Default)]
pub struct Names {
    reasons: Reasons,
    functions: Symbols,
    known_reasons: HashMap<u32, &'static str>,
    known_functions: HashMap<u64, Option<&'static str>>,
}

impl Names {
    /// All of them are read beforehand: while packets are measured nothing of the kind disturbs them.
    pub fn read() -> Self {
        let types = std::fs::read(crate::programs::KERNEL_TYPES).unwrap_or_default();
        let module = std::fs::read(OPEN_VSWITCH_TYPES).unwrap_or_default();
        let mut reasons = Reasons::default();
        if let Some(kernel) = Btf::read(&types) {
            reasons = Reasons::of(&kernel);
            if let Some(module) = Btf::read_module(&module, &kernel) {
                reasons.add_open_vswitch(&module);
            }
        }
        let mut functions = Symbols::default();
        if let Ok(file) = std::fs::File::open(FUNCTIONS) {
            BufReader::new(file).lines().map_while(Result::ok).for_each(|line| functions.add(&line));
        }
        functions.sort();
        Self { reasons, functions, known_reasons: HashMap::new(), known_functions: HashMap::new() }
    }

    /// The same, if they are needed; else none.
    pub fn read_if(needed: bool) -> Self {
        if needed { Self::read() } else { Self::default() }
    }

    /// What is known of drops by these names. `reasons`: the kernel gives them. `clock`: the program's.
    pub fn found(&self, reasons: bool, clock: &'static str) -> DropsFound {
        let mut missing = Vec::new();
        if !reasons {
            missing.push(
                "no reasons: before Linux 5.17 the kernel gives none; the functions that dropped packets are recorded"
                    .to_owned(),
            );
        } else if self.reasons.is_empty() {
            missing.push(
                "no names of reasons: the kernel's types do not have them; their numbers are recorded".to_owned(),
            );
        }
        let locations = !self.functions.is_empty();
        if !locations {
            missing.push(format!("no functions: {FUNCTIONS} does not show their addresses; reasons are recorded"));
        }
        DropsFound { watched: true, reasons, locations, clock: Some(clock), missing }
    }

    /// The name of a reason.
    pub fn reason(&mut self, reason: u32) -> &'static str {
        self.known_reasons.entry(reason).or_insert_with(|| self.reasons.name(reason).leak())
    }

    /// The function that has this instruction; None: unknown.
    pub fn function(&mut self, instruction: u64) -> Option<&'static str> {
        let find = || self.functions.function(instruction).map(|name| &*name.to_owned().leak());
        *self.known_functions.entry(instruction).or_insert_with(find)
    }
}
