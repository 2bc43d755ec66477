"""The verbs that measure nothing: what they print, as text and as JSON, and that they change nothing."""

from __future__ import annotations

import signal
from typing import Any

import pytest
from latlab_command import Place

pytestmark = pytest.mark.real

VERBS: dict[str, tuple[str, ...]] = {
    "validate": ("validate", "small.yaml"),
    "plan": ("plan", "small.yaml"),
    "list": ("list",),
    "clean": ("clean",),
    "version": ("--version",),
    "help": ("--help",),
}


@pytest.mark.parametrize("arguments", VERBS.values(), ids=VERBS)
def test_a_verb_that_measures_nothing_changes_nothing(place: Place, arguments: tuple[str, ...]) -> None:
    place.scenario()
    before = place.trace()
    ended = place.latlab(*arguments)
    assert (ended.status, ended.err) == (0, "")
    assert ended.out.endswith("\n")
    assert place.trace() == before
    assert not place.runs.exists()


DOCUMENTS: dict[str, tuple[tuple[str, ...], Any]] = {
    "validate": (
        ("validate", "small.yaml"),
        {"scenario": "small", "cells": ["loads=none", "loads=flood1"], "problems": []},
    ),
    "list": (("list",), []),
    "clean": (("clean",), {"undone": []}),
}


@pytest.mark.parametrize(("arguments", "document"), DOCUMENTS.values(), ids=DOCUMENTS)
def test_with_json_a_verb_prints_one_document(place: Place, arguments: tuple[str, ...], document: Any) -> None:
    place.scenario()
    ended = place.latlab(*arguments, "--json")
    assert (ended.status, ended.err, ended.document) == (0, "", document)


def test_the_plan_is_the_same_as_text_and_as_a_document_and_needs_no_privilege(place: Place) -> None:
    place.scenario()
    powerless = ("setpriv", "--bounding-set", "-all")
    text = place.latlab("plan", "small.yaml").out
    assert place.latlab("plan", "small.yaml", "--json").document["plan"] == text.splitlines()
    assert place.latlab("plan", "small.yaml", before=powerless).out == text
    for word in ("ip netns add", "type veth", "latlab-agent talk", "latlab-agent listen", "latlab-agent flood", "del"):
        assert word in text


def test_the_doctor_tries_things_out_and_leaves_nothing(place: Place) -> None:
    before = place.trace()
    ended = place.latlab("doctor", "--json")
    findings = ended.document
    assert ended.status == (3 if any(one["ok"] is False for one in findings) else 0)
    assert "namespaces and veth" in {one["name"] for one in findings}
    assert all(one["remedy"] for one in findings if one["ok"] is False)
    assert place.trace() == before


@pytest.mark.parametrize("arguments", [("plan", "small.yaml"), ("list", "--json"), ("doctor",)])
def test_a_reader_that_goes_away_is_no_failure(place: Place, arguments: tuple[str, ...]) -> None:
    place.scenario()
    lab = place.start(*arguments)
    assert lab.process.stdout
    lab.process.stdout.close()
    assert lab.process.wait() == 0
    assert lab.process.stderr
    assert lab.process.stderr.read() == ""


def test_ctrl_c_in_a_verb_that_measures_nothing_is_3_and_one_line(place: Place) -> None:
    lab = place.start("doctor")
    while not place.journals.exists() or not list(place.journals.iterdir()):
        assert lab.process.poll() is None
    lab.signal(signal.SIGINT)
    ended = lab.ended()
    assert (ended.status, ended.err) == (3, "latlab: interrupted\n")
    assert place.trace()["journals"] == []
