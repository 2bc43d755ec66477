"""The facts of a kind stand in one place: others ask what a bridge, host, load, probe or shaper is, not which."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from latlab.model.bridges import KINDS
from latlab.testbed.bridges.table import BRIDGES
from latlab.testbed.loads import LOADS
from latlab.testbed.probes import OURS, TOOLS
from latlab.testbed.shapers import KINDS as SHAPERS

ROOT = Path(__file__).parents[2]
OWN = {
    "bridge": ("testbed/bridges/", "model/bridges.py"),
    "host": ("hosts/", "scenario/hosts.py"),
    "load": ("testbed/loads/", "scenario/loads.py", "scenario/draft.py"),
    "probe": ("testbed/probes/", "scenario/probes.py"),
    "shaper": ("testbed/shapers/", "scenario/shapers.py"),
}
"""Where kinds are distinguished; `latlab init` writes the keys of each kind of load."""
NAMES = {
    "bridge": set(KINDS),
    "host": {"local", "netns", "ssh", "board"},
    "load": set(LOADS),
    "probe": {*OURS, *TOOLS},
    "shaper": set(SHAPERS),
}


def test_each_kind_is_made_by_one_class() -> None:
    assert {name: bridge.kind for name, bridge in BRIDGES.items()} == dict(KINDS)


@cache
def comparisons(path: Path) -> list[tuple[int, str, list[object]]]:
    """What a file compares: the line, what stands on the left, and all constants in it."""
    nodes = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Compare)]
    return [(node.lineno, ast.unparse(node.left), _constants(node)) for node in nodes]


def _constants(node: ast.Compare) -> list[object]:
    return [one.value for one in ast.walk(node) if isinstance(one, ast.Constant)]


def compared_names(path: Path, what: str) -> Iterator[str]:
    """The kinds' names that a file compares something with that is called a kind, or by what it is a kind of."""
    for line, about, constants in comparisons(path):
        if what in about or about.endswith("kind"):
            yield from (f"{path.name}:{line} {name}" for name in constants if name in NAMES[what])


@pytest.mark.parametrize("what", NAMES)
def test_nobody_else_compares_a_kind_s_name(what: str) -> None:
    source = ROOT / "src/latlab"
    others = [path for path in source.rglob("*.py") if not str(path.relative_to(source)).startswith(OWN[what])]
    assert len(others) > 100
    assert [found for path in others for found in compared_names(path, what)] == []
