"""Short copies of the scenarios of published experiments, on boards in virtual time: what their authors found.

Each copy is the shipped file with fewer cells and a shorter duration. On every machine an image gives the same figures.
An image that was built again has other phases against the ticks of its kernels: medians and means are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from board_place import BoardPlace
from latlab_command import read

from latlab.scenario.load import read_yaml

SCENARIOS = Path(__file__).parents[2] / "scenarios"
Short = Callable[..., dict[str, Any]]


def shipped(name: str) -> dict[str, Any]:
    """The scenario of that name, as it was parsed."""
    whole: dict[str, Any] = read_yaml((SCENARIOS / f"{name}.yaml").read_text()).data
    return whole


@pytest.fixture
def short(place: BoardPlace) -> Short:
    """Runs a shipped scenario once, with this matrix and other parts replaced: the streams of each cell, by its slug.

    All cells are ok and trusted, and each has received all that was sent in it. doubts: (beginning of a cell's name,
    rule) that may find something.
    """

    def run(
        name: str, matrix: dict[str, Any], *, doubts: Collection[tuple[str, str]] = (), **parts: Any
    ) -> dict[str, Any]:
        path = place.folder / f"{name}.yaml"
        path.write_text(yaml.safe_dump(shipped(name) | {"exclude": []} | parts | {"repeat": 1, "matrix": matrix}))
        before = place.trace()
        ended = place.start("run", path).ended()
        assert ended.status == 0, ended.err + ended.out
        assert place.trace() == before
        result = read(max(place.runs.iterdir(), key=lambda run: run.stat().st_mtime_ns) / "result.json")
        assert result["label"] == "virtual time"
        found = {(reason["where"].partition(",")[0], reason["id"]) for reason in result["reasons"]}
        assert found <= set(doubts), result["reasons"]
        assert result["verdict"] == "trusted" or result["reasons"]
        assert {cell["status"] for cell in result["cells"]} == {"ok"}
        for cell in result["cells"]:
            for stream, block in cell["streams"].items():
                counts = block["counts"]
                (arrived,) = (counts[key] for key in ("received", "answered", "came") if key in counts)
                # A timer sends nothing: it has instants.
                assert arrived == counts.get("sent", counts["scheduled"]) > counts["warmup"], (stream, counts)
        return {cell["slug"]: cell["streams"] for cell in result["cells"]}

    return run


def test_receiving_in_a_virtual_machine_takes_longer_than_sending_and_load_from_who_sends_hurts(
    short: Short,
) -> None:
    probes = shipped("two-way-board")["probes"]
    # Both in one cell: a round trip of an idle cell is over before the other's begins, half a period later.
    probes["as-ecu"]["offset"] = "503us"
    # A load from who sends fills the line ahead of the packet; one the other way takes CPU time only.
    # A round trip next to load has the line to itself but for that.
    loads = ["none", "load-up", "load-down"]
    matrix = {"guests.vm1.bridge": ["vfio"], "probes": [list(probes), "as-ecu"], "loads": loads}
    exclude = [{"probes": "as-ecu", "loads": "none"}, *({"probes": list(probes), "loads": one} for one in loads[1:])]
    # Cells that differ in probes and loads alone share a test bed: board and guest boot once.
    cells = short("two-way-board", matrix, probes=probes, exclude=exclude, duration="500ms")
    (both,) = (cells.pop(slug) for slug in list(cells) if "loads=none" in slug)
    # Questions by questions, answers by answers. Cards and cable are the same both ways. What arrives in the virtual
    # machine also needs an interrupt of the host, its injection, and a vCPU that wakes; what leaves only needs the vCPU
    # that sends it.
    for leaves, arrives in (("as-sensor.up", "as-ecu.up"), ("as-ecu.down", "as-sensor.down")):
        out, into = (both[leg]["metrics"]["latency_user"]["p50"] for leg in (leaves, arrives))
        assert out < into

    def mean(cell: dict[str, Any], leg: str) -> float:
        value: float = cell[leg]["metrics"]["latency_user"]["mean"]
        return value

    up, down = (cells[f"guests.vm1.bridge=vfio,loads={load},probes=as-ecu"] for load in ("load-up", "load-down"))
    for leg, own, other in (("as-ecu.up", down, up), ("as-ecu.down", up, down)):
        assert mean(own, leg) > 1.5 * mean(both, leg), leg
        assert mean(own, leg) > 1.25 * mean(other, leg), leg
        # The bound of the claim in docs/experiments. Load from who sends makes the leg more than twice as long there.
        assert mean(other, leg) < 2 * mean(both, leg), leg


def test_a_ping_over_tcp_has_one_transaction_a_period_and_figures_of_them(short: Short) -> None:
    # On the board of the test before, from its snapshot.
    matrix = {"guests.vm1.bridge": ["vfio"], "probes": ["vm"]}
    (streams,) = short("netperf-rr-board", matrix, duration="500ms", warmup="100ms").values()
    vm = streams["vm"]
    assert vm["probe"]["told"].startswith("ping TCP; a question every 10.1 ms")
    assert (vm["counts"]["scheduled"], vm["counts"]["sent"], vm["counts"]["answered"]) == (50, 50, 50)
    for metric in ("round_trip", "round_trip_sent"):
        figures = vm["metrics"][metric]
        assert figures["n"] == 40
        assert 0 < figures["min"] <= figures["p50"] <= figures["max"] < 10_000_000


def test_a_timers_handler_is_later_in_a_guest_than_natively_and_later_still_under_load(short: Short) -> None:
    # Each in a separate cell, as in the shipped file: side by side they would share the CPU.
    matrix = {"probes": ["native", "guest"], "loads": ["none", "vm2-packets"]}
    exclude = [{"probes": "native", "loads": "vm2-packets"}]
    cells = short("irq-latency-board", matrix, exclude=exclude)
    native, alone, beside = (
        cells[f"loads={load},probes={probe}"][probe]["metrics"]["interrupt"]
        for probe, load in (("native", "none"), ("guest", "none"), ("guest", "vm2-packets"))
    )
    # An instant each 10.1 ms, of 1 s after the warm-up.
    assert all(one["n"] in (98, 99) for one in (native, alone, beside))
    for less, more in pairwise((native, alone, beside)):
        assert less["p50"] < more["p50"]
    # The guest's handler comes after the host's own interrupt, an exit, the injection and an entry.
    assert alone["mean"] > 5 * native["mean"]
    # The other guest's packets keep that CPU in the host's kernel, where no vCPU's priority interrupts it at once.
    assert beside["mean"] > 1.5 * alone["mean"]


def test_tuning_makes_the_maximum_of_dds_fall_and_hardly_moves_the_median(short: Short) -> None:
    boards = shipped("dds-payload-board")["matrix"]["hosts.board1.append"]
    matrix = {"hosts.board1.append": boards, "probes": ["hosts", "guests"], "probes.guests.size": ["64B"]}
    # Only before tuning may a guest throttle real-time threads: its vCPUs have no dedicated CPU, and nothing turns
    # throttling off.
    doubts = [("hosts.board1.append=not-tuned", "rt-throttled")]
    cells = short("dds-payload-board", matrix, exclude=[{"probes": "hosts"}], duration="600ms", doubts=doubts)
    trips = {"append=tuned" in slug: streams["guests"]["metrics"]["round_trip"] for slug, streams in cells.items()}
    before, after = trips[False], trips[True]
    # The host's other work is kept off the CPUs of the guests: what is late is late by less.
    assert after["max"] < before["max"] / 2
    # The bounds of the median are those of the claim in docs/experiments.
    assert 0.8 <= after["p50"] / before["p50"] <= 1.25
    # What was late before weighs in the mean, so that it may fall: it does not rise.
    assert after["mean"] < 1.15 * before["mean"]
