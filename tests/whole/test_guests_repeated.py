"""Repetitions with guests: each cell is built again, in the order that the seed has drawn."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from support.command import Place, read
from support.guests.runs import TWO_HOSTS, GuestRun, guest_run, image_cache, order_of
from support.machine import private_network

pytestmark = pytest.mark.real

REPEAT = 2
SEED = 4
BRIDGES = ("tap", "macvtap")
SLUGS = [f"guests.vm1.bridge={bridge}" for bridge in BRIDGES]
SCENARIO: dict[str, Any] = {
    "name": "repeated",
    **TWO_HOSTS,
    "guests": {"vm1": {"host": "ecu", "uplink": "eth0"}},
    "streams": {"up": {"talker": "vm1", "listener": "sensor", "period": "10ms", "size": "64B"}},
    "duration": "200ms",
    "repeat": REPEAT,
    "seed": SEED,
    "matrix": {"guests.vm1.bridge": list(BRIDGES)},
}


@pytest.fixture(scope="module")
def run(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuestRun]:
    """Two bridges, each measured twice."""
    cache = image_cache(pytestconfig)
    with private_network(), Place(tmp_path_factory.mktemp("repeated")) as place:
        yield guest_run(place, cache, SCENARIO)


def test_every_repetition_of_every_cell_is_measured(run: GuestRun) -> None:
    assert run.ended.status == 0, run
    assert {key: cell["status"] for key, cell in run.cells.items()} == {
        f"{slug}/r{number}": "ok" for slug in SLUGS for number in range(1, REPEAT + 1)
    }


def test_the_order_is_the_one_the_seed_draws_each_repetition_apart(run: GuestRun) -> None:
    shuffler = random.Random(SEED)
    drawn = []
    for number in range(1, REPEAT + 1):
        block = list(SLUGS)
        shuffler.shuffle(block)
        drawn += [(slug, number) for slug in block]
    assert read(run.folder / "run.json")["seed"] == SEED
    assert order_of(run) == drawn
    by_order = sorted(run.cells.values(), key=lambda cell: int(cell["order"]))
    assert [(cell["slug"], cell["repeat"]) for cell in by_order] == drawn
    assert [cell["order"] for cell in by_order] == list(range(1, len(drawn) + 1))


def test_each_repetition_builds_its_test_bed_and_starts_its_guest_again(run: GuestRun) -> None:
    for slug in SLUGS:
        first, again = (run.cells[f"{slug}/r{number}"] for number in (1, 2))
        titles = [[step["title"] for step in cell["steps"]] for cell in (first, again)]
        # The first of all also boots the guest that every later one starts from.
        kept = [title for title in titles[0] if "snapshot" not in title and not title.startswith("keep ")]
        assert kept == titles[1]
        assert {"make sensor's namespace", "make ecu's namespace", "start vm1"} <= set(titles[1])
        assert all(
            step["ok"] and step["seconds"] > 0 for cell in (first, again) for step in cell["steps"] if step["command"]
        )
        assert first["run_id"] != again["run_id"]
        pids = [
            agent["ready"]["pid"] for cell in (first, again) for agent in cell["agents"] if agent["host"] == "sensor"
        ]
        assert len(set(pids)) == len(pids) == 2
