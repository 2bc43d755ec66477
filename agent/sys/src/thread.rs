//! Scheduling, affinity and memory of the calling thread, set and read back.

use crate::{Error, check};

/// A scheduling policy and its priority, as the kernel reports them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheduling {
    /// SCHED_OTHER, SCHED_FIFO, …
    pub policy: i32,
    /// 1 to 99 for SCHED_FIFO and SCHED_RR, else 0.
    pub priority: i32,
}

impl Scheduling {
    /// The policy's name in sched(7).
    pub fn name(&self) -> &'static str {
        match self.policy & !libc::SCHED_RESET_ON_FORK {
            libc::SCHED_OTHER => "SCHED_OTHER",
            libc::SCHED_FIFO => "SCHED_FIFO",
            libc::SCHED_RR => "SCHED_RR",
            libc::SCHED_BATCH => "SCHED_BATCH",
            libc::SCHED_IDLE => "SCHED_IDLE",
            libc::SCHED_DEADLINE => "SCHED_DEADLINE",
            _ => "unknown",
        }
    }
}

/// Gives the calling thread a table of descriptors of its own, with all that are open in the process now. One that another thread
/// opens or closes from then on is none of its, nor theirs what it does. The kernel need not count who uses a descriptor during a
/// call where a single thread has the table (`__fget_light`, fs/file.c).
///
/// # Errors
/// There is no memory for it, or a filter of system calls refuses it.
pub fn own_descriptors() -> Result<(), Error> {
    // SAFETY: no pointer is passed.
    check(unsafe { libc::unshare(libc::CLONE_FILES) }, "unshare CLONE_FILES").map(drop)
}

/// The calling thread's number.
pub fn id() -> u32 {
    // SAFETY: no argument; it cannot fail.
    unsafe { libc::gettid() as u32 }
}

/// Makes the calling thread SCHED_FIFO.
///
/// # Errors
/// EPERM without CAP_SYS_NICE, or in a cpu cgroup without real-time runtime.
pub fn set_fifo(priority: u8) -> Result<(), Error> {
    let parameters = libc::sched_param { sched_priority: i32::from(priority) };
    // SAFETY: 0 is the calling thread, and `parameters` is valid for reading.
    let result = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) };
    check(result, "sched_setscheduler SCHED_FIFO").map(drop)
}

/// How the calling thread is scheduled.
///
/// # Errors
/// The calls failed.
pub fn scheduling() -> Result<Scheduling, Error> {
    // SAFETY: 0 is the calling thread.
    let policy = check(unsafe { libc::sched_getscheduler(0) }, "sched_getscheduler")?;
    let mut parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: as above, and `parameters` is valid for writing.
    check(unsafe { libc::sched_getparam(0, &raw mut parameters) }, "sched_getparam")?;
    Ok(Scheduling { policy, priority: parameters.sched_priority })
}

/// Restricts the calling thread to `cpus`.
///
/// # Errors
/// EINVAL if none of them exists or is allowed here.
pub fn set_affinity(cpus: &[usize]) -> Result<(), Error> {
    // SAFETY: all-zero is an empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    for &cpu in cpus.iter().filter(|&&cpu| cpu < libc::CPU_SETSIZE as usize) {
        // SAFETY: `cpu` is within the set.
        unsafe { libc::CPU_SET(cpu, &mut set) };
    }
    // SAFETY: 0 is the calling thread, and `set` is valid for reading with the given size.
    let result = unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) };
    check(result, "sched_setaffinity").map(drop)
}

/// The CPUs the calling thread may run on.
///
/// # Errors
/// The call failed.
pub fn affinity() -> Result<Vec<usize>, Error> {
    // SAFETY: all-zero is an empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: 0 is the calling thread, and `set` is valid for writing with the given size.
    let result = unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) };
    check(result, "sched_getaffinity")?;
    // SAFETY: `cpu` is within the set.
    Ok((0..libc::CPU_SETSIZE as usize).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) }).collect())
}

/// How far the kernel may put off the calling thread's timers, ns. Real-time threads have none whatever this says.
///
/// # Errors
/// The call failed.
pub fn set_timer_slack(ns: u64) -> Result<(), Error> {
    // SAFETY: no pointer is passed.
    check(unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, ns as libc::c_ulong, 0, 0, 0) }, "prctl PR_SET_TIMERSLACK")
        .map(drop)
}

/// The calling thread's timer slack, ns.
///
/// # Errors
/// The call failed.
pub fn timer_slack() -> Result<u64, Error> {
    // SAFETY: no pointer is passed.
    let slack = check(unsafe { libc::prctl(libc::PR_GET_TIMERSLACK, 0, 0, 0, 0) }, "prctl PR_GET_TIMERSLACK")?;
    Ok(slack as u64)
}

/// Locks all present and future memory of the process; what is mapped is faulted in.
///
/// # Errors
/// EPERM or ENOMEM without CAP_IPC_LOCK.
pub fn lock_memory() -> Result<(), Error> {
    // SAFETY: no pointer is passed.
    check(unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE) }, "mlockall").map(drop)
}

/// Touches `BYTES` of the calling thread's stack, so that no page of it faults later.
#[inline(never)]
pub fn prefault_stack() {
    const BYTES: usize = 128 * 1024;
    const PAGE: usize = 4096;
    let mut stack = [0_u8; BYTES];
    for page in (0..BYTES).step_by(PAGE) {
        // SAFETY: `page` is within the array; volatile so that the write is not removed.
        unsafe { std::ptr::write_volatile(&raw mut stack[page], 1) };
    }
}
