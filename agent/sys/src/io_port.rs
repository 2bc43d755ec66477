//! A port of the machine's I/O address space, as x86 has one.

use crate::Error;

/// A port of one byte, which this thread may read and write (ioperm(2)); threads it starts later may, too.
#[cfg(target_arch = "x86_64")]
pub struct IoPort(u16);

/// There is none: other machines have no such address space.
#[cfg(not(target_arch = "x86_64"))]
pub enum IoPort {}

#[cfg(target_arch = "x86_64")]
impl IoPort {
    /// # Errors
    /// EPERM without CAP_SYS_RAWIO or under lockdown.
    pub fn open(port: u16) -> Result<Self, Error> {
        // SAFETY: no pointer is passed.
        crate::check(unsafe { libc::ioperm(port.into(), 1, 1) }, "ioperm").map(|_| Self(port))
    }

    /// What the port reads as; 255 where nothing is.
    #[inline]
    pub fn read(&self) -> u8 {
        let value;
        // SAFETY: the kernel lets this thread; what a device does upon it, whoever named the port is to know.
        unsafe {
            std::arch::asm!("in al, dx", in("dx") self.0, out("al") value, options(nostack, preserves_flags));
        }
        value
    }

    /// Writes to it; the device has been given the byte when this returns.
    #[inline]
    pub fn write(&self, value: u8) {
        // SAFETY: as in `read`.
        unsafe {
            std::arch::asm!("out dx, al", in("dx") self.0, in("al") value, options(nostack, preserves_flags));
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
impl IoPort {
    /// # Errors
    /// ENOSYS: there are no such ports.
    pub fn open(_port: u16) -> Result<Self, Error> {
        Err(Error { call: "ioperm".into(), errno: libc::ENOSYS })
    }

    /// What the port reads as.
    pub fn read(&self) -> u8 {
        match *self {}
    }

    /// Writes to it.
    pub fn write(&self, _value: u8) {
        match *self {}
    }
}
