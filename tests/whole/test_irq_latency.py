"""The ready-made scenario of interrupt latency: one small cell of it, a guest and its host at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from latlab.scenario.load import read_yaml
from support.command import Place
from support.guests.runs import IMAGE, GuestRun, guest_run, image_cache
from support.machine import private_network

# The scenario has everything on CPU 0, where another test may have a board at SCHED_FIFO.
pytestmark = [pytest.mark.real, pytest.mark.alone]

READY_MADE = Path(__file__).parents[2] / "scenarios" / "irq-latency.yaml"
LOAD = "host-calls"
BOTH = {"native": "ecu", "guest": "vm1"}


def small() -> dict[str, Any]:
    """The cell of both timers with a busy process on the host: short, of the image that all tests share, without the
    second guest, which the other loads are on.
    """
    scenario: dict[str, Any] = read_yaml(READY_MADE.read_text()).data
    del scenario["guests"]["vm2"], scenario["tuning"]["ecu"]["guests"]["vm2"]
    scenario["guests"]["vm1"] |= {"image": IMAGE, "memory": "256MiB"}
    scenario["probes"] = {
        name: probe | {"window": "500ms"} for name, probe in scenario["probes"].items() if name in BOTH
    }
    scenario["loads"] = {LOAD: scenario["loads"][LOAD]}
    return scenario | {"duration": "2s", "warmup": 0, "repeat": 1, "matrix": {"probes": [list(BOTH)], "loads": [LOAD]}}


@pytest.fixture(scope="module")
def run(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuestRun]:
    """That cell, measured."""
    cache = image_cache(pytestconfig)
    with private_network(), Place(tmp_path_factory.mktemp("irq")) as place:
        yield guest_run(place, cache, small())


def test_the_guest_and_its_host_wait_for_the_same_instants_each_on_its_own_clock(run: GuestRun) -> None:
    (cell,) = run.cells.values()
    assert (cell["status"], cell["reason"]) == ("ok", None), run
    for name, host in BOTH.items():
        (entry,) = (one for one in cell["streams"] if one["name"] == name)
        assert (entry["talker"], entry["period_ns"]) == (host, 10_000_000)
        rows = run.packets(cell["slug"], name)
        start = entry["start_tai_ns"]
        assert rows["wake_due_tai_ns"].to_list() == [start + n * 10_000_000 for n in range(200)]
        assert (rows["wake_tai_ns"] >= rows["wake_due_tai_ns"]).all()
        told = rows.drop_nulls("irq_tai_ns")
        assert ((told["wake_due_tai_ns"] <= told["irq_tai_ns"]) & (told["irq_tai_ns"] <= told["wake_tai_ns"])).all()


def test_both_have_their_figures_their_windows_and_the_published_ones_next_to_them(run: GuestRun) -> None:
    (cell,) = run.result.values()
    for name in BOTH:
        block = cell["streams"][name]
        assert (block["counts"]["came"], block["metrics"]["wakeup"]["n"]) == (200, 200)
        assert [one["n"] for one in block["timer"]["windows"]] == [50] * 4
        assert block["timer"]["threshold_ns"] == 30_000
        # Whether the kernels report interrupts is theirs; that they do not is reported.
        assert ("interrupt" in block["metrics"]) == block["timer"]["traced"]
        assert block["timer"]["traced"] or block["timer"]["trace_problem"]
    page = (run.folder / "report.html").read_text(encoding="utf-8")
    assert "Babchuk" in page
    assert "Timers: how late the interrupt" in page


def test_the_load_of_the_native_mock_up_ran_meanwhile(run: GuestRun) -> None:
    (cell,) = run.cells.values()
    (load,) = cell["loads"]
    assert (load["name"], load["on"], load["work"]["what"]) == (LOAD, "ecu", "calls")
    assert load["work_per_s"]["calls"] > 0
