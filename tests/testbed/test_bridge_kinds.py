"""The facts of virtual bridges stand in one place: rules and makers of bridges go by them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from latlab.model.bridges import KINDS
from latlab.testbed.bridges.table import BRIDGES

ROOT = Path(__file__).parents[2]
OWN = ("testbed/bridges/", "model/bridges.py")


def test_each_kind_is_made_by_one_class() -> None:
    assert {name: bridge.kind for name, bridge in BRIDGES.items()} == dict(KINDS)


def compared_names(path: Path) -> Iterator[str]:
    """The kinds' names that a file compares something with that is called a bridge or a kind."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Compare):
            about = ast.unparse(node.left)
            strings = [one.value for one in ast.walk(node) if isinstance(one, ast.Constant)]
            if "bridge" in about or about.endswith("kind"):
                yield from (f"{path.name}:{node.lineno} {name}" for name in strings if name in KINDS)


def test_nobody_else_compares_a_kind_s_name() -> None:
    source = ROOT / "src/latlab"
    others = [path for path in source.rglob("*.py") if not str(path.relative_to(source)).startswith(OWN)]
    assert len(others) > 100
    assert [found for path in others for found in compared_names(path)] == []
