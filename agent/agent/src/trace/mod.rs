//! `trace`: what the kernel's tracepoints show of interrupts, softirqs and threads, recorded by CLOCK_TAI.
//!
//! Through an instance of its own in tracefs (`crate::tracing`), so nothing that others trace is changed or disturbed. The kernel
//! filters; what it keeps is read before it is an eighth full, and what it had no room for is counted. Or it is left there, newer
//! events in the place of older ones, and only windows that the lab asks for are recorded (`flight`).

mod flight;
mod points;
mod tasks;

use crate::clocks::ClockLog;
use crate::launch_clock::LaunchClock;
use crate::realtime::{prepare_process, prepare_thread};
use crate::recording::{Recorder, Recording, Tap};
use crate::session::{self, emit, refused};
use crate::tracing::{Heard, Instance, Kept};
use flight::Flight;
use points::{Point, Points};
use std::time::{Duration, Instant};
use sys::clock::tai_ns;
use tasks::Tasks;
use wire::event::{CpuEvents, Done, Event, Failure, KeptTotals};
use wire::record::Traced;
use wire::spec::{Command, LaunchClock as Chosen, Tracing as Spec};
use wire::traceable::LOST;

/// How long the kernel's buffers are left alone, at least and at most: reading takes a CPU from who is traced, and a thread that
/// ends before it is looked up is not named.
const PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(200));
/// What they are to hold when they are read, as a part of their room: events may come eight times as fast all at once.
const SHARE: usize = 8;
const PROGRESS: Duration = Duration::from_secs(1);
const EINVAL: i32 = 22;

/// Runs the verb; its result has been reported when this returns.
///
/// # Errors
/// What the lab needs to know.
pub fn run() -> Result<(), Failure> {
    let (spec, session) = session::open::<Spec>("trace")?;
    spec.check().map_err(refused)?;
    let process = prepare_process(&spec.realtime)?;
    let mut recorder = Recorder::new(&spec.recording, spec.run_id);
    let tap = recorder.table(spec.ring_records)?;
    let tasks = Tasks::new(&mut recorder, spec.threads.is_some())?;
    let flight = if spec.windows_only { Some(Flight::new(&mut recorder, tai_ns())?) } else { None };
    let mut clocks = ClockLog::new(&mut recorder)?;
    let instance = Instance::open(spec.buffer_kib)?;
    let (chosen, clock) = clock_of(&instance)?;
    let Points { points, events, absent } = points::listened_to(&instance, &spec)?;
    let recording = recorder.start();
    // After the writer has been started, which is to run as any thread.
    let realtime = prepare_thread(&spec.realtime, &process)?;
    let mut reader = Reader { instance, clock: LaunchClock::new(chosen), points, tap, tasks, flight, events: 0 };
    reader.instance.write("tracing_on", "1")?;
    emit(&Event::TraceReady { ready: session::ready("trace", realtime, Vec::new())?, clock, events, absent });

    clocks.note();
    let mut reported = Instant::now();
    let mut pause = PAUSES.0;
    while !session.stopped() && !recording.broken() {
        std::thread::sleep(pause);
        if reader.flight.is_some() {
            reader.keep(session.commands(), &recording);
        } else {
            pause = pause_after(pause, reader.pass(&recording).fullest_bytes, spec.buffer_kib << 10);
        }
        if reported.elapsed() >= PROGRESS {
            reported = Instant::now();
            clocks.note();
            let lost = reader.lost()?.iter().map(|kept| kept.lost).sum();
            emit(&Event::TraceProgress { tai_ns: tai_ns(), events: reader.events, lost });
        }
    }
    // The instance goes last: that may take the kernel seconds, and what was recorded is whole and told before.
    let (cpus, events, kept, _instance) = reader.finish(session.commands(), &recording)?;
    clocks.note();
    drop(clocks);
    let totals = recording.finish()?;
    emit(&Event::Done(Done::Trace {
        events,
        lost: cpus.iter().map(|cpu| cpu.lost).sum(),
        cpus,
        kept,
        ring_full: totals.ring_full,
        recorded: totals.recorded,
    }));
    Ok(())
}

/// Has the instance stamp its records by CLOCK_TAI, or before Linux 6.0 by CLOCK_MONOTONIC, which nothing steps and which is as far
/// from CLOCK_TAI as both read. Returns which, and its name.
fn clock_of(instance: &Instance) -> Result<(Chosen, &'static str), Failure> {
    match instance.write("trace_clock", "tai") {
        Ok(()) => Ok((Chosen::Tai, "CLOCK_TAI")),
        Err(Failure { errno: Some(EINVAL), .. }) => {
            instance.write("trace_clock", "mono").map(|()| (Chosen::Monotonic, "CLOCK_MONOTONIC"))
        }
        Err(problem) => Err(problem),
    }
}

/// How long to wait after a pause in which the fullest of the buffers, which have so much room, took so much.
fn pause_after(pause: Duration, taken_bytes: usize, room_bytes: usize) -> Duration {
    let wanted = pause.as_nanos().saturating_mul((room_bytes / SHARE) as u128) / taken_bytes.max(1) as u128;
    // A lull is no guarantee of another one: it grows step by step.
    Duration::from_nanos(u64::try_from(wanted).unwrap_or(u64::MAX)).min(2 * pause).clamp(PAUSES.0, PAUSES.1)
}

