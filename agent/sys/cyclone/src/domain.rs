//! A domain and a participant in it; the readers and writers that it makes.

use crate::{Error, Reader, Writer, check, log, octets};
use cyclors as c;
use std::ffi::{CStr, CString};
use std::ptr::null;

/// How samples are kept and lost ones sent again.
#[derive(Clone, Copy, Debug)]
pub struct Quality {
    /// Lost samples are sent again.
    pub reliable: bool,
    /// Samples that are kept; None: all.
    pub history: Option<u32>,
    /// How long a write may be delayed, ns, before it fails.
    pub blocking_ns: i64,
}

/// A domain with one participant. Dropping it ends all that it made, and Cyclone's threads.
#[derive(Debug)]
pub struct Domain {
    domain: i32,
    participant: i32,
}

impl Domain {
    /// Starts Cyclone with a configuration as CYCLONEDDS_URI has it; that variable is not read. Cyclone's threads are started
    /// by the calling one, and have its CPUs and its scheduling where the configuration gives them no other.
    ///
    /// # Errors
    /// The configuration, an interface in it or the domain is not to be had: [`crate::said`] has Cyclone's own words.
    pub fn open(id: u32, config: &CStr) -> Result<Self, Error> {
        log::listen();
        // SAFETY: the configuration is a valid string, and is only read.
        let domain = check(unsafe { c::dds_create_domain(id, config.as_ptr()) }, "dds_create_domain")?;
        let mut opened = Self { domain, participant: 0 };
        // SAFETY: null stands for defaults.
        let participant = unsafe { c::dds_create_participant(id, null(), null()) };
        opened.participant = check(participant, "dds_create_participant")?;
        Ok(opened)
    }

    /// Writes samples of the topic to readers in the same partition.
    ///
    /// # Errors
    /// Cyclone refuses.
    pub fn writer(&self, topic: &str, partition: &str, quality: Quality) -> Result<Writer, Error> {
        let topic = octets::topic(self.participant, &text(topic))?;
        let partition = Qos::partition(partition);
        // SAFETY: the policies are valid, and copied.
        let publisher = unsafe { c::dds_create_publisher(self.participant, partition.0, null()) };
        let publisher = check(publisher, "dds_create_publisher")?;
        let kept = Qos::of(quality);
        // SAFETY: as above.
        check(unsafe { c::dds_create_writer(publisher, topic, kept.0, null()) }, "dds_create_writer").map(Writer::new)
    }

    /// Takes samples of the topic from writers in the same partition.
    ///
    /// # Errors
    /// Cyclone refuses.
    pub fn reader(&self, topic: &str, partition: &str, quality: Quality) -> Result<Reader, Error> {
        let topic = octets::topic(self.participant, &text(topic))?;
        let partition = Qos::partition(partition);
        // SAFETY: the policies are valid, and copied.
        let subscriber = unsafe { c::dds_create_subscriber(self.participant, partition.0, null()) };
        let subscriber = check(subscriber, "dds_create_subscriber")?;
        let kept = Qos::of(quality);
        // SAFETY: as above.
        let reader = unsafe { c::dds_create_reader(subscriber, topic, kept.0, null()) };
        check(reader, "dds_create_reader").map(|entity| Reader::new(entity, self.participant))
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        // SAFETY: it is a number that Cyclone checks. Nothing can be done if it fails.
        unsafe { c::dds_delete(self.domain) };
    }
}

/// Policies, freed when dropped.
struct Qos(*mut c::dds_qos_t);

impl Qos {
    fn new() -> Self {
        // SAFETY: it takes nothing and returns policies that are ours.
        Self(unsafe { c::dds_create_qos() })
    }

    fn partition(name: &str) -> Self {
        let qos = Self::new();
        // SAFETY: the policies are ours, and the name is copied.
        unsafe { c::dds_qset_partition1(qos.0, text(name).as_ptr()) };
        qos
    }

    fn of(quality: Quality) -> Self {
        let qos = Self::new();
        let reliability = if quality.reliable {
            c::dds_reliability_kind_DDS_RELIABILITY_RELIABLE
        } else {
            c::dds_reliability_kind_DDS_RELIABILITY_BEST_EFFORT
        };
        let (history, depth) = match quality.history {
            Some(depth) => (c::dds_history_kind_DDS_HISTORY_KEEP_LAST, i32::try_from(depth).unwrap_or(i32::MAX)),
            None => (c::dds_history_kind_DDS_HISTORY_KEEP_ALL, 0),
        };
        // SAFETY: the policies are ours.
        unsafe {
            c::dds_qset_reliability(qos.0, reliability, quality.blocking_ns);
            c::dds_qset_history(qos.0, history, depth);
        }
        qos
    }
}

impl Drop for Qos {
    fn drop(&mut self) {
        // SAFETY: they are ours, and nobody else has them.
        unsafe { c::dds_delete_qos(self.0) };
    }
}

/// The text as C has it, up to its first zero byte.
fn text(text: &str) -> CString {
    let bytes: Vec<u8> = text.bytes().take_while(|byte| *byte != 0).collect();
    CString::new(bytes).unwrap_or_default()
}
