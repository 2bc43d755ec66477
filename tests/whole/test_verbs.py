"""The verbs that measure nothing: what they print, as text and as JSON, and that they change nothing."""

from __future__ import annotations

import os
import signal
from typing import Any
from unittest.mock import ANY

import pytest

from latlab.model.errors import LatlabError
from latlab.scenario import load_scenario
from support.command import Place

pytestmark = pytest.mark.real

VERBS: dict[str, tuple[str, ...]] = {
    "validate": ("validate", "small.yaml"),
    "plan": ("plan", "small.yaml"),
    "gates": ("gates", "small.yaml"),
    "explain": ("explain", "preempt-rt"),
    "list": ("list",),
    "clean": ("clean",),
    "version": ("--version",),
    "help": ("--help",),
}
GROUPS = {
    "Prepare": ["doctor", "init", "validate", "plan", "gates", "image"],
    "Measure": ["run", "watch", "clean"],
    "Results": ["report", "show", "compare", "explain", "list", "import", "synthetic"],
    "Shell": ["completion"],
}


@pytest.mark.parametrize("arguments", VERBS.values(), ids=VERBS)
def test_a_verb_that_measures_nothing_changes_nothing(place: Place, arguments: tuple[str, ...]) -> None:
    place.scenario(**GATES)
    before = place.trace()
    ended = place.latlab(*arguments)
    assert (ended.status, ended.err) == (0, "")
    assert ended.out.endswith("\n")
    assert place.trace() == before
    assert not place.runs.exists()


TAPRIO = {
    "kind": "taprio",
    "mode": "software",
    "map": {"7": 0},
    "rest": 1,
    "gates": [{"open": [0], "for": "100us"}, {"open": [1], "for": "400us"}],
}
GATES: dict[str, Any] = {
    "links": [{"ends": ["sensor.eth0", "ecu.eth0"], "queues": 2}],
    "shapers": {"sensor.eth0": TAPRIO},
}


DOCUMENTS: dict[str, tuple[tuple[str, ...], Any]] = {
    "validate": (
        ("validate", "small.yaml"),
        {
            "scenario": "small",
            "cells": ["loads=none", "loads=flood1"],
            "unavailable": {},
            "problems": [],
            "machine": [],
            "warnings": [],
            "foreseen": ANY,  # what the machine of the test is
        },
    ),
    "list": (("list",), []),
    "clean": (("clean",), {"undone": []}),
}


@pytest.mark.parametrize(("arguments", "document"), DOCUMENTS.values(), ids=DOCUMENTS)
def test_with_json_a_verb_prints_one_document(place: Place, arguments: tuple[str, ...], document: Any) -> None:
    place.scenario()
    ended = place.latlab(*arguments, "--json")
    assert (ended.status, ended.err, ended.document) == (0, "", document)


def test_what_keeps_a_right_scenario_from_running_here_is_reported_with_its_line_and_is_no_mistake(
    place: Place,
) -> None:
    path = place.scenario(tuning={"ecu": {"listener": {"cpus": [4000]}}})
    line = path.read_text().splitlines().index("      cpus:") + 1
    ended = place.latlab("validate", "small.yaml")
    assert (ended.status, ended.err) == (0, "")
    where = f"small.yaml:{line}: tuning.ecu.listener.cpus"
    assert ended.out.startswith(f"it cannot run on this machine: {where}: no CPU 4000 is online")
    assert "fine" not in ended.out
    (problem,) = place.latlab("validate", "small.yaml", "--json").document["machine"]
    assert problem["where"] == where


@pytest.mark.parametrize(("repeat", "count"), [(1, "2 cells, 1 stream"), (3, "6 runs of 2 cells, 1 stream")])
def test_how_much_a_scenario_asks_for_is_said(place: Place, repeat: int, count: str) -> None:
    place.scenario(repeat=repeat)
    assert place.latlab("validate", "small.yaml").out.splitlines()[0] == f"small.yaml: valid. {count}:"
    place.scenario(repeat=repeat, probes={name: {"probe": "timer", "on": "ecu"} for name in ("a", "b")})
    assert place.latlab("validate", "small.yaml").out.splitlines()[0] == f"small.yaml: valid. {count}, 2 probes:"


def test_the_help_says_of_each_verb_in_one_whole_line_what_it_does(place: Place) -> None:
    said = place.latlab("--help", COLUMNS="80").out
    groups = dict(part.split(":\n", 1) for part in said.split("\n\n") if ":\n" in part)
    verbs = {group: [line.split()[0] for line in groups[group].splitlines()] for group in GROUPS}
    assert verbs == GROUPS
    assert "..." not in "".join(groups[group] for group in GROUPS)


def test_the_plan_is_the_same_as_text_and_as_a_document_and_needs_no_privilege(place: Place) -> None:
    place.scenario()
    powerless = ("setpriv", "--bounding-set", "-all")
    text = place.latlab("plan", "small.yaml").out
    assert place.latlab("plan", "small.yaml", "--json").document["plan"] == text.splitlines()
    assert place.latlab("plan", "small.yaml", before=powerless).out == text
    for word in ("ip netns add", "type veth", "latlab-agent talk", "latlab-agent listen", "latlab-agent flood", "del"):
        assert word in text


