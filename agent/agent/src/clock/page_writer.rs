//! Showing this host's clock to its guests on a page of shared memory: the role `page-writer`.

use super::{ready, sleep_until};
use crate::session::{Session, emit, failed};
use std::fs::File;
use sys::clock::tai_ns;
use sys::order::settle;
use sys::shared::SharedWords;
use wire::event::{Done, Event, Failure, RealtimeFound};
use wire::page;

/// Shows CLOCK_TAI in a burst of `burst_ns` every `every_ns` until stopped. `done` says how many bursts there were, and how
/// many of those due were left out because the thread came too late.
///
/// # Errors
/// The page cannot be had.
pub fn write(
    run_id: u64,
    path: &str,
    burst_ns: i64,
    every_ns: i64,
    found: RealtimeFound,
    session: &Session,
) -> Result<(), Failure> {
    let (_held, words) = open(path)?;
    let began = tai_ns();
    // Whoever still looks at an earlier writer's page finds none from here on.
    words.store(page::IDENTITY_AT, 0);
    settle();
    for (at, value) in [
        (page::HEAD_AT, 0),
        (page::RUN_ID_AT, run_id),
        (page::BEGAN_AT, began as u64),
        (page::NEXT_BURST_AT, began as u64),
        (page::EVERY_AT, every_ns as u64),
        (page::BURST_AT, burst_ns as u64),
        (page::IDENTITY_AT, page::IDENTITY),
    ] {
        words.store(at, value);
    }
    ready(found, None)?;
    // A burst says nothing to a guest whose CPU it runs on: the two must run at the same time. Where that CPU is, only the
    // lab's tuning could tell; so each half of a burst takes the next of the CPUs this thread may use: at least one of two
    // halves is elsewhere.
    let cpus = sys::thread::affinity().unwrap_or_default();
    let (mut bursts, mut missed, mut head, mut due) = (0, 0, 0, began);
    loop {
        sleep_until(due, session);
        if session.stopped() {
            break;
        }
        let late = (tai_ns() - due).max(0) / every_ns;
        missed += late as u64;
        due += (late + 1) * every_ns;
        words.store(page::NEXT_BURST_AT, due as u64);
        for half in [2 * bursts, 2 * bursts + 1] {
            if cpus.len() > 1 {
                // Refused, it runs where it is.
                let _ = sys::thread::set_affinity(&[cpus[half as usize % cpus.len()]]);
            }
            head = burst(&words, head, burst_ns / 2);
        }
        bursts += 1;
    }
    // A page that says nothing more is no page: the next run's reader must not wait for it.
    words.store(page::IDENTITY_AT, 0);
    emit(&Event::Done(Done::Clock { exchanges: bursts, lost: missed, bound: None, windows: Vec::new() }));
    Ok(())
}

/// The last entry's number, after entries from `head` + 1 on for `burst_ns`. Nothing here may be reordered: the proof in
/// [`page`] needs the entry before the head, and the head visible before the clock is read again.
fn burst(words: &SharedWords, mut head: u64, burst_ns: i64) -> u64 {
    let end = tai_ns() + burst_ns;
    loop {
        let now = tai_ns();
        head += 1;
        words.store(page::entry_at(head), now as u64);
        words.store(page::HEAD_AT, head);
        settle();
        if now >= end {
            return head;
        }
    }
}

/// The page's file, locked against a second writer as long as it is open, and its words.
fn open(path: &str) -> Result<(File, SharedWords), Failure> {
    let failure = |what: String, errno: Option<i32>, remedy: &str| Failure {
        what,
        place: path.into(),
        remedy: remedy.into(),
        errno,
    };
    let trouble = |error: std::io::Error| {
        failure(format!("the page: {error}"), error.raw_os_error(), "name a file that can be made and written")
    };
    let file = File::options().read(true).write(true).create(true).truncate(false).open(path).map_err(trouble)?;
    sys::shared::lock(&file)
        .map_err(|error| failed(error, path, "end the other agent that shows its clock on this page"))?;
    let length = file.metadata().map_err(trouble)?.len();
    if length == 0 {
        file.set_len(page::FILE_BYTES).map_err(trouble)?;
    } else if length < page::WORDS as u64 * 8 {
        let what = format!("the page has {length} bytes, expected {}", page::FILE_BYTES);
        return Err(failure(what, None, "make the file and the device that shows it as large as that"));
    }
    let words = SharedWords::map(&file, page::WORDS, true)
        .map_err(|error| failed(error, path, "name a file on a file system that can be mapped, such as tmpfs"))?;
    Ok((file, words))
}
