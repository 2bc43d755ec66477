//! `busy`: background load that is no traffic. Each worker does one thing again and again, without a pause: it leaves the
//! machine for its hypervisor, or calls the kernel. Both count.

use crate::realtime::{Process, prepare_process, prepare_thread};
use crate::sending::sender::sleep_until;
use crate::session::{self, Progress, Session, died, emit, refused};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use sys::clock::tai_ns;
use wire::event::{BusyTotals, Done, Event, Failure};
use wire::spec::{Busy, Realtime, Work};

/// How often a worker does its work before it looks at the time: well below a millisecond, and many times what looking takes.
const BATCH: u64 = 64;

/// What the workers have done, all together.
struct Counters {
    count: AtomicU64,
    first_tai_ns: AtomicI64,
    last_tai_ns: AtomicI64,
}

impl Default for Counters {
    fn default() -> Self {
        Self { count: AtomicU64::new(0), first_tai_ns: AtomicI64::new(i64::MAX), last_tai_ns: AtomicI64::new(0) }
    }
}

impl Counters {
    fn totals(&self, what: Work) -> BusyTotals {
        let count = self.count.load(Ordering::Relaxed);
        let (first, last) = (self.first_tai_ns.load(Ordering::Relaxed), self.last_tai_ns.load(Ordering::Relaxed));
        let elapsed_ns = last.saturating_sub(first).max(0);
        let per_s = if elapsed_ns > 0 { count as f64 * 1e9 / elapsed_ns as f64 } else { 0.0 };
        BusyTotals { what: what.name(), count, elapsed_ns, per_s, hypervisor: sys::hypervisor::signature() }
    }
}

type Worker = JoinHandle<Result<(), Failure>>;

/// Runs the verb; its result has been reported when this returns.
///
/// # Errors
/// What the lab needs to know.
pub fn run() -> Result<(), Failure> {
    let (spec, session) = session::open::<Busy>("busy")?;
    spec.check().map_err(refused)?;
    if spec.what == Work::Exits && sys::hypervisor::signature().is_none() {
        return Err(Failure {
            what: "this machine runs on no hypervisor that it could leave for".into(),
            place: "what".into(),
            remedy: "what: calls, which the kernel answers".into(),
            errno: None,
        });
    }
    let process = Arc::new(prepare_process(&spec.realtime)?);
    let found = {
        let (realtime, process) = (spec.realtime.clone(), Arc::clone(&process));
        let one = std::thread::spawn(move || prepare_thread(&realtime, &process));
        one.join().unwrap_or_else(|_| Err(died("busy", "a worker")))?
    };
    emit(&Event::Ready(session::ready("busy", found, Vec::new())?));
    let counters = Arc::new(Counters::default());
    if let Some(start_tai_ns) = session.wait_for_start() {
        let stop = Arc::new(AtomicBool::new(false));
        let until = Until { end_tai_ns: start_tai_ns.saturating_add(spec.duration_ns), stop: Arc::clone(&stop) };
        let workers: Vec<Worker> = (0..spec.workers)
            .map(|_| start(spec.what, start_tai_ns, until.clone(), &counters, &spec.realtime, &process))
            .collect();
        watch(&session, &workers, &counters);
        stop.store(true, Ordering::Relaxed);
        for worker in workers {
            worker.join().unwrap_or_else(|_| Err(died("busy", "a worker")))?;
        }
    }
    emit(&Event::Done(Done::Busy(counters.totals(spec.what))));
    Ok(())
}

/// When a worker ends.
#[derive(Clone)]
struct Until {
    end_tai_ns: i64,
    stop: Arc<AtomicBool>,
}

impl Until {
    fn is_over(&self, tai_ns: i64) -> bool {
        tai_ns >= self.end_tai_ns || self.stop.load(Ordering::Relaxed)
    }
}

fn start(
    what: Work,
    start_tai_ns: i64,
    until: Until,
    counters: &Arc<Counters>,
    realtime: &Realtime,
    process: &Arc<Process>,
) -> Worker {
    let (counters, realtime, process) = (Arc::clone(counters), realtime.clone(), Arc::clone(process));
    std::thread::spawn(move || {
        prepare_thread(&realtime, &process)?;
        if sleep_until(start_tai_ns, &until.stop).is_none() {
            return Ok(());
        }
        match what {
            Work::Exits => work(&until, &counters, sys::hypervisor::leave),
            // getppid(2) is the shortest call that every kernel really makes: no library remembers its answer.
            Work::Calls => work(&until, &counters, || {
                std::hint::black_box(std::os::unix::process::parent_id());
            }),
        }
        Ok(())
    })
}

/// Does `once` until it is over. What is done once is the type's: nothing is decided in the loop.
fn work(until: &Until, counters: &Counters, once: impl Fn()) {
    let mut now = tai_ns();
    counters.first_tai_ns.fetch_min(now, Ordering::Relaxed);
    while !until.is_over(now) {
        (0..BATCH).for_each(|_| once());
        counters.count.fetch_add(BATCH, Ordering::Relaxed);
        now = tai_ns();
    }
    counters.last_tai_ns.fetch_max(now, Ordering::Relaxed);
}

fn watch(session: &Session, workers: &[Worker], counters: &Counters) {
    let mut progress: Option<Progress> = None;
    while !session.stopped() && workers.iter().any(|worker| !worker.is_finished()) {
        std::thread::sleep(Duration::from_millis(10));
        match (&mut progress, counters.count.load(Ordering::Relaxed)) {
            (Some(progress), count) => progress.tell(count),
            (None, 0) => {}
            // Whoever measures under this load waits until there is one: on a busy CPU that takes a while.
            (begun, count) => begun.insert(Progress::new()).tell_now(count),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    fn until(end_tai_ns: i64, stop: bool) -> Until {
        Until { end_tai_ns, stop: Arc::new(AtomicBool::new(stop)) }
    }

    #[test]
    fn all_that_was_done_is_counted_and_the_time_it_took() {
        let (counters, done) = (Counters::default(), Cell::new(0));
        work(&until(tai_ns() + 2_000_000, false), &counters, || done.set(done.get() + 1));
        let totals = counters.totals(Work::Calls);
        assert_eq!((totals.what, totals.count), ("calls", done.get()));
        assert!(totals.count >= BATCH);
        assert!(totals.elapsed_ns >= 1_000_000, "{}", totals.elapsed_ns);
        assert!((totals.per_s - done.get() as f64 * 1e9 / totals.elapsed_ns as f64).abs() < 1.0);
    }

    #[test]
    fn nothing_is_done_once_it_is_over() {
        let never = || panic!("it was done");
        for over in [until(i64::MAX, true), until(0, false)] {
            let counters = Counters::default();
            work(&over, &counters, never);
            assert_eq!((counters.totals(Work::Calls).count, counters.totals(Work::Calls).per_s), (0, 0.0));
        }
    }

    #[test]
    fn totals_before_any_worker_began_are_none() {
        let totals = Counters::default().totals(Work::Exits);
        assert_eq!((totals.count, totals.elapsed_ns, totals.per_s), (0, 0, 0.0));
    }
}
