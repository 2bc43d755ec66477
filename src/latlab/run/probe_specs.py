"""The specs of the probes' agents: pure, so that `plan` prints what `run` sends.

Who asks is called `ping`, who answers `pong`, by whatever they do it; who waits for instants is `timer`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from latlab.run.specs import BedFacts, realtime_spec, stamps_by
from latlab.scenario import Scenario
from latlab.scenario.flows import dds_domains
from latlab.scenario.parts import End
from latlab.scenario.probes import DdsProbe, PingProbe
from latlab.scenario.tuning import ListenerTuning, TalkerTuning
from latlab.testbed.probes import dds
from latlab.testbed.probes.dds import Cyclone, DdsPlan, DdsSide, Mode
from latlab.testbed.step import Spec


def pings(scenario: Scenario) -> list[str]:
    """The probes that our own agents ask and answer, in the scenario's order."""
    return [name for name, probe in scenario.probes.items() if probe.is_recorded]


def verb_of(scenario: Scenario, name: str, role: str) -> str:
    """The agent's verb by which a probe is asked (role `ping`), or answered (`pong`)."""
    return scenario.probes[name].verbs[role]


def ping_spec(scenario: Scenario, name: str, bed: BedFacts, run_id: str, recording: Path | str) -> Spec:
    """The spec of who asks: of `latlab-agent ping`, or `dds`."""
    if isinstance(scenario.probes[name], DdsProbe):
        return dds.ping_spec(dds_plan(scenario, name, bed, run_id, recording))
    probe, route = _ping(scenario, name), scenario.route(f"{name}.up")
    talker, count = scenario.tuning_of(probe.from_).talker, scenario.packet_count(f"{name}.up")
    transport: Spec
    if probe.transport == "ethernet":
        transport = {"kind": "ethernet", "destination": bed.macs[str(route.listener_end)], **_frames(probe)}
    else:
        port = scenario.port(f"{name}.up")
        transport = {
            "kind": probe.transport,
            "source": f"{route.source}:0",
            "destination": f"{route.destination}:{port}",
        }
    return {
        "side": {
            **_side(scenario, name, bed, route.talker_end, run_id, recording),
            "realtime": realtime_spec(talker),
            "busy_wait_ns": talker.busy_wait,
        },
        "period_ns": probe.period,
        "offset_ns": probe.offset,
        "count": count,
        "duration_ns": scenario.duration,
        "timeout_ns": probe.timeout,
        "transport": transport,
    }


def pong_spec(scenario: Scenario, name: str, bed: BedFacts, run_id: str, recording: Path | str) -> Spec:
    """The spec of who answers: of `latlab-agent pong`, or `dds`."""
    if isinstance(scenario.probes[name], DdsProbe):
        return dds.pong_spec(dds_plan(scenario, name, bed, run_id, recording))
    probe, route = _ping(scenario, name), scenario.route(f"{name}.up")
    transport: Spec
    if probe.transport == "ethernet":
        transport = {"kind": "ethernet", **_frames(probe)}
    else:
        transport = {"kind": probe.transport, "listen": f"{route.listen}:{scenario.port(f'{name}.up')}"}
    return {
        "side": {
            **_side(scenario, name, bed, route.listener_end, run_id, recording),
            "realtime": realtime_spec(scenario.tuning_of(probe.to).listener),
        },
        "transport": transport,
    }


def timer_spec(scenario: Scenario, name: str, run_id: str, recording: Path | str) -> Spec:
    """The spec of `latlab-agent timer`. Its thread runs as its host's talker does: it waits for instants, too."""
    probe = scenario.timers[name]
    return {
        "run_id": run_id,
        "recording": str(recording),
        "realtime": realtime_spec(scenario.tuning_of(probe.on).talker),
        "stream": scenario.probe_number(name),
        "name": name,
        "period_ns": probe.period,
        "count": scenario.instant_count(name),
        "offset_ns": probe.offset,
        "how": probe.how,
        "threshold_ns": probe.threshold,
        "window_ns": probe.window,
        "trace": True if probe.trace == "threads" else probe.trace,
    }


