"""`latlab explain`: what an id in a result means."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import latlab.cli
from latlab.analysis import interrupt_way, way
from latlab.analysis.anomalies import CLASSES
from latlab.analysis.interrupt_way import REASONS
from latlab.cli import app
from latlab.explain import explained, topics
from latlab.model.bridges import KINDS, BridgeKind
from latlab.model.errors import EXIT_USAGE, UsageError
from latlab.model.labels import LABELS
from latlab.model.metrics import METRICS_BY_NAME
from latlab.model.rules import OTHERS, RULES
from latlab.model.timestamps import PLACES


def said(*words: str) -> str:
    """What the verb prints, in one line."""
    ended = CliRunner().invoke(app, ["explain", *words])
    assert ended.exit_code == 0, ended.output
    return " ".join(ended.output.split())


def kinds() -> dict[str, list[str]]:
    """{kind: its ids}."""
    found: dict[str, list[str]] = {}
    for topic in topics():
        found.setdefault(topic.kind, []).append(topic.id)
    return found


def test_without_an_id_all_are_listed_a_line_each_by_kind() -> None:
    lines = CliRunner().invoke(app, ["explain"]).output.splitlines()
    listed: dict[str, list[str]] = {}
    kind = ""
    for line in filter(None, lines):
        if line.startswith("  "):
            listed[kind].append(line.split()[0])
        else:
            kind = line
            listed[kind] = []
    assert listed == kinds()


def test_everything_that_has_an_id_is_there_once_in_its_kind() -> None:
    found = kinds()
    assert found["rule of the verdict"] == [rule.id for rule in RULES]
    assert found["rule of a whole run, or of imported files"] == [one.id for one in OTHERS]
    assert found["anomaly class"] == [one.name for one in CLASSES]
    assert found["metric"] == list(METRICS_BY_NAME)
    assert found["place of an anomaly"] == list(PLACES)
    assert found["label of figures"] == [one.name.replace(" ", "-") for one in LABELS]
    assert found["why a stage is missing"] == list(REASONS)
    assert found["bridge"] == list(KINDS)
    assert len(found["stage"]) == len({*way.INTERVALS.values(), *interrupt_way.INTERVALS.values()})
    assert {*interrupt_way.GUEST_WAY, *way.ROUND_TRIP_WAY, *way.WAKEUP_WAY} <= {*found["timestamp"]}
    assert all(len(set(ids)) == len(ids) for ids in found.values())


def test_a_rule_is_printed_with_what_it_looks_at_and_what_to_do() -> None:
    printed = said(*(rule.id for rule in RULES))
    for rule in RULES:
        texts = (rule.id, rule.name, rule.severity, *rule.when, rule.looks_at, rule.broken_when, rule.finding)
        assert [text for text in (*texts, rule.remedy) if text not in printed] == []
    assert "only to a machine that delayed late packets" in said("cpu-frequency")
    assert "only to a machine that delayed late packets" not in said("preempt-rt")


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_bridge_is_printed_with_what_it_needs_and_where_its_page_is(kind: BridgeKind) -> None:
    printed = said(kind.name)
    texts = (kind.title, kind.carried_by, *kind.tools, *kind.kernel, kind.page)
    assert [text for text in texts if text not in printed] == []
    page, _, anchor = kind.page.partition("#")
    assert f"\n## {anchor}\n" in (Path(__file__).parents[2] / page).read_text(encoding="utf-8")


def test_a_class_is_printed_with_how_it_is_found_and_the_thresholds_of_that() -> None:
    printed = said("stall")
    (stall,) = (one for one in CLASSES if one.name == "stall")
    for text in (stall.title, stall.meaning, stall.evidence, stall.searches[0].found_by, stall.searches[0].is_not):
        assert text in printed
    assert "thresholds crowd 0.5" in printed
    assert "clean windows leave it out" in said("warm_up")


def test_a_metric_is_printed_with_its_definition() -> None:
    printed = said("latency_user")
    assert "rx_user − launch" in printed and "launch → rx_user" in printed
    assert "counted among packets received" in printed and "includes the ±" in printed
    assert "includes the ±" not in said("wakeup")


def test_of_watched_packets_the_uncertainty_is_explained_by_where_it_comes_from() -> None:
    between = said("transit")
    assert "--clock-bound, and 0 on one kernel" in between and "verdict is untrusted" in between
    assert "± is 0" in said("interarrival")
    sampled = said("sample_latency")
    assert "± is --clock-bound" in sampled and "0 on one kernel" not in sampled
    assert "--clock-bound" not in said("latency_user")


def test_an_id_of_several_kinds_is_explained_as_each_of_them() -> None:
    assert [topic.kind for topic in explained(["path", "tx_soft"])] == [
        "metric",
        "stage",
        "place of an anomaly",
        "timestamp",
    ]


@pytest.mark.parametrize(
    ("word", "id_"),
    [
        ("late sender", "late_sender"),
        ("LATE-SENDER", "late_sender"),
        ("the kernel is PREEMPT_RT", "preempt-rt"),
        ("VM host's handler", "vm-host-handler"),
    ],
)
def test_a_word_as_a_report_has_it_serves_as_an_id(word: str, id_: str) -> None:
    assert [topic.id for topic in explained([word])] == [id_]


@pytest.mark.parametrize(
    ("word", "near"), [("stal", "stall, "), ("preemt-rt", "preempt-rt, "), ("xyzzy", ""), ("", "")]
)
def test_an_unknown_id_is_an_error_that_names_the_three_nearest(word: str, near: str) -> None:
    with pytest.raises(UsageError) as raised:
        explained(["stall", word])
    assert raised.value.exit_code == EXIT_USAGE
    nearest = raised.value.remedy.removeprefix("nearest: ").partition(";")[0]
    assert nearest.startswith(near)
    assert len(set(nearest.split(", "))) == 3
    assert {*nearest.split(", ")} <= {topic.id for topic in topics()}


def test_the_command_line_ends_with_the_error_on_an_unknown_id(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["latlab", "explain", "stal"])
    with pytest.raises(SystemExit) as ended:
        latlab.cli.main()
    out, err = capsys.readouterr()
    assert (ended.value.code, out) == (EXIT_USAGE, "")
    assert err.startswith("latlab: there is no id 'stal' (nearest: stall, ")


def test_as_json_an_id_is_a_document() -> None:
    document: list[dict[str, Any]] = json.loads(CliRunner().invoke(app, ["explain", "ring-full", "--json"]).output)
    (one,) = document
    assert (one["id"], one["title"], one["facts"]["severity"]) == ("ring-full", "no record was dropped", "untrusted")
    assert len(json.loads(CliRunner().invoke(app, ["explain", "--json"]).output)) == len(topics())
