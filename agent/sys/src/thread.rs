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

    /// Whether such a thread runs before every ordinary one.
    pub fn is_realtime(&self) -> bool {
        matches!(self.name(), "SCHED_FIFO" | "SCHED_RR" | "SCHED_DEADLINE")
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

/// Ends what the C library has registered each thread for: restartable sequences (rseq(2), glibc from 2.35 on). For a thread with
/// them the kernel writes into its memory on which CPU it runs, each time it comes back to it after a switch
/// (`rseq_handle_notify_resume`, kernel/rseq.c). Where the C library asks for the CPU it does by system call from then on.
///
/// # Errors
/// The thread is not registered, or in another way than glibc's.
pub fn leave_restartable_sequences() -> Result<(), Error> {
    /// The length that glibc registers: that of the first `struct rseq` (include/uapi/linux/rseq.h).
    const LENGTH: usize = 32;
    const UNREGISTER: i32 = 1;
    let (thread, offset) = restartable::pointers();
    // SAFETY: null, or glibc's constant.
    let area = thread.wrapping_add_signed(unsafe { offset.as_ref() }.copied().unwrap_or(0));
    // SAFETY: the kernel compares the address with the registered one, and reads and writes there only if they are the same.
    let result = unsafe { libc::syscall(libc::SYS_rseq, area, LENGTH, UNREGISTER, restartable::SIGNATURE) };
    check(result as i32, "rseq RSEQ_FLAG_UNREGISTER").map(drop)
}

/// Where glibc has a thread's `struct rseq`: the thread's pointer, and where `__rseq_offset` from there is told. That symbol is weak, as
/// other C libraries have none, and null then. What a weak symbol is, Rust cannot say.
#[cfg(target_arch = "x86_64")]
mod restartable {
    use std::arch::asm;

    /// What stands before the handler of a sequence that was interrupted (`RSEQ_SIG`, sysdeps/unix/sysv/linux/x86/bits/rseq.h).
    pub const SIGNATURE: u32 = 0x5305_3053;

    pub fn pointers() -> (usize, *const isize) {
        let (thread, offset): (usize, *const isize);
        // SAFETY: both only load: the thread's pointer, which is there (x86-64 psABI, 3.4.6), and an address out of the GOT.
        unsafe {
            asm!(
                ".weak __rseq_offset",
                "mov {0}, qword ptr fs:[0]",
                "mov {1}, qword ptr [rip + __rseq_offset@GOTPCREL]",
                out(reg) thread,
                out(reg) offset,
                options(nostack, preserves_flags, readonly)
            );
        }
        (thread, offset)
    }
}

/// As on x86-64.
#[cfg(target_arch = "aarch64")]
mod restartable {
    use std::arch::asm;

    /// As on x86-64 (sysdeps/unix/sysv/linux/aarch64/bits/rseq.h).
    pub const SIGNATURE: u32 = 0xd428_bc00;

    pub fn pointers() -> (usize, *const isize) {
        let (thread, offset): (usize, *const isize);
        // SAFETY: both only load: the thread's pointer, and an address out of the GOT.
        unsafe {
            asm!(
                ".weak __rseq_offset",
                "mrs {0}, tpidr_el0",
                "adrp {1}, :got:__rseq_offset",
                "ldr {1}, [{1}, :got_lo12:__rseq_offset]",
                out(reg) thread,
                out(reg) offset,
                options(nostack, preserves_flags, readonly)
            );
        }
        (thread, offset)
    }
}

/// Nothing is known of where it is.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod restartable {
    pub const SIGNATURE: u32 = 0;

    pub fn pointers() -> (usize, *const isize) {
        (0, std::ptr::null())
    }
}

/// What a thread has used so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// CPU time, in user space and in the kernel, ns; the kernel counts in µs.
    pub cpu_ns: i64,
    /// How often it slept, and so was woken: its voluntary context switches.
    pub sleeps: i64,
}

/// What the calling thread has used (getrusage(2), RUSAGE_THREAD).
pub fn usage() -> Usage {
    // SAFETY: all-zero is a valid value.
    let mut found: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `found` is valid for writing; with these arguments it cannot fail.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut found) };
    let ns = |time: libc::timeval| time.tv_sec * 1_000_000_000 + time.tv_usec * 1_000;
    Usage { cpu_ns: ns(found.ru_utime) + ns(found.ru_stime), sleeps: found.ru_nvcsw }
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

/// The CPU that the calling thread runs on at this moment; None: the kernel does not say.
#[inline]
pub fn cpu() -> Option<usize> {
    // SAFETY: no argument.
    usize::try_from(unsafe { libc::sched_getcpu() }).ok()
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_threads_usage_counts_its_cpu_time_and_its_sleeps() {
        std::thread::spawn(|| {
            let before = usage();
            for _ in 0..5 {
                std::thread::sleep(Duration::from_millis(1));
            }
            let slept = usage();
            assert!(slept.sleeps >= before.sleeps + 5);
            while usage().cpu_ns < slept.cpu_ns + 2_000_000 {}
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_thread_leaves_restartable_sequences_once_and_is_still_told_its_cpu() {
        if !registers() {
            return;
        }
        std::thread::spawn(|| {
            leave_restartable_sequences().unwrap();
            assert_eq!(leave_restartable_sequences().unwrap_err().errno, libc::EINVAL);
            // SAFETY: no argument.
            assert!(unsafe { libc::sched_getcpu() } >= 0);
        })
        .join()
        .unwrap();
        std::thread::spawn(leave_restartable_sequences).join().unwrap().unwrap();
    }

    /// Whether this C library is known to register threads, and with this length.
    #[cfg(target_env = "gnu")]
    fn registers() -> bool {
        // SAFETY: a constant string.
        let version = unsafe { std::ffi::CStr::from_ptr(libc::gnu_get_libc_version()) }.to_string_lossy();
        let minor = version.strip_prefix("2.").and_then(|rest| rest.split('.').next()?.parse().ok()).unwrap_or(0);
        (35..=39).contains(&minor) && std::env::var_os("GLIBC_TUNABLES").is_none()
    }

    #[cfg(not(target_env = "gnu"))]
    fn registers() -> bool {
        false
    }
}