/// What a pass has taken: how many events, and from the buffer that had most.
struct Taken {
    events: u64,
    fullest_bytes: usize,
}

/// What became of each CPU's events, how many are recorded, what was kept of windows; and the instance, which is there still.
type Ended = (Vec<CpuEvents>, u64, Option<KeptTotals>, Instance);

/// From the kernel's buffers to the recording.
struct Reader {
    instance: Instance,
    clock: LaunchClock,
    points: Vec<Point>,
    tap: Tap<Traced>,
    tasks: Tasks,
    /// Where only windows are recorded.
    flight: Option<Flight>,
    /// Recorded.
    events: u64,
}

impl Reader {
    /// Takes what has come.
    fn pass(&mut self, recording: &Recording) -> Taken {
        self.clock.look();
        // `at(0)` is what the trace clock shows when CLOCK_TAI reads 0.
        let behind_ns = self.clock.at(0);
        let Self { instance, points, tap, tasks, flight, .. } = self;
        let mut events = 0;
        let fullest_bytes = instance.take(|cpu, heard| {
            let row = match heard {
                Heard::Lost(count, before_ns) => lost(cpu, count, before_ns.saturating_sub(behind_ns)),
                Heard::Record(record) => {
                    let tai_ns = record.stamp_ns.saturating_sub(behind_ns);
                    let Some(row) = points.iter().find_map(|point| point.read(record.bytes, cpu, tai_ns)) else {
                        return;
                    };
                    events += 1;
                    row
                }
            };
            if let Some(flight) = flight {
                flight.hold(row);
                return;
            }
            // This thread may wait; what the kernel's buffer then has no room for is counted there.
            tap.push_when_room(row, || !recording.broken());
            tasks.named_by(&row);
        });
        tasks.look_up(recording);
        if self.flight.is_none() {
            self.events += events;
        }
        Taken { events, fullest_bytes }
    }

    /// Records the windows that are asked for and over by now.
    fn keep(&mut self, commands: impl Iterator<Item = Command>, recording: &Recording) {
        let Some(flight) = &mut self.flight else { return };
        commands.for_each(|command| flight.ask(&command.keep));
        // Read before the buffers are: what is in them then had come about.
        let now_ns = tai_ns();
        if flight.is_due(now_ns) {
            self.pass(recording);
            self.write(now_ns, false, recording);
        }
    }

    /// Records those windows; `last`: all that are asked for.
    fn write(&mut self, now_ns: i64, last: bool, recording: &Recording) {
        let Self { tap, tasks, flight: Some(flight), events, .. } = self else { return };
        flight.write(now_ns, last, recording, |row| {
            tap.push_when_room(row, || !recording.broken());
            tasks.named_by(&row);
            *events += 1;
        });
        tasks.look_up(recording);
    }

    /// What became of each CPU's events: where only windows are recorded the kernel is to overwrite others.
    fn lost(&self) -> Result<Vec<Kept>, Failure> {
        let overwrites = self.flight.is_some();
        let lost = |kept: Kept| Kept { lost: kept.lost - if overwrites { kept.overwritten } else { 0 }, ..kept };
        Ok(self.instance.kept()?.into_iter().map(lost).collect())
    }

    /// Takes the last, once nothing more comes, and returns what became of it.
    fn finish(mut self, commands: impl Iterator<Item = Command>, recording: &Recording) -> Result<Ended, Failure> {
        if let Some(flight) = &mut self.flight {
            commands.for_each(|command| flight.ask(&command.keep));
        }
        let now_ns = tai_ns();
        self.instance.write("tracing_on", "0")?;
        while self.pass(recording).events > 0 {}
        self.write(now_ns, true, recording);
        let lost = self.lost()?;
        let overwritten = lost.iter().map(|kept| kept.overwritten).sum();
        let kept = self.flight.map(|flight| KeptTotals { overwritten, ..flight.totals() });
        let told = |kept: &Kept| CpuEvents { cpu: kept.cpu, events: kept.read, lost: kept.lost };
        let cpus: Vec<_> = lost.iter().map(told).collect();
        let events = if kept.is_some() { self.events } else { cpus.iter().map(|cpu| cpu.events).sum() };
        Ok((cpus, events, kept, self.instance))
    }
}

/// In the place of events of a CPU that were lost before this instant.
fn lost(cpu: usize, count: u64, tai_ns: i64) -> Traced {
    let subject = i64::try_from(count).ok().filter(|count| *count > 0);
    Traced { tai_ns, cpu: cpu as u16, event: LOST, flags: 0, preempt: 0, pid: 0, subject, detail: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_read_before_they_are_an_eighth_full_and_never_too_seldom() {
        let (room, ms) = (1 << 20, Duration::from_millis);
        let after = |pause, taken| pause_after(ms(pause), taken, room);
        assert_eq!(after(40, room / SHARE), ms(40));
        assert_eq!(after(40, room / SHARE * 2), ms(20));
        assert_eq!(after(40, room), ms(10));
        assert_eq!(after(40, room / SHARE / 100), ms(80));
        assert_eq!([after(20, 0), after(150, 0), after(200, 0)], [ms(40), ms(200), ms(200)]);
        assert_eq!(pause_after(ms(20), 4096, 0), ms(10));
    }
}
