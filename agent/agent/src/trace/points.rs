//! Which tracepoints are listened to: found on this kernel, filtered, switched on.

use crate::tracing::{ABSENT, Instance};
use wire::event::{EventAbsent, EventFound, Failure};
use wire::record::Traced;
use wire::spec::{Absent, Tracing as Spec};
use wire::traceable::{Fields, Traceable};

/// One that is listened to.
pub struct Point {
    number: u8,
    id: i64,
    fields: Fields,
}

/// All of them, and how the lab is told of them.
pub struct Points {
    /// How their records are read.
    pub points: Vec<Point>,
    /// What they are.
    pub events: Vec<EventFound>,
    /// Those that the kernel does not have.
    pub absent: Vec<EventAbsent>,
}

/// Has the instance listen to what is asked for. It is left switched off.
///
/// # Errors
/// The kernel lacks one that must be there, or all; or does not take a filter or the CPUs.
pub fn listened_to(instance: &Instance, spec: &Spec) -> Result<Points, Failure> {
    let absent: Vec<_> = spec.points().filter(|point| !instance.has(&point.folder())).map(told_absent).collect();
    if !absent.is_empty() && (spec.absent == Absent::Error || absent.len() == spec.events.len()) {
        return Err(lacking(&absent));
    }
    instance.write("tracing_on", "0")?;
    if let Some(cpus) = &spec.cpus {
        instance.write("tracing_cpumask", &mask(cpus))?;
    }
    let mut found = Points { points: Vec::new(), events: Vec::new(), absent };
    for point in spec.points().filter(|point| instance.has(&point.folder())) {
        let folder = point.folder();
        let fields = point.fields(&instance.read(&format!("{folder}/format"))?);
        let id = instance.read(&format!("{folder}/id"))?;
        let filter = spec.filter(point);
        if let Some(filter) = &filter {
            instance.write(&format!("{folder}/filter"), filter)?;
        }
        instance.write(&format!("{folder}/enable"), "1")?;
        found.points.push(Point { number: point.number, id: id.trim().parse().unwrap_or(-1), fields });
        found.events.push(EventFound {
            event: point.full_name(),
            subject: fields.subject.map(|(name, _)| name),
            detail: fields.detail.map(|(name, _)| name),
            filter,
        });
    }
    Ok(found)
}

impl Point {
    /// What this record of a CPU tells, if it is this tracepoint's.
    pub fn read(&self, record: &[u8], cpu: usize, tai_ns: i64) -> Option<Traced> {
        let Fields { kind, flags, preempt, pid, subject, detail } = self.fields;
        if kind?.value(record)? != self.id {
            return None;
        }
        let value = |field: Option<(&str, wire::tracepoint::Field)>| field?.1.value(record);
        Some(Traced {
            tai_ns,
            cpu: cpu as u16,
            event: self.number,
            flags: flags?.value(record)? as u8,
            preempt: preempt?.value(record)? as u8,
            pid: pid?.value(record)? as i32,
            subject: value(subject),
            detail: value(detail),
        })
    }
}

fn told_absent(point: &'static Traceable) -> EventAbsent {
    EventAbsent { event: point.full_name(), tells: point.tells, remedy: point.remedy() }
}

/// That these are not there: which, what for, what to do.
fn lacking(absent: &[EventAbsent]) -> Failure {
    let each: Vec<_> = absent.iter().map(|one| format!("{} ({})", one.event, one.tells)).collect();
    let mut remedies: Vec<_> = absent.iter().map(|one| one.remedy).collect();
    remedies.dedup();
    Failure {
        what: format!("this kernel has no tracepoint {}", each.join(", ")),
        place: "events in tracefs".into(),
        remedy: if absent.is_empty() { ABSENT.into() } else { remedies.join(". Or: ") },
        errno: None,
    }
}

/// CPUs as the kernel takes them: hexadecimal, 32 in a group, the first ones last.
fn mask(cpus: &[usize]) -> String {
    let groups = cpus.iter().max().map_or(1, |last| last / 32 + 1);
    let mut words = vec![0_u32; groups];
    cpus.iter().for_each(|cpu| words[cpu / 32] |= 1 << (cpu % 32));
    words.iter().rev().map(|word| format!("{word:08x}")).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_are_said_as_the_kernel_takes_them() {
        assert_eq!(mask(&[0, 3]), "00000009");
        assert_eq!(mask(&[33, 1]), "00000002,00000002");
    }

    #[test]
    fn what_is_lacking_is_named_with_what_it_is_for_and_what_to_do() {
        let absent = ["kvm:kvm_entry", "kvm:kvm_exit", "irq_vectors:local_timer_entry"]
            .map(|name| told_absent(Traceable::named(name).unwrap()));
        let failure = lacking(&absent);
        for part in ["kvm:kvm_entry (when a vCPU begins to run its guest)", "kvm:kvm_exit", "local_timer_entry"] {
            assert!(failure.what.contains(part), "{}", failure.what);
        }
        assert_eq!(failure.remedy.matches("modprobe kvm").count(), 1);
        assert!(failure.remedy.contains("it is x86's"));
    }

    #[test]
    fn a_record_is_read_by_its_own_tracepoint_only() {
        let format = "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;
\tfield:unsigned int vec;\toffset:8;\tsize:4;\tsigned:0;";
        let fields = Traceable::named("irq:softirq_entry").unwrap().fields(format);
        let point = |id| Point { number: 6, id, fields };
        let record = [&259_u16.to_ne_bytes()[..], &[0x91, 2], &77_i32.to_ne_bytes(), &3_u32.to_ne_bytes()].concat();
        let (cpu, tai_ns, pid) = (1, 5, 77);
        let row = Traced { tai_ns, cpu, event: 6, flags: 0x91, preempt: 2, pid, subject: Some(3), detail: None };
        assert_eq!(point(259).read(&record, 1, 5), Some(row));
        assert_eq!(point(260).read(&record, 1, 5), None);
        assert_eq!(point(259).read(&record[..6], 1, 5), None);
    }
}
