//! The counter that the kernel's clock and its timers are made of: the TSC, the ARM generic timer's.

use crate::{Error, check};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// How often it counts in a second. None: nothing here tells, as in many guests.
///
/// The kernel's own figure comes first: it may have measured what the processor does not say. Where neither says it, it is
/// measured, which takes [`WHILE`].
pub fn hz() -> Option<u64> {
    kernels().or_else(processors).or_else(measured)
}

/// So long a counter is watched: the two clocks are read within 100 ns or so, which is some parts in a million of it.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
const WHILE: std::time::Duration = std::time::Duration::from_millis(20);

/// How fast the counter counts next to CLOCK_MONOTONIC_RAW, which nothing slews; None where it does not count at one rate in
/// all states of the CPU.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn measured() -> Option<u64> {
    if !is_steady() {
        return None;
    }
    let (count, ns) = both();
    std::thread::sleep(WHILE);
    let (count_then, ns_then) = both();
    let (counted, passed_ns) = (u128::from(count_then.checked_sub(count)?), u128::try_from(ns_then - ns).ok()?);
    u64::try_from((counted * 1_000_000_000).checked_div(passed_ns)?).ok()
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn measured() -> Option<u64> {
    None
}

/// Whether the TSC is invariant (Intel SDM vol. 3, 18.17.1: CPUID 0x80000007, EDX bit 8).
#[cfg(target_arch = "x86_64")]
fn is_steady() -> bool {
    const POWER: u32 = 0x8000_0007;
    const INVARIANT: u32 = 1 << 8;
    // Unsafe in the oldest compiler this is built with, safe in newer ones.
    #[allow(unused_unsafe)]
    // SAFETY: every x86-64 CPU has the instruction, and tells which leaves it has.
    unsafe {
        std::arch::x86_64::__cpuid(0x8000_0000).eax >= POWER && std::arch::x86_64::__cpuid(POWER).edx & INVARIANT != 0
    }
}

/// The generic timer counts at one rate always (Arm Architecture Reference Manual for A-profile, D12.1).
#[cfg(target_arch = "aarch64")]
fn is_steady() -> bool {
    true
}

/// The TSC as it is now.
#[cfg(target_arch = "x86_64")]
fn count() -> u64 {
    // SAFETY: reading the counter changes nothing. Nobody forbids the agent to (PR_SET_TSC, prctl(2)).
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// CNTVCT_EL0 as it is now.
#[cfg(target_arch = "aarch64")]
fn count() -> u64 {
    let count: u64;
    // SAFETY: Linux lets programs read this register. `isb` keeps the reading in its place.
    unsafe { std::arch::asm!("isb", "mrs {}, cntvct_el0", out(reg) count, options(nostack, preserves_flags)) };
    count
}

/// The counter, and CLOCK_MONOTONIC_RAW in ns at the same time: of some readings the one that took the shortest.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn both() -> (u64, i64) {
    let raw_ns = || crate::clock::now_ns(crate::clock::Clock::MonotonicRaw);
    let reading = || {
        let before = raw_ns();
        let count = count();
        let after = raw_ns();
        (after - before, count, before + (after - before) / 2)
    };
    let (_, count, ns) = (0..32).map(|_| reading()).min().unwrap_or_else(reading);
    (count, ns)
}

/// `struct perf_event_attr` as far as its first version goes, which every kernel takes (PERF_ATTR_SIZE_VER0).
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_watermark: u32,
    breakpoint_type: u32,
    breakpoint_address: u64,
}

const PERF_TYPE_SOFTWARE: u32 = 1;
const PERF_COUNT_SW_DUMMY: u64 = 9;
const DISABLED: u64 = 1;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HV: u64 = 1 << 6;
const PERF_FLAG_FD_CLOEXEC: libc::c_ulong = 8;

/// Words of `struct perf_event_mmap_page`.
const CAPABILITIES: usize = 5;
const TIME_SHIFT_AND_MULT: usize = 6;
const CAP_USER_TIME: u64 = 1 << 3;

/// As the kernel converts it for programs that read it themselves, on the page of a perf event (perf_event_open(2)). It does
/// not tell in guests whose clock is their hypervisor's.
fn kernels() -> Option<u64> {
    // Any event has the page; this one counts nothing.
    let asked = Attributes {
        kind: PERF_TYPE_SOFTWARE,
        size: size_of::<Attributes>() as u32,
        config: PERF_COUNT_SW_DUMMY,
        flags: DISABLED | EXCLUDE_KERNEL | EXCLUDE_HV,
        ..Attributes::default()
    };
    let (this_thread, any_cpu, no_group): (libc::pid_t, libc::c_int, libc::c_int) = (0, -1, -1);
    // SAFETY: `asked` is valid for reading `asked.size` bytes.
    let fd = unsafe {
        libc::syscall(libc::SYS_perf_event_open, &raw const asked, this_thread, any_cpu, no_group, PERF_FLAG_FD_CLOEXEC)
    };
    let fd = check(fd as libc::c_int, "perf_event_open").ok()?;
    // SAFETY: just made, and owned by nobody else.
    let page = Page::of(&unsafe { OwnedFd::from_raw_fd(fd) }).ok()?;
    if page.word(CAPABILITIES) & CAP_USER_TIME == 0 {
        return None;
    }
    converted(page.word(TIME_SHIFT_AND_MULT).to_ne_bytes())
}

