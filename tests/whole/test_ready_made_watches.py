"""The ready-made scenarios whose applications are watched, and that of a PRP pair: all cells, short, by the command."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from latlab.scenario.load import read_yaml
from support.command import Place, read
from support.machine import private_network

pytestmark = pytest.mark.real

SCENARIOS = Path(__file__).parents[2] / "scenarios"


@dataclass(frozen=True)
class Short:
    """A run of a ready-made scenario. flows: {name: its points} as the scenario has them."""

    cells: list[dict[str, Any]]
    flows: dict[str, list[str]]
    said: str


@pytest.fixture
def short(tmp_path: Path) -> Iterator[Callable[[str], Short]]:
    """Runs the scenario of this name, each cell once and for 3 s."""

    def run(name: str) -> Short:
        scenario: dict[str, Any] = read_yaml((SCENARIOS / f"{name}.yaml").read_text()).data
        path = place.folder / f"{name}.yaml"
        path.write_text(json.dumps(scenario | {"duration": "3s", "warmup": "1s", "repeat": 1}))
        ended = place.latlab("run", path)
        assert ended.status in (0, 4), ended.err + ended.out
        cells = read(place.only_run() / "result.json")["cells"]
        assert [cell["status"] for cell in cells] == ["ok"] * len(cells) and len(cells) == 2
        points = {flow: one["at"] for flow, one in scenario.get("flows", {}).items()}
        return Short(cells, points, ended.out)

    with private_network(), Place(tmp_path) as place:
        yield run


@pytest.mark.parametrize(
    ("name", "least"), [("watch-plc", 499), ("watch-dds", 1)], ids=["a controller's cycle", "samples of DDS"]
)
def test_an_application_s_packets_are_watched_hop_by_hop_and_the_hop_of_the_latest_is_named(
    short: Callable[[str], Short], name: str, least: int
) -> None:
    run = short(name)
    for cell in run.cells:
        counts = {flow["name"]: flow["packets"] for flow in cell["flows"]}
        for flow, points in run.flows.items():
            sent = counts[flow][points[0]]
            assert sent >= least
            assert counts[flow] == dict.fromkeys(points, sent)
            streams = {first: stream_of(cell, flow, first, second) for first, second in pairwise(points)}
            assert [one["metrics"]["transit"]["lost"] for one in streams.values()] == [0] * 3
            whole = stream_of(cell, flow, points[0], points[-1])["metrics"]["transit"]
            assert whole["chain"]["stops"] == points and whole["chain"]["split"] == whole["n"] > 0
    where = run.said.partition("Where the latest packets lost their time")[2].partition("Verdict")[0]
    first, *_ = run.flows
    assert f"  {first}." in where and " → " in where


def stream_of(cell: dict[str, Any], flow: str, first: str, second: str) -> dict[str, Any]:
    """From one point of the flow to another."""
    return dict(cell["streams"][f"{flow}.{'-to-'.join(one.replace(':', '-') for one in (first, second))}"])


def test_a_pair_of_sampled_values_has_all_its_frames_though_one_lan_is_loaded(short: Callable[[str], Short]) -> None:
    run = short("substation-prp")
    for cell in run.cells:
        # 4800 frames/s for the two seconds behind the warm-up, of 208333 ns each.
        assert {cell["streams"][one]["metrics"]["latency_user"]["n"] for one in ("sv", "sv.pair")} == {9600}
        assert cell["streams"]["sv.pair"]["metrics"]["latency_user"]["lost"] == 0
    assert "latency_user" in run.said
