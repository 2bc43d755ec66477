"""Tests get their marks from what they call, and those that run alone come last."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from types import SimpleNamespace
from typing import Any

from latlab.testbed import images
from support.suite.marks import CALLS, TESTS, alone_last, mark


class Item:
    """A test of that function, in a file of that folder."""

    def __init__(self, function: Callable[..., Any], path: str, *fixtures: Callable[..., Any], mark: str = "") -> None:
        self.function = function
        self.path = TESTS / path
        self.marks = [mark] if mark else []
        defined = {one.__name__: [SimpleNamespace(func=one)] for one in fixtures}
        self._fixtureinfo = SimpleNamespace(name2fixturedefs=defined)

    def add_marker(self, name: str) -> None:
        self.marks.append(name)

    def iter_markers(self) -> list[SimpleNamespace]:
        return [SimpleNamespace(name=name) for name in self.marks]

    def get_closest_marker(self, name: str) -> str | None:
        return name if name in self.marks else None


def plain() -> None:
    assert sorted([2, 1])


def by_helper() -> None:
    assert not [helper(name) for name in "ab" if name > "b"]  # type: ignore[func-returns-value]  # never called


def helper(name: str) -> None:
    build_image(name)


def build_image(name: str) -> None:
    """Another function of that name."""


really_build = images.build_image


def image() -> None:
    really_build()


@cache
def image_once() -> None:
    really_build()


def by_one_that_remembers() -> None:
    image_once()


def marks_of(item: Item) -> list[str]:
    mark([item])  # type: ignore[list-item]
    return item.marks


def test_a_test_that_calls_nothing_slow_is_fast() -> None:
    assert marks_of(Item(plain, "recordings/test_x.py")) == ["fast"]
    assert marks_of(Item(by_helper, "recordings/test_x.py")) == ["fast"]
    assert marks_of(Item(plain, "recordings/test_x.py", mark="slow")) == ["slow"]
    assert marks_of(Item(plain, "whole/test_x.py", mark="real")) == ["real"]


def test_what_a_fixture_calls_counts() -> None:
    assert marks_of(Item(plain, "images/test_x.py", image)) == ["guest"]
    assert marks_of(Item(plain, "boards/test_x.py", image)) == ["board"]
    assert marks_of(Item(plain, "images/test_x.py", by_one_that_remembers)) == ["guest"]


def test_every_function_that_gives_a_mark_is_there() -> None:
    for name in CALLS:
        module, function = name.rsplit(".", 1)
        found = getattr(import_module(module), function)
        assert f"{found.__module__}.{found.__name__}" == name


def test_files_with_tests_that_run_alone_come_last_and_those_tests_last_of_their_file() -> None:
    items = [
        Item(plain, path, mark=name)
        for path, name in (("a.py", "alone"), ("a.py", ""), ("b.py", ""), ("c.py", "alone"), ("d.py", ""))
    ]
    alone_last(items)  # type: ignore[arg-type]
    order = [(item.path.name, *item.marks) for item in items]
    assert order == [("b.py",), ("d.py",), ("a.py",), ("a.py", "alone"), ("c.py", "alone")]
