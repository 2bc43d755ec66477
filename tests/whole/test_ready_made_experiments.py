"""The ready-made scenarios of round trips and of DDS: a few short cells of each, run by the command."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from latlab.scenario.load import read_yaml
from support.command import Place
from support.guests.runs import IMAGE, GuestRun, guest_run, image_cache
from support.machine import private_network

pytestmark = pytest.mark.real

SCENARIOS = Path(__file__).parents[2] / "scenarios"
Short = Callable[[str, dict[str, Any]], GuestRun]


@pytest.fixture
def short(pytestconfig: pytest.Config, tmp_path: Path) -> Iterator[Short]:
    """Runs the scenario of this name with this matrix, short, once, its guests of the image that all tests share."""
    cache = image_cache(pytestconfig)

    def run(name: str, matrix: dict[str, Any]) -> GuestRun:
        scenario: dict[str, Any] = read_yaml((SCENARIOS / f"{name}.yaml").read_text()).data
        for guest in scenario["guests"].values():
            guest |= {"image": IMAGE, "memory": "256MiB"}
        for load in scenario.get("loads", {}).values():
            # What a guest that is emulated next to other tests can send: of 900 Mbit/s iperf3 does not finish.
            load |= {"instances": 1, "rate": "5Mbit/s"}
        brief = {"duration": "1500ms", "warmup": "500ms", "repeat": 1, "matrix": matrix}
        return guest_run(place, cache, scenario | brief)

    with private_network(), Place(tmp_path) as place:
        yield run


def page(run: GuestRun) -> str:
    return (run.folder / "report.html").read_text(encoding="utf-8")


def test_netperfs_round_trips_are_asked_at_their_rate_and_in_a_loop_and_what_does_not_have_netperf_is_reported(
    short: Short,
) -> None:
    run = short("netperf-rr", {"probes": ["host", "vm", "vm-loop", "vm-netperf"]})
    for name in ("host", "vm"):
        stream = run.result[f"probes={name}"]["streams"][name]
        assert (stream["counts"]["sent"], stream["counts"]["answered"]) == (150, 150), run
        assert stream["metrics"]["round_trip"]["n"] == stream["metrics"]["round_trip_sent"]["n"] == 100
    loop = run.result["probes=vm-loop"]["streams"]["vm-loop"]
    counts = loop["counts"]
    assert loop["probe"]["period_ns"] is None and counts["answered"] + counts["unanswered"] == counts["sent"] > 0
    lacking = run.result["probes=vm-netperf"]
    assert lacking["status"] == "unavailable" and "netperf" in str(lacking["reason"])
    told = page(run)
    # The rows of its author stand in one table with those measured.
    assert "vm to host1, tap, mvpp2" in told and "Linaro, T. Akashi, weekly report, July 2022" in told


def test_both_ways_are_told_apart_with_load_on_one_of_them_and_with_none(short: Short) -> None:
    run = short("two-way", {"probes": ["as-sensor", "as-ecu"], "loads": ["none", "load-up"]})
    assert len(run.result) == 4
    for slug, cell in run.result.items():
        probe = slug.removeprefix("probes=").partition(",")[0]
        counts = cell["streams"][probe]["counts"]
        assert counts["scheduled"] == counts["sent"] > 1000, (slug, str(run))
        for leg in (f"{probe}.up", f"{probe}.down"):
            block = cell["streams"][leg]
            assert block["metrics"]["latency_user"]["n"] > 0 and block["clock"] is not None, (slug, leg)
    assert [cell["status"] for cell in run.cells.values()] == ["ok"] * 4, str(run)
    loaded = [cell for cell in run.cells.values() if cell["loads"]]
    assert [[load["name"] for load in cell["loads"]] for cell in loaded] == [["load-up"]] * 2
    told = page(run)
    assert "STR-73: just for reference" in told and "VM answers, VFIO, idle: up" in told


def test_dds_is_measured_between_hosts_and_between_guests_over_the_payload(short: Short) -> None:
    matrix = {"probes": ["hosts", "guests"], "probes.hosts.size": ["64B", "2kB"], "probes.guests.size": ["64B", "2kB"]}
    run = short("dds-payload", matrix)
    assert len(run.result) == 4
    for slug, cell in run.result.items():
        (probe,) = (name for name in ("hosts", "guests") if f"probes={name}" in slug)
        stream = cell["streams"][probe]
        counts = stream["counts"]
        assert counts["answered"] + counts["unanswered"] == counts["sent"] > counts["unanswered"], (slug, str(run))
        assert stream["metrics"]["round_trip"]["p50"] is not None, slug
    told = page(run)
    assert "Cyclone DDS, README" in told and "doubled here" in told
    assert "MTU" in told