/// `__u16 pmc_width, time_shift; __u32 time_mult;`: ns = count × mult / 2^shift.
fn converted(words: [u8; 8]) -> Option<u64> {
    let [_, _, s0, s1, m0, m1, m2, m3] = words;
    let (shift, mult) = (u16::from_ne_bytes([s0, s1]), u32::from_ne_bytes([m0, m1, m2, m3]));
    let scaled = 1_000_000_000_u128.checked_shl(shift.into()).filter(|_| shift < 64 && mult > 0)?;
    u64::try_from((scaled + u128::from(mult) / 2) / u128::from(mult)).ok()
}

/// The first page of a perf event's memory, unmapped when dropped; it outlives the event's descriptor.
struct Page {
    start: NonNull<AtomicU64>,
    bytes: usize,
}

impl Page {
    fn of(event: &OwnedFd) -> Result<Self, Error> {
        let bytes = crate::shared::page_bytes();
        let (access, flags) = (libc::PROT_READ, libc::MAP_SHARED);
        // SAFETY: the kernel chooses where; nothing that exists is replaced.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, flags, event.as_raw_fd(), 0) };
        if start == libc::MAP_FAILED {
            return Err(Error::last("mmap of a perf event"));
        }
        let start = NonNull::new(start.cast()).ok_or_else(|| Error { call: "mmap".into(), errno: libc::ENOMEM })?;
        Ok(Self { start, bytes })
    }

    fn word(&self, index: usize) -> u64 {
        assert!((index + 1) * size_of::<u64>() <= self.bytes);
        // SAFETY: within the mapping, which lives as long as `self`; mappings are page-aligned.
        unsafe { self.start.add(index).as_ref() }.load(Ordering::Acquire)
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: what `of` mapped, and nothing borrows from it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// CPUID leaf 0x15 (Intel SDM vol. 3, 20.7.3), or the leaf in which hypervisors tell (0x40000010, in kHz).
#[cfg(target_arch = "x86_64")]
fn processors() -> Option<u64> {
    const FREQUENCIES: u32 = 0x15;
    const HYPERVISOR: u32 = 0x4000_0000;
    const TIMING: u32 = 0x4000_0010;
    // Unsafe in the oldest compiler this is built with, safe in newer ones.
    #[allow(unused_unsafe)]
    // SAFETY: every x86-64 CPU has the instruction, and a leaf it lacks only returns numbers without meaning.
    let cpuid = |leaf: u32| unsafe { std::arch::x86_64::__cpuid(leaf) };
    if cpuid(0).eax >= FREQUENCIES {
        let leaf = cpuid(FREQUENCIES);
        let ratio = |crystal: u64| (crystal * u64::from(leaf.ebx)).checked_div(leaf.eax.into());
        if let Some(hz) = ratio(leaf.ecx.into()).filter(|hz| *hz > 0) {
            return Some(hz);
        }
    }
    let hypervisors = crate::hypervisor::signature().map_or(0, |_| cpuid(HYPERVISOR).eax);
    let khz = if hypervisors >= TIMING { cpuid(TIMING).eax } else { 0 };
    (khz > 0).then(|| u64::from(khz) * 1000)
}

/// CNTFRQ_EL0, which the firmware sets.
#[cfg(target_arch = "aarch64")]
fn processors() -> Option<u64> {
    let hz: u64;
    // SAFETY: Linux lets programs read this register.
    unsafe { std::arch::asm!("mrs {}, cntfrq_el0", out(reg) hz, options(nomem, nostack, preserves_flags)) };
    (hz > 0).then_some(hz)
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn processors() -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_attributes_are_the_kernels() {
        assert_eq!(size_of::<Attributes>(), 64);
    }

    #[test]
    fn a_counter_that_tells_counts_as_counters_do() {
        // From the slowest generic timers to the fastest processors.
        assert!(hz().is_none_or(|hz| (1_000_000..20_000_000_000).contains(&hz)));
    }

    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    #[test]
    fn what_is_measured_is_what_is_told() {
        let told = kernels().or_else(processors);
        if let (Some(told), Some(measured)) = (told, measured()) {
            assert!(told.abs_diff(measured) < told / 1000, "{told} {measured}");
        }
        if let (Some(once), Some(again)) = (measured(), measured()) {
            assert!(once.abs_diff(again) < once / 1000, "{once} {again}");
        }
    }

    #[test]
    fn a_rate_is_the_inverse_of_what_the_kernel_converts_by() {
        let page = |shift: u16, mult: u32| {
            let mut words = [0; 8];
            words[2..4].copy_from_slice(&shift.to_ne_bytes());
            words[4..].copy_from_slice(&mult.to_ne_bytes());
            converted(words)
        };
        // 33.28 MHz, as of a timer that counts 30.05 ns.
        assert_eq!(page(24, 504_123_077), Some(33_280_000));
        assert_eq!(page(0, 1), Some(1_000_000_000));
        assert_eq!((page(24, 0), page(64, 1)), (None, None));
    }
}
