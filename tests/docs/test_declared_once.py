"""What the whole code shares is declared once, and modules import each other in one direction."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from latlab.model.labels import LABELS
from support.sources import SOURCE, modules

UNITS = SOURCE / "model/units.py"
CRATES = SOURCE.parents[1] / "agent"
SECOND_NS = 10**9
IN_FORMATS = {
    "Entry": "`$defs` of result.schema.json; images count as outdated when the source of their archives changes",
    "Guest": "`$defs` of result.schema.json and of scenario.schema.json",
    "Published": "`$defs` of result.schema.json and of scenario.schema.json",
    "Stream": "`$defs` of result.schema.json and of scenario.schema.json",
    "Losses": "`$defs` of result.schema.json; the ingredient `losses` of a synthetic run",
    "Step": "the ingredient `step` of a synthetic run; a change to a host, which the pages call a step",
}
"""Class names that stand for two things: {name: where users would notice another one}."""


def numbers(nodes: Sequence[ast.AST]) -> list[tuple[int, float]]:
    """The numbers of a file with their lines: 1_000_000_000, and 10**9."""
    plain = [(node.lineno, node.value) for node in nodes if isinstance(node, ast.Constant)]
    powers = [
        (node.lineno, node.left.value**node.right.value)
        for node in nodes
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow)
        if isinstance(node.left, ast.Constant) and isinstance(node.right, ast.Constant)
        if isinstance(node.left.value, int) and isinstance(node.right.value, int)
    ]
    return [(line, value) for line, value in plain + powers if type(value) is int]


def test_how_many_ns_a_second_has_is_written_in_one_file() -> None:
    written = [
        (path, line) for path, nodes in modules().items() for line, value in numbers(nodes) if value == SECOND_NS
    ]
    assert {path for path, _ in written} == {UNITS}, written


def test_what_figures_are_labelled_with_is_written_in_one_file() -> None:
    texts = {one.name for one in LABELS if " " in one.name}
    written = [
        (path, node.value)
        for path, nodes in modules().items()
        for node in nodes
        if isinstance(node, ast.Constant) and node.value in texts
    ]
    assert sorted(text for _, text in written) == sorted(texts), written


def test_what_all_packages_share_imports_nothing_else_of_latlab() -> None:
    shared = [nodes for path, nodes in modules().items() if path.parent == UNITS.parent]
    sources = [node.module or "" for nodes in shared for node in nodes if isinstance(node, ast.ImportFrom)]
    ours = {source for source in sources if source.split(".")[0] == "latlab"}
    assert ours and all(source.startswith("latlab.model") for source in ours), ours


def imported(nodes: Sequence[ast.AST], known: set[str]) -> set[str]:
    """Which of the known modules a file imports: for types alone and within functions, too."""
    plain = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    sources = [node for node in nodes if isinstance(node, ast.ImportFrom)]
    of = [(node.module or "", alias.name) for node in sources for alias in node.names]
    # `from a import b` imports a.b if that is a module, and else a.
    return {*plain, *(module if (module := f"{source}.{name}") in known else source for source, name in of)} & known


def test_modules_import_each_other_in_no_circle_not_even_for_types() -> None:
    names = {path: ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts) for path in modules()}
    names = {path: name.removesuffix(".__init__") for path, name in names.items()}
    uses = {name: imported(modules()[path], set(names.values())) - {name} for path, name in names.items()}
    order = list(TopologicalSorter(uses).static_order())
    assert set(order) == set(names.values())


def used_in_crate(path: Path) -> set[str]:
    """The modules of its crate that a file of Rust uses, comments and unit tests left out."""
    code = re.sub(r"//.*", "", path.read_text(encoding="utf-8").split("#[cfg(test)]")[0])
    found = re.findall(r"\bcrate::(?:(\w+)|\{([^}]*)\})", code)
    return {name for one, several in found for name in [one, *re.findall(r"(?:^|,)\s*(\w+)", several)] if name}


@pytest.mark.parametrize("crate", ["wire", "sys", "agent"])
def test_modules_of_the_agent_use_each_other_in_no_circle(crate: str) -> None:
    uses: dict[str, set[str]] = {}
    for path in (CRATES / crate / "src").rglob("*.rs"):
        module = path.relative_to(CRATES / crate / "src").parts[0].removesuffix(".rs")
        if module not in {"lib", "main"}:
            uses.setdefault(module, set()).update(used_in_crate(path) - {module})
    assert len(list(TopologicalSorter(uses).static_order())) > 30


def test_a_class_name_means_one_thing() -> None:
    homes: dict[str, list[str]] = {}
    for path, nodes in modules().items():
        for node in nodes:
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, []).append(f"{path.relative_to(SOURCE)}:{node.lineno}")
    assert {name: where for name, where in homes.items() if len(where) > 1 and name not in IN_FORMATS} == {}
    assert all(len(homes[name]) > 1 for name in IN_FORMATS)
