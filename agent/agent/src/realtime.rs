//! Making the measuring thread real-time, and reading back that it is.

use crate::cores;
use crate::facts::Tree;
use crate::session::failed;
use std::fs::{File, OpenOptions};
use std::io::Write;
use sys::thread;
use wire::event::{Failure, RealtimeFound};
use wire::spec::Realtime;

const LATENCY_DEVICE: &str = "/dev/cpu_dma_latency";

/// What is asked for the whole process, in force as long as this lives.
pub struct Process {
    _latency: Option<File>,
    latency_us: Option<i32>,
    problems: Vec<String>,
}

/// Locks memory and keeps the CPUs out of deep idle states, as far as `spec` asks for it. To be called before the rings are
/// allocated and the threads started, so that they are locked and prefaulted too.
///
/// # Errors
/// Memory was to be locked and cannot be.
pub fn prepare_process(spec: &Realtime) -> Result<Process, Failure> {
    if spec.lock_memory {
        thread::lock_memory()
            .map_err(|error| failed(error, "realtime.lock_memory", "run as root or with CAP_IPC_LOCK"))?;
    }
    let mut process = Process { _latency: None, latency_us: None, problems: Vec::new() };
    if let Some(us) = spec.cpu_dma_latency_us {
        // The kernel honours the request for as long as the file stays open (Documentation/power/pm_qos_interface.rst).
        match OpenOptions::new()
            .write(true)
            .open(LATENCY_DEVICE)
            .and_then(|mut f| f.write_all(&us.to_ne_bytes()).map(|()| f))
        {
            Ok(file) => (process._latency, process.latency_us) = (Some(file), Some(us)),
            Err(error) => process.problems.push(format!("{LATENCY_DEVICE}: {error}")),
        }
    }
    Ok(process)
}

/// Applies `spec` to the calling thread and reads everything back.
///
/// # Errors
/// What was asked for is refused, or is not in force afterwards.
pub fn prepare_thread(spec: &Realtime, process: &Process) -> Result<RealtimeFound, Failure> {
    let permission = "run as root or with CAP_SYS_NICE; in a cgroup of a kernel with CONFIG_RT_GROUP_SCHED give it \
                      cpu.rt_runtime_us (version 1), or start from the root cgroup (version 2 has no other)";
    if let Some(cpus) = &spec.cpus {
        thread::set_affinity(cpus).map_err(|error| {
            failed(error, &format!("realtime.cpus {cpus:?}"), "name CPUs that are online and allowed here (lscpu)")
        })?;
    }
    if let Some(slack) = spec.timer_slack_ns {
        thread::set_timer_slack(slack).map_err(|error| failed(error, "realtime.timer_slack_ns", ""))?;
    }
    if let Some(priority) = spec.fifo {
        thread::set_fifo(priority).map_err(|error| failed(error, &format!("realtime.fifo {priority}"), permission))?;
    }
    thread::prefault_stack();
    // No measuring thread has any, and being registered for them is 1.6 % of a round trip over TCP. It only is quicker without.
    let _ = thread::leave_restartable_sequences();
    let found = read_back(process)?;
    let expect = |ok: bool, place: &str, expected: String, actual: String| {
        if ok {
            return Ok(());
        }
        Err(Failure {
            what: format!("asked for {expected}, found {actual}"),
            place: place.into(),
            remedy: "see whether a cgroup or another program changes it".into(),
            errno: None,
        })
    };
    if let Some(priority) = spec.fifo {
        let actual = format!("{} {}", found.policy, found.priority);
        expect(actual == format!("SCHED_FIFO {priority}"), "realtime.fifo", format!("SCHED_FIFO {priority}"), actual)?;
    }
    if let Some(cpus) = &spec.cpus {
        let mut asked = cpus.clone();
        asked.sort_unstable();
        asked.dedup();
        expect(asked == found.cpus, "realtime.cpus", format!("{asked:?}"), format!("{:?}", found.cpus))?;
    }
    expect(
        !spec.lock_memory || found.memory_locked,
        "realtime.lock_memory",
        "locked memory".into(),
        "VmLck 0 in /proc/self/status".into(),
    )?;
    cores::note_if_several(&Tree::machine(), &found.cpus);
    Ok(found)
}

fn read_back(process: &Process) -> Result<RealtimeFound, Failure> {
    let trouble = |error| failed(error, "the measuring thread", "");
    let scheduling = thread::scheduling().map_err(trouble)?;
    Ok(RealtimeFound {
        tid: thread::id(),
        policy: scheduling.name().into(),
        priority: scheduling.priority,
        cpus: thread::affinity().map_err(trouble)?,
        memory_locked: locked_kib(&std::fs::read_to_string("/proc/self/status").unwrap_or_default()) > 0,
        cpu_dma_latency_us: process.latency_us,
        timer_slack_ns: thread::timer_slack().map_err(trouble)?,
        problems: process.problems.clone(),
    })
}

/// `VmLck` of a `/proc/PID/status`, in KiB.
fn locked_kib(status: &str) -> u64 {
    status
        .lines()
        .find_map(|line| line.strip_prefix("VmLck:"))
        .and_then(|rest| rest.split_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locked_memory_is_read_from_the_status() {
        assert_eq!(locked_kib("VmPeak:\t  100 kB\nVmLck:\t    2048 kB\nVmPin:\t 0 kB\n"), 2048);
        assert_eq!(locked_kib(""), 0);
    }

    #[test]
    fn a_thread_gets_what_was_asked_and_reads_it_back() {
        let spec = Realtime { cpus: Some(vec![0]), timer_slack_ns: Some(1_000), ..Realtime::default() };
        let process = prepare_process(&spec).unwrap();
        let found = std::thread::spawn(move || prepare_thread(&spec, &process)).join().unwrap().unwrap();
        assert_eq!((found.cpus, found.timer_slack_ns), (vec![0], 1_000));
    }

    #[test]
    fn a_cpu_that_does_not_exist_is_refused_with_its_number() {
        let spec = Realtime { cpus: Some(vec![1000]), ..Realtime::default() };
        let process = prepare_process(&spec).unwrap();
        let failure = std::thread::spawn(move || prepare_thread(&spec, &process)).join().unwrap().unwrap_err();
        assert_eq!(failure.place, "realtime.cpus [1000]");
    }
}
