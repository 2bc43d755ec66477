"""A lab that is killed while it measures: what `report` says of its cells, those it came to and those it did not."""

from __future__ import annotations

import signal
import time

import pytest

import latlab
from support.command import Ended, Place, read

pytestmark = pytest.mark.real

DURATION_S = 8
PACKETS = DURATION_S * 1000
ENOUGH_S = 1.3  # a recording has its first batch after a second


def killed_in(place: Place, number: int) -> list[str]:
    """The cells of a run in the order it was to measure them; its lab was killed in the `number`th of the two."""
    scenario = place.scenario(duration=f"{DURATION_S}s", accept={"control.latency.max": "1h"})
    lab = place.start("run", "--verbose", scenario)
    for _ in range(number):
        lab.until(": measuring")
    time.sleep(ENOUGH_S)
    lab.signal(signal.SIGKILL)
    lab.ended()
    place.wait_until_agents_are_gone()
    return [one["slug"] for one in read(place.only_run() / "run.json")["order"]]


def killed_reasons(ended: Ended) -> set[tuple[str, str]]:
    """(where, actual) of what is said of cells that did not run to their end."""
    return {(reason["where"], reason["actual"]) for reason in ended.document["reasons"] if reason["id"] == "cell-ended"}


def test_a_run_killed_in_its_first_cell_shows_what_that_measured_and_that_the_second_never_ran(place: Place) -> None:
    first, second = killed_in(place, 1)
    ended = place.latlab("report", "--json")
    result = ended.document
    assert (ended.status, result["verdict"], result["label"]) == (3, "untrusted", "measured")
    cells = {cell["slug"]: cell for cell in result["cells"]}
    assert {slug: (cell["status"], cell["order"]) for slug, cell in cells.items()} == {
        first: ("interrupted", 1),
        second: ("not run", 2),
    }
    counts = cells[first]["streams"]["control"]["counts"]
    assert counts["scheduled"] == PACKETS
    assert 1000 <= counts["received"] <= counts["sent"] < PACKETS
    latency = cells[first]["streams"]["control"]["metrics"]["latency"]
    assert (latency["uncertainty_ns"], latency["max"] > 0) == (0, True)
    assert cells[second]["streams"] == {}
    assert killed_reasons(ended) == {
        (f"{first}/r1", "interrupted: latlab was killed while it measured"),
        (f"{second}/r1", "not run: latlab was killed before this cell was measured"),
    }
    assert [entry["reason"] for entry in result["accept"]] == ["not measured"] * 2

    packets = latlab.load(place.only_run()).packets(first)
    assert packets["submit_tai_ns"].count() == counts["sent"]

    shown = place.latlab("report")
    assert shown.status == 3
    killed = f"  loads {first.removeprefix('loads=')}: interrupted: "
    assert any(line.startswith(killed) for line in shown.out.splitlines())
    never = "latlab was killed before this cell was measured (run it again)"
    assert f"  loads {second.removeprefix('loads=')}: not run: {never}" in shown.out
    assert "None" not in shown.out
    (listed,) = place.latlab("list", "--json").document
    assert (listed["exit_status"], listed["verdict"]) == (3, "untrusted")


def test_a_run_killed_in_its_second_cell_keeps_the_first_whole(place: Place) -> None:
    first, second = killed_in(place, 2)
    ended = place.latlab("report", "--json")
    cells = {cell["slug"]: cell for cell in ended.document["cells"]}
    assert {slug: cell["status"] for slug, cell in cells.items()} == {first: "ok", second: "interrupted"}
    whole, cut = (cells[slug]["streams"]["control"]["counts"] for slug in (first, second))
    assert whole["received"] == PACKETS
    assert 1000 <= cut["received"] < PACKETS
    assert cells[second]["verdict"] == ended.document["verdict"] == "untrusted"
    assert ended.status == 3
    assert killed_reasons(ended) == {(f"{second}/r1", "interrupted: latlab was killed while it measured")}


def test_a_run_that_is_still_being_measured_is_not_reported_by_halves(place: Place) -> None:
    lab = place.start("run", "--verbose", place.scenario(duration="60s"))
    lab.until(": measuring")
    ended = place.latlab("report")
    assert (ended.status, ended.out) == (2, "")
    assert ended.err.count("\n") == 1
    assert "the run is still being measured" in ended.err
    assert not (place.only_run() / "result.json").exists()


def test_a_run_killed_before_anything_was_measured_is_not_trusted(place: Place) -> None:
    lab = place.start("run", "--verbose", place.scenario(duration="60s"))
    lab.until(": setting up")
    lab.signal(signal.SIGKILL)
    lab.ended()
    place.wait_until_agents_are_gone()
    ended = place.latlab("report", "--json")
    assert (ended.status, ended.document["verdict"]) == (3, "untrusted")
    assert [cell["status"] for cell in ended.document["cells"]] == ["not run"] * 2
    assert "no cell was measured" in [reason["finding"] for reason in ended.document["reasons"]]
