"""What the agents are told, from a cell's scenario: pure, so that `plan` prints just what `run` says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from latlab.scenario import End, Scenario
from latlab.scenario.streams import CLOCK_PORT
from latlab.scenario.tuning import Realtime

CLOCK_PERIOD_NS = 10_000_000

Spec = dict[str, Any]


@dataclass(frozen=True)
class Bed:
    """What only the machine knows once the test bed stands: MAC addresses and hardware stamping by `host.interface`."""

    macs: Mapping[str, str]
    hardware: frozenset[str] = frozenset()


def talkers(scenario: Scenario) -> list[str]:
    """The hosts that talk, in the order of their first stream."""
    return list(dict.fromkeys(stream.talker for stream in scenario.streams.values()))


def listeners(scenario: Scenario) -> list[str]:
    """The hosts that listen, in the order of their first stream."""
    return list(dict.fromkeys(stream.listener for stream in scenario.streams.values()))


def talk_spec(scenario: Scenario, host: str, bed: Bed, run_id: str, recording: Path | str) -> Spec:
    """The spec of `latlab-agent talk` on a host: all streams it talks."""
    tuning = scenario.tuning_of(host).talker
    names = [name for name, stream in scenario.streams.items() if stream.talker == host]
    ends = [scenario.route(name).talker_end for name in names]
    return {
        "run_id": run_id,
        "recording": str(recording),
        "realtime": _realtime(tuning),
        "busy_wait_ns": tuning.busy_wait,
        "stamps": {
            "sched": True,
            "software": True,
            "hardware": any(str(end) in bed.hardware for end in ends),
            "key": "auto",
        },
        "streams": [_talk_stream(scenario, name, bed) for name in names],
    }


def listen_spec(scenario: Scenario, host: str, bed: Bed, run_id: str, recording: Path | str) -> Spec:
    """The spec of `latlab-agent listen` on a host: all streams it listens to."""
    tuning = scenario.tuning_of(host).listener
    names = [name for name, stream in scenario.streams.items() if stream.listener == host]
    ends = [scenario.route(name).listener_end for name in names]
    return {
        "run_id": run_id,
        "recording": str(recording),
        "realtime": _realtime(tuning),
        "mode": tuning.mode,
        "busy_poll_us": tuning.busy_poll_us,
        "hardware_stamps": any(str(end) in bed.hardware for end in ends),
        "streams": [_listen_stream(scenario, name) for name in names],
    }


def clock_specs(
    scenario: Scenario, ends: tuple[End, End], run_id: str, recording: Path | str, count: int
) -> tuple[Spec, Spec]:
    """The specs of `latlab-agent clock`: the initiator's at the first end, the responder's at the second."""
    source, peer = (f"{scenario.address(end).ip}:{CLOCK_PORT}" for end in ends)
    realtime = {"lock_memory": False}
    initiator = {
        "role": "initiator",
        "run_id": run_id,
        "source": source,
        "peer": peer,
        "period_ns": CLOCK_PERIOD_NS,
        "count": count,
        "recording": str(recording),
        "realtime": realtime,
    }
    responder = {"role": "responder", "run_id": run_id, "listen": peer, "peer": source, "realtime": realtime}
    return initiator, responder


def stream_entries(scenario: Scenario) -> list[dict[str, Any]]:
    """The `streams` of cell.json."""
    entries = []
    for name, stream in scenario.streams.items():
        launch = stream.launch_time
        entries.append(
            {
                "name": name,
                "stream": scenario.stream_number(name),
                "talker": stream.talker,
                "listener": stream.listener,
                "interface": scenario.route(name).talker_end.interface,
                "period_ns": stream.period,
                "offset_ns": stream.offset,
                "size": stream.size,
                "count": scenario.packet_count(name),
                "priority": stream.priority,
                "transport": stream.transport,
                "vlan": stream.vlan,
                "launch_time": None if launch is None else _launch_time(launch),
            }
        )
    return entries


def _realtime(tuning: Realtime) -> Spec:
    return {
        "fifo": tuning.fifo,
        "cpus": list(tuning.cpus) if tuning.cpus else None,
        "lock_memory": tuning.lock_memory,
        "cpu_dma_latency_us": tuning.cpu_dma_latency_us,
        "timer_slack_ns": tuning.timer_slack,
    }


def _launch_time(launch: Any) -> Spec:
    return {"lead_ns": launch.lead, "clock": launch.clock, "deadline": launch.deadline}


def _talk_stream(scenario: Scenario, name: str, bed: Bed) -> Spec:
    stream, route = scenario.streams[name], scenario.route(name)
    launch = stream.launch_time
    spec = {
        "stream": scenario.stream_number(name),
        "name": name,
        "interface": route.talker_end.interface,
        "period_ns": stream.period,
        "offset_ns": stream.offset,
        "size": stream.size,
        "count": scenario.packet_count(name),
        "priority": stream.priority,
        "batch": launch.batch if launch else 1,
        "launch_time": _launch_time(launch) if launch else None,
    }
    if stream.transport == "ethernet":
        transport: Spec = {
            "kind": "ethernet",
            "destination": bed.macs[str(route.listener_end)],
            "ethertype": stream.ethertype,
            "vlan": stream.vlan,
            "pcp": stream.pcp,
        }
    else:
        transport = {
            "kind": "udp",
            "source": f"{scenario.address(route.talker_end).ip}:0",
            "destination": f"{scenario.address(route.listener_end).ip}:{scenario.port(name)}",
        }
    return spec | {"transport": transport}


def _listen_stream(scenario: Scenario, name: str) -> Spec:
    stream, route = scenario.streams[name], scenario.route(name)
    if stream.transport == "ethernet":
        transport: Spec = {"kind": "ethernet", "ethertype": stream.ethertype, "vlan": stream.vlan}
    else:
        transport = {
            "kind": "udp",
            "listen": f"{scenario.address(route.listener_end).ip}:{scenario.port(name)}",
        }
    return {
        "stream": scenario.stream_number(name),
        "name": name,
        "interface": route.listener_end.interface,
        "size": stream.size,
        "count": scenario.packet_count(name),
        "transport": transport,
    }
