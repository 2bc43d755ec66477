//! From the hot threads to disk: a ring for each table, and one thread that empties them into Arrow streams.
//!
//! A hot thread only ever copies a row into preallocated memory. A full ring loses the row and counts it. A batch is
//! written each second or [`BATCH_ROWS`] rows, so a killed agent leaves a stream that reads up to its last batch.

use crate::checked_stream::CheckedStream;
use crate::cores;
use crate::session::died;
use crate::tables::{Row, array, field};
use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, Schema};
use rtrb::{Consumer, Producer, RingBuffer};
use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use wire::event::Failure;
use wire::live::Books;
use wire::table::Column;

const BATCH_ROWS: usize = 4096;
/// Whoever read a pipe has gone.
const EPIPE: i32 = 32;
const BATCH_AGE: Duration = Duration::from_secs(1);
/// How long the writer leaves the rings alone: long enough to disturb little, short against what a ring holds.
const PAUSE: Duration = Duration::from_millis(5);
/// So long a loop that sets its own pace stands still at a time while what was recorded is being written.
pub const WRITERS_TURN: Duration = Duration::from_millis(10);
/// How long who may wait for room leaves it to the writer at a time.
const ROOM_SOON: Duration = Duration::from_millis(1);

/// The hot end of a table's ring.
pub struct Tap<R> {
    ring: Producer<R>,
    full: Arc<AtomicU64>,
}

impl<R> Tap<R> {
    /// Hands a row to the writer, or counts it lost if the ring is full. Never waits, never allocates.
    #[inline]
    pub fn push(&mut self, row: R) {
        cores::note();
        if self.ring.push(row).is_err() {
            self.full.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether the ring has no more than a quarter of its room left: who may wait for the writer does so.
    #[inline]
    pub fn crowded(&self) -> bool {
        self.ring.slots() <= self.ring.buffer().capacity() / 4
    }

    /// How many rows it takes now without losing one.
    pub fn room(&self) -> usize {
        self.ring.slots()
    }

    /// As [`Self::push`], for a thread that may wait: it does while there is no room and `patient` says so.
    pub fn push_when_room(&mut self, row: R, patient: impl Fn() -> bool) {
        while self.room() == 0 && patient() {
            std::thread::sleep(ROOM_SOON);
        }
        self.push(row);
    }
}

/// What brings rows to tables from elsewhere, by the thread that writes them.
pub trait Feed: Send {
    /// Brings what there is and the tables have room for; whether there is more. `last`: nothing comes after this.
    fn bring(&mut self, last: bool) -> bool;
    /// Says what came of it: all is written.
    fn end(&mut self);
}

/// Tables being set up.
pub struct Recorder {
    prefix: String,
    run_id: u64,
    feeds: Vec<Box<dyn Feed>>,
    drains: Vec<Box<dyn Drain>>,
    full: Arc<AtomicU64>,
    books: Option<Arc<Mutex<Books>>>,
    pause: Duration,
}

/// What came of a recording.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    /// Rows written.
    pub recorded: u64,
    /// Rows lost because a ring was full.
    pub ring_full: u64,
}

impl Recorder {
    /// For tables `PREFIX.TABLE.arrow` of this run.
    pub fn new(prefix: &str, run_id: u64) -> Self {
        Self {
            prefix: prefix.into(),
            run_id,
            feeds: Vec::new(),
            drains: Vec::new(),
            full: Arc::default(),
            books: None,
            pause: PAUSE,
        }
    }

    /// Has the writer keep books of the rows of tables that are added from now on; None: it keeps none.
    pub fn keep(&mut self, books: Option<Arc<Mutex<Books>>>) {
        self.books = books;
    }

    /// Has the writer come round so often, where what is recorded comes seldom.
    pub fn come_round(&mut self, pause: Duration) {
        self.pause = pause;
    }

    /// Adds a table whose ring holds `capacity` rows; its file is made now.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn table<R: Row>(&mut self, capacity: usize) -> Result<Tap<R>, Failure> {
        let (producer, consumer) = RingBuffer::new(capacity);
        let books = self.books.clone().filter(|_| R::IN_BOOKS);
        self.drains.push(Box::new(Table::<R> { books, ..Table::create(&self.prefix, self.run_id, consumer)? }));
        Ok(Tap { ring: producer, full: Arc::clone(&self.full) })
    }

