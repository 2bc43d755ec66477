"""The pages of published experiments: what a run says of a claim, and how it is written down."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from experiments import chosen, main
from latlab import load
from latlab.data.run_folder import RunFolder
from latlab.errors import LabError
from latlab.notebook import Run
from latlab.scenario import cells, load_scenario
from published import FIVE
from published.claims import Claim, Figures, Of, differ, times
from published.experiment import Experiment, Part
from published.pages import ROOT, section, write_pages

PARTS = [part for one in FIVE for part in one.parts]
LEGS = {"ping": ("", ".up", ".down")}
Value = Callable[[str, str, int], float]
"""The mean, ns, of a cell's slug, a stream and a repetition."""


def made_up(path: Path, scenario: str, value: Value, *, repeats: int = 3, uncertainty_ns: int = 100) -> Run:
    """A run of every cell of a ready-made scenario, with these means, and other figures that go with them."""
    folder = RunFolder(path)
    path.mkdir(parents=True)
    loaded = load_scenario(ROOT / f"scenarios/{scenario}.yaml")
    documents = []
    for cell in cells(loaded):
        probes = cell.scenario.probes
        names = [name + leg for name, one in probes.items() for leg in LEGS.get(one.probe, ("",))]
        for repeat in range(1, repeats + 1):
            streams = {}
            for name in names or cell.scenario.streams:
                mean = value(cell.slug, name, repeat)
                figures = {"n": 900, "min": mean - 9, "mean": mean, "p50": mean, "max": mean * 2, "stddev": mean / 8}
                figures |= {"pk_pk": mean, "uncertainty_ns": uncertainty_ns}
                metrics = ("latency", "latency_user", "round_trip", "round_trip_sent", "interrupt", "arrival_offset")
                streams[name] = block(dict.fromkeys(metrics, figures))
            documents.append(
                {"cell": dict(cell.label), "slug": cell.slug, "repeat": repeat, "status": "ok", "reason": None}
                | {"label": "virtual time", "qemu": "10.0.2", "ptp": [], "streams": streams}
            )
    order = [{"slug": one["slug"], "repeat": one["repeat"]} for one in documents]
    times = {"started": "2026-11-25T10:00:00+00:00", "ended": "2026-11-25T10:12:00+00:00"}
    run = {"format": "latlab.run/1", "run": path.name, "name": scenario, "order": order}
    folder.write_run(run | times | {"versions": {"latlab": "0.2.0"}})
    result = {"format": "latlab.result/1", "run": path.name, "scenario": scenario, "cells": documents}
    folder.write_result(result | {"label": "virtual time", "verdict": "trusted", "reasons": []})
    return load(path)


def block(metrics: dict[str, Any]) -> dict[str, Any]:
    timer = {"n": 100, "above": 0, "interrupt": {"n": 100, "above": 0}}
    trace = {"n": 100, "whole": 100, "chain": {"stops": ["wake_due", "irq", "wake"]}}
    gates = {"left": 900, "missed": 3}
    return {"metrics": metrics, "timer": timer, "trace": trace, "gates": gates, "anomalies": None}


def by_bridge(**means_us: float) -> Value:
    """A mean for each bridge, a little other in each repetition."""

    def value(slug: str, _: str, repeat: int) -> float:
        bridge = re.search(r"bridge=([a-z-]+)", slug)
        return means_us.get(bridge[1].replace("-", "_") if bridge else "", 60) * 1_000 + 20 * repeat * (len(slug) % 3)

    return value


TAP, VFIO = (Of(f"bridge={one}, loads=none", "latency", "control") for one in ("tap", "vfio"))


@pytest.mark.parametrize(
    ("tap_us", "agrees"),
    [(70, "yes"), (50, "no"), (60.001, "not shown")],
    ids=["longer", "shorter", "too close for the clocks"],
)
def test_a_claim_that_one_cell_is_longer_is_judged_by_its_interval(tmp_path: Path, tap_us: float, agrees: str) -> None:
    run = made_up(tmp_path / "run", "tsn-bridges", by_bridge(tap=tap_us, vfio=60))
    assert differ([("tap", VFIO, TAP)], 0)(Figures(run)).agrees == agrees


def test_one_repetition_shows_nothing_and_says_so(tmp_path: Path) -> None:
    run = made_up(tmp_path / "run", "tsn-bridges", by_bridge(tap=90), repeats=1)
    found = differ([("tap", VFIO, TAP)], 0)(Figures(run))
    assert found.agrees == "not shown"
    assert "(one repetition)" in found.measured


def test_what_was_not_measured_is_never_said_to_agree(tmp_path: Path) -> None:
    run = made_up(tmp_path / "run", "tsn-bridges", by_bridge(tap=90))
    other = Of("bridge=other, loads=none", "latency", "control")
    assert differ([("other", VFIO, other)], 0)(Figures(run)).agrees == "not shown"
    both = differ([("tap", VFIO, TAP), ("other", VFIO, other)], 0)(Figures(run))
    assert both.agrees == "not shown"
    assert "other: not measured" in both.measured


