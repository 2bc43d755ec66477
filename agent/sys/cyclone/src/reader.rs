//! Taking samples, and waiting for them.

use crate::octets::Octets;
use crate::{Error, check};
use cyclors as c;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr::{null, null_mut};

/// The bit of the status that there is something to take.
const DATA_AVAILABLE: u32 = 1 << c::dds_status_id_DDS_DATA_AVAILABLE_STATUS_ID;

/// What a listener calls when there is something to take.
type Callback = Box<dyn Fn() + Send + Sync>;

/// Takes samples of one topic.
#[derive(Clone, Copy, Debug)]
pub struct Reader {
    entity: i32,
    participant: i32,
}

impl Reader {
    pub(crate) fn new(entity: i32, participant: i32) -> Self {
        Self { entity, participant }
    }

    /// Takes the oldest sample that waits; None: none does. Of one larger than `room` only the beginning is there.
    ///
    /// # Errors
    /// Cyclone refuses.
    #[inline]
    pub fn take<'b>(&self, room: &'b mut [u8]) -> Result<Option<&'b [u8]>, Error> {
        loop {
            let mut sample = Octets::over(room);
            let mut place: *mut c_void = (&raw mut sample).cast();
            let mut info = MaybeUninit::<c::dds_sample_info_t>::zeroed();
            // SAFETY: the sample is of the topic's type, its buffer is valid for as many bytes as it says and not to be
            // replaced (`release` is false), and the information is valid for writing.
            let taken = unsafe { c::dds_take(self.entity, &raw mut place, info.as_mut_ptr(), 1, 1) };
            if check(taken, "dds_take")? == 0 {
                return Ok(None);
            }
            // SAFETY: Cyclone has written it; before that it was all zero, which is valid too.
            let valid = unsafe { info.assume_init() }.valid_data;
            let length = sample.length().min(room.len());
            // What is not valid is a sign of a writer that has come or gone.
            if valid {
                return Ok(Some(&room[..length]));
            }
        }
    }

    /// How many writers it hears.
    ///
    /// # Errors
    /// Cyclone refuses.
    pub fn writers(&self) -> Result<u32, Error> {
        // SAFETY: all-zero is a valid status.
        let mut status: c::dds_subscription_matched_status_t = unsafe { std::mem::zeroed() };
        // SAFETY: the status is valid for writing.
        let code = unsafe { c::dds_get_subscription_matched_status(self.entity, &raw mut status) };
        check(code, "dds_get_subscription_matched_status")?;
        Ok(status.current_count)
    }

    /// How many samples never arrived, as far as Cyclone knows.
    ///
    /// # Errors
    /// Cyclone refuses.
    pub fn lost(&self) -> Result<u64, Error> {
        // SAFETY: all-zero is a valid status.
        let mut status: c::dds_sample_lost_status_t = unsafe { std::mem::zeroed() };
        // SAFETY: the status is valid for writing.
        let code = unsafe { c::dds_get_sample_lost_status(self.entity, &raw mut status) };
        check(code, "dds_get_sample_lost_status")?;
        Ok(u64::from(status.total_count))
    }

    /// Has Cyclone's receiving thread call `callback` whenever samples have come, until [`Self::be_quiet`]. It has to take
    /// all there is. The callback itself is never freed: a program has few, and Cyclone may be in one at any time.
    ///
    /// # Errors
    /// Cyclone refuses.
    pub fn on_data(&self, callback: Callback) -> Result<(), Error> {
        let argument = Box::into_raw(Box::new(callback));
        // SAFETY: the argument lives for ever, and `call` takes just that; the listener is copied, then freed.
        let code = unsafe {
            let listener = c::dds_create_listener(argument.cast());
            c::dds_lset_data_available(listener, Some(call));
            let code = c::dds_set_listener(self.entity, listener);
            c::dds_delete_listener(listener);
            code
        };
        check(code, "dds_set_listener").map(drop)
    }

    /// Ends the calls. When this returns none is under way.
    ///
    /// # Errors
    /// Cyclone refuses.
    pub fn be_quiet(&self) -> Result<(), Error> {
        // SAFETY: null stands for no listener.
        check(unsafe { c::dds_set_listener(self.entity, null()) }, "dds_set_listener").map(drop)
    }

    /// What a thread can sleep in until samples have come.
    ///
    /// # Errors
    /// Cyclone refuses.
    pub fn waitset(&self) -> Result<Waitset, Error> {
        // SAFETY: entities are numbers that Cyclone checks.
        unsafe {
            check(c::dds_set_status_mask(self.entity, DATA_AVAILABLE), "dds_set_status_mask")?;
            let set = check(c::dds_create_waitset(self.participant), "dds_create_waitset")?;
            check(c::dds_waitset_attach(set, self.entity, 0), "dds_waitset_attach")?;
            Ok(Waitset(set))
        }
    }
}

/// Where a thread sleeps until a reader has samples.
#[derive(Debug)]
pub struct Waitset(i32);

impl Waitset {
    /// Sleeps until there is something to take, at most `timeout_ns`; whether there is.
    ///
    /// # Errors
    /// Cyclone refuses.
    #[inline]
    pub fn wait(&self, timeout_ns: i64) -> Result<bool, Error> {
        // SAFETY: no list of what triggered is asked for.
        let triggered = unsafe { c::dds_waitset_wait(self.0, null_mut(), 0, timeout_ns) };
        check(triggered, "dds_waitset_wait").map(|count| count > 0)
    }
}

/// Cyclone's way into a [`Callback`].
unsafe extern "C" fn call(_reader: c::dds_entity_t, argument: *mut c_void) {
    // SAFETY: it is what `on_data` gave, which is never freed.
    let callback = unsafe { &*argument.cast::<Callback>() };
    callback();
}