    /// A ring of rows that another thread completes before it hands them to the table's: its hot end, and the one to take
    /// them from. A row that it has no room for is lost to the table, and counted as such.
    pub fn ring<R>(&self, capacity: usize) -> (Tap<R>, Consumer<R>) {
        let (producer, consumer) = RingBuffer::new(capacity);
        (Tap { ring: producer, full: Arc::clone(&self.full) }, consumer)
    }

    /// Adds what brings rows to taps of these tables.
    pub fn feed(&mut self, feed: Box<dyn Feed>) {
        self.feeds.push(feed);
    }

    /// The count of rows that are lost because a ring is full.
    pub fn full(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.full)
    }

    /// Starts the writer.
    pub fn start(self) -> Recording {
        let finish = Arc::new(AtomicBool::new(false));
        let trouble = Arc::new(Mutex::new(None));
        let broken = Arc::new(AtomicBool::new(false));
        let writer = Writer {
            feeds: self.feeds,
            drains: self.drains,
            pause: self.pause,
            finish: Arc::clone(&finish),
            trouble: Arc::clone(&trouble),
            broken: Arc::clone(&broken),
        };
        let thread = std::thread::spawn(move || writer.run());
        Recording { thread, finish, trouble, broken, full: self.full }
    }
}

/// Tables being written.
pub struct Recording {
    thread: JoinHandle<u64>,
    finish: Arc<AtomicBool>,
    trouble: Arc<Mutex<Option<Failure>>>,
    broken: Arc<AtomicBool>,
    full: Arc<AtomicU64>,
}

impl Recording {
    /// Whether a table could not be written, or nobody writes any more: the run should end, [`Self::finish`] says why.
    pub fn broken(&self) -> bool {
        self.broken.load(Ordering::Relaxed) || self.thread.is_finished()
    }

    /// Writes what the rings still hold and closes the streams. The taps must not be used any more.
    ///
    /// # Errors
    /// A table could not be written, now or earlier.
    pub fn finish(self) -> Result<Totals, Failure> {
        self.finish.store(true, Ordering::Release);
        let recorded = self.thread.join().map_err(|_| died("recording", "the thread that writes the tables"));
        match self.trouble.lock().ok().and_then(|mut trouble| trouble.take()) {
            Some(failure) => Err(failure),
            None => Ok(Totals { recorded: recorded?, ring_full: self.full.load(Ordering::Relaxed) }),
        }
    }
}

struct Writer {
    feeds: Vec<Box<dyn Feed>>,
    drains: Vec<Box<dyn Drain>>,
    pause: Duration,
    finish: Arc<AtomicBool>,
    trouble: Arc<Mutex<Option<Failure>>>,
    broken: Arc<AtomicBool>,
}

impl Writer {
    fn run(mut self) -> u64 {
        loop {
            // Asked before draining: what was pushed before the request is then drained below.
            let last = self.finish.load(Ordering::Acquire);
            // What is fed fills rings that are emptied right after, so that a ring bounds no more than one round of it.
            while self.feeds.iter_mut().filter_map(|feed| feed.bring(last).then_some(())).count() > 0 {
                self.drain(false);
            }
            self.drain(last);
            if last {
                self.feeds.iter_mut().for_each(|feed| feed.end());
                return self.drains.iter().map(|drain| drain.written()).sum();
            }
            std::thread::sleep(self.pause);
        }
    }

    fn drain(&mut self, last: bool) {
        for drain in &mut self.drains {
            let result = drain.drain().and_then(|()| if last { drain.close() } else { Ok(()) });
            if let Err(failure) = result {
                // The first failure is the cause; the other tables go on.
                if let Ok(mut trouble) = self.trouble.lock() {
                    trouble.get_or_insert(failure);
                }
                self.broken.store(true, Ordering::Relaxed);
            }
        }
    }
}

trait Drain: Send {
    /// Takes what is in the ring; writes a batch if one is full or old enough.
    fn drain(&mut self) -> Result<(), Failure>;
    /// Writes the rest and the end of the stream.
    fn close(&mut self) -> Result<(), Failure>;
    /// Rows written.
    fn written(&self) -> u64;
}

