"""What the whole code shares is declared once."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src/latlab"
UNITS = SOURCE / "model/units.py"
SECOND_NS = 10**9


@cache
def modules() -> dict[Path, ast.Module]:
    """Each file of latlab, parsed."""
    found = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(SOURCE.rglob("*.py"))}
    assert len(found) > 100
    return found


def numbers(tree: ast.Module) -> list[tuple[int, float]]:
    """The numbers of a file with their lines: 1_000_000_000, and 10**9."""
    plain = [(node.lineno, node.value) for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    powers = [
        (node.lineno, node.left.value**node.right.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow)
        if isinstance(node.left, ast.Constant) and isinstance(node.right, ast.Constant)
    ]
    return [(line, value) for line, value in plain + powers if type(value) is int]


def test_how_many_ns_a_second_has_is_written_in_one_file() -> None:
    written = [(path, line) for path, tree in modules().items() for line, value in numbers(tree) if value == SECOND_NS]
    assert {path for path, _ in written} == {UNITS}, written


def test_what_all_packages_share_imports_nothing_else_of_latlab() -> None:
    shared = {path: tree for path, tree in modules().items() if path.parent == UNITS.parent}
    sources = [
        node.module or "" for tree in shared.values() for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)
    ]
    ours = {source for source in sources if source.split(".")[0] == "latlab"}
    assert ours and all(source.startswith("latlab.model") for source in ours), ours