def _ping(scenario: Scenario, name: str) -> PingProbe:
    probe = scenario.probes[name]
    assert isinstance(probe, PingProbe), name
    return probe


def _side(scenario: Scenario, name: str, bed: BedFacts, end: End, run_id: str, recording: Path | str) -> Spec:
    """What both sides' specs have in common, and their interface."""
    probe = _ping(scenario, name)
    kernel = probe.timestamps == "kernel"
    # Cards stamp packets, and the socket does not say of which message.
    hardware = kernel and str(end) in bed.hardware and probe.transport != "tcp"
    listener = scenario.tuning_of(end.host).listener
    return {
        "run_id": run_id,
        "recording": str(recording),
        "stamps": {
            "sched": kernel,
            "software": kernel,
            "hardware": hardware,
            "key": "auto",
            # Over TCP there are those of programs, or none: an emulated kernel's are asked for, too.
            "by": scenario.timestamps.by if probe.transport == "tcp" else stamps_by(scenario, end.host, bed),
        },
        "mode": listener.mode,
        "busy_poll_us": listener.busy_poll_us,
        "hardware_stamps": hardware,
        "software_stamps": kernel,
        "up": scenario.stream_number(f"{name}.up"),
        "down": scenario.stream_number(f"{name}.down"),
        "name": name,
        "interface": bed.places.device(end),
        "size": probe.size,
        "priority": probe.priority,
    }


def _frames(probe: PingProbe) -> Spec:
    return {"ethertype": probe.ethertype, "vlan": probe.vlan, "pcp": probe.pcp}


# The specs of both sides of a probe over DDS, from a cell's scenario: pure, as the other specs.


RECEIVES: Final = "recvUC"
"""Cyclone's thread that takes samples from the socket."""
_MODES: Final[dict[str, Mode]] = {"listener": "listener", "waitset": "block", "spin": "spin"}


def dds_plan(scenario: Scenario, name: str, bed: BedFacts, run_id: str, recording: Path | str) -> DdsPlan:
    """The probe, resolved. Who asks runs as its host's talker, who answers as its host's listener; so does Cyclone's
    receiving thread.

    recording: of the side that gets the spec.
    """
    probe, route = scenario.probes[name], scenario.route(f"{name}.up")
    assert isinstance(probe, DdsProbe), name
    talker, listener = scenario.tuning_of(probe.from_).talker, scenario.tuning_of(probe.to).listener
    here, there = bed.places.device(route.talker_end), bed.places.device(route.listener_end)
    return DdsPlan(
        name=name,
        run_id=run_id,
        asker=_dds_side(probe, here, str(route.destination), talker, recording),
        answerer=_dds_side(probe, there, str(route.source), listener, recording),
        domain=dds_domains(scenario.probes)[name],
        up=scenario.stream_number(f"{name}.up"),
        down=scenario.stream_number(f"{name}.down"),
        size=probe.size,
        period_ns=probe.period,
        duration_ns=scenario.duration,
        timeout_ns=probe.timeout,
        offset_ns=probe.offset,
        busy_wait_ns=talker.busy_wait,
        reliable=probe.reliable,
        stamps_by=scenario.timestamps.by if probe.timestamps == "kernel" else None,
    )


def _dds_side(
    probe: DdsProbe, interface: str, peer: str, tuning: TalkerTuning | ListenerTuning, recording: Path | str
) -> DdsSide:
    own = {} if tuning.fifo is None else {RECEIVES: tuning.fifo}
    # A thread that spins leaves Cyclone's nothing of its CPU.
    cpus = tuple(tuning.cpus) if tuning.cpus and probe.take != "spin" else None
    return DdsSide(
        cyclone=Cyclone(interface, (peer,), own | probe.threads),
        recording=str(recording),
        mode=_MODES[probe.take],
        cpus=cpus,
        realtime=realtime_spec(tuning),
    )
