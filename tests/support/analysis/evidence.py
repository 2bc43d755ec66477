"""Evidence for the rules of trust: a cell that breaks none of them, and what to change in it."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from latlab.analysis.evidence import Evidence
from latlab.recordings.arrow import RecordingGap
from latlab.recordings.recording_findings import Impossible
from latlab.result.types import PtpPort, Stream
from support.analysis.packets import cell_document, packet_table, recorded_cell, result_streams
from support.results import partial

Case = tuple[str, str, Evidence, str, str]
"""A rule's id, its severity, evidence that breaks it, and words of where it is broken and of what is there."""

MS = 1_000_000
ROW = {"wake_due": 0, "wake": 5, "tx_sched": 8, "tx_soft": 10, "rx_soft": 100, "rx_user": 120}
TAI_OFFSET = 37_000_000_000


@dataclass(frozen=True)
class Seen:
    complete: bool = True
    present: bool = True
    rows: int = 10
    stated: int | None = None
    impossible: tuple[Impossible, ...] = ()
    gaps: tuple[RecordingGap, ...] = ()
    stray: int = 0
    launch_mismatched: int = 0
    unconverted: int = 0


def clocks(steered_ns: tuple[int, ...] = (), **change: int) -> pl.DataFrame:
    """Two readings a second apart; `real_ns=5` moves the second reading of that clock by 5 ns.

    steered_ns: as many readings more, each with MONOTONIC so far ahead of MONOTONIC_RAW since the one before.
    """
    first = {"tai_ns": 10**9 + TAI_OFFSET, "real_ns": 10**9, "monotonic_ns": 10**9, "monotonic_raw_ns": 10**9}
    columns = {name: [at, at + 10**9 + change.get(name, 0)] for name, at in first.items()}
    for ahead in steered_ns:
        for name, readings in columns.items():
            readings.append(readings[-1] + 10**9 + (0 if name == "monotonic_raw_ns" else ahead))
    return pl.DataFrame({**columns, "bracket_ns": [change.get("bracket_ns", 50)] * (2 + len(steered_ns))})


def facts(preempt_rt: bool = True, isolated: tuple[int, ...] = (1,), **counters: int) -> dict[str, Any]:
    return {
        "kernel": {"preempt_rt": preempt_rt, "release": "6.12.0-rt"},
        "cpu": {"isolated": list(isolated), "steal_ns": counters.get("steal_ns", 0)},
        "scheduler": {"rt_throttled_count": counters.get("throttled", 0), "rt_runtime_us": 950_000},
        "taken_tai_ns": counters.get("taken_tai_ns", 0),
    }


def agents(talk: dict[str, Any] | None = None, **listen: Any) -> list[dict[str, Any]]:
    ready = {"realtime": {"cpus": [1], "problems": []}}
    talked = {"streams": [{"stream": 1, "sent": 10, "send_errors": 0}], "ring_full": 0, **(talk or {})}
    listened = {"streams": [], "ring_full": 0, "socket_drops": 0, **listen}
    return [
        {"host": "sensor", "verb": "talk", "ready": ready, "done": talked, "error": None},
        {"host": "ecu", "verb": "listen", "ready": ready, "done": listened, "error": None},
    ]


def observer(clock: dict[str, Any] | None) -> dict[str, Any]:
    """The agent that observes a ptp4l; clock: what kept it from reading the clock that is turned, if anything."""
    ready = {"realtime": {"cpus": [1], "problems": []}, "clock": clock}
    return {"host": "ecu", "verb": "ptp", "ready": ready, "done": {"ring_full": 0}, "error": None}


_SUMMARISED: dict[str, dict[str, Stream]] = {}
"""By what they were made of: most evidence differs in something else."""


def evidence(rows: list[dict[str, Any]] | None = None, **cell: Any) -> Evidence:
    """Evidence that breaks no rule, but for the packets and the keys of cell.json that are given."""
    known = recorded_cell(**{"agents": agents(), **cell})
    made_of = json.dumps([rows, cell], sort_keys=True)
    if made_of not in _SUMMARISED:
        _SUMMARISED[made_of] = result_streams(known, packet_table(rows or [ROW] * 10))
    return Evidence(
        cell=known,
        streams={**_SUMMARISED[made_of]},
        findings={"talker-sensor.sent": Seen()},
        clocks={"talker-sensor": clocks()},
        facts_before={"sensor": facts(), "ecu": facts()},
        facts_after={"sensor": facts(taken_tai_ns=2 * 10**9), "ecu": facts(taken_tai_ns=2 * 10**9)},
    )


def bounded(*bounds_ns: int | None) -> Evidence:
    """Evidence whose packets have these bounds of the two clocks."""
    packets = packet_table([ROW] * len(bounds_ns)).with_columns(pl.Series("clock_bound_ns", bounds_ns, pl.Int64))
    good = evidence()
    return replace(good, streams=result_streams(good.cell, packets))


def bound(lower: int, upper: int) -> list[dict[str, Any]]:
    return [{"from": "sensor", "to": "ecu", "source": "exchange", "lower_ns": lower, "upper_ns": upper}]


def launched(lead_ns: int, clock: str = "tai") -> list[dict[str, Any]]:
    stream = cell_document()["streams"][0]
    return [{**stream, "interface": "eth0", "launch_time": {"lead_ns": lead_ns, "clock": clock, "deadline": False}}]


def through(*qdiscs: dict[str, Any], taken_tai_ns: int = 0) -> dict[str, Any]:
    """The facts of a talker whose eth0 has these qdiscs."""
    return {"sensor": facts(taken_tai_ns=taken_tai_ns) | {"interfaces": {"eth0": {"qdiscs": list(qdiscs)}}}}


