"""The agents' specs, from a cell's scenario: pure, so that `plan` prints just what `run` sends."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from latlab.model.limits import LIMITS
from latlab.model.units import MILLISECOND_NS
from latlab.run.entries import launch_entry
from latlab.scenario import Route, Scenario
from latlab.scenario.models import StampsBy
from latlab.scenario.streams import CLOCK_PORT, PROBE, Stream
from latlab.scenario.tuning import Realtime
from latlab.testbed.guests.qemu import DOORBELL_IO_PORT, DOORBELL_PORTS
from latlab.testbed.places import Places
from latlab.testbed.step import Spec

CLOCK_PERIOD_NS = 10_000_000
PAGE_PERIOD_NS = 50_000_000
PAGE_BURST_NS = 500_000
"""How long the host's clock is shown after a doorbell timestamp, at most: it ends as soon as the guest has seen
enough.
"""

MARGIN_NS = MILLISECOND_NS
"""What a flight recorder keeps before a late packet's launch and after its arrival."""
TYPICAL = 100
TYPICAL_NS = 20_000_000
"""So many packets of a stream it keeps in a cell to compare late ones with, or one in so long, if they are fewer."""

PTP_PERIOD_NS = 50_000_000
"""As often as a page is looked at: each time the guest's CPU is away from the guest for some microseconds."""


@dataclass(frozen=True)
class BedFacts:
    """What only the machine knows once the test bed stands: MAC addresses and hardware stamping by `host.interface`.

    places: each host's agent, and the device behind each interface. emulated: guests that run in software emulation.
    """

    macs: Mapping[str, str]
    hardware: frozenset[str] = frozenset()
    places: Places = field(default_factory=Places)
    emulated: frozenset[str] = frozenset()


def talkers(scenario: Scenario) -> list[str]:
    """The hosts that talk, in the order of their first stream."""
    return list(dict.fromkeys(stream.talker for stream in scenario.streams.values()))


def listeners(scenario: Scenario) -> list[str]:
    """The hosts that listen, in the order of their first stream."""
    return list(dict.fromkeys(stream.listener for stream in scenario.streams.values()))


def is_emulated_there(scenario: Scenario, host: str, emulated: Collection[str]) -> bool:
    """Whether a host or guest has an emulated kernel. emulated: guests that run in software emulation."""
    return host in emulated or scenario.is_on_board(host)


def stamps_by(scenario: Scenario, host: str, bed: BedFacts) -> StampsBy:
    """Who takes the kernel's timestamps on a host or guest.

    Without being asked for, BPF programs take none on an emulated kernel: with them, packets of equal repetitions in
    virtual time differed on ARM boards.
    """
    by = scenario.timestamps.by
    return "socket" if by == "auto" and is_emulated_there(scenario, host, bed.emulated) else by


def talk_spec(scenario: Scenario, host: str, bed: BedFacts, run_id: str, recording: Path | str) -> Spec:
    """The spec of `latlab-agent talk` on a host: all streams it talks."""
    tuning = scenario.tuning_of(host).talker
    names = [name for name, stream in scenario.streams.items() if stream.talker == host]
    ends = [scenario.route(name).talker_end for name in names]
    return {
        "run_id": run_id,
        "recording": str(recording),
        "realtime": realtime_spec(tuning),
        "busy_wait_ns": tuning.busy_wait,
        "stamps": {
            "sched": True,
            "software": True,
            "hardware": any(str(end) in bed.hardware for end in ends),
            "key": "auto",
            "by": stamps_by(scenario, host, bed),
        },
        "streams": [_talk_stream(scenario, name, bed) for name in names],
    }


def listen_spec(scenario: Scenario, host: str, bed: BedFacts, run_id: str, recording: Path | str) -> Spec:
    """The spec of `latlab-agent listen` on a host: all streams it listens to."""
    tuning = scenario.tuning_of(host).listener
    names = [name for name, stream in scenario.streams.items() if stream.listener == host]
    ends = [scenario.route(name).listener_end for name in names]
    return {
        "run_id": run_id,
        "recording": str(recording),
        "realtime": realtime_spec(tuning),
        "mode": tuning.mode,
        "busy_poll_us": tuning.busy_poll_us,
        "hardware_stamps": any(str(end) in bed.hardware for end in ends),
        "stamps_by": stamps_by(scenario, host, bed),
        **trigger_entry(scenario, host),
        "streams": [_listen_stream(scenario, name, bed) for name in names],
    }


