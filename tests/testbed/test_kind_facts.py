"""The facts of a kind stand in one place: others ask what a bridge, host, load, probe or shaper is, not which."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from sources import SOURCE, modules, nodes

from latlab.model.bridges import KINDS
from latlab.testbed.bridges.table import BRIDGES
from latlab.testbed.loads import LOADS
from latlab.testbed.machines import KINDS as MACHINES
from latlab.testbed.probes import OURS, TOOLS
from latlab.testbed.shapers import KINDS as SHAPERS

OWN = {
    "bridge": ("testbed/bridges/", "model/bridges.py"),
    "host": ("hosts/", "testbed/machines/", "scenario/hosts.py"),
    "load": ("testbed/loads/", "scenario/loads.py"),
    "probe": ("testbed/probes/", "scenario/probes.py", "run/probes.py"),
    "shaper": ("testbed/shapers/", "scenario/shapers.py"),
}
"""Where kinds are distinguished; `run/probes.py` reads what each tool wrote."""
NAMES = {
    "bridge": set(KINDS),
    "host": {"local", "netns", *MACHINES},
    "load": set(LOADS),
    "probe": {*OURS, *TOOLS},
    "shaper": set(SHAPERS),
}


def test_each_kind_is_made_by_one_class() -> None:
    assert {name: bridge.kind for name, bridge in BRIDGES.items()} == dict(KINDS)


@cache
def comparisons(path: Path) -> list[tuple[int, str, list[object]]]:
    """What a file compares: the line, its variables, and its constants."""
    found = [node for node in nodes(path) if isinstance(node, ast.Compare)]
    return [(node.lineno, " ".join(map(ast.unparse, _variables(node))), _constants(node)) for node in found]


def _variables(node: ast.Compare) -> list[ast.expr]:
    return [one for one in (node.left, *node.comparators) if not isinstance(one, ast.Constant)]


def keys(path: Path) -> Iterator[tuple[int, set[object]]]:
    """The texts that are keys of each table in a file."""
    for node in nodes(path):
        if isinstance(node, ast.Dict):
            yield node.lineno, {one.value for one in node.keys if isinstance(one, ast.Constant)}


def _constants(node: ast.Compare) -> list[object]:
    return [one.value for one in ast.walk(node) if isinstance(one, ast.Constant)]


def compared_names(path: Path, what: str) -> Iterator[str]:
    """The kinds' names that a file compares something with that is called a kind, or by what it is a kind of."""
    for line, about, constants in comparisons(path):
        if what in about or "kind" in about:
            yield from (f"{path.name}:{line} {name}" for name in constants if name in NAMES[what])


def others(what: str) -> list[Path]:
    found = [path for path in modules() if not str(path.relative_to(SOURCE)).startswith(OWN[what])]
    assert len(found) > 100
    return found


@pytest.mark.parametrize("what", NAMES)
def test_nobody_else_compares_a_kind_s_name(what: str) -> None:
    assert [found for path in others(what) for found in compared_names(path, what)] == []


@pytest.mark.parametrize("what", NAMES)
def test_nobody_else_has_a_table_of_kinds(what: str) -> None:
    tables = ((path, line, names) for path in others(what) for line, names in keys(path))
    assert [f"{path.name}:{line}" for path, line, names in tables if len(names) > 1 and names <= NAMES[what]] == []
