"""Which marks a test has: by its folder, and by what it, its fixtures and the helpers in their files call."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest

from latlab.evaluation.run import make_result
from latlab.testbed.images import build_image

TESTS = Path(__file__).parents[2]
FOLDERS = {"boards": "board"}
CALLS = {
    "support.machine.private_network": "real",
    f"{build_image.__module__}.build_image": "guest",
    f"{make_result.__module__}.make_result": "slow",
    "support.report.browser.Browser": "browser",
    "support.report.page.opened": "browser",
    "support.report.matrix.write_matrix_run": "slow",
    "support.cli.in_bash": "slow",
    "support.cli.on_terminal": "slow",
}
"""A function or class → the mark of a test that calls it."""
SLOW = {"real", "alone", "slow", *FOLDERS.values(), *CALLS.values()}
"""A test with none of these marks is `fast`."""


def mark(items: Iterable[pytest.Item]) -> None:
    """Give each test its marks, in addition to those that its file gives it."""
    for item in items:
        folder = item.path.relative_to(TESTS).parts[0]
        found = {CALLS[name] for name in called(item) if name in CALLS}
        if folder in FOLDERS:
            found = found - {"guest"} | {FOLDERS[folder]}
        if not SLOW & {*found, *(one.name for one in item.iter_markers())}:
            found = {"fast"}
        for name in sorted(found):
            item.add_marker(name)


def alone_last(items: list[pytest.Item]) -> None:
    """Sort files with tests that run alone behind all others, and in each file those tests behind the others.

    One that is to run alone waits until the other lanes' tests are done: few of them are long by then.
    """
    alone = {item.path for item in items if item.get_closest_marker("alone")}
    order = {path: number for number, path in enumerate(dict.fromkeys(item.path for item in items))}
    items.sort(key=lambda one: (one.path in alone, order[one.path], one.get_closest_marker("alone") is not None))


def called(item: Any) -> set[str]:
    """The functions and classes, as `module.name`, that the test may call, as far as the tests' own functions show."""
    return _called(item.function, frozenset(found[-1].func for found in item._fixtureinfo.name2fixturedefs.values()))


@cache
def _called(test: FunctionType, fixtures: frozenset[FunctionType]) -> set[str]:
    """The same of a test with these fixtures, once for all its parameters."""
    waiting, seen = [test, *fixtures], set[FunctionType]()
    names = set[str]()
    while waiting:
        function = waiting.pop()
        if function in seen:
            continue
        seen.add(function)
        found, more = _calls(function)
        names |= found
        waiting += more
    return names


@cache
def _calls(function: FunctionType) -> tuple[frozenset[str], tuple[FunctionType, ...]]:
    """What one function names, if it is the tests' own: functions and classes, and of these the functions."""
    function = inspect.unwrap(function)
    if not Path(function.__code__.co_filename).is_relative_to(TESTS):
        return frozenset(), ()
    there = [function.__globals__.get(name) for name in _names(function.__code__)]
    there = [inspect.unwrap(one) if callable(one) else one for one in there]
    names = frozenset(f"{one.__module__}.{one.__name__}" for one in there if isinstance(one, type | FunctionType))
    return names, tuple(one for one in there if isinstance(one, FunctionType))


def _names(code: CodeType) -> Iterator[str]:
    """What a function's code names beyond its own variables, that of functions in it included."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
