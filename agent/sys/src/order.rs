//! Making memory and clock keep the program's order.

/// Returns once every load and store before it has taken place; none after it, and no reading of a clock, begins earlier.
///
/// A processor reads its counter when it likes: a store may wait in a buffer while the clock is read after it, and a load may
/// be done before the clock is read that stands in front of it. On x86 `mfence` empties the store buffer and `lfence` holds
/// back what follows, the counter's reading included (Intel SDM vol. 2, RDTSC). On ARM only `dsb` waits for completion rather
/// than for order, and `isb` holds back what follows.
#[inline]
pub fn settle() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: fences change nothing but the order; without `nomem` the compiler keeps it too.
    unsafe {
        std::arch::asm!("mfence", "lfence", options(nostack, preserves_flags));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        std::arch::asm!("dsb sy", "isb", options(nostack, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}