def across_xdp(counts: str, *talkers: str, **changes: Any) -> Evidence:
    """Ten packets of each talker that arrived at a guest behind an XDP bridge, which counted this."""
    detail = f"eth0 native, tap0 native; {counts}; packets carried by QEMU"
    bridge = {"kind": "xdp", "host": "ecu", "guests": ["vm1"], "detail": detail, **changes}
    (stream,) = cell_document()["streams"]
    streams = [
        {**stream, "name": f"from {talker}", "stream": number, "talker": talker, "listener": "vm1"}
        for number, talker in enumerate(talkers or ("sensor",), start=1)
    ]
    cell = recorded_cell(streams=streams, bridges=[bridge])
    packets = pl.concat(packet_table([ROW] * 10, stream["stream"]) for stream in streams)
    return Evidence(cell, result_streams(cell, packets))


def stream_of(count: int) -> list[dict[str, Any]]:
    return [{**cell_document()["streams"][0], "count": count}]


def talked(count: int) -> dict[str, Any]:
    return {"streams": [{"stream": 1, "sent": count, "send_errors": 0}]}


def ptp(**changes: Any) -> Evidence:
    """Evidence with a slave of PTP's, as the result describes it."""
    spell = {"from_ns": 10**9, "to_ns": None, "why": "no Sync was received"}
    port = {
        "port": "ecu.eth0",
        "role": "slave",
        "acts_as": "slave",
        "limit_ns": 1_000,
        "readings": 8,
        "grandmasters": ["a"],
        "checked": None,
    }
    good = evidence()
    whole = {**port, "unlocked": [], **({"unlocked": [spell]} if changes.pop("lost", False) else {}), **changes}
    return replace(good, ptp=[partial(PtpPort, whole)])


def step(**changes: Any) -> dict[str, Any]:
    done = {"host": "ecu", "title": "give the vCPU SCHED_FIFO 1", "command": "chrt -f -p 1 4711"}
    return {**done, "expected": "SCHED_FIFO 1", "actual": "SCHED_FIFO 1", "ok": True, **changes}


SILENT = {"arrival": None, "wake_due": 0, "wake": 5, "submit": 6}
GOOD = evidence(steps=[step()], rechecks=[step()])
EARLY = [{**ROW, "tx_soft": -300, "rx_soft": -200, "rx_user": -150}] * 10


LATE = [ROW] * 9 + [{**ROW, "rx_user": 200_120}]
"""Ten packets of which the last one's listener had it 200 µs later than usual."""


def merged(one: Any, other: Any) -> Any:
    """Nested facts with others put into them."""
    if isinstance(one, dict) and isinstance(other, dict):
        return {**one, **{key: merged(one.get(key), value) for key, value in other.items()}}
    return other


def on_ecu(
    before: dict[str, Any],
    after: dict[str, Any] | None = None,
    rows: list[dict[str, Any]] | None = None,
    seconds: int = 2,
    **cell: Any,
) -> Evidence:
    """Evidence with a late packet at the listener, ecu, and these facts of it added: before, and by default after.

    ecu has CPUs 0 to 3, and its listener is bound to CPU 1. seconds: from the facts before to those after.
    """
    found = evidence(rows or LATE, **cell)
    four = {"cpu": {"online": [0, 1, 2, 3]}}
    then = merged(merged(facts(), four), before)
    now = merged(merged(then, facts(taken_tai_ns=seconds * 10**9)), after or {})
    return replace(
        found,
        facts_before={"sensor": facts(), "ecu": merged(then, {"taken_tai_ns": 0})},
        facts_after={"sensor": facts(taken_tai_ns=2 * 10**9), "ecu": merged(now, {"taken_tai_ns": seconds * 10**9})},
    )


def guest(**changes: Any) -> dict[str, Any]:
    """An entry of cell.json's guests: one of ecu's, by KVM."""
    return {"name": "vm1", "host": "ecu", "acceleration": "kvm", "vcpus": 2, **changes}


def to_guest(**stream: Any) -> list[dict[str, Any]]:
    """The stream, to the guest."""
    return [{**cell_document()["streams"][0], "listener": "vm1", **stream}]


def every_cpu(**one: Any) -> dict[str, Any]:
    """The same facts of each of four CPUs."""
    return {"cpu": {"cpus": {str(cpu): one for cpu in range(4)}}}


def sleeping(time_us: int, latency_us: int = 133) -> dict[str, Any]:
    """Facts of CPU 1 that has been in its deepest idle state for so long."""
    state = {"name": "C6", "latency_us": latency_us, "time_us": time_us}
    shallow = {"name": "C1", "latency_us": 2, "time_us": 10 * time_us}
    return {"cpu": {"cpus": {"1": {"idle_states": {"1": shallow, "3": state}}}}}


def thread(**changes: Any) -> dict[str, Any]:
    """A thread of facts."""
    return {"id": 10, "process": 9, "policy": "SCHED_OTHER", "priority": 0, "cpus": [0, 1], "last_cpu": 0, **changes}


def threads(**found: dict[str, Any]) -> dict[str, Any]:
    """Facts with these threads; their names are written with underscores for spaces, and for slashes two."""
    named = {name.replace("__", "/").replace("_", " "): one for name, one in found.items()}
    return {"processes": {"threads": named}}


def card(**changes: Any) -> dict[str, Any]:
    """Facts with a network card eth0, which has interrupt 126 on CPU 1."""
    irq = {"name": "eth0-TxRx-0", "affinity": [1], "cpu_counts": {"1": 100}}
    return {
        "interfaces": {"eth0": {"irqs": [126], **changes}},
        "interrupts": {"irqs": {"126": irq}},
    }
