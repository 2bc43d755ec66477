"""A run over payloads, made of figures: round trips by size, at two MTUs, before and after tuning, 2 times each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from latlab.analysis.imported import no_counts
from latlab.analysis.statistics import NAMES
from latlab.analysis.summary import JudgedCell, cell_of, stream_of
from latlab.evaluation.run import judged_result
from latlab.recordings.run import RecordedRun, RunVersions
from latlab.recordings.run_folder import RunFolder
from latlab.result.types import Metric
from latlab.scenario import MatrixCell, cells, load_scenario

US = 1_000
REPEATS = 2
SCENARIO = """\
name: payload
hosts: {sensor: {kind: netns}, ecu: {kind: netns}}
links: [{ends: [sensor.eth0, ecu.eth0]}]
probes: {rr: {probe: ping, from: sensor, to: ecu, size: 64B}}
duration: 9s
repeat: 2
matrix:
  links.0.mtu: [1500, 9000]
  tuning.ecu.listener.fifo: [null, 80]
  probes.rr.size: [64B, 1kB, 1400B, 2kB, 8kB, 32kB]
"""


def figures(size: int, *, mtu: int, tuned: bool, repeat: int) -> dict[str, Any]:
    """A cell's round trips in ns: the median grows with the size, and by what tuning takes off the maximum falls."""
    frames = -(-(size + 28) // mtu)
    p50 = round((40 + size / 250 + 4 * frames) * US) + 300 * repeat
    late = 1.6 if tuned else 6 + (size * 7 + repeat * 13) % 31
    found = {"n": 4_000, "min": p50 * 4 // 5, "mean": p50 + 500, "p50": p50, "p90": p50 + 2_000}
    return dict.fromkeys(NAMES) | found | {"p99": p50 + p50 // 5, "max": round(p50 * late), "stddev": 900}


def write_swept_run(path: Path, scenario: str = SCENARIO) -> RunFolder:
    """The run folder at `path`. 32kB was not measured at MTU 9000; of 8kB there n is too small for a p99."""
    folder = RunFolder(path)
    path.mkdir()
    folder.write_run(RecordedRun(run=path.name, name="payload", versions=RunVersions(latlab="0.2.0")))
    folder.scenario_path.write_text(scenario)
    runs = [(one, repeat) for one in cells(load_scenario(folder.scenario_path)) for repeat in range(1, REPEATS + 1)]
    documents = [_cell(folder, order, *one) for order, one in enumerate(runs, start=1)]
    folder.write_result(judged_result(folder.run(), documents, {}).document())
    return folder


def _cell(folder: RunFolder, order: int, one: MatrixCell, repeat: int) -> JudgedCell:
    ((name, probe),) = one.scenario.probes.items()
    ends, mtu = (getattr(probe, "from_"), getattr(probe, "to")), one.scenario.links[0].mtu  # noqa: B009
    tuned = one.scenario.tuning_of("ecu").listener.fifo is not None
    size = int(getattr(probe, "size"))  # noqa: B009
    cell = {
        "format": "latlab.cell/1", "cell": dict(one.label), "slug": one.slug, "repeat": repeat, "order": order,
        "status": "ok", "reason": None, "label": "functional only", "run_id": "8f", "start_tai_ns": 0,
        "warmup_ns": 0, "duration_ns": one.scenario.duration, "streams": [], "agents": [], "loads": [], "clocks": [],
        "probes": [{"name": name, "probe": "ping", "from": ends[0], "to": ends[1], "period_ns": None, "asked": {}}],
        "steps": [], "bridges": [], "guests": [_guest(name) for name in one.scenario.guests],
    }  # fmt: skip
    (home := folder.add_cell(one.slug, repeat)).write_cell(cell)
    found = figures(size, mtu=mtu, tuned=tuned, repeat=repeat)
    if name == "guests":
        found |= {key: 3 * found[key] for key in ("min", "mean", "p50", "p90", "p99", "max")}
    if (mtu, size) == (9000, 8_000):
        found |= {"n": 300, "p99": None}
    shared = {
        "lost": 0,
        "duplicated": 0,
        "reordered": 0,
        "missing": 0,
        "unbounded": 0,
        "from": "launch",
        "to": "answered",
        "uncertainty_ns": 0,
    }
    block: dict[str, Any] = {
        "counts": no_counts(),
        "silent": None,
        "gates": None,
        "anomalies": None,
        "windows": None,
    }
    # Nothing but figures is known, as of what a tool measures: there is no packet to draw.
    metric = Metric.model_validate(shared | found | {"kept": "summary"})
    streams = {name: stream_of(home.cell(), name, **block, metrics={"round_trip": metric})}
    left_out = (mtu, size) == (9000, 32_000)
    return JudgedCell.of(cell_of(home.cell(), {} if left_out else streams), [])


SEVERAL = """\
name: payload
hosts: {sensor: {kind: netns}, ecu: {kind: netns}}
links: [{ends: [sensor.eth0, ecu.eth0]}]
guests: {vm1: {host: ecu, uplink: eth0, image: debian-rt}, vm2: {host: ecu, uplink: eth0, image: debian-rt}}
probes:
  hosts: {probe: ping, from: sensor, to: ecu, size: 64B}
  guests: {probe: ping, from: vm1, to: vm2, size: 64B}
duration: 9s
matrix:
  guests:
    - vm1: {host: ecu, uplink: eth0, bridge: tap, image: debian-rt}
      vm2: {host: ecu, uplink: eth0, bridge: tap, image: debian-rt}
    - vm1: {host: ecu, uplink: eth0, bridge: macvtap, image: debian-rt}
      vm2: {host: ecu, uplink: eth0, bridge: macvtap, image: debian-rt}
  tuning.ecu.listener.fifo: [null, 80]
  probes: [hosts, guests]
  probes.hosts.size: [64B, 1kB, 1400B, 2kB, 8kB, 32kB]
  probes.guests.size: [64B, 1kB, 1400B, 2kB, 8kB, 32kB]
"""


def write_several_run(path: Path) -> RunFolder:
    """Of two probes, hosts and guests, behind two bridges, before and after tuning."""
    return write_swept_run(path, SEVERAL)


def _guest(name: str) -> dict[str, Any]:
    return {
        "name": name, "host": "ecu", "image": "debian-rt", "kernel": "6.1.0-41-rt-amd64", "acceleration": "tcg",
        "vcpus": 1, "memory": 512 * 2**20, "started": "snapshot",
    }  # fmt: skip
