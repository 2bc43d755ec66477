"""The pages of published experiments: what a run says of a claim, and how it is written down."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from matplotlib.text import Text

from experiments import chosen, main
from latlab import load
from latlab.model.errors import LabError
from latlab.notebook import Run
from latlab.recordings.run import RecordedRun
from latlab.recordings.run_folder import RunFolder
from latlab.report.charts.sheet import Plotted
from latlab.scenario import cells, load_scenario
from published import FIVE
from published.claims import SENT, Claim, Figures, Of, differ, times
from published.experiment import Experiment, Part, Picture
from published.pages import PAGES, ROOT, section, write_pages

PARTS = [part for one in FIVE for part in one.parts]
GUEST_TIMER_STOPS = [
    *("wake_due", "host_irq", "host_waking", "host_run", "accepted", "injected", "entered", "irq", "waking", "run"),
    "wake",
]
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
                figures: dict[str, Any] = {"n": 900, "min": mean - 9, "mean": mean, "p50": mean}
                figures |= {"max": mean * 2, "stddev": mean / 8}
                figures |= {"pk_pk": mean, "uncertainty_ns": uncertainty_ns}
                queued = {"from": "tx_sched", "to": "tx_soft", "share": 0.5 + 0.1 * repeat}
                figures |= {"chain": {"worst": {"grew": [{"from": "tx_soft", "to": "rx_soft", "share": 0.1}, queued]}}}
                metrics = ("latency", "latency_user", SENT, "round_trip", "round_trip_sent", "interrupt", "wakeup")
                streams[name] = block(dict.fromkeys((*metrics, "lateness"), figures))
            documents.append(
                {"cell": dict(cell.label), "slug": cell.slug, "repeat": repeat, "status": "ok", "reason": None}
                | {"label": "virtual time", "qemu": "10.0.2", "ptp": [], "streams": streams}
                | {"talkers": [{"packets": 900, "cpu_ns": 900_000 + 10 * repeat * len(cell.slug), "wakeups": 90}]}
            )
    order = [{"slug": one["slug"], "repeat": one["repeat"]} for one in documents]
    times = {"started": "2026-11-25T10:00:00+00:00", "ended": "2026-11-25T10:12:00+00:00"}
    run = {"format": "latlab.run/1", "run": path.name, "name": scenario, "order": order}
    versions = {"latlab": "0.2.0", "commit": "0123456789ab", "images": {"debian-rt-board": "fedcba9876543210"}}
    folder.write_run(RecordedRun.model_validate(run | times | {"versions": versions}))
    result = {"format": "latlab.result/1", "run": path.name, "scenario": scenario, "cells": documents}
    folder.write_result(result | {"label": "virtual time", "verdict": "trusted", "reasons": []})
    return load(path)


def block(metrics: dict[str, Any]) -> dict[str, Any]:
    timer = {"n": 100, "above": 0, "interrupt": {"n": 100, "above": 0}}
    came_to = [{"what": "thread", "comm": "vhost-214", "n": 60}, {"what": "idle", "comm": None, "n": 40}]
    trace = {"n": 100, "whole": 100, "chain": {"stops": ["wake_due", "irq", "wake"]}, "interrupted": came_to}
    gates = {"left": 900, "missed": 0, "in_slot": {}}
    counts = {"scheduled": 900, "sent": 900, "received": 899}
    late = dict.fromkeys(("launch_late", "launch_invalid", "unsent_late", "launch_moved"), 2)
    return {
        "counts": late | counts,
        "metrics": metrics,
        "timer": timer,
        "trace": trace,
        "gates": gates,
        "anomalies": None,
    }


def by_bridge(**means_us: float) -> Value:
    """A mean for each bridge, a little other in each repetition."""

    def value(slug: str, _: str, repeat: int) -> float:
        bridge = re.search(r"bridge=([a-z-]+)", slug)
        return means_us.get(bridge[1].replace("-", "_") if bridge else "", 60) * 1_000 + 20 * repeat * (len(slug) % 3)

    return value


TAP, VFIO = (Of(f"bridge={one}, loads=none", SENT, "control") for one in ("tap", "vfio"))


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


def test_a_ratio_is_reported_with_its_interval_and_bounded_on_both_sides(tmp_path: Path) -> None:
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
    of_packets = ("under 100 µs", "above 200 µs", "above 503 µs")
    lines = [line for line in section(part, Figures(run)) if not any(words in line for words in of_packets)]
    tables = [line for line in lines if line.startswith("| ")]
    assert [line for line in tables if "not measured" in line] == []
    # A published row may have a figure missing; latlab's may not.
    assert [line for line in tables if line.endswith("| – |")] == []


def test_a_page_has_the_published_row_next_to_ours_and_keeps_sections_of_other_runs(tmp_path: Path) -> None:
    pages = tmp_path / "pages"
    rr = made_up(tmp_path / "rr", "netperf-rr-board", by_bridge(tap=95.5, vfio=61))
    write_pages([rr], pages)
    text = (pages / "round-trips.md").read_text()
    (row,) = re.findall(r"^\| vm to host1, tap \|.*$", text, re.MULTILINE)
    assert "214.0 / 254.0 / 581.0 / 14.2" in row
    assert "95.5 ±" in row and row.count("95.5 ±") == 2 and "| 2,700 |" in row
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
        said = f"{re.escape(claim.says)} \\| {re.escape(claim.test)}"
        (row,) = re.findall(rf"^\| {said} \|.*$", summary, re.MULTILINE)
        assert re.search(r"\*\*(yes|no|not shown|not testable here)\*\* \|$", row), row
    assert "not measured yet: `make experiments ONLY=tsn-bridges` | – |" in summary
    assert "latlab's verdict of every run is *trusted*." in summary
    assert "1.6 h on a machine" in summary
    assert "CPUs; not measured yet: tsn-bridges. Images" in summary


def test_the_summary_begins_with_how_many_claims_of_each_experiment_agree(tmp_path: Path) -> None:
    pages = tmp_path / "pages"
    write_pages([made_up(tmp_path / "run", "tsn-bridges", by_bridge(vfio=40))], pages)
    summary = (pages / "README.md").read_text()
    titles, _, row, *others = (line for line in summary.splitlines() if line.startswith("|"))
    assert titles == "| experiment | yes | no | not shown | not testable here |"
    *counts, untestable = (int(one) for one in re.sub("–", "0", row).split("|")[2:6])
    claims = next(one for one in FIVE if one.name == "tsn-bridges").parts[0].claims
    assert sum(counts) + untestable == len(claims)
    assert untestable == (pages / "tsn-bridges.md").read_text().count("| **not testable here** |")
    assert "| Launch time | – | – | – | – |" in others


def test_a_run_that_is_not_trusted_is_named_in_the_summary(tmp_path: Path) -> None:
    run, pages = made_up(tmp_path / "run", "txtime", by_bridge()), tmp_path / "pages"
    run.folder.write_result(json.loads(run.folder.result_path.read_text()) | {"verdict": "suspect"})
    write_pages([load(run.folder.path)], pages)
    assert "is *trusted*, but txtime is suspect." in (pages / "README.md").read_text()


def test_repetitions_that_are_all_equal_contradict_nothing(tmp_path: Path) -> None:
    run = made_up(tmp_path / "run", "tsn-bridges", lambda *_: 60_000, uncertainty_ns=0)
    found = differ([("tap", VFIO, TAP)], 0)(Figures(run))
    assert (found.measured, found.agrees) == ("tap +0.0 ± 0.0 µs", "not shown")


def test_differences_have_a_minus_and_thousands(tmp_path: Path) -> None:
    run = made_up(tmp_path / "run", "tsn-bridges", by_bridge(tap=60, vfio=2_060))
    assert differ([("tap", VFIO, TAP)], 0)(Figures(run)).measured.startswith("tap −1,999.9 ± ")


@pytest.mark.parametrize("scenario", ["tsn-bridges", "two-way-kernels-board"])
def test_what_needs_a_real_board_is_not_testable_here_but_measured(tmp_path: Path, scenario: str) -> None:
    part = chosen([scenario])[0]
    figures = Figures(made_up(tmp_path / "run", scenario, by_bridge(ovs_afxdp=500)))
    text = "\n".join(section(part, figures))
    untestable = [claim for claim in part.claims if claim.found(figures).agrees == "not testable here"]
    reasons = text.partition("### Not testable here, and why")[2].partition("###")[0]
    assert untestable
    assert all(f"*{claim.test}*" in reasons and claim.why in reasons for claim in untestable)
    assert all(claim.test not in text.partition("### What disagrees")[2].partition("###")[0] for claim in untestable)
    if scenario == "tsn-bridges":
        assert re.search(r"above AF_XDP's \| tap loaded −440\.\d ± [^|]*\| \*\*not testable here\*\*", text)


def written(path: Path, scenario: str, value: Value, **more: Any) -> str:
    return "\n".join(section(chosen([scenario])[0], Figures(made_up(path, scenario, value, **more))))


def test_why_a_claim_is_contradicted_is_on_the_page_and_only_then(tmp_path: Path) -> None:
    above = "*kernel bridges: average without missed slots, idle and loaded: above VFIO's"
    worse = written(tmp_path / "no", "tsn-bridges", by_bridge(vfio=90))
    assert above in worse.partition("### What disagrees, and why")[2].partition("###")[0]
    assert above not in written(tmp_path / "yes", "tsn-bridges", by_bridge(vfio=20))


def test_what_is_not_decided_stands_apart_from_what_contradicts(tmp_path: Path) -> None:
    text = written(tmp_path / "run", "tsn-bridges", by_bridge(tap=60.001, vfio=60))
    wide = text.partition("### Not decided: an interval crosses a bound")[2].partition("###")[0]
    assert re.search(r"above VFIO's.*: tap idle \(clocks: \d+ %\)", wide)
    assert "The share in brackets is the clock error's" in wide
    assert "loaded: above VFIO's" not in text.partition("### What disagrees")[2].partition("###")[0]
    # More repetitions would not measure it.
    (cell,) = (one for one in chosen(["irq-latency-board"])[0].claims if one.says.startswith('"see where'))
    run = made_up(tmp_path / "irq", "irq-latency-board", by_bridge())
    document = json.loads(run.folder.result_path.read_text())
    for one in document["cells"]:
        for block in one["streams"].values():
            block["trace"] = None
    run.folder.write_result(document)
    text = "\n".join(section(chosen(["irq-latency-board"])[0], Figures(load(run.folder.path))))
    assert f"- *{cell.test}*: not measured" in text.partition("### Not decided: not measured")[2]


def test_brackets_are_explained_only_where_there_are_some(tmp_path: Path) -> None:
    def value(slug: str, _: str, repeat: int) -> float:
        return 60_000 + 9_000 * repeat * (1 - 2 * (len(slug) % 2))

    text = written(tmp_path / "run", "tsn-bridges", value, uncertainty_ns=0)
    assert "### Not decided: an interval crosses a bound\n\n- " in text
    assert "The share in brackets" not in text


def test_only_vfio_and_the_kernel_bridges_are_judged(tmp_path: Path) -> None:
    means = {"vfio": 60, "tap": 76, "macvtap": 75, "xdp": 75, "ovs": 80, "ovs_afxdp": 500}
    text = written(tmp_path / "run", "tsn-bridges", by_bridge(**means))
    assert re.search(r'^\| "7-27 micro[^|]* \| kernel bridges.*\*\*yes\*\* \|$', text, re.MULTILINE)
    assert "ovs-afxdp" not in text.partition("### Claims")[2]
    assert "| largest latency of VFIO and the kernel bridges | – | 160." in text


@pytest.mark.parametrize(("tap_us", "agrees"), [((70, 90, 70), "yes"), ((90, 91, 92), "not shown")])
def test_results_vary_if_repetitions_have_other_orders_of_bridges(
    tmp_path: Path, tap_us: tuple[int, ...], agrees: str
) -> None:
    others = {"macvtap": 75, "xdp": 80, "ovs": 85}

    def value(slug: str, stream: str, repeat: int) -> float:
        return by_bridge(**others, tap=tap_us[repeat - 1])(slug, stream, repeat)

    text = written(tmp_path / "run", "tsn-bridges", value)
    assert re.search(rf"orders of the kernel bridges by average \|.*\*\*{agrees}\*\* \|$", text, re.MULTILINE)


def test_figures_without_missed_slots_are_those_of_the_packets_in_their_slot(tmp_path: Path) -> None:
    run = made_up(tmp_path / "run", "tsn-bridges", by_bridge(tap=120))
    document = json.loads(run.folder.result_path.read_text())
    for cell in document["cells"]:
        if "bridge=tap,loads=none" in cell["slug"]:
            gates = {"left": 900, "missed": 9, "in_slot": {SENT: {"mean": 90_000.0, "max": 99_000}}}
            cell["streams"]["control"]["gates"] = gates
    run.folder.write_result(document)
    figures = Figures(load(run.folder.path))
    clean = replace(TAP, in_slot=True)
    assert set(figures.values(clean).values()) == {90_000}
    assert min(figures.values(TAP).values()) >= 120_000
    # Both are of the same clocks.
    whole = figures.effect(clean, TAP)
    assert whole is not None
    assert whole.clocks == 0


def test_latencies_over_a_cycle_are_counted_for_each_bridge(tmp_path: Path) -> None:
    figures = Figures(made_up(tmp_path / "run", "tsn-bridges", by_bridge()))
    row = {"repeat": 1, "stream_name": "control"}
    packets = [
        row | {"cell": f"guests.vm1.bridge={bridge},loads={load}", "sequence": 1, "sent_ns": ns, "class": name}
        for bridge in ("vfio", "tap", "macvtap", "xdp", "ovs", "ovs-afxdp")
        for load in ("none", "load-same", "load-opposite")
        for ns, name in ((60_000, ""), (600_000, "missed_slot" if bridge != "ovs-afxdp" else "unexplained"))
    ]
    figures.__dict__["packets"] = pl.DataFrame(packets)
    text = "\n".join(section(chosen(["tsn-bridges"])[0], figures))
    assert re.search(r"vfio 3 of 3<br>tap 3 of 3<br>.* \*\*yes\*\* \|$", text, re.MULTILINE)
    assert "ovs-afxdp" not in text.partition("### Claims")[2]
    figures.__dict__["packets"] = pl.DataFrame(packets).filter(pl.col("sent_ns") < 100_000)
    text = "\n".join(section(chosen(["tsn-bridges"])[0], figures))
    assert re.search(r"vfio 0 of 0<br>.*ovs 0 of 0 \| \*\*not shown\*\* \|$", text, re.MULTILINE)


def test_latency_of_packets_behind_gates_counts_from_their_send_call_as_the_article_s(tmp_path: Path) -> None:
    figures = Figures(made_up(tmp_path / "run", "tsn-bridges", by_bridge(tap=120)))
    sent = {1: (40_000, ""), 2: (44_000, ""), 3: (600_000, "missed_slot")}
    row = {"cell": "guests.vm1.bridge=tap,loads=none", "repeat": 1, "stream_name": "control"}
    rows = [row | {"sequence": n, "sent_ns": ns, "class": name} for n, (ns, name) in sent.items()]
    figures.__dict__["packets"] = pl.DataFrame(rows, schema_overrides={"sequence": pl.UInt64})
    cell = next(one for one in figures.document["cells"] if (one["slug"], one["repeat"]) == (row["cell"], 1))
    cell["streams"]["control"]["gates"] = {"left": 3, "missed": 1, "in_slot": {"latency": {"mean": 99_000.0}}}
    assert figures.values(TAP, "max")[1] == 600_000
    assert figures.values(replace(TAP, in_slot=True))[1] == 42_000
    assert figures.clocks_ns(TAP) == 100


@pytest.mark.parametrize(
    ("bridge", "packets", "measured", "agrees"),
    [
        ("tap", 5, "1 such stalls; stall of 6 ms", "yes"),
        ("tap", 2, "none; 1 through tap, which are left out", "not shown"),
        ("ovs-afxdp", 5, "none; 1 through ovs-afxdp, which are left out", "not shown"),
    ],
)
def test_a_stall_is_one_of_five_packets_outside_af_xdp(
    tmp_path: Path, bridge: str, packets: int, measured: str, agrees: str
) -> None:
    run = made_up(tmp_path / "run", "tsn-bridges", by_bridge())
    document = json.loads(run.folder.result_path.read_text())
    cell = next(one for one in document["cells"] if one["cell"]["guests.vm1.bridge"] == bridge)
    shown = [{"packets": packets, "evidence": {"slope": -0.97}, "text": "stall of 6 ms"}]
    cell["streams"]["control"]["anomalies"] = {"stall": {"episodes": 1, "packets": packets, "shown": shown}}
    run.folder.write_result(document)
    text = "\n".join(section(chosen(["tsn-bridges"])[0], Figures(load(run.folder.path))))
    assert f"not through AF_XDP | {measured} | **{agrees}** |" in text


HOW = ("beyond", "within")


@pytest.mark.parametrize(("beyond_ns", "agrees"), [(-5, "no"), (0, "no"), (20, "yes")])
def test_dds_grows_faster_beyond_the_mtu_only_if_a_byte_costs_more(tmp_path: Path, beyond_ns: int, agrees: str) -> None:
    def value(slug: str, _: str, repeat: int) -> float:
        size = re.search(r"size=(\d+)(k?)B", slug)
        payload = int(size[1]) * (1_000 if size[2] else 1) if size else 64
        return 50_000 + 20 * payload + beyond_ns * max(payload - 1_500, 0) + 100 * repeat

    text = written(tmp_path / "run", "dds-payload-board", value, uncertainty_ns=0)
    assert re.search(rf"of the median \| .* 10\.\d ns/B below.*\*\*{agrees}\*\*", text, re.MULTILINE)
    # Half of 20 ns × 6000 B and more.
    more = 60 + 3 * beyond_ns
    assert f"hosts 2kB to 8kB +{more}.0 ± 0.0 µs" in text
    # 64 and 1200 bytes are one frame each: a claim of their own, half of 20 ns × 1136 B.
    beyond, within = (re.search(rf"^\| \"the latency.*{how} one frame \|.*$", text, re.MULTILINE) for how in HOW)
    assert beyond and within
    assert "1200B to 2kB" in beyond[0] and "64B" not in beyond[0]
    assert "hosts +11.4 ± 0.0 µs<br>guests +11.4 ± 0.0 µs | **yes** |" in within[0]


@pytest.mark.parametrize(
    ("median", "most", "hosts", "agrees"),
    [
        (1.1, 5.0, 1.0, ("yes", "yes", "yes")),
        (3.0, 4.0, 1.0, ("no", "yes", "yes")),
        (1.5, 1.2, 0.5, ("no", "no", "no")),
    ],
)
def test_tuning_of_dds_is_judged_by_what_it_moves_the_maximum(
    tmp_path: Path, median: float, most: float, hosts: float, agrees: tuple[str, ...]
) -> None:
    """Before tuning the guests' median is so many times that after, and the maximum; the hosts' median that after."""
    run = made_up(tmp_path / "run", "dds-payload-board", lambda *_: 60_000, uncertainty_ns=0)
    document = json.loads(run.folder.result_path.read_text())
    for cell in document["cells"]:
        if cell["cell"]["hosts.board1.append"] == "not tuned":
            figures = cell["streams"]["guests"]["metrics"]["round_trip"]
            # A little other in each repetition.
            figures |= {"p50": 60_000 * (median + cell["repeat"] / 99), "max": 120_000 * (most + cell["repeat"] / 99)}
        elif cell["cell"]["probes"] == ["hosts"]:
            cell["streams"]["hosts"]["metrics"]["round_trip"]["p50"] *= hosts
    run.folder.write_result(document)
    claims, figures = chosen(["dds-payload-board"])[0].claims[-3:], Figures(load(run.folder.path))
    assert tuple(claim.found(figures).agrees for claim in claims) == agrees


@pytest.mark.parametrize(("above", "agrees"), [((0, 0, 0), "not shown"), ((8, 9, 10), "yes"), ((0, 0, 9), "not shown")])
def test_a_busy_hypervisor_is_judged_by_how_many_interrupts_are_late(
    tmp_path: Path, above: tuple[int, ...], agrees: str
) -> None:
    run = made_up(tmp_path / "run", "irq-latency-board", by_bridge())
    document = json.loads(run.folder.result_path.read_text())
    for cell in document["cells"]:
        if cell["slug"] == "probes=guest,loads=vm2-packets":
            cell["streams"]["guest"]["timer"]["interrupt"]["above"] = above[cell["repeat"] - 1]
    run.folder.write_result(document)
    text = "\n".join(section(chosen(["irq-latency-board"])[0], Figures(load(run.folder.path))))
    assert re.search(rf"^\| \"to identify main issues.*\*\*{agrees}\*\* \|$", text, re.MULTILINE)


@pytest.mark.parametrize(("above", "n", "agrees"), [(0, 100, "not shown"), (0, 200, "yes"), (9, 200, "no")])
def test_a_share_of_few_interrupts_has_an_interval(tmp_path: Path, above: int, n: int, agrees: str) -> None:
    """0 of 3 × 100 may be 1.3 %."""
    run = made_up(tmp_path / "run", "irq-latency-board", by_bridge())
    document = json.loads(run.folder.result_path.read_text())
    for cell in document["cells"]:
        if cell["slug"] == "probes=guest,loads=none":
            cell["streams"]["guest"]["timer"]["interrupt"] = {"n": n, "above": above}
    run.folder.write_result(document)
    text = "\n".join(section(chosen(["irq-latency-board"])[0], Figures(load(run.folder.path))))
    assert re.search(rf"^\| \"This fits.*{3 * above} of {3 * n} above.*\*\*{agrees}\*\* \|$", text, re.MULTILINE)


def test_a_load_that_makes_no_interrupt_late_is_not_shown_and_what_it_adds_to_the_mean_is(tmp_path: Path) -> None:
    def value(slug: str, *_: object) -> float:
        return 9_000 + 400 * ("host-calls" in slug) + 500 * ("vm2-packets" in slug)

    run = made_up(tmp_path / "run", "irq-latency-board", value, uncertainty_ns=0)
    document = json.loads(run.folder.result_path.read_text())
    for cell in document["cells"]:
        for block in cell["streams"].values():
            block["timer"]["interrupt"] = {"n": 100, "above": 0}
    run.folder.write_result(document)
    text = "\n".join(section(chosen(["irq-latency-board"])[0], Figures(load(run.folder.path))))
    for row in (
        r"\| \"to identify main issues.*idle 0.0 %<br>mean \+0.5 ± 0.0 µs \| \*\*not shown\*\* \|",
        # He names no threshold.
        r"\| \"For interrupting EL2.*with system calls \+0.4 ± 0.0 µs \| \*\*yes\*\* \|",
    ):
        assert re.search(rf"^{row}$", text, re.MULTILINE)
    assert "more above 30 µs than idle*: none was above 30 µs, with the load or idle" in text


def test_what_ran_names_the_load_and_leaves_out_what_hardly_did(tmp_path: Path) -> None:
    run = made_up(tmp_path / "run", "irq-latency-board", by_bridge())
    document = json.loads(run.folder.result_path.read_text())
    agents = [{"what": "thread", "comm": name, "n": n} for name, n in (("latlab-agent", 180), ("exe", 9))]
    others = [{"what": "softirq", "comm": "vhost-214", "n": 10}, {"what": "kernel thread", "comm": "ktimers/1", "n": 0}]
    for cell in document["cells"]:
        for block in cell["streams"].values():
            block["trace"]["interrupted"] = [*agents, *others]
    run.folder.write_result(document)
    text = "\n".join(section(chosen(["irq-latency-board"])[0], Figures(load(run.folder.path))))
    assert "| native, idle | thread of latlab 95 %, softirq vhost 5 % |" in text
    assert "| guest, beside system calls | thread of the load 95 %, softirq vhost 5 % |" in text


def test_repetitions_that_differ_are_shown_with_what_their_late_packets_wait_for(tmp_path: Path) -> None:
    def value(slug: str, stream: str, repeat: int) -> float:
        return 700_000 * repeat if "load-up" in slug and stream == "as-ecu.down" else 50_000

    text = written(tmp_path / "run", "two-way-board", value)
    assert "| VM answers, down | 700.0 to 2,100.0 | 700.0 to 2,100.0 | 1,400.0 to 4,200.0 | 60 % to 80 % |" in text
    assert "| VM asks, down | 50.0 | 50.0 | 100.0 | 60 % to 80 % |" in text


def test_pk_pk_is_of_all_repetitions_as_least_and_most_are(tmp_path: Path) -> None:
    run = made_up(tmp_path / "run", "tsn-bridges", by_bridge(tap=90))
    figures = Figures(run)
    least, most, between = (figures.over_all(TAP, one) for one in ("min", "max", "pk_pk"))
    assert least and most and between
    assert between[0] == most[0] - least[0]


def test_a_scenario_that_changed_since_the_run_is_named(tmp_path: Path) -> None:
    run = made_up(tmp_path / "run", "txtime", by_bridge())
    copy = run.folder.path / "scenario.yaml"
    now = (ROOT / "scenarios/txtime.yaml").read_text(encoding="utf-8")
    copy.write_text(now.replace("description: ", "description: Once "), encoding="utf-8")
    assert "has changed" not in "\n".join(section(chosen(["txtime"])[0], Figures(run)))
    copy.write_text(re.sub(r"^repeat: \d+$", "repeat: 2", now, flags=re.MULTILINE), encoding="utf-8")
    text = "\n".join(section(chosen(["txtime"])[0], Figures(run)))
    assert "- The scenario has changed since this run: `repeat`\n" in text


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
    assert "- 4 cells × 2 to 3 repetitions: 11 of 12 ok; 1 failed: the board did not start\n" in text


def test_an_experiment_is_chosen_by_its_page_or_its_scenario() -> None:
    round_trips = [part.scenario for part in chosen(["round-trips"])]
    assert round_trips == ["netperf-rr-board", "two-way-board", "two-way-kernels-board"]
    assert [part.scenario for part in chosen(["txtime"])] == ["txtime"]
    assert chosen([]) == PARTS
    with pytest.raises(LabError, match=r"there is no experiment 'other'.*tsn-bridges"):
        chosen(["other"])
    assert main(["--only", "other"]) == 3


@pytest.fixture
def measure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, list[str]]]:
    """Measures scenarios with a stand-in for latlab, which ends with this exit code where a command ends so, else 0.

    The pages that it writes are the names of the runs. The exit code of all, and the commands.
    """
    program, called = tmp_path / "latlab", tmp_path / "called"
    monkeypatch.setattr("experiments.LATLAB", program)
    monkeypatch.setattr("experiments.load", Path)
    monkeypatch.setattr("experiments.write_pages", list)

    def measured(*scenarios: str, ends: str, code: int) -> tuple[int, list[str]]:
        run = tmp_path / "runs/1-txtime-0"
        writes = f'case "$*" in run*) mkdir -p {run}; echo {{}} > {run}/result.json; esac'
        program.write_text(f'#!/bin/sh\necho "$*" >> {called}\n{writes}\ncase "$*" in *{ends}) exit {code}; esac\n')
        program.chmod(0o755)
        only = [word for one in scenarios for word in ("--only", one)]
        return main([*only, "--runs", str(tmp_path / "runs")]), called.read_text().splitlines()

    return measured


def test_an_image_that_cannot_be_built_is_an_error_of_its_scenario_and_the_next_is_measured(
    measure: Callable[..., tuple[int, list[str]]], capsys: pytest.CaptureFixture[str]
) -> None:
    code, commands = measure("dds-payload-board", "txtime", ends="' debian-rt --quiet'", code=5)
    assert code == 3
    *built, last = commands
    dds, txtime = ["image build --board --quiet", "image build debian-rt --quiet"], ["image build --board --quiet"]
    assert built == dds + txtime
    assert last.startswith(f"run {ROOT}/scenarios/txtime.yaml ")
    assert capsys.readouterr().err == (
        "experiments: dds-payload-board: latlab image build debian-rt exited with 5; its page is unchanged "
        "(`tools/experiments.py --only dds-payload-board` runs it again)\n"
    )


@pytest.mark.parametrize(("code", "ends"), [(0, 0), (1, 0), (2, 3), (3, 3), (4, 0), (130, 3)])
def test_a_run_without_figures_is_an_error_and_writes_no_page(
    measure: Callable[..., tuple[int, list[str]]], capfd: pytest.CaptureFixture[str], code: int, ends: int
) -> None:
    assert measure("txtime", ends="latency", code=code)[0] == ends
    output = capfd.readouterr()
    assert ("runs/1-txtime-0" in output.out) == (ends == 0)
    said = f"txtime: latlab run exited with {code}; its page is unchanged"
    assert (said in output.err) == (ends == 3)


DRAWN = [pytest.param(part, picture, id=picture.name) for part in PARTS for picture in part.pictures]


def texts(drawn: Plotted) -> set[str]:
    return {part.get_text().strip() for part in drawn.figure().findobj(Text)}


@pytest.mark.parametrize(("part", "picture"), DRAWN)
def test_every_picture_has_its_rows_on_one_axis(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: Part, picture: Picture
) -> None:
    figures = Figures(made_up(tmp_path / "run", part.scenario, by_bridge()))
    for cell in figures.document["cells"]:
        for one in cell["streams"].values():
            one["trace"]["chain"] = {
                "stops": GUEST_TIMER_STOPS,
                "groups": [{"name": "typical", "ns": [-700, *[1_000] * 9]}],
                "worst": {"each": [{"ns": [90_000, *[1_000] * 9]}]},
            }

    def values(_: Figures, of: Of) -> dict[int, np.ndarray]:
        asked.append(of)
        return {n: np.arange(40_000, 900_000, 9_000 + n) for n in (1, 2)}

    asked: list[Of] = []
    monkeypatch.setattr("published.pictures.values_of", values)
    drawn = picture.draw(figures)
    assert drawn is not None
    # Each of them is of cells that the scenario has.
    assert all(figures.blocks(of.cells, of.stream) for of in asked)
    shown = texts(drawn)
    assert not any("not measured" in text for text in shown)
    if part.scenario == "tsn-bridges":
        assert {"100", "200", "503", "VFIO", "Open vSwitch + AF_XDP"} <= shown
    if picture.name == "interrupt-breakdown":
        assert {"8.3", "99.0", "guest's entry code"} <= shown


def test_a_bridge_that_was_not_measured_is_in_the_picture_without_a_bar(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    figures = Figures(made_up(tmp_path / "run", "tsn-bridges", by_bridge()))
    some = {1: np.arange(40_000, 900_000, 9_000)}
    monkeypatch.setattr("published.pictures.values_of", lambda _, of: {} if "bridge=vfio" in of.cells else some)
    for picture in chosen(["tsn-bridges"])[0].pictures:
        drawn = picture.draw(figures)
        assert drawn is not None
    drawn = chosen(["tsn-bridges"])[0].pictures[0].draw(figures)
    assert drawn is not None and "VFIO: not measured" in texts(drawn)


def test_the_stages_of_an_interrupt_are_a_table_of_typical_and_latest(tmp_path: Path) -> None:
    run = made_up(tmp_path / "run", "irq-latency-board", by_bridge())
    document = json.loads(run.folder.result_path.read_text())
    for cell in document["cells"]:
        for one in cell["streams"].values():
            typical = {"name": "typical", "ns": [-700, *[1_000 * cell["repeat"]] * 9]}
            latest = {"ns": [30_000 * cell["repeat"], *[1_000] * 9]}
            one["trace"]["chain"] = {"stops": GUEST_TIMER_STOPS, "groups": [typical], "worst": {"each": [latest]}}
    run.folder.write_result(document)
    text = "\n".join(section(chosen(["irq-latency-board"])[0], Figures(load(run.folder.path))))
    assert "| VM host's timer | −0.7 / 90.0 | −0.7 / 90.0 | −0.7 / 90.0 |" in text
    assert "| guest's entry code | 2.0 / 1.0 |" in text
    assert "| all | 17.3 / 99.0 |" in text


def test_ours_with_launch_times_is_the_latency_of_the_run_and_the_picture_adds_the_scenario_s_delta(
    tmp_path: Path,
) -> None:
    assert "delta: 200us" in (ROOT / "scenarios/txtime.yaml").read_text(encoding="utf-8")
    assert load_scenario(ROOT / "scenarios/txtime.yaml").scenario.headline == chosen(["txtime"])[0].metric == "latency"
    text = written(tmp_path / "run", "txtime", lambda *_: -190_000, uncertainty_ns=0)
    assert "| min | 19,408 | −190,009 | −190,009 | 472 | −190,009 | 472 | −190,009 |" in text


def test_a_section_says_with_what_its_run_was_made(tmp_path: Path) -> None:
    text = written(tmp_path / "run", "txtime", by_bridge())
    made = "latlab 0.2.0, commit 0123456789ab; images debian-rt-board fedcba987654; kernels "
    assert re.search(rf"^- Run `run`: {made}.*; QEMU 10.0.2$", text, re.MULTILINE)


def names(experiment: Experiment) -> list[Claim]:
    return [claim for part in experiment.parts for claim in part.claims]


def test_a_claim_has_a_reason_for_where_it_may_not_agree() -> None:
    assert all(claim.why for one in FIVE for claim in names(one))


@pytest.mark.parametrize("experiment", [pytest.param(one, id=one.name) for one in FIVE])
def test_the_pages_have_the_words_of_their_experiments(experiment: Experiment) -> None:
    """Claims, notes and pictures that were changed since are to be written again: `--report-only`."""
    page = (PAGES / f"{experiment.name}.md").read_text(encoding="utf-8")
    for part in experiment.parts:
        text = page.partition(f"<!-- {part.scenario} -->")[2].partition(f"<!-- /{part.scenario} -->")[0]
        assert f"### How the test bed differs\n\n{part.differs}\n" in text
        rows = re.findall(r"^\| (.+?) \| (.+?) \|", text.partition("### Claims")[2], re.MULTILINE)
        assert rows[1:] == [(claim.says, claim.test) for claim in part.claims]
        assert all(table.note in text for table in part.tables)
        assert re.findall(r"^!\[(.*)\]\(pictures/(.*)\.png\)$", text, re.MULTILINE) == [
            (picture.shows, picture.name) for picture in part.pictures
        ]


def test_a_picture_that_no_page_has_any_more_is_removed(tmp_path: Path) -> None:
    pages = tmp_path / "pages"
    (pages / "pictures").mkdir(parents=True)
    for name in ("old", "by-hand"):
        (pages / f"pictures/{name}.png").write_bytes(b"")
    (pages / "dds.md").write_text("![By hand](pictures/by-hand.png)\n")
    write_pages([made_up(tmp_path / "run", "txtime-late", by_bridge())], pages)
    assert [path.name for path in (pages / "pictures").iterdir()] == ["by-hand.png"]


def test_what_is_written_by_hand_below_the_sections_stays(tmp_path: Path) -> None:
    pages = tmp_path / "pages"
    run = made_up(tmp_path / "run", "txtime", by_bridge())
    write_pages([run], pages)
    page = pages / "launch-time.md"
    page.write_text(page.read_text() + "\n## By hand\n")
    write_pages([run], pages)
    assert page.read_text().count("## By hand") == 1 and page.read_text().endswith("## By hand\n")


def test_batches_save_only_if_their_cpu_time_is_less_in_every_repetition(tmp_path: Path) -> None:
    run = made_up(tmp_path / "run", "txtime-batch", lambda *_: 60_000)
    document = json.loads(run.folder.result_path.read_text())
    (claim,) = next(part for part in PARTS if part.scenario == "txtime-batch").claims

    def agrees(*cpu_ns: int) -> str:
        """With so much CPU time of 16 a call; one a call takes 1000 a packet, and 4 a call half."""
        for cell in document["cells"]:
            batch = cell["cell"]["streams.s.launch_time"]
            found = {"one a call": 1_000, "4 a call": 500}.get(batch) or cpu_ns[cell["repeat"] - 1]
            cell["talkers"][0]["cpu_ns"] = 900 * (found + cell["repeat"])
        run.folder.write_result(document)
        return claim.check(Figures(load(run.folder.path))).agrees

    repeats = max(cell["repeat"] for cell in document["cells"])
    assert agrees(*[400] * repeats) == "yes"
    assert agrees(*[1_400] * repeats) == "no"
    assert agrees(*[400 + 500 * n for n in range(repeats)]) == "not shown"
