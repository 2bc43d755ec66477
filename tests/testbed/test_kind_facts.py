"""The facts of a kind stand in one place: others ask what a bridge, host, load, … is, not which."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from latlab.model.bridges import KINDS
from latlab.model.clock_sources import SOURCES
from latlab.scenario.hosts import HostBase
from latlab.testbed.bridges.table import BRIDGES
from latlab.testbed.images.board_recipe import FEATURES, NEEDED
from latlab.testbed.loads import LOADS
from latlab.testbed.machines import KINDS as MACHINES
from latlab.testbed.machines.board import LOADED
from latlab.testbed.probes import OURS, TOOLS
from latlab.testbed.shapers import KINDS as SHAPERS
from support.sources import SOURCE, modules, nodes

OWN = {
    "bridge": ("testbed/bridges/", "model/bridges.py"),
    "host": ("hosts/", "testbed/machines/", "scenario/hosts.py"),
    "load": ("testbed/loads/", "scenario/loads.py"),
    "probe": ("testbed/probes/", "scenario/probes.py", "run/probes.py"),
    "shaper": ("testbed/shapers/", "scenario/shapers.py"),
    "source": ("model/clock_sources.py",),
}
"""Where kinds are distinguished; `run/probes.py` reads what each tool wrote."""
NAMES = {
    "bridge": set(KINDS),
    "host": {"local", "netns", *MACHINES},
    "load": set(LOADS),
    "probe": {*OURS, *TOOLS},
    "shaper": set(SHAPERS),
    "source": set(SOURCES),
}


def test_each_kind_is_made_by_one_class() -> None:
    assert {name: bridge.kind for name, bridge in BRIDGES.items()} == dict(KINDS)


@pytest.mark.parametrize("kind", HostBase.__subclasses__())
def test_a_host_is_here_or_a_namespace_or_emulated_or_reached(kind: type[HostBase]) -> None:
    assert [kind.is_here, kind.is_namespace, kind.is_emulated, kind.is_reached].count(True) == 1


def test_images_have_the_kernel_modules_of_every_bridge_and_boards_load_them() -> None:
    every = {module for kind in KINDS.values() for facts in (kind, *kind.forms.values()) for module in facts.kernel}
    assert every <= {*NEEDED, *FEATURES}
    assert every <= {*LOADED}


@cache
def comparisons(path: Path) -> list[tuple[int, str, list[object], list[object]]]:
    """What a file compares: the line, its variables, its constants that are written out, and those that have a name."""
    found = [node for node in nodes(path) if isinstance(node, ast.Compare)]
    return [(node.lineno, " ".join(map(ast.unparse, _variables(node))), *_constants(node)) for node in found]


def _variables(node: ast.Compare) -> list[ast.expr]:
    return [one for one in (node.left, *node.comparators) if not isinstance(one, ast.Constant)]


def keys(path: Path, of: type[ast.expr]) -> Iterator[tuple[int, set[object]]]:
    """The texts that are keys of each table in a file, or in each set."""
    for node in nodes(path):
        if isinstance(node, of) and isinstance(node, ast.Dict | ast.Set):
            every = node.keys if isinstance(node, ast.Dict) else node.elts
            yield node.lineno, {one.value for one in every if isinstance(one, ast.Constant)}


@cache
def named_texts() -> dict[str, object]:
    """The texts that have a name of their own in some file."""
    found = [node for path in modules() for node in nodes(path) if isinstance(node, ast.Assign | ast.AnnAssign)]
    return {
        target.id: node.value.value
        for node in found
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name) and target.id.isupper() and isinstance(node.value, ast.Constant)
    }


def _constants(node: ast.Compare) -> tuple[list[object], list[object]]:
    names, inside = named_texts(), [*ast.walk(node)]
    return (
        [one.value for one in inside if isinstance(one, ast.Constant)],
        [names[one.id] for one in inside if isinstance(one, ast.Name) and one.id in names],
    )


def compared_names(path: Path, what: str) -> Iterator[str]:
    """The kinds' names that a file compares something with that is called a kind, or by what it is a kind of."""
    for line, about, written, named in comparisons(path):
        # Images have a kind, too, of which one is called as a host's.
        constants = written if what == "host" else [*written, *named]
        if what in about.lower() or "kind" in about:
            yield from (f"{path.name}:{line} {name}" for name in constants if name in NAMES[what])


def others(what: str) -> list[Path]:
    found = [path for path in modules() if not str(path.relative_to(SOURCE)).startswith(OWN[what])]
    assert len(found) > 100
    return found


@pytest.mark.slow
@pytest.mark.parametrize("what", NAMES)
def test_nobody_else_compares_a_kind_s_name(what: str) -> None:
    assert [found for path in others(what) for found in compared_names(path, what)] == []


@pytest.mark.parametrize("what", NAMES)
def test_nobody_else_has_a_table_of_kinds(what: str) -> None:
    # Shapers are called as the kernel's queueing disciplines, of which there are sets.
    kinds = (ast.Dict,) if what == "shaper" else (ast.Dict, ast.Set)
    tables = ((path, line, names) for path in others(what) for of in kinds for line, names in keys(path, of))
    assert [f"{path.name}:{line}" for path, line, names in tables if len(names) > 1 and names <= NAMES[what]] == []
