//! What progress says of streams where the lab shows them live (`live` in a spec).
//!
//! It is computed where recordings are written and told by whoever reports progress: threads that measure have no part in it.

use crate::facts::{self, Tree};
use crate::recording::Recorder;
use std::sync::{Arc, Mutex};
use wire::event;
use wire::flight::Judge;
use wire::live::Books;

/// The books of what comes in, which the writer keeps. None is asked for: nothing is kept, and nothing said.
#[derive(Clone, Default)]
pub struct Live {
    is_asked: bool,
    books: Option<Arc<Mutex<Books>>>,
}

impl Live {
    /// Says what the hypervisor takes, if it `is_asked` to; of no stream more than its packets.
    pub fn of_machine(is_asked: bool) -> Self {
        Self { is_asked, books: None }
    }

    /// Says more of streams as well: has `recorder`, which has no table yet, keep the books that `make` makes.
    pub fn of_streams(is_asked: bool, recorder: &mut Recorder, make: impl FnOnce() -> Books) -> Self {
        let books = is_asked.then(make);
        Self::of_books(is_asked, recorder, books)
    }

    /// As [`Self::of_streams`], where packets are judged as well if there is a `judge`.
    pub fn judging(
        is_asked: bool,
        recorder: &mut Recorder,
        make: impl FnOnce() -> Books,
        judge: Option<Judge>,
    ) -> Self {
        let mut books = (is_asked || judge.is_some()).then(make);
        if let Some(books) = &mut books {
            books.judge = judge;
        }
        Self::of_books(is_asked, recorder, books)
    }

    fn of_books(is_asked: bool, recorder: &mut Recorder, books: Option<Books>) -> Self {
        let books = books.map(|books| Arc::new(Mutex::new(books)));
        recorder.keep(books.clone());
        Self { is_asked, books }
    }

    /// What `ask` gets out of who judges; None: nobody does.
    pub fn judge<T>(&self, ask: impl FnOnce(&mut Judge) -> T) -> Option<T> {
        self.books.as_ref()?.lock().ok()?.judge.as_mut().map(ask)
    }

    /// So many packets of a stream, and what more is known of it.
    pub fn stream(&self, stream: u16, packets: u64) -> event::StreamProgress {
        let seen = self.books.as_ref().filter(|_| self.is_asked).and_then(|books| books.lock().ok()?.take(stream));
        event::StreamProgress { seen, ..event::StreamProgress::counted(stream, packets) }
    }

    /// What is known of this machine.
    pub fn machine(&self) -> event::Live {
        event::Live { steal_ns: self.is_asked.then(|| facts::steal_ns(&Tree::machine())).flatten(), bound: None }
    }
}
