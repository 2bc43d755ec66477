"""latlab's own source code, parsed once for all tests of a process that read it."""

from __future__ import annotations

import ast
import gc
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src/latlab"


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Every node of the file's syntax tree, in the order of ast.walk()."""
    gc.disable()  # a collection within ast.parse may fail it: CPython issue 106905
    try:
        return tuple(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    finally:
        gc.enable()


@cache
def modules() -> dict[Path, tuple[ast.AST, ...]]:
    """The nodes of each file of latlab."""
    found = {path: nodes(path) for path in sorted(SOURCE.rglob("*.py"))}
    assert len(found) > 100
    return found
