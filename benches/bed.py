"""Two namespaces joined by a veth, and one talker and one listener on them: what the benchmarks share."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from latlab.analysis.comparison.effect import critical
from latlab.hosts import Host, NamespaceHost
from latlab.recordings.packets import build_packets
from latlab.recordings.run_folder import CellFolder
from latlab.run.agent import Agent
from latlab.run.entries import stream_entries
from latlab.run.specs import BedFacts, listen_spec, talk_spec
from latlab.scenario import Scenario, parse
from latlab.testbed.apply import TestBed
from latlab.testbed.makers import make_hosts, test_bed_steps
from latlab.testbed.preflight import find_agent
from latlab.testbed.site import Site

LAUNCH_LEAD_NS = 200_000_000
TALKER_CPU = 0
TALKER_FIFO = 90


@dataclass(frozen=True)
class Setting:
    """What both sides of a comparison are given: period and busy wait in ns, probe size in bytes, seconds.

    stamped_by: as `timestamps.by` of a scenario.
    """

    period_ns: int
    size: int = 64
    seconds: float = 3.0
    busy_wait_ns: int = 0
    listener_cpu: int = 1
    listener_fifo: int = 80
    tx_stamps: bool = True
    stamped_by: str = "auto"

    @property
    def packets(self) -> int:
        """Packets of the run."""
        return int(self.seconds * 1e9 // self.period_ns)


@dataclass
class Measured:
    """One run of ours: the packet table, and what talker and listener said at the end."""

    packets: pl.DataFrame
    talk: dict[str, object] = field(default_factory=dict)
    listen: dict[str, object] = field(default_factory=dict)

    def difference(self, end: str, start: str) -> NDArray[np.int64]:
        """end − start in ns, of the packets that have both."""
        columns = self.packets.select(pl.col(end) - pl.col(start)).drop_nulls()
        return columns.to_series().to_numpy()


def scenario(setting: Setting) -> Scenario:
    """One UDP stream from `a` to `b`, each end pinned to its CPU."""
    parsed = parse(
        {
            "name": "bench",
            "hosts": {"a": {"kind": "netns"}, "b": {"kind": "netns"}},
            "links": [{"ends": ["a.eth0", "b.eth0"]}],
            "streams": {
                "probe": {
                    "talker": "a",
                    "listener": "b",
                    "period": f"{setting.period_ns}ns",
                    "size": f"{setting.size}B",
                    "priority": 6,
                }
            },
            "tuning": {
                "a": {
                    "talker": {
                        "fifo": TALKER_FIFO,
                        "cpus": [TALKER_CPU],
                        "busy_wait": f"{setting.busy_wait_ns}ns",
                    }
                },
                "b": {"listener": {"fifo": setting.listener_fifo, "cpus": [setting.listener_cpu]}},
            },
            "timestamps": {"by": setting.stamped_by},
            "duration": f"{setting.packets * setting.period_ns}ns",
        }
    )
    if parsed.scenario is None:
        raise ValueError(parsed.findings)
    return parsed.scenario


@asynccontextmanager
async def two_namespaces(setting: Setting) -> AsyncIterator[TestBed]:
    """The test bed, taken down again at the end."""
    tag = secrets.token_hex(2)
    wanted = scenario(setting)
    async with TestBed(f"bench-{tag}", make_hosts(wanted, Site(tag))) as bed:
        await bed.apply(test_bed_steps(wanted, Site(tag)))
        yield bed


def namespace_of(host: Host) -> str:
    """The name of the network namespace that a host of `two_namespaces` is."""
    assert isinstance(host, NamespaceHost)
    return host.namespace


async def ours(bed: TestBed, setting: Setting) -> Measured:
    """One run of talker and listener."""
    wanted, binary = scenario(setting), str(find_agent())
    run_id = secrets.token_hex(8)
    with tempfile.TemporaryDirectory() as place:
        folder = CellFolder(Path(place))
        at = BedFacts({})
        listen = listen_spec(wanted, "b", at, run_id, folder.prefix("listen", "b"))
        talk = talk_spec(wanted, "a", at, run_id, folder.prefix("talk", "a"))
        stamps = {"sched": setting.tx_stamps, "software": setting.tx_stamps}
        talk = {**talk, "stamps": talk["stamps"] | stamps}
        listener = await Agent.start(bed, bed.hosts["b"], binary, "listen", listen)
        talker = await Agent.start(bed, bed.hosts["a"], binary, "talk", talk)
        start = talker.tai_ns + LAUNCH_LEAD_NS
        talker.begin(start)
        talked = (await talker.done).document()
        await talker.stop(bed)
        listened = (await listener.stop(bed)).document()
        folder.write_cell(
            {
                "format": "latlab.cell/1",
                "slug": "all",
                "repeat": 1,
                "order": 1,
                "status": "ok",
                "label": "measured",
                "run_id": run_id,
                "start_tai_ns": start,
                "warmup_ns": 0,
                "duration_ns": wanted.duration,
                "streams": [stream.document() for stream in stream_entries(wanted)],
                "agents": [agent.known.document() for agent in (talker, listener)],
            }
        )
        return Measured(build_packets(folder), talked, listened)


@contextmanager
def awake() -> Iterator[None]:
    """No CPU enters a deep idle state then, for any program: latlab's agents request that, and most peers do not."""
    with open("/dev/cpu_dma_latency", "wb", buffering=0) as request:
        request.write((0).to_bytes(4, "little"))
        yield


def quantile(values: NDArray[np.int64] | Sequence[float], p: float) -> float:
    """The nearest-rank p-quantile."""
    ordered = np.sort(np.asarray(values))
    return float(ordered[min(len(ordered) - 1, int(np.ceil(p * len(ordered))) - 1)])


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> str:
    """min/median/max of ours ÷ theirs, pair by pair."""
    pairs = sorted(a / b for a, b in zip(ours, theirs, strict=True))
    return f"{pairs[0]:.2f} / {pairs[len(pairs) // 2]:.2f} / {pairs[-1]:.2f}"


def mean_ratio(ours: Sequence[float], theirs: Sequence[float]) -> str:
    """The geometric mean of ours ÷ theirs, pair by pair, with its 95 % interval: Student's t of the logarithms."""
    logs = np.log([a / b for a, b in zip(ours, theirs, strict=True)])
    middle = f"{np.exp(logs.mean()):.3f}"
    if len(logs) < 2:
        return f"{middle} [one round has no interval]"
    half = critical(0.05, len(logs) - 1) * logs.std(ddof=1) / np.sqrt(len(logs))
    low, high = np.exp(logs.mean() - half), np.exp(logs.mean() + half)
    return f"{middle} [{low:.3f}, {high:.3f}] (95 %)"


def need_root() -> None:
    """End the benchmark here without privileges."""
    if os.geteuid() != 0:
        sys.exit("run as root: namespaces and real-time scheduling need it (make bench)")


def tool(argv: Sequence[str], timeout_s: float) -> str:
    """What a peer printed; ends the benchmark with its words if it failed."""
    done = subprocess.run(argv, capture_output=True, text=True, timeout=timeout_s, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(argv)}: status {done.returncode}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout
