//! `watch`: which packets of anybody's traffic pass chosen interfaces of this kernel, and when, recorded by CLOCK_TAI.
//!
//! Nothing is sent and nothing is changed: BPF programs at two tracepoints look at every packet, in all network namespaces, and
//! write what the tests accept into their CPU's ring, which wakes nobody. Where sockets are points, others look at what programs
//! send and receive. They are gone with this process, however it ends.

mod program;

use crate::drops::{Names, not_watched};
use crate::launch_clock::LaunchClock;
use crate::realtime::{prepare_process, prepare_thread};
use crate::recording::{Recorder, Recording, Tap};
use crate::session::{self, emit, refused};
use program::Programs;
use std::time::{Duration, Instant};
use sys::clock::tai_ns;
use wire::event::{Done, Event, Failure, Live, OtherFlow, PointSeen, StreamProgress, WatchFound};
use wire::passing::Passing;
use wire::record::{Snap, Watched, WatchedDrop};
use wire::spec::{LaunchClock as Chosen, Watch as Spec};
use wire::watch::Record;

/// How long rings are left alone.
const PAUSE: Duration = Duration::from_millis(5);
/// How often late packets are reported, as `listen` does.
const REPORTS_LATE: Duration = Duration::from_millis(20);
/// So many rejected flows are named at most, for each point.
const NAMED: usize = 8;

/// Runs the verb; its result has been reported when this returns.
///
/// # Errors
/// What the lab is to be told.
pub fn run() -> Result<(), Failure> {
    let (spec, session) = session::open::<Spec>("watch")?;
    spec.check().map_err(refused)?;
    let process = prepare_process(&spec.realtime)?;
    let mut recorder = Recorder::new(&spec.recording, spec.run_id);
    let tap = recorder.table(spec.ring_records)?;
    let drops_tap = spec.drops.then(|| recorder.table(spec.ring_records)).transpose()?;
    let programs = Programs::attach(&spec).map_err(|why| Failure {
        what: format!("packets cannot be watched: {why}"),
        place: "BPF programs at the tracepoints netif_receive_skb and net_dev_start_xmit".into(),
        remedy: "run it as root on a kernel with BTF and BPF, or capture with tcpdump and use latlab import".into(),
        errno: None,
    })?;
    let (chosen, clock) =
        if programs.tai { (Chosen::Tai, "CLOCK_TAI") } else { (Chosen::Monotonic, "CLOCK_MONOTONIC") };
    let found_here =
        WatchFound { clock, snap: spec.snap, reads_pages: programs.reads_pages, missing: programs.missing.clone() };
    let names = Names::read_if(matches!(programs.drops, Some(Ok(_))));
    let found = programs.drops.as_ref().map(|found| match found {
        Ok(reasons) => names.found(*reasons, clock),
        Err(why) => not_watched(why),
    });
    let mut watch = Watch {
        programs,
        clock: LaunchClock::new(chosen),
        tap,
        seen: vec![[0; 2]; spec.points.len()],
        passing: spec.trigger.map(|trigger| Passing::new(trigger, spec.payload())),
        drops: Drops { tap: drops_tap, names, count: 0 },
    };
    let recording = recorder.start();
    let realtime = prepare_thread(&spec.realtime, &process)?;
    let ready = session::ready("watch", realtime, Vec::new())?;
    emit(&Event::WatchReady { ready, watch: found_here, drops: found });

    let (mut told, mut judged) = (Instant::now(), Instant::now());
    while !session.stopped() && !recording.broken() {
        std::thread::sleep(PAUSE);
        watch.pass(&recording);
        if judged.elapsed() >= REPORTS_LATE {
            judged = Instant::now();
            watch.report_late();
        }
        if told.elapsed() >= Duration::from_secs(1) {
            told = Instant::now();
            emit(&Event::Progress { tai_ns: tai_ns(), streams: watch.progress(), live: Live::default() });
        }
    }
    let end_tai_ns = tai_ns();
    watch.pass(&recording);
    watch.report_late();
    let judged = watch.passing.as_ref().map(Passing::totals);
    let (points, others, lost) = (watch.points(), watch.others(), watch.programs.lost());
    let drops = watch.drops.count;
    drop(watch);
    let totals = recording.finish()?;
    emit(&Event::Done(Done::Watch {
        end_tai_ns,
        points,
        drops,
        others,
        judged,
        lost,
        ring_full: totals.ring_full,
        recorded: totals.recorded,
    }));
    Ok(())
}

