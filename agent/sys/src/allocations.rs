//! Counting allocations of a thread, so that a test can show a hot loop makes none.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static MADE: Cell<u64> = const { Cell::new(0) };
}

/// Allocations and reallocations the calling thread has made, if [`Counting`] is the global allocator.
pub fn made_by_this_thread() -> u64 {
    MADE.with(Cell::get)
}

/// The system's allocator, counting by thread.
pub struct Counting;

fn count() {
    // A thread that is ending has no cell any more; it is past its hot loop.
    let _ = MADE.try_with(|made| made.set(made.get() + 1));
}

// SAFETY: every call goes to the system's allocator unchanged; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(memory, layout, size) }
    }
}
