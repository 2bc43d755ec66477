//! The kernel's tracepoints that `trace` records: which of their fields matter, what they are for, and what they are filtered by.

use crate::tracepoint::Field;

/// Which of the asked-for threads or interrupts a tracepoint is filtered by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filtered {
    /// By none: all of them count.
    No,
    /// By interrupt numbers, in this field.
    ByIrq(&'static str),
    /// By softirqs, in this field.
    BySoftirq(&'static str),
    /// By threads, any of these fields.
    ByThread(&'static [&'static str]),
}

/// A tracepoint that can be recorded.
#[derive(Debug, PartialEq, Eq)]
pub struct Traceable {
    /// Its number in recordings.
    pub number: u8,
    /// As tracefs has it, such as `irq`.
    pub group: &'static str,
    /// Its own.
    pub name: &'static str,
    /// The field that says what it is of, by the names that kernels give it.
    pub subject: &'static [&'static str],
    /// The field that says more, likewise.
    pub detail: &'static [&'static str],
    /// What it is filtered by.
    pub filtered: Filtered,
    /// What it shows, for people.
    pub tells: &'static str,
}

/// In recordings, the place of records that were lost.
pub const LOST: u8 = 0;

use Filtered::{ByIrq, BySoftirq, ByThread, No};

const fn point(
    number: u8,
    (group, name): (&'static str, &'static str),
    (subject, detail): (&'static [&'static str], &'static [&'static str]),
    filtered: Filtered,
    tells: &'static str,
) -> Traceable {
    Traceable { number, group, name, subject, detail, filtered, tells }
}

/// All of them. A number is never given to another one.
pub const TRACEABLE: [Traceable; 19] = [
    point(1, ("irq", "irq_handler_entry"), (&["irq"], &[]), ByIrq("irq"), "when an interrupt's handler begins"),
    point(2, ("irq", "irq_handler_exit"), (&["irq"], &["ret"]), ByIrq("irq"), "when an interrupt's handler ends"),
    point(3, ("irq_vectors", "local_timer_entry"), (&["vector"], &[]), No, "when x86's timer interrupt begins"),
    point(4, ("irq_vectors", "local_timer_exit"), (&["vector"], &[]), No, "when x86's timer interrupt ends"),
    point(5, ("irq", "softirq_raise"), (&["vec"], &[]), BySoftirq("vec"), "who asks for a softirq, and when"),
    point(6, ("irq", "softirq_entry"), (&["vec"], &[]), BySoftirq("vec"), "when a softirq begins"),
    point(7, ("irq", "softirq_exit"), (&["vec"], &[]), BySoftirq("vec"), "when a softirq ends"),
    point(8, ("timer", "hrtimer_expire_entry"), (&["hrtimer"], &["now"]), No, "when a timer is run"),
    point(9, ("net", "netif_receive_skb"), (&["skbaddr"], &["len"]), No, "when a packet enters the network stack"),
    point(10, ("sock", "sk_data_ready"), (&["skaddr"], &["protocol"]), No, "when a socket has got something"),
    point(11, ("sched", "sched_waking"), (&["pid"], &["target_cpu"]), ByThread(&["pid"]), "when a thread is woken"),
    point(
        12,
        ("sched", "sched_switch"),
        (&["next_pid"], &["prev_state"]),
        ByThread(&["next_pid", "prev_pid"]),
        "when a thread begins to run, and after whom",
    ),
    point(13, ("kvm", "kvm_msi_set_irq"), (&["address"], &["data"]), No, "when an MSI is asked for a guest"),
    point(14, ("kvm", "kvm_set_irq"), (&["gsi"], &["level"]), No, "when an interrupt is asked for a guest"),
    point(15, ("kvm", "kvm_apic_accept_irq"), (&["vec"], &["apicid"]), No, "when a vCPU's APIC takes an interrupt"),
    point(16, ("kvm", "kvm_inj_virq"), (&["vector", "irq"], &[]), No, "when an interrupt is injected into a guest"),
    point(
        17,
        ("kvm", "kvm_entry"),
        (&["vcpu_id"], &[]),
        ByThread(&["common_pid"]),
        "when a vCPU begins to run its guest",
    ),
    point(
        18,
        ("kvm", "kvm_exit"),
        (&["exit_reason", "ret"], &["guest_rip", "vcpu_pc"]),
        ByThread(&["common_pid"]),
        "when a vCPU leaves its guest, why, and where the guest was",
    ),
    point(
        19,
        ("kvm", "vgic_update_irq_pending"),
        (&["irq"], &["level"]),
        No,
        "when an interrupt is pending for a guest (arm64)",
    ),
];

