//! The calls that send and receive, as the kernel has them.
//!
//! The C library's functions of these names are points at which a thread can be cancelled (pthreads(7)). In a program of several
//! threads each of them first says so and then takes it back, by an atomic operation each (`LIBC_CANCEL_ASYNC`,
//! sysdeps/unix/sysv/linux/sysdep-cancel.h of glibc 2.36): 0.7 % of a round trip. No thread of ours is ever cancelled. As those do,
//! these return a length, or −1, and `errno` says why.

use libc::{c_int, c_uint, mmsghdr, msghdr, sockaddr, socklen_t};

/// recvfrom(2); `from` and `length` may be null.
///
/// # Safety
/// All pointers are valid for the call.
#[inline]
pub(crate) unsafe fn recvfrom(
    fd: c_int,
    into: *mut u8,
    room: usize,
    flags: c_int,
    from: *mut sockaddr,
    length: *mut socklen_t,
) -> isize {
    // SAFETY: as the caller has it.
    unsafe { libc::syscall(libc::SYS_recvfrom, fd, into, room, flags, from, length) as isize }
}

/// sendto(2); `to` may be null.
///
/// # Safety
/// All pointers are valid for the call.
#[inline]
pub(crate) unsafe fn sendto(
    fd: c_int,
    bytes: *const u8,
    length: usize,
    flags: c_int,
    to: *const sockaddr,
    to_length: socklen_t,
) -> isize {
    // SAFETY: as the caller has it.
    unsafe { libc::syscall(libc::SYS_sendto, fd, bytes, length, flags, to, to_length) as isize }
}

/// recvmsg(2).
///
/// # Safety
/// `header` and all it points to are valid for the call.
#[inline]
pub(crate) unsafe fn recvmsg(fd: c_int, header: *mut msghdr, flags: c_int) -> isize {
    // SAFETY: as the caller has it.
    unsafe { libc::syscall(libc::SYS_recvmsg, fd, header, flags) as isize }
}

/// sendmsg(2).
///
/// # Safety
/// `header` and all it points to are valid for the call.
#[inline]
pub(crate) unsafe fn sendmsg(fd: c_int, header: *const msghdr, flags: c_int) -> isize {
    // SAFETY: as the caller has it.
    unsafe { libc::syscall(libc::SYS_sendmsg, fd, header, flags) as isize }
}

/// sendmmsg(2).
///
/// # Safety
/// So many `headers` and all they point to are valid for the call.
#[inline]
pub(crate) unsafe fn sendmmsg(fd: c_int, headers: *mut mmsghdr, count: c_uint, flags: c_int) -> isize {
    // SAFETY: as the caller has it.
    unsafe { libc::syscall(libc::SYS_sendmmsg, fd, headers, count, flags) as isize }
}