struct Table<R: Row> {
    path: String,
    ring: Consumer<R>,
    rows: Vec<R>,
    columns: Vec<Column<R>>,
    schema: Arc<Schema>,
    /// None once it failed: later rows have nowhere to go, and the failure says how many are on disk.
    stream: Option<CheckedStream<File>>,
    batch_started: Instant,
    written: u64,
    books: Option<Arc<Mutex<Books>>>,
}

impl<R: Row> Table<R> {
    fn create(prefix: &str, run_id: u64, ring: Consumer<R>) -> Result<Self, Failure> {
        let path = format!("{prefix}.{}.arrow", R::TABLE);
        let file = create(&path).map_err(|error| trouble(&path, &error.into(), 0))?;
        Self::begin(path, file, run_id, ring)
    }

    fn begin(path: String, file: File, run_id: u64, ring: Consumer<R>) -> Result<Self, Failure> {
        let columns = R::columns();
        let schema = Arc::new(Schema::new_with_metadata(
            columns.iter().map(field).collect::<Vec<_>>(),
            HashMap::from([
                ("latlab.format".into(), "2".into()),
                ("latlab.table".into(), R::TABLE.into()),
                ("latlab.run_id".into(), format!("{run_id:016x}")),
                ("latlab.agent".into(), env!("CARGO_PKG_VERSION").into()),
            ]),
        ));
        let stream = CheckedStream::begin(file, &schema).map_err(|error| trouble(&path, &error, 0))?;
        let rows = Vec::with_capacity(BATCH_ROWS);
        let batch_started = Instant::now();
        Ok(Self { path, ring, rows, columns, schema, stream: Some(stream), batch_started, written: 0, books: None })
    }

    /// Takes rows from the ring until a batch is full or the ring empty, and returns how many there are to be written.
    fn take_rows(&mut self) -> usize {
        let before = self.rows.len();
        self.rows.extend(std::iter::from_fn(|| self.ring.pop().ok()).take(BATCH_ROWS - before));
        // Not while a batch is being written: a slow disk keeps nobody from the books.
        if let Some(mut books) = self.books.as_ref().and_then(|books| books.lock().ok()) {
            self.rows[before..].iter().for_each(|row| row.note(&mut books));
        }
        self.rows.len()
    }

    fn write_batch(&mut self) -> Result<(), Failure> {
        self.batch_started = Instant::now();
        let Some(stream) = self.stream.as_mut().filter(|_| !self.rows.is_empty()) else {
            self.rows.clear();
            return Ok(());
        };
        let columns = self.columns.iter().map(|column| array(column, &self.rows)).collect();
        let result = RecordBatch::try_new(Arc::clone(&self.schema), columns).and_then(|batch| stream.write(&batch));
        let rows = self.rows.len() as u64;
        self.rows.clear();
        match result {
            Ok(()) => {
                self.written += rows;
                Ok(())
            }
            Err(error) => {
                self.stream = None;
                Err(trouble(&self.path, &error, self.written))
            }
        }
    }
}

impl<R: Row> Drain for Table<R> {
    fn drain(&mut self) -> Result<(), Failure> {
        while self.take_rows() == BATCH_ROWS {
            self.write_batch()?;
        }
        if self.batch_started.elapsed() >= BATCH_AGE { self.write_batch() } else { Ok(()) }
    }

    fn close(&mut self) -> Result<(), Failure> {
        self.write_batch()?;
        let Some(mut stream) = self.stream.take() else { return Ok(()) };
        stream.finish().map_err(|error| trouble(&self.path, &error, self.written))
    }

    fn written(&self) -> u64 {
        self.written
    }
}

/// A new file, in the place of one of that name: nothing that lies in the folder, a link least of all, is written through. But a
/// pipe of this user's own is what the lab made for it, and reads: nothing is stored then.
fn create(path: &str) -> std::io::Result<File> {
    let there = std::fs::symlink_metadata(path).ok();
    if let Some(pipe) = there.filter(|there| there.file_type().is_fifo()) {
        let (own, opened) = (std::fs::metadata("/proc/self")?, File::options().write(true).open(path)?);
        let is_it = |one: &Metadata| (one.dev(), one.ino(), one.uid()) == (pipe.dev(), pipe.ino(), own.uid());
        if opened.metadata().is_ok_and(|one| is_it(&one)) {
            return Ok(opened);
        }
    }
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    File::options().write(true).create_new(true).open(path)
}