impl Traceable {
    /// The one of this name, such as `irq:softirq_entry`.
    pub fn named(name: &str) -> Option<&'static Self> {
        TRACEABLE.iter().find(|point| point.full_name() == name)
    }

    /// Its name with its group, as the kernel's documents have it.
    pub fn full_name(&self) -> String {
        format!("{}:{}", self.group, self.name)
    }

    /// Its folder in tracefs.
    pub fn folder(&self) -> String {
        format!("events/{}/{}", self.group, self.name)
    }

    /// What to do where the kernel does not have it.
    pub fn remedy(&self) -> &'static str {
        match self.group {
            "kvm" => {
                "load KVM (modprobe kvm), on a machine of the architecture that has it; or leave it out of `events`"
            }
            "irq_vectors" => {
                "it is x86's: elsewhere a timer's interrupt is one of `irq:irq_handler_entry`; leave it out of `events`"
            }
            _ => {
                "use a kernel that has it (`ls /sys/kernel/tracing/events` once tracefs is mounted); or leave it out of `events`"
            }
        }
    }

    /// What tracefs is to be given as its filter; None: everything counts. Where `irqs`, `softirqs` or `threads` is None it is
    /// not filtered by that.
    pub fn filter(&self, irqs: Option<&[u32]>, softirqs: Option<&[u32]>, threads: Option<&[u32]>) -> Option<String> {
        let (fields, wanted) = match self.filtered {
            No => return None,
            ByIrq(field) => (vec![field], irqs?),
            BySoftirq(field) => (vec![field], softirqs?),
            ByThread(fields) => (fields.to_vec(), threads?),
        };
        let one_of = |field| wanted.iter().map(move |number| format!("{field} == {number}"));
        Some(fields.into_iter().flat_map(one_of).collect::<Vec<_>>().join(" || "))
    }

    /// Where its records have what matters, by its `format` file. What that kernel does not tell is None.
    pub fn fields(&self, format: &str) -> Fields {
        let first = |names: &[&'static str]| {
            names.iter().find_map(|name| Field::find(format, name).map(|field| (*name, field)))
        };
        let common = |name| Field::find(format, name);
        Fields {
            kind: common("common_type"),
            flags: common("common_flags"),
            preempt: common("common_preempt_count"),
            pid: common("common_pid"),
            subject: first(self.subject),
            detail: first(self.detail),
        }
    }
}

/// Where a tracepoint's records have what matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields {
    /// The tracepoint's number in tracefs.
    pub kind: Option<Field>,
    /// In which state the CPU was.
    pub flags: Option<Field>,
    /// How deeply it may not be preempted.
    pub preempt: Option<Field>,
    /// The thread that ran.
    pub pid: Option<Field>,
    /// What it is of: its name on that kernel, and where.
    pub subject: Option<(&'static str, Field)>,
    /// And more.
    pub detail: Option<(&'static str, Field)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Linux 6.18, events/sched/sched_waking/format.
    const WAKING: &str = "name: sched_waking
ID: 283
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:unsigned char common_flags;	offset:2;	size:1;	signed:0;
	field:unsigned char common_preempt_count;	offset:3;	size:1;	signed:0;
	field:int common_pid;	offset:4;	size:4;	signed:1;

	field:char comm[16];	offset:8;	size:16;	signed:0;
	field:pid_t pid;	offset:24;	size:4;	signed:1;
	field:int prio;	offset:28;	size:4;	signed:1;
	field:int target_cpu;	offset:32;	size:4;	signed:1;
";

    #[test]
    fn each_has_a_number_and_a_name_of_its_own() {
        for (place, point) in TRACEABLE.iter().enumerate() {
            assert_eq!(usize::from(point.number), place + 1);
            assert_eq!(Traceable::named(&point.full_name()), Some(point));
            assert!(!point.tells.is_empty() && point.remedy().contains("`events`"));
        }
        assert_eq!(Traceable::named("sched:sched_wakeup_new"), None);
        assert!(TRACEABLE.iter().all(|point| point.number != LOST));
    }

    #[test]
    fn fields_are_found_by_the_name_that_the_kernel_gives_them() {
        let fields = Traceable::named("sched:sched_waking").unwrap().fields(WAKING);
        let mut record = [0; 40];
        record[24] = 7;
        record[32..36].fill(0xff);
        let value = |(name, field): (&'static str, Field)| (name, field.value(&record));
        assert_eq!(fields.subject.map(value), Some(("pid", Some(7))));
        assert_eq!(fields.detail.map(value), Some(("target_cpu", Some(-1))));
        let old = "\tfield:unsigned int irq;\toffset:8;\tsize:4;\tsigned:0;";
        let injected = Traceable::named("kvm:kvm_inj_virq").unwrap().fields(old);
        assert_eq!((injected.subject.map(|(name, _)| name), injected.pid), (Some("irq"), None));
    }

    #[test]
    fn a_filter_names_all_that_count_in_all_fields_that_may_have_them() {
        let filter = |name, irqs, softirqs, threads| Traceable::named(name).unwrap().filter(irqs, softirqs, threads);
        let all: Option<&[u32]> = None;
        assert_eq!(filter("irq:irq_handler_entry", Some(&[36, 40]), all, all).unwrap(), "irq == 36 || irq == 40");
        assert_eq!(filter("irq:softirq_raise", all, Some(&[3]), all).unwrap(), "vec == 3");
        let switch = filter("sched:sched_switch", all, all, Some(&[7, 9])).unwrap();
        assert_eq!(switch, "next_pid == 7 || next_pid == 9 || prev_pid == 7 || prev_pid == 9");
        assert_eq!(filter("kvm:kvm_entry", all, all, Some(&[7])).unwrap(), "common_pid == 7");
        assert_eq!(filter("sched:sched_waking", Some(&[1]), Some(&[1]), all), None);
        assert_eq!(filter("net:netif_receive_skb", Some(&[1]), Some(&[1]), Some(&[1])), None);
    }
}
