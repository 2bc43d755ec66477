"""`latlab compare` and `latlab report --junit`, as typed: what is printed and written, and exit codes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from lxml import etree  # type: ignore[import-untyped]

from latlab.cli import main
from support.report.compared import write_figures_run

OLD = (812.0, 845.0, 835.0, 830.0, 822.0)
WORSE = tuple(value + 60 for value in OLD)

Told = tuple[int, str, str]
"""Exit code, output, errors."""
Latlab = Callable[..., Told]


@pytest.fixture
def latlab(root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Latlab]:
    """A function that does what `latlab …` does in the folder `root`."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    monkeypatch.chdir(root)

    def told(*arguments: str) -> Told:
        monkeypatch.setattr(sys, "argv", ["latlab", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        return int(ended.value.code or 0), *capsys.readouterr()

    yield told
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with runs in it: old, alike, worse, distrusted, single, virtual."""
    path = tmp_path_factory.mktemp("compared")
    (path / "runs").mkdir()
    made: dict[str, tuple[tuple[float | None, ...], dict[str, Any]]] = {
        "old": (OLD, {}),
        "alike": (tuple(reversed(OLD)), {}),
        "worse": (WORSE, {}),
        "distrusted": (WORSE, {"verdict": "untrusted"}),
        "failed": ((*WORSE[:4], None), {}),
        "single": ((830.0,), {}),
        "virtual": (OLD, {"label": "virtual time"}),
    }
    for name, (medians, options) in made.items():
        write_figures_run(path / "runs" / name, {"tap": OLD, "xdp": medians}, **options)
    return path


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("old", "worse"), 0),
        (("worse", "--by", "bridge"), 0),
        (("old", "distrusted"), 4),
        (("--baseline", "old", "alike"), 0),
        (("--baseline", "old", "worse"), 1),
        (("--baseline", "old", "worse", "--threshold", "control.latency.p50=1ms", "--statistic", "p50"), 0),
        (("--baseline", "old", "alike", "--threshold", "control.latency.p50=1ns", "--statistic", "p50"), 0),
        (("--baseline", "old", "alike", "--threshold", "control.latency.p50=1ns", "--need-power"), 4),
        (("--baseline", "old", "alike", "--need-power"), 2),
        (("--baseline", "old", "distrusted"), 4),
        (("--baseline", "old", "single"), 4),
        (("--baseline", "old", "failed"), 3),
        (("--baseline", "old", "virtual"), 2),
        (("old",), 2),
        (("old", "absent"), 2),
        (("old", "worse", "--metric", "speed"), 2),
    ],
)
def test_exit_codes(latlab: Latlab, arguments: tuple[str, ...], code: int) -> None:
    found, output, errors = latlab("compare", *arguments)
    assert found == code, errors
    assert bool(errors) == (code == 2)
    assert bool(output) == (code != 2)
    assert "Traceback" not in errors


def test_a_regression_is_printed_and_written(latlab: Latlab, tmp_path: Path) -> None:
    junit = tmp_path / "junit.xml"
    code, output, _ = latlab("compare", "--baseline", "old", "worse", "--junit", str(junit))
    assert code == 1
    assert "Regressions:\n  bridge xdp, control latency: regression: new is 60.0 µs slower than baseline" in output
    schema = etree.XMLSchema(etree.parse(Path(__file__).with_name("junit.xsd")))
    document = etree.parse(junit)
    schema.assertValid(document)
    assert document.getroot().get("failures") == str(output.count(": regression: "))


def test_json_is_the_whole_document(latlab: Latlab) -> None:
    code, output, _ = latlab("compare", "--baseline", "old", "worse", "--json")
    document = json.loads(output)
    assert document["format"] == "latlab.comparison/1"
    assert document["exit_status"] == code == 1
    assert len(document["comparisons"]) == document["family"] == 8
    assert [side["name"] for side in document["sides"]] == ["baseline", "new"]


def test_what_is_refused_is_reported_with_what_where_and_remedy(latlab: Latlab) -> None:
    code, output, errors = latlab("compare", "old", "virtual", "--json")
    assert code == 2
    error = json.loads(output)["error"]
    assert "measured and virtual time cannot be compared" in error["what"]
    assert error["where"] == "old and virtual"
    assert error["remedy"]
    assert errors.startswith("latlab: old and virtual: ")


@pytest.mark.slow
@pytest.mark.parametrize("columns", ["80", "200"])
def test_a_comparison_is_readable_in_80_columns_and_through_a_pipe(root: Path, columns: str) -> None:
    command = [sys.executable, "-c", "from latlab.cli import main; main()", "compare", "worse", "--by", "bridge"]
    colours = {"FORCE_COLOR": "1"} if columns == "80" else {}
    output = subprocess.run(
        command, cwd=root, capture_output=True, text=True, check=True, env=os.environ | {"COLUMNS": columns} | colours
    ).stdout
    plain = re.sub(r"\x1b\[[0-9;]*m", "", output)
    assert ("\x1b" in output) == (columns == "80")
    lines = plain.splitlines()
    # Through a pipe a sentence stays one line, to be searched for.
    whole = lines if columns == "80" else [line for line in lines if not line.startswith(" ")]
    assert max(map(len, whole)) <= int(columns)
    assert not any("…" in line for line in lines)
    row = next(line for line in lines if line.startswith("p50"))
    assert row.split() == ["p50", "828.800", "888.800", "+60.000", "0.000", "0.000", "<", "0.001"]


def test_why_nothing_is_shown_stands_once_below_a_table(latlab: Latlab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)  # lines of a log are not folded
    _, output, _ = latlab("compare", "old", "single", "--metric", "latency")
    (line,) = [line for line in output.splitlines() if "nothing shown" in line]
    assert line.startswith("  nothing shown at the median, at p99.9, at the maximum and in standard deviation: ")


def test_markdown_is_one_table_with_a_row_a_comparison(latlab: Latlab) -> None:
    _, output, _ = latlab("compare", "old", "worse", "--markdown", "--statistic", "p50")
    rows = [line for line in output.splitlines() if line.startswith("|")]
    assert len(rows) == 2 + 2
    assert len({re.sub(r"\\\|", "", row).count("|") for row in rows}) == 1
    assert "B is 60.0 µs slower than A at the median \\[" in rows[-1]


@pytest.mark.slow
def test_a_result_is_written_as_junit_and_what_shows_more_is_named(
    latlab: Latlab, brief_run: Path, tmp_path: Path
) -> None:
    junit = tmp_path / "junit.xml"
    code, output, errors = latlab("report", str(brief_run), "--picture", "none", "--junit", str(junit))
    assert code in (0, 1, 4), errors
    assert etree.parse(junit).getroot().get("name") == "latlab: first"
    report, first, what, *_, last = output[output.index("Report: ") :].splitlines()
    assert report == f"Report: {brief_run / 'report.html'}"
    # Without its name the command would show another run, the newest in the folder; with it the line is full.
    assert first == f"Next:   latlab show {brief_run} trust"
    assert what == "          the reasons for the verdict, and what to do"
    assert last.endswith("; more: latlab show -h")


def test_a_timer_on_the_host_and_one_in_a_guest_are_compared_within_one_run(latlab: Latlab, root: Path) -> None:
    run = write_figures_run(
        root / "runs" / "timers", {"native": (8.1, 8.2, 8.3), "guest": (33.0, 33.4, 33.2)}, key="probes"
    )
    document = json.loads((run / "result.json").read_text())
    for cell in document["cells"]:
        which = cell["cell"]["probes"]
        ((_, block),) = cell["streams"].items()
        cell["streams"] = {which: block}
    (run / "result.json").write_text(json.dumps(document))
    code, out, err = latlab("compare", "timers", "--by", "probes", "--metric", "latency")
    assert code == 0, err
    assert "native, guest: latency" in out
    assert re.search(r"25\.0\d* µs (slower|later)", out), out


def test_many_comparisons_are_one_table_of_the_differences(root: Path, latlab: Latlab) -> None:
    bridges = {"tap": OLD, "macvtap": tuple(reversed(OLD)), "xdp": WORSE}
    write_figures_run(root / "runs" / "three", bridges)
    code, out, _ = latlab("compare", "three", "--by", "bridge", "--statistic", "p50", "--statistic", "max")
    assert code == 0
    title, headings, _, *rows = out.split("\n\n")[1].splitlines()
    assert title == "latency = rx_soft − launch, µs · control · trusted"
    assert headings.split() == ["second", "−", "first", "p50", "max"]
    told = {row.split("  ")[0]: row for row in rows}
    assert "+60.000 ± 0.000 *" in told["bridge xdp − bridge tap"]
    assert "*" not in told["bridge macvtap − bridge tap"] and "±" in told["bridge macvtap − bridge tap"]
    assert "* shown among all these comparisons" in out
    full = latlab("compare", "three", "--by", "bridge", "--full")[1]
    assert full.count("p, adjusted") == 3 and "bridge xdp is 60" in full


def test_of_a_long_value_only_the_words_that_differ_are_printed(root: Path, latlab: Latlab) -> None:
    for isolated in "23":
        facts = {"kernel": {"command_line": f"{'quiet ' * 20}isolcpus={isolated}"}}
        write_figures_run(root / "runs" / f"isolated-{isolated}", {"tap": OLD}, facts=facts)
    out = latlab("compare", "isolated-2", "isolated-3")[1]
    (line,) = (line for line in out.splitlines() if "command_line" in line)
    assert line.endswith("ecu.kernel.command_line: A … isolcpus=2; B … isolcpus=3")
