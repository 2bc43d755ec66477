//! When the kernel's timer interrupt ran: its tracepoints, heard through an instance of our own in tracefs.
//!
//! perf's rings would be read without a system call and be gone with a killed agent, but on a Linux 6.18 they lacked records and did
//! not say so: every interrupt that came while one of four tasks ran, an idle one among them, 73 of 1,839, without a
//! PERF_RECORD_LOST, where ftrace's buffer had them all (docs/explanation/decisions.md). What was lost was just the interrupts
//! that came at certain moments. The likely cause, not proven: perf counts the tracepoints it is in by task
//! (`get_recursion_context`), and a task whose count was left standing would be deaf from then on.
//!
//! Neither a trace clock nor a conversion comes in. `hrtimer_expire_entry` carries what the timer's own clock had read when the
//! interrupt's handler began (`hrtimer_interrupt`, kernel/time/hrtimer.c): CLOCK_TAI of a nanosleep's timer, CLOCK_REALTIME,
//! whole seconds from it, of a timerfd's. The kernel runs a timer only if this is not before the instant.

use crate::launch_clock::LaunchClock;
use crate::tracing::{ABSENT, Heard, Instance};
use sys::clock::Clock;
use wire::event::Failure;
use wire::expiries::Expiries;
use wire::spec::{How, LaunchClock as Chosen};
use wire::tracepoint::{Field, Record};

const START: &str = "hrtimer_start";
const EXPIRE: &str = "hrtimer_expire_entry";
/// What each CPU's timers may tell until we come round: some thousand records.
const BUFFER_KIB: usize = 512;

/// A tracepoint's number, and where its records have what is needed.
struct Told {
    id: u64,
    /// Whether it reports timers that are armed; of such that are run, if not.
    armed: bool,
    kind: Field,
    timer: Field,
    /// `hrtimer_start`: for when it is armed; `hrtimer_expire_entry`: when the handler began.
    instant: Field,
    function: Field,
    pid: Field,
}

/// What a tracepoint told of a timer.
#[derive(Clone, Copy)]
struct Timer {
    armed: bool,
    timer: u64,
    instant_tai_ns: i64,
    function: u64,
    pid: u64,
}

/// The tracepoints, being listened to.
pub struct Trace {
    instance: Instance,
    start: Told,
    expire: Told,
    clock: LaunchClock,
    expiries: Expiries,
    told: Vec<Timer>,
}

/// The clock that timers of this kind are armed on.
pub fn clock_of(how: How) -> Clock {
    match how {
        How::Nanosleep => Clock::Tai,
        How::Timerfd => Clock::Realtime,
    }
}

impl Trace {
    /// Listens to all timers, until it has learnt which are the thread's.
    ///
    /// # Errors
    /// The kernel has no such tracepoints, or does not let us hear them.
    pub fn open(how: How) -> Result<Self, Failure> {
        let instance = Instance::open(BUFFER_KIB)?;
        let start = Told::find(&instance, START, "softexpires")?;
        let expire = Told::find(&instance, EXPIRE, "now")?;
        for name in [START, EXPIRE] {
            instance.write(&format!("events/timer/{name}/enable"), "1")?;
        }
        let chosen = match how {
            How::Nanosleep => Chosen::Tai,
            How::Timerfd => Chosen::Realtime,
        };
        let clock = LaunchClock::new(chosen);
        let expiries = Expiries::default();
        Ok(Self { instance, start, expire, clock, expiries, told: Vec::new() })
    }

    /// Learns from one instant that the thread has waited for what its timers are like, and hears of no others from then on.
    ///
    /// # Errors
    /// That timer was not reported, or the kernel does not take a filter.
    pub fn learn(&mut self, due_tai_ns: i64, woke_tai_ns: i64) -> Result<(), Failure> {
        self.listen();
        let armed = self.told.iter().find(|timer| timer.armed && timer.instant_tai_ns == due_tai_ns).copied();
        let irq = self.irq(due_tai_ns, woke_tai_ns);
        let (Some(ours), Some(_)) = (armed, irq) else {
            return Err(Failure {
                what: format!(
                    "timer:{} did not report a timer that was set to try it",
                    if armed.is_none() { START } else { EXPIRE }
                ),
                place: "tracepoints of timers".into(),
                remedy: "use a kernel with high-resolution timers (CONFIG_HIGH_RES_TIMERS); or ask for no trace".into(),
                errno: None,
            });
        };
        // By pid as the kernel has it, which in a container is not ours.
        for (name, filter) in
            [(START, format!("common_pid == {}", ours.pid)), (EXPIRE, format!("function == {:#x}", ours.function))]
        {
            self.instance.write(&format!("events/timer/{name}/filter"), &filter)?;
        }
        Ok(())
    }

    /// Takes in what was told by now.
    pub fn listen(&mut self) {
        self.clock.look();
        self.told.clear();
        // What the buffer had no room for shows as an instant without its interrupt, and is counted there.
        self.instance.take(|_, heard| {
            let Heard::Record(Record { bytes, .. }) = heard else { return };
            let timer = self.start.read(bytes, &self.clock).or_else(|| self.expire.read(bytes, &self.clock));
            self.told.extend(timer);
        });
        for timer in &self.told {
            if timer.armed {
                self.expiries.arm(timer.timer, timer.instant_tai_ns);
            } else {
                self.expiries.run(timer.timer, timer.instant_tai_ns);
            }
        }
    }

    /// When the handler began of the interrupt that woke the thread at `woke_tai_ns` for `due_tai_ns`; None: it was unknown.
    pub fn irq(&self, due_tai_ns: i64, woke_tai_ns: i64) -> Option<i64> {
        self.expiries.irq(due_tai_ns, woke_tai_ns)
    }

    /// Forgets what no instant from `due_tai_ns` on can ask for.
    pub fn forget_before(&mut self, due_tai_ns: i64) {
        self.expiries.forget_before(due_tai_ns);
    }
}

impl Told {
    /// The tracepoint of this name.
    fn find(instance: &Instance, name: &str, instant: &str) -> Result<Self, Failure> {
        let path = format!("events/timer/{name}");
        let format = instance.read(&format!("{path}/format"))?;
        let id = instance.read(&format!("{path}/id"))?;
        let field = |field: &str| {
            Field::find(&format, field).ok_or_else(|| Failure {
                what: format!("this kernel's tracepoint timer:{name} has no field {field}"),
                place: format!("{path}/format in tracefs"),
                remedy: ABSENT.into(),
                errno: None,
            })
        };
        Ok(Self {
            id: id.trim().parse().unwrap_or(u64::MAX),
            armed: name == START,
            kind: field("common_type")?,
            timer: field("hrtimer")?,
            instant: field(instant)?,
            function: field("function")?,
            pid: field("common_pid")?,
        })
    }

    /// What this record tells, if it is this tracepoint's; `clock`: the timers'.
    fn read(&self, record: &[u8], clock: &LaunchClock) -> Option<Timer> {
        let bits = |field: Field| field.bits(record);
        if bits(self.kind) != Some(self.id) {
            return None;
        }
        // `at(0)` is what the timers' clock shows when CLOCK_TAI reads 0.
        let instant_tai_ns = (bits(self.instant)? as i64).saturating_sub(clock.at(0));
        let (timer, function, pid) = (bits(self.timer)?, bits(self.function)?, bits(self.pid)?);
        Some(Timer { armed: self.armed, timer, instant_tai_ns, function, pid })
    }
}
