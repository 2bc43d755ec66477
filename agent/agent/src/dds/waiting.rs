//! Who takes samples in, and when: Cyclone's receiving thread, or a thread of ours that sleeps or asks again and again.

use super::failed;
use super::taker::{Taker, Then};
use crate::realtime::{Process, prepare_thread};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use wire::event::{Failure, RealtimeFound};
use wire::spec::{DdsMode, Realtime};

/// A wait that finds nothing ends after this, to see whether it is asked to stop.
const WAIT_NS: i64 = 100_000_000;

/// A taker that Cyclone's thread and ours can both get at.
pub type Shared<T> = Arc<Mutex<Taker<T>>>;

/// What is behind a lock, whoever has died holding it: the books of a probe are whole between any two samples.
pub fn open<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Samples being taken in.
pub struct Waiting<T> {
    taker: Shared<T>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl<T: Then + 'static> Waiting<T> {
    /// Samples are taken in from now on, as `mode` says; with `spin` only if `alone`: else by whoever calls [`spin`]. Returns
    /// how its thread runs as well, where it has one.
    ///
    /// # Errors
    /// Cyclone refuses, or the thread cannot be as `realtime` asks.
    pub fn start(
        taker: &Shared<T>,
        mode: DdsMode,
        alone: bool,
        realtime: &Realtime,
        process: &Arc<Process>,
    ) -> Result<(Self, Option<RealtimeFound>), Failure> {
        let mut waiting = Self { taker: Arc::clone(taker), stop: Arc::default(), thread: None };
        let (stop, shared) = (Arc::clone(&waiting.stop), Arc::clone(taker));
        // Not with the taker open: a listener may be called at once.
        let reader = *open(taker).reader();
        let work: Box<dyn FnOnce() + Send> = match mode {
            DdsMode::Listener => {
                reader
                    .on_data(Box::new(move || {
                        open(&shared).drain();
                    }))
                    .map_err(failed)?;
                return Ok((waiting, None));
            }
            DdsMode::Spin if !alone => return Ok((waiting, None)),
            DdsMode::Spin => Box::new(move || spin(&shared, || !stop.load(Ordering::Relaxed))),
            DdsMode::Block => {
                let set = reader.waitset().map_err(failed)?;
                Box::new(move || {
                    // A wait that fails does so at once: the reader is gone, and so soon is the run.
                    while !stop.load(Ordering::Relaxed) {
                        let Ok(triggered) = set.wait(WAIT_NS) else { return };
                        let mut taker = open(&shared);
                        if taker.drain() == 0 && triggered {
                            taker.note_empty_wakeup();
                        }
                    }
                })
            }
        };
        let (report, prepared) = channel();
        let (realtime, process) = (realtime.clone(), Arc::clone(process));
        waiting.thread = Some(std::thread::spawn(move || {
            let found = prepare_thread(&realtime, &process);
            let going = found.is_ok();
            if report.send(found).is_ok() && going {
                work();
            }
        }));
        let found = prepared.recv().unwrap_or_else(|_| Err(super::thread_died()))?;
        Ok((waiting, Some(found)))
    }

    /// Ends it; what still waits has been taken in.
    ///
    /// # Errors
    /// Cyclone refuses, or the thread had died.
    pub fn finish(self) -> Result<(), Failure> {
        self.stop.store(true, Ordering::Relaxed);
        match self.thread {
            Some(thread) => thread.join().map_err(|_| super::thread_died())?,
            // Not with the taker open: the call that is under way needs it to end.
            None => {
                let reader = *open(&self.taker).reader();
                reader.be_quiet().map_err(failed)?;
            }
        }
        open(&self.taker).drain();
        Ok(())
    }
}

/// Takes samples in again and again, without ever sleeping, as long as `going` says so.
pub fn spin<T: Then>(taker: &Mutex<Taker<T>>, going: impl Fn() -> bool) {
    while going() {
        open(taker).drain();
        std::hint::spin_loop();
    }
}