fn trouble(path: &str, error: &ArrowError, rows: u64) -> Failure {
    let (what, errno) = match error {
        ArrowError::IoError(what, io) => (what.clone(), io.raw_os_error()),
        other => (other.to_string(), None),
    };
    let (kept, remedy) = match errno {
        Some(EPIPE) => ("were sent", "see why the connection to the lab was cut; stored recordings outlast it"),
        _ => ("are safe", "free space, or choose another folder for the runs"),
    };
    Failure {
        what: format!("cannot write: {what}; {rows} rows before it {kept}"),
        place: path.into(),
        remedy: remedy.into(),
        errno,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_ipc::reader::StreamReader;
    use wire::record::{Clocks, Woken};

    fn row(n: i64) -> Clocks {
        Clocks { tai_ns: n, real_ns: n + 1, monotonic_ns: n + 2, monotonic_raw_ns: n + 3, bracket_ns: 4 }
    }

    fn prefix(name: &str) -> String {
        let folder = std::env::temp_dir().join(format!("latlab-recording-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        folder.join("x").to_string_lossy().into_owned()
    }

    fn read(prefix: &str) -> Vec<i64> {
        let reader = StreamReader::try_new(File::open(format!("{prefix}.clocks.arrow")).unwrap(), None).unwrap();
        assert_eq!(reader.schema().metadata()["latlab.run_id"], "00000000000000ab");
        reader
            .flat_map(|batch| {
                let batch = batch.unwrap();
                let column = batch.column_by_name("tai_ns").unwrap().as_any().downcast_ref::<arrow_array::Int64Array>();
                column.unwrap().values().to_vec()
            })
            .collect()
    }

    fn pipe(name: &str) -> (String, String) {
        let prefix = prefix(name);
        let path = format!("{prefix}.clocks.arrow");
        let _ = std::fs::remove_file(&path);
        assert!(std::process::Command::new("mkfifo").args(["-m", "600", &path]).status().unwrap().success());
        (prefix, path)
    }

    #[test]
    fn what_is_written_to_a_pipe_is_a_recording_at_its_other_end_and_no_file() {
        let (prefix, path) = pipe("pipe");
        let at = path.clone();
        let reader = std::thread::spawn(move || std::fs::read(at).unwrap());
        let mut recorder = Recorder::new(&prefix, 0xab);
        let mut tap = recorder.table::<Clocks>(20_000).unwrap();
        let recording = recorder.start();
        (0..10_000).for_each(|n| tap.push(row(n)));
        assert_eq!(recording.finish().unwrap().recorded, 10_000);
        let bytes = reader.join().unwrap();
        assert!(std::fs::symlink_metadata(&path).unwrap().file_type().is_fifo());
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, bytes).unwrap();
        assert_eq!(read(&prefix), (0..10_000).collect::<Vec<_>>());
    }

    #[test]
    fn a_pipe_whose_reader_has_gone_ends_the_recording() {
        let (prefix, path) = pipe("cut");
        let reader = std::thread::spawn(move || drop(File::open(path).unwrap()));
        let mut recorder = Recorder::new(&prefix, 0xab);
        let mut tap = match recorder.table::<Clocks>(20_000) {
            Ok(tap) => tap,
            // Already the beginning found nobody.
            Err(failure) => return assert_eq!(failure.errno, Some(EPIPE)),
        };
        reader.join().unwrap();
        tap.push(row(1));
        let failure = recorder.start().finish().unwrap_err();
        assert_eq!(failure.errno, Some(EPIPE));
        assert!(failure.remedy.contains("connection to the lab"), "{}", failure.remedy);
    }

    #[test]
    fn every_row_pushed_is_read_back_in_order() {
        let prefix = prefix("order");
        let mut recorder = Recorder::new(&prefix, 0xab);
        let mut tap = recorder.table::<Clocks>(20_000).unwrap();
        let recording = recorder.start();
        (0..10_000).for_each(|n| tap.push(row(n)));
        let totals = recording.finish().unwrap();
        assert_eq!((totals.recorded, totals.ring_full), (10_000, 0));
        assert_eq!(read(&prefix), (0..10_000).collect::<Vec<_>>());
    }

    #[test]
    fn books_are_kept_of_every_row_that_is_written_and_of_no_other_table() {
        let prefix = prefix("books");
        let mut recorder = Recorder::new(&prefix, 0xab);
        let books = Arc::new(Mutex::new(Books::of_streams([3])));
        recorder.keep(Some(Arc::clone(&books)));
        let (mut tap, mut clocks) = (recorder.table::<Woken>(20_000).unwrap(), recorder.table::<Clocks>(8).unwrap());
        clocks.push(row(1));
        let recording = recorder.start();
        (0..10_000).for_each(|n| {
            let due_tai_ns = 1_000 * n as i64;
            let woke_tai_ns = due_tai_ns + n as i64;
            tap.push(Woken { stream: 3, sequence: n, due_tai_ns, irq_tai_ns: None, woke_tai_ns, overdue: false });
        });
        assert_eq!(recording.finish().unwrap().recorded, 10_001);
        let seen = books.lock().unwrap().take(3).unwrap();
        let latest = seen.since_last.unwrap();
        assert_eq!((seen.missing, latest.n, latest.p50_ns, latest.max_ns), (0, 10_000, 4_999, 9_999));
    }

    #[test]
    fn a_writer_that_panics_is_an_error_and_who_waits_for_room_waits_no_longer() {
        struct Fails;
        impl Feed for Fails {
            fn bring(&mut self, _: bool) -> bool {
                panic!("as asked")
            }
            fn end(&mut self) {}
        }
        let mut recorder = Recorder::new(&prefix("panics"), 0xab);
        let mut tap = recorder.table::<Clocks>(8).unwrap();
        recorder.feed(Box::new(Fails));
        let recording = recorder.start();
        (0..100).for_each(|n| tap.push_when_room(row(n), || !recording.broken()));
        assert!(recording.finish().unwrap_err().what.contains("ended unexpectedly"));
    }

    #[test]
    fn a_full_ring_is_counted() {
        let prefix = prefix("full");
        let mut recorder = Recorder::new(&prefix, 0xab);
        let mut tap = recorder.table::<Clocks>(8).unwrap();
        // The writer is not running yet, so the ring cannot be emptied meanwhile.
        (0..20).for_each(|n| tap.push(row(n)));
        let totals = recorder.start().finish().unwrap();
        assert_eq!((totals.recorded, totals.ring_full), (8, 12));
        assert_eq!(read(&prefix), (0..8).collect::<Vec<_>>());
    }

    #[test]
    fn who_may_wait_for_room_loses_nothing_and_who_is_not_patient_any_more_counts() {
        let prefix = prefix("wait");
        let mut recorder = Recorder::new(&prefix, 0xab);
        let mut tap = recorder.table::<Clocks>(8).unwrap();
        (0..8).for_each(|n| tap.push_when_room(row(n), || true));
        tap.push_when_room(row(8), || false);
        let recording = recorder.start();
        (9..100).for_each(|n| tap.push_when_room(row(n), || true));
        let totals = recording.finish().unwrap();
        assert_eq!((totals.recorded, totals.ring_full), (99, 1));
        assert_eq!(read(&prefix), (0..100).filter(|n| *n != 8).collect::<Vec<_>>());
    }

    #[test]
    fn a_full_disk_is_an_error_that_says_what_is_safe() {
        // /dev/full takes an open and refuses every write, as a full disk does.
        let full = File::options().write(true).open("/dev/full").unwrap();
        let failure = Table::<Clocks>::begin("x.clocks.arrow".into(), full, 0xab, RingBuffer::new(8).1).err().unwrap();
        assert_eq!((failure.errno, failure.place.as_str()), (Some(28), "x.clocks.arrow"));
        assert!(failure.what.contains("No space left on device"), "{}", failure.what);
    }

    #[test]
    fn nothing_is_written_through_a_link_that_lies_in_the_place_of_a_recording() {
        let prefix = prefix("link");
        let (path, others) = (format!("{prefix}.clocks.arrow"), format!("{prefix}.others"));
        std::fs::write(&others, "theirs").unwrap();
        let _ = std::fs::remove_file(&path);
        std::os::unix::fs::symlink(&others, &path).unwrap();
        let mut recorder = Recorder::new(&prefix, 0xab);
        drop(recorder.table::<Clocks>(8).unwrap());
        recorder.start().finish().unwrap();
        assert_eq!(std::fs::read_to_string(&others).unwrap(), "theirs");
        assert!(std::fs::symlink_metadata(&path).unwrap().is_file());
    }
}
