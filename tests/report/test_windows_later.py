"""User-defined windows, beforehand or after the fact, stand next to the whole run wherever a result is reported."""

from __future__ import annotations

import html
import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from latlab.cli import main
from latlab.evaluation.run import make_result
from latlab.evaluation.windows import chosen_later
from latlab.model.errors import UsageError
from latlab.recordings.run_folder import RunFolder
from latlab.report.anomalies import CHOSEN_HEADINGS, CHOSEN_TITLE, chosen_rows
from latlab.report.answer import answer
from latlab.report.build import write_report
from latlab.report.document import Lines, Table
from latlab.report.markdown import result_markdown
from latlab.report.terminal import print_result
from latlab.result.store import typed
from latlab.synthetic import Description, generate, write_run
from latlab.synthetic.description import Noise, Swing

S = 10**9


@pytest.fixture(scope="module")
def swung(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 20 s with a second of warm-up, whose clock swings from 8 s to 16 s; its scenario names a window."""
    description = Description(
        seed=3,
        packets=20_000,
        period_ns=1_000_000,
        warmup=1_000,
        clock_bound_ns=10_000_000,
        ptp=True,
        noise=Noise(2_000),
        ingredients=(Swing(8 * S, 8 * S, 60_000, ptp=True),),
        least_ns=(8_000, 3_000, 2_000, 3_000, 2_000, 30_000, 3_000, 9_000),
    )
    folder = write_run(generate(description), tmp_path_factory.mktemp("runs") / "swung")
    scenario = RunFolder(folder).scenario_path
    scenario.write_text(f"{scenario.read_text()}windows:\n  - {{from: 2s, to: 5s, why: before it swung}}\n")
    return folder


def told(result: dict[str, Any]) -> list[dict[str, str]]:
    return [dict(zip(CHOSEN_HEADINGS, row, strict=True)) for row in chosen_rows(typed(result))]


def test_a_scenarios_window_stands_next_to_the_whole_run_and_the_clean_windows(swung: Path) -> None:
    result = make_result(RunFolder(swung)).document()
    whole, clean, window = told(result)
    assert (whole["of"], whole["n"]) == ("whole run", "19000")
    assert clean["of"] == "clean windows" and clean["why"].startswith("cut: at ")
    assert (window["of"], window["n"], window["why"]) == ("2s to 5s, user-defined", "3000", "before it swung")
    assert float(window["max"]) < float(whole["max"])
    latency = result["cells"][0]["streams"]["control"]["metrics"]["latency"]
    assert whole["max"] == f"{latency['max'] / 1000:.1f}"


def test_windows_after_the_fact_are_marked_and_gone_with_the_next_report(swung: Path) -> None:
    later = chosen_later(["9s..10s its top", "17s..18s"])
    rows = told(make_result(RunFolder(swung), later).document())
    assert [row["of"] for row in rows[3:]] == [
        "9s to 10s, user-defined, set after the measurement",
        "17s to 18s, user-defined, set after the measurement",
        "all of these, user-defined, set after the measurement",
    ]
    assert [row["why"] for row in rows[3:5]] == ["its top", "no reason given"]
    assert rows[5]["n"] == "2000" and rows[5]["why"].startswith("not cut there: all latencies moved by up to +")
    assert len(told(make_result(RunFolder(swung)).document())) == 3


def test_the_first_screen_has_them_where_they_are_few(swung: Path) -> None:
    few = answer(make_result(RunFolder(swung), chosen_later(["9s..10s its top"])), ["latency"])
    (table,) = next(one.parts for one in few if one.name == "windows")
    assert isinstance(table, Table) and [row[3].split(",")[0] for row in table.rows][2:] == ["2s to 5s", "9s to 10s"]
    many = chosen_later([f"{second}s..{second + 1}s" for second in range(1, 8)])
    (lines,) = next(
        one.parts for one in answer(make_result(RunFolder(swung), many), ["latency"]) if one.name == "windows"
    )
    assert isinstance(lines, Lines)
    assert lines.lines == ["User-defined windows, with the whole run: latlab show anomalies"]


def test_terminal_markdown_and_page_have_them(swung: Path) -> None:
    folder = RunFolder(swung)
    result = make_result(folder, chosen_later(["9s..10s its top"])).document()
    with Console(width=240, record=True, file=StringIO()) as console:
        print_result(typed(result), console)
    page = html.unescape(write_report(folder, formats=()).read_text())
    for text in (result_markdown(typed(result), ["latency"]), page):
        assert CHOSEN_TITLE in text
        for row in told(result)[2:]:
            assert row["of"] in text and row["why"] in text
    printed = console.export_text()
    assert CHOSEN_TITLE in printed and "before it" in printed and "its top" in printed


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("15s..21s", r"--window, all: 15s\.\.21s is beyond the run \(its streams last for 20s\)"),
        ("0..1s", r"--window, all: 0ns\.\.1s is in the warm-up \(that lasts for 1s\)"),
        ("2000100us..2000200us", r"no packet of control is launched in .* \(give a longer window: its period is 1ms\)"),
    ],
)
def test_a_window_without_packets_is_reported_and_the_result_stays(swung: Path, text: str, said: str) -> None:
    make_result(RunFolder(swung))
    before = RunFolder(swung).result_path.read_bytes()
    with pytest.raises(UsageError, match=said):
        make_result(RunFolder(swung), chosen_later([text]))
    assert RunFolder(swung).result_path.read_bytes() == before


@pytest.mark.slow
def test_the_verb_takes_several_and_refuses_what_is_none(
    swung: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def latlab(*arguments: str) -> tuple[Any, str, str]:
        monkeypatch.setattr("sys.argv", ["latlab", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code, *capsys.readouterr()

    asked = ("report", str(swung), "--json", "--picture", "none")
    code, out, _ = latlab(*asked, "--window", "2s..3s calm", "--window", "4s..5s")
    (document,) = json.loads(out)["cells"]
    sets = document["streams"]["control"]["windows"]["chosen"]
    assert code == 4
    assert [(one["after_the_fact"], len(one["kept"])) for one in sets] == [(False, 1), (True, 2)]
    code, _, said = latlab("report", str(swung), "--window", "3s")
    assert (code, said.splitlines()[0][:45]) == (2, "latlab: --window: '3s' is not a window (give ")