def test_a_ratio_is_told_with_its_interval_and_bounded_on_both_sides(tmp_path: Path) -> None:
    run = made_up(tmp_path / "run", "tsn-bridges", by_bridge(tap=120, vfio=60))
    found = times([("tap", VFIO, TAP)], 1.5, 2.5)(Figures(run))
    assert found.agrees == "yes"
    assert re.fullmatch(r"tap × 2(\.\d+)? \(1\.9\d to 2\.?0?\d*\)", found.measured), found.measured
    assert times([("tap", VFIO, TAP)], 3, 9)(Figures(run)).agrees == "no"


def test_several_intervals_hold_together(tmp_path: Path) -> None:
    def value(slug: str, _: str, repeat: int) -> float:
        return 70_000 + 3_000 * repeat**2 if "tap" in slug else 60_000

    run = made_up(tmp_path / "run", "tsn-bridges", value)

    def half(pairs: int) -> float:
        measured = differ([("tap", VFIO, TAP)] * pairs)(Figures(run)).measured
        return float(measured.split("± ")[1].split()[0])

    assert half(8) > half(1)


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.scenario)
def test_every_entry_and_claim_finds_its_cells_in_its_scenario(tmp_path: Path, part: Part) -> None:
    run = made_up(tmp_path / "run", part.scenario, lambda slug, stream, n: 60_000 + 10 * n * len(slug))
    of_packets = ("| most packets |", "| Latencies over", "| Most samples")
    lines = [line for line in section(part, Figures(run)) if not line.startswith(of_packets)]
    tables = [line for line in lines if line.startswith("| ")]
    assert [line for line in tables if "not measured" in line] == []
    # A published row may lack a figure; what is ours may not.
    assert [line for line in tables if line.endswith("| – |")] == []


def test_a_page_has_the_published_row_beside_ours_and_keeps_sections_of_other_runs(tmp_path: Path) -> None:
    pages = tmp_path / "pages"
    rr = made_up(tmp_path / "rr", "netperf-rr-board", by_bridge(tap=95.5, vfio=61))
    write_pages([rr], pages)
    text = (pages / "round-trips.md").read_text()
    (row,) = re.findall(r"^\| vm to host1, tap \|.*$", text, re.MULTILINE)
    assert "214.0 / 254.0 / 581.0 / 14.2" in row
    assert "95.5 ±" in row
    assert "Not measured yet: `make experiments ONLY=two-way-board`" in text
    write_pages([made_up(tmp_path / "two", "two-way-board", by_bridge(vfio=60))], pages)
    both = (pages / "round-trips.md").read_text()
    assert row in both
    assert "Not measured yet: `make experiments ONLY=two-way-board`" not in both


def test_the_summary_has_every_claim_of_every_page_with_its_finding(tmp_path: Path) -> None:
    pages = tmp_path / "pages"
    write_pages([made_up(tmp_path / part.scenario, part.scenario, by_bridge(vfio=40)) for part in PARTS[1:]], pages)
    summary = (pages / "README.md").read_text()
    for claim in (claim for part in PARTS[1:] for claim in part.claims):
        (row,) = re.findall(rf"^\| \[[^|]*\| {re.escape(claim.says)} \|.*$", summary, re.MULTILINE)
        assert re.search(r"\*\*(yes|no|not shown)\*\* \|$", row), row
    assert "| TSN into a virtual machine | `tsn-bridges` | not measured yet | – |" in summary
    assert "72 min" in summary


def test_why_a_claim_does_not_agree_is_on_the_page_and_only_then(tmp_path: Path) -> None:
    tsn = PARTS[0]
    worse = "\n".join(section(tsn, Figures(made_up(tmp_path / "no", "tsn-bridges", by_bridge(vfio=90)))))
    better = "\n".join(section(tsn, Figures(made_up(tmp_path / "yes", "tsn-bridges", by_bridge(vfio=20)))))
    assert "*VFIO beats all bridges, idle* (no)" in worse
    assert "*VFIO beats all bridges, idle*" not in better


def test_cells_that_were_not_measured_are_counted_with_their_reason(tmp_path: Path) -> None:
    run = made_up(tmp_path / "run", "txtime", by_bridge())
    document = json.loads(run.folder.result_path.read_text())
    document["cells"][0] |= {
        "status": "failed",
        "reason": {"what": "the board did not start\n  its log: …"},
        "streams": {},
    }
    run.folder.write_result(document)
    text = "\n".join(section(chosen(["txtime"])[0], Figures(load(run.folder.path))))
    assert "- 8 of 9 cells ok; 1 failed: the board did not start\n" in text


def test_an_experiment_is_chosen_by_its_page_or_its_scenario() -> None:
    round_trips = [part.scenario for part in chosen(["round-trips"])]
    assert round_trips == ["two-way-board", "two-way-kernels-board", "netperf-rr-board"]
    assert [part.scenario for part in chosen(["txtime"])] == ["txtime"]
    assert chosen([]) == PARTS
    with pytest.raises(LabError, match=r"there is no experiment 'other'.*tsn-bridges"):
        chosen(["other"])
    assert main(["--only", "other"]) == 3


def names(experiment: Experiment) -> list[Claim]:
    return [claim for part in experiment.parts for claim in part.claims]


def test_a_claim_has_a_reason_for_where_it_may_not_agree() -> None:
    assert all(claim.why for one in FIVE for claim in names(one))