def test_gates_are_the_same_as_text_and_as_a_document_and_need_no_privilege(place: Place) -> None:
    place.scenario(**GATES)
    text = place.latlab("gates", "small.yaml", before=("setpriv", "--bounding-set", "-all")).out
    assert "sensor.eth0: cycle of 500 µs, beginning at its multiples in TAI, 10Gbit/s" in text
    assert "leaves in the window 0 to 100 µs" in text
    document = place.latlab("gates", "small.yaml", "--json").document
    ((cells, ports),) = ((group["cells"], group["ports"]) for group in document["schedules"])
    assert (document["scenario"], cells) == ("small", ["loads=none", "loads=flood1"])
    assert [(port["interface"], port["cycle_ns"], len(port["loads"])) for port in ports] == [
        ("sensor.eth0", 500_000, 1)
    ]


def test_gates_are_drawn_where_that_is_asked_for(place: Place) -> None:
    place.scenario(**GATES)
    ended = place.latlab("gates", "small.yaml", "--picture", "gates.svg")
    assert (ended.status, ended.err) == (0, "")
    assert ended.out.endswith(f"Picture: {place.folder / 'gates.svg'}\n")
    assert "class 0" in (place.folder / "gates.svg").read_text()
    for picture in ("gates.jpeg", "gates"):
        refused = place.latlab("gates", "small.yaml", "--picture", picture)
        assert (refused.status, refused.out) == (2, "")
        assert "end it in .png, .svg or .pdf" in refused.err


def test_a_scenario_without_a_schedule_has_no_gates_to_show(place: Place) -> None:
    place.scenario()
    ended = place.latlab("gates", "small.yaml")
    assert (ended.status, ended.out) == (2, "")
    assert ended.err.startswith("latlab: shapers: no interface has a gate schedule (")


def test_a_wrong_scenario_is_told_by_gates_as_by_validate(place: Place) -> None:
    place.scenario(**GATES, streams={})
    assert place.latlab("gates", "small.yaml") == place.latlab("validate", "small.yaml")


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


ENDINGS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


@pytest.mark.parametrize("number", ENDINGS, ids=lambda number: number.name)
def test_a_verb_that_is_told_to_end_is_3_and_one_line(place: Place, number: signal.Signals) -> None:
    scenario = place.folder / "endless.yaml"
    os.mkfifo(scenario)
    lab = place.start("validate", scenario)
    with scenario.open("w"):  # returns once the verb reads it
        lab.signal(number)
        ended = lab.ended()
    assert (ended.status, ended.out, ended.err) == (3, "", "latlab: interrupted\n")


def test_a_verb_that_a_script_has_started_in_the_background_is_told_to_end(place: Place) -> None:
    scenario = place.folder / "endless.yaml"
    os.mkfifo(scenario)
    lab = place.start("validate", scenario, before=("env", "--ignore-signal=INT"))
    with scenario.open("w"):
        lab.signal(signal.SIGTERM)
        ended = lab.ended()
    assert (ended.status, ended.out, ended.err) == (3, "", "latlab: interrupted\n")


def test_what_nohup_has_the_command_ignore_stays_ignored(place: Place) -> None:
    scenario = place.folder / "slow.yaml"
    os.mkfifo(scenario)
    lab = place.start("validate", scenario, before=("nohup",))
    with scenario.open("w"):
        lab.signal(signal.SIGHUP)
        assert lab.process.poll() is None
    assert "small" not in lab.ended().err


def test_a_scenario_that_is_a_pipe_is_read_and_not_waited_for_without_end(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = place.scenario()
    piped = place.start("validate", "/dev/stdin", before=("sh", "-c", f'cat {path} | "$0" "$@"')).ended()
    assert (piped.status, piped.err) == (0, "")
    os.mkfifo(place.folder / "pipe.yaml")
    monkeypatch.setattr("latlab.scenario.load.PIPE_S", 0)
    with pytest.raises(LatlabError, match=r"pipe\.yaml: cannot be read: nothing arrived through this pipe for 0 s"):
        load_scenario(place.folder / "pipe.yaml")


def test_of_very_many_mistakes_the_first_are_listed_and_the_others_counted(place: Place) -> None:
    path = place.scenario()
    path.write_text(path.read_text() + "".join(f"k{number}: 1\n" for number in range(3000)))
    ended = place.latlab("validate", path)
    assert ended.status == 2
    first, *listed, last = ended.err.splitlines()
    assert first.endswith("small.yaml: 3000 mistakes")
    assert (len(listed), last) == (50, "and 2950 more")
    document = place.latlab("validate", path, "--json").document
    assert (len(document["error"]["problems"]), document["error"]["unlisted"]) == (50, 2950)


@pytest.mark.parametrize("number", ENDINGS, ids=lambda number: number.name)
def test_a_verb_that_is_told_to_end_undoes_what_it_has_tried_out(place: Place, number: signal.Signals) -> None:
    lab = place.start("doctor")
    while not place.journals.exists() or not list(place.journals.iterdir()):
        assert lab.process.poll() is None
    lab.signal(number)
    ended = lab.ended()
    assert (ended.status, ended.err) == (3, "latlab: interrupted\n")
    assert place.trace()["journals"] == []