/// From the programs' rings to the recording.
struct Watch {
    programs: Programs,
    clock: LaunchClock,
    tap: Tap<Watched>,
    /// By point: packets that came in, and that left.
    seen: Vec<[u64; 2]>,
    /// Where there is a trigger.
    passing: Option<Passing>,
    drops: Drops,
}

/// Packets that the kernel dropped, on their way to the recording.
struct Drops {
    /// None: they are not asked for.
    tap: Option<Tap<WatchedDrop>>,
    names: Names,
    count: u64,
}

/// What a record of the programs' becomes.
enum Row {
    Seen(Watched),
    Dropped(WatchedDrop),
}

impl Watch {
    /// Takes what has come.
    fn pass(&mut self, recording: &Recording) {
        self.clock.look();
        // What the program's clock shows when CLOCK_TAI reads 0.
        let behind_ns = self.clock.at(0);
        let Self { programs, drops, .. } = self;
        while let Some(row) = programs.next(|record| row(record, behind_ns, &mut drops.names)) {
            let row = match row {
                Row::Seen(row) => row,
                Row::Dropped(row) => {
                    drops.count += 1;
                    if let Some(tap) = &mut drops.tap {
                        tap.push_when_room(row, || !recording.broken());
                    }
                    continue;
                }
            };
            if let Some(seen) = self.seen.get_mut(usize::from(row.point)) {
                seen[usize::from(row.out)] += 1;
            }
            if let Some(passing) = &mut self.passing {
                passing.seen(&row);
            }
            // This thread may wait; what the programs' rings then have no room for is counted there.
            self.tap.push_when_room(row, || !recording.broken());
        }
    }

    /// Reports the windows around packets that were late since it was called before.
    fn report_late(&mut self) {
        let windows = self.passing.as_mut().map(Passing::take).unwrap_or_default();
        if !windows.is_empty() {
            emit(&Event::Late { tai_ns: tai_ns(), windows });
        }
    }

    fn progress(&self) -> Vec<StreamProgress> {
        let counted = |(point, seen): (usize, &[u64; 2])| StreamProgress::counted(point as u16, seen.iter().sum());
        self.seen.iter().enumerate().map(counted).collect()
    }

    fn points(&self) -> Vec<PointSeen> {
        let passed = |point, out| self.programs.passed(point, out);
        let told = |(point, [came, left]): (usize, &[u64; 2])| PointSeen {
            came: *came,
            left: *left,
            all_that_came: passed(point, false),
            all_that_left: passed(point, true),
            unread: self.programs.unread(point),
        };
        self.seen.iter().enumerate().map(told).collect()
    }

    /// The largest flows that were rejected, of each point and direction where nothing was accepted.
    fn others(&self) -> Vec<OtherFlow> {
        let mut found = self.programs.others();
        found.retain(|one| {
            let point = one.flow.point as usize;
            point < self.seen.len() && self.programs.passed(point, one.flow.out) == 0
        });
        found.sort_by_key(|one| (one.flow.point, one.flow.out, std::cmp::Reverse(one.packets)));
        let mut named = 0;
        let mut before = None;
        found.retain(|one| {
            let place = Some((one.flow.point, one.flow.out));
            named = if place == before { named + 1 } else { 0 };
            before = place;
            named < NAMED
        });
        found
    }
}

/// The row of a record. `behind_ns`: what the program's clock shows when CLOCK_TAI reads 0.
fn row(record: &Record<'_>, behind_ns: i64, names: &mut Names) -> Option<Row> {
    let (tai_ns, bytes) = (record.ns.saturating_sub(behind_ns), Snap::of(record.bytes)?);
    let Record { ethernet, length, .. } = *record;
    if let Some(dropped) = record.dropped {
        return Some(Row::Dropped(WatchedDrop {
            tai_ns,
            ethernet,
            length,
            bytes,
            reason: dropped.reason.map(|reason| names.reason(reason)),
            device: dropped.place.device,
            ifindex: dropped.place.ifindex,
            netns: dropped.place.netns,
            location: names.function(dropped.location),
        }));
    }
    Some(Row::Seen(Watched {
        tai_ns,
        point: record.point,
        out: record.out,
        ethernet,
        length,
        bytes,
        segments: record.segments,
    }))
}
