"""Short copies of shipped scenarios of boards in virtual time: fewer cells, another duration."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import yaml

from latlab.scenario.load import read_yaml
from support.boards.place import BoardPlace
from support.command import read

SCENARIOS = Path(__file__).parents[3] / "scenarios"


def shipped(name: str) -> dict[str, Any]:
    """The scenario of that name, as it was parsed."""
    whole: dict[str, Any] = read_yaml((SCENARIOS / f"{name}.yaml").read_text()).data
    return whole


def run_short(
    place: BoardPlace,
    name: str,
    matrix: dict[str, Any],
    *words: str,
    doubts: Collection[tuple[str, str]] = (),
    **parts: Any,
) -> dict[str, Any]:
    """The result of the shipped scenario, run once with this matrix and other parts replaced.

    All cells are ok and trusted, and each has received all that was sent in it. words: options of `latlab run`. doubts:
    (beginning of a cell's name, rule) that may find something.
    """
    path = place.folder / f"{name}.yaml"
    changes = {"exclude": []} | parts | {"repeat": 1, "matrix": matrix}
    path.write_text(yaml.safe_dump(shipped(name) | changes))
    before = place.trace()
    ended = place.start("run", path, *words).ended()
    assert ended.status == 0, ended.err + ended.out
    assert place.trace() == before
    result: dict[str, Any] = read(place.only_run() / "result.json")
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
    return result
