//! Control messages: what stands next to the bytes of a packet.

use crate::clock::nanoseconds;

/// Room for the control messages of one packet, aligned as they must be. 512 bytes hold every set the agent asks for.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
pub(crate) struct Control(pub(crate) [u8; 512]);

impl Control {
    pub(crate) const fn new() -> Self {
        Self([0; 512])
    }
}

/// Calls `each(level, type, data)` for every control message in `header`.
///
/// # Safety
/// `header` was filled by a successful `recvmsg`, and its control buffer is still valid.
pub(crate) unsafe fn for_each_control(header: &libc::msghdr, mut each: impl FnMut(libc::c_int, libc::c_int, &[u8])) {
    // SAFETY: guaranteed by the caller; the macros stay within msg_controllen.
    unsafe {
        let mut at = libc::CMSG_FIRSTHDR(header);
        while let Some(control) = at.as_ref() {
            let data = libc::CMSG_DATA(at);
            // The field is a u32 in some C libraries.
            #[allow(clippy::unnecessary_cast)]
            let length = (control.cmsg_len as usize).saturating_sub(libc::CMSG_LEN(0) as usize);
            each(control.cmsg_level, control.cmsg_type, std::slice::from_raw_parts(data, length));
            at = libc::CMSG_NXTHDR(header, at);
        }
    }
}

/// (software, hardware) of a SCM_TIMESTAMPING message, in ns; a stamp of zero is none.
pub(crate) fn timestamps(data: &[u8]) -> (Option<i64>, Option<i64>) {
    // struct scm_timestamping: three timespecs, of which the second is no longer used.
    let one = |n: usize| {
        let bytes = data.get(n * 16..n * 16 + 16)?;
        let (seconds, nanos) = bytes.split_at(8);
        let time = libc::timespec {
            tv_sec: i64::from_ne_bytes(seconds.try_into().ok()?),
            tv_nsec: i64::from_ne_bytes(nanos.try_into().ok()?),
        };
        Some(nanoseconds(&time)).filter(|&ns| ns != 0)
    };
    (one(0), one(2))
}