def trigger_entry(scenario: Scenario, host: str) -> Spec:
    """How a listener judges its packets; nothing: it does not."""
    trigger = scenario.trigger
    if trigger is None or host not in scenario.kept:
        return {}
    return {
        "trigger": {
            "metric": trigger.metric,
            "above_ns": trigger.above_ns,
            "margin_ns": MARGIN_NS,
            "typical_ns": max(scenario.duration // TYPICAL, TYPICAL_NS),
        }
    }


def with_live(spec: Spec) -> Spec:
    """The same spec of an agent, whose progress says more: of what it receives, its clocks and its CPUs."""
    if "side" in spec:
        return {**spec, "side": {**spec["side"], "live": True}}
    return {**spec, "live": True}


def clock_specs(route: Route, run_id: str, recording: Path | str, count: int) -> tuple[Spec, Spec]:
    """The specs of `latlab-agent clock`: the initiator's at the route's talker, the responder's at its listener."""
    realtime = {"lock_memory": False}
    initiator = {
        "role": "initiator",
        "run_id": run_id,
        "source": f"{route.source}:{CLOCK_PORT}",
        "peer": f"{route.destination}:{CLOCK_PORT}",
        "period_ns": CLOCK_PERIOD_NS,
        "count": count,
        "recording": str(recording),
        "realtime": realtime,
    }
    responder = {
        "role": "responder",
        "run_id": run_id,
        "listen": f"{route.listen}:{CLOCK_PORT}",
        "peer": f"{route.source}:{CLOCK_PORT}",
        "realtime": realtime,
    }
    return initiator, responder


def page_specs(page: str, address: str, run_id: str, recording: Path | str, count: int) -> tuple[Spec, Spec]:
    """The specs of `latlab-agent clock` over a shared page: the writer's on the VM host, the reader's in the guest.

    address: where on the VM host's loopback the guest's doorbell timestamps come to.
    """
    realtime = {"lock_memory": False}
    to, source = DOORBELL_PORTS
    writer = {
        "role": "page-writer",
        "run_id": run_id,
        "page": page,
        "listen": f"{address}:{to}",
        "peer": f"{address}:{source}",
        "burst_ns": PAGE_BURST_NS,
        "realtime": realtime,
    }
    reader = {
        "role": "page-reader",
        "run_id": run_id,
        "device": "auto",
        "doorbell": {"port": DOORBELL_IO_PORT},
        "period_ns": PAGE_PERIOD_NS,
        "count": count,
        "recording": str(recording),
        "realtime": realtime,
    }
    return writer, reader


def ptp_spec(
    run_id: str,
    recording: Path | str,
    count: int,
    tai_offset_s: int | str,
    *,
    device: str = "auto",
    period_ns: int = PTP_PERIOD_NS,
) -> Spec:
    """The spec of `latlab-agent clock` that reads a PTP clock next to the system's: in a guest its host's, as KVM shows
    it, which is what `auto` means; else a card's.

    tai_offset_s: what is added to the clock for TAI: where KVM shows UTC, TAI − UTC on the host; a card counts TAI.
    """
    return {
        "role": "ptp",
        "run_id": run_id,
        "device": device,
        "host_tai_offset_s": tai_offset_s,
        "period_ns": period_ns,
        "count": count,
        "recording": str(recording),
        "realtime": {"lock_memory": False},
    }


def realtime_spec(tuning: Realtime) -> Spec:
    """How a measuring thread is to run, as every spec has it."""
    return {
        "fifo": tuning.fifo,
        "cpus": list(tuning.cpus) if tuning.cpus else None,
        "lock_memory": tuning.lock_memory,
        "cpu_dma_latency_us": tuning.cpu_dma_latency_us,
        "timer_slack_ns": tuning.timer_slack,
    }


def _talk_stream(scenario: Scenario, name: str, bed: BedFacts) -> Spec:
    stream, route = scenario.streams[name], scenario.route(name)
    launch = stream.launch_time
    spec = {
        "stream": scenario.stream_number(name),
        "name": name,
        "interface": bed.places.device(route.talker_end),
        "period_ns": stream.period,
        "offset_ns": stream.offset,
        "size": stream.size,
        "count": scenario.packet_count(name),
        "priority": stream.priority,
        "batch": launch.batch if launch else 1,
        "launch_time": launch_entry(launch).document() if launch else None,
    }
    if stream.transport == "ethernet":
        transport: Spec = {
            "kind": "ethernet",
            "destination": stream.group or bed.macs[str(route.listener_end)],
            "ethertype": stream.ethertype,
            "vlan": stream.vlan,
            "pcp": stream.pcp,
            **_carrier(stream),
            **_copy(scenario, name, bed),
        }
    else:
        transport = {
            "kind": "udp",
            "source": f"{route.source}:0",
            "destination": f"{route.destination}:{scenario.port(name)}",
        }
    return {**spec, "transport": transport}


def _copy(scenario: Scenario, name: str, bed: BedFacts) -> Spec:
    """Which copy of a PRP pair a stream is; nothing: it is none."""
    for first, second in scenario.pairs.values():
        if name in (first, second):
            source = bed.macs[str(scenario.route(first).talker_end)]
            lan = "A" if name == first else "B"
            return {"prp": {"lan": lan, "carries": scenario.stream_number(first), "source": source}}
    return {}


def _carrier(stream: Stream) -> Spec:
    """What carries the probe in a frame; nothing: it is the frame's payload."""
    return {} if stream.payload == PROBE else {"payload": stream.payload}


def _listen_stream(scenario: Scenario, name: str, bed: BedFacts) -> Spec:
    stream, route = scenario.streams[name], scenario.route(name)
    if stream.transport == "ethernet":
        transport: Spec = {"kind": "ethernet", "ethertype": stream.ethertype, "vlan": stream.vlan, **_carrier(stream)}
    else:
        transport = {
            "kind": "udp",
            "listen": f"{route.listen}:{scenario.port(name)}",
        }
    return {
        "stream": scenario.stream_number(name),
        "name": name,
        "interface": bed.places.device(route.listener_end),
        "size": stream.size,
        "count": scenario.packet_count(name),
        **({"carries": scenario.stream_number(stream.prp)} if stream.prp else {}),
        "transport": transport,
    }


# The specs of the agents that trace packets and instants from the interrupt to the thread that waits for them.


THREADS: Final = ("sched:sched_waking", "sched:sched_switch")
"""The events that show when a thread is woken and runs."""

EVENTS: Final = (
    "irq:irq_handler_entry",
    "irq:irq_handler_exit",
    "irq:softirq_raise",
    "irq:softirq_entry",
    "irq:softirq_exit",
    *THREADS,
)
"""And from the interrupt on (docs/explanation/where-the-time-went.md)."""

ENTRIES: Final = (
    "kvm:kvm_msi_set_irq",
    "kvm:kvm_set_irq",
    "kvm:kvm_apic_accept_irq",
    "kvm:kvm_inj_virq",
    "kvm:kvm_entry",
    "kvm:kvm_exit",
    "kvm:vgic_update_irq_pending",
)
"""The events that show on a VM host how an interrupt got into a guest, and what it interrupted
(analysis/entry.py)."""

TIMER_INTERRUPTS: Final = ("irq_vectors:local_timer_entry", "irq_vectors:local_timer_exit")
"""x86's own timer; that of other machines is an interrupt as any other."""

NET_RX: Final = 3
"""The softirq that receives (include/linux/interrupt.h)."""
KEPT_KIB: Final = 2048
"""What the kernel holds of each CPU's events where only windows are kept, KiB: more than a second's of most hosts."""
HRTIMER: Final = 8
"""The one of timers, of threads that are not real-time on PREEMPT_RT."""


def trace_spec(scenario: Scenario, host: str, threads: Sequence[int | str], run_id: str, recording: Path | str) -> Spec:
    """The spec of `latlab-agent trace` next to what receives on a host; threads: their numbers, as `ready` says."""
    whole = scenario.tuning_of(host).listener.trace is True or host in scenario.kept
    return {
        "run_id": run_id,
        "recording": str(recording),
        "realtime": {"lock_memory": False},
        "events": list(EVENTS if whole else THREADS),
        "threads": list(threads),
        **({"softirqs": [NET_RX]} if whole else {}),
        **_windows_only(scenario, host),
    }


def around_spec(run_id: str, recording: Path | str) -> Spec:
    """The spec of `latlab-agent trace` that keeps what a kernel does around late packets of other programs: whose they
    are is not known, so all threads, interrupts and softirqs count.
    """
    return {
        "run_id": run_id,
        "recording": str(recording),
        "realtime": {"lock_memory": False},
        "events": list(EVENTS),
        "windows_only": True,
        "buffer_kib": KEPT_KIB,
    }


def waking_spec(threads: Sequence[int | str], run_id: str, recording: Path | str) -> Spec:
    """The spec of `latlab-agent trace` next to a timer; threads: the one that waits for it."""
    return {
        "run_id": run_id,
        "recording": str(recording),
        "realtime": {"lock_memory": False},
        "events": [*EVENTS, *TIMER_INTERRUPTS],
        "threads": list(threads),
        "softirqs": [HRTIMER],
        "absent": "skip",
    }


def entry_spec(
    scenario: Scenario, guest: str, threads: Sequence[int | str], run_id: str, recording: Path | str
) -> Spec:
    """The spec of `latlab-agent trace` on the VM host of a guest that KVM runs; threads: its QEMU's and vhost's.

    KVM of another architecture has other tracepoints: those that are not there are left out.
    """
    timed = scenario.traced_timers
    return {
        "run_id": run_id,
        "recording": str(recording),
        "realtime": {"lock_memory": False},
        "events": [*EVENTS, *TIMER_INTERRUPTS, *ENTRIES],
        "threads": list(threads[: LIMITS.traced_threads]),
        "softirqs": [NET_RX],
        "absent": "skip",
        # A timer's breakdown is of all its instants.
        **({} if any(guest in scenario.probe_hosts(name) for name in timed) else _windows_only(scenario, guest)),
    }


def _windows_only(scenario: Scenario, host: str) -> Spec:
    """What makes a trace of what is received there keep only what is around late packets, where it is to."""
    return {"windows_only": True, "buffer_kib": KEPT_KIB} if host in scenario.kept else {}
