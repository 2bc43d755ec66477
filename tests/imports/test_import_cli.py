"""`latlab import` from end to end: what it prints, what `report` and `list` make of it, how it fails."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from latlab import load
from latlab.cli import main
from latlab.imports.table import FORMATS
from support.imports.files import CAPTURED

FILES = {
    "isochron": ["isochron.dat"],
    "isochron-csv": ["isochron-report.csv", "--columns", "qSwstTaRrA"],
    "isochron-summary": ["isochron-summary.txt"],
    "cyclictest": ["cyclictest-smp.txt", "cyclictest-sum.txt"],
    "cyclictest-json": ["cyclictest-smp.json"],
    "rtla": ["rtla-timerlat.txt", "rtla-osnoise.txt", "rtla-osnoise-top.txt"],
    "sockperf": ["sockperf-ping-pong.csv", "sockperf-under-load.csv"],
    "ddsperf": ["ddsperf-ping.txt"],
    "rtc-testbench": ["rtc-testbench.log", "rtc-testbench-debug.log"],
    "rtc-histogram": ["rtc-histogram.txt"],
    "sample-app-taprio": ["sample-app-taprio.log"],
    "txrx-tsn": ["txrx-tsn.txt"],
    "pcap": ["first.pcap", "second.pcap", "--clock-bound", "0"],
}


@dataclass
class Done:
    """What a command came to."""

    status: int
    out: str
    err: str


Latlab = Callable[..., Done]


@pytest.fixture
def latlab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Latlab:
    """Runs a command in `tmp_path`, in this process, which has everything loaded already."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(signal, "signal", lambda *_: None)

    def run(*words: str) -> Done:
        monkeypatch.setattr(sys, "argv", ["latlab", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        return Done(int(ended.value.code or 0), printed.out, printed.err)

    return run


def paths(words: list[str]) -> list[str]:
    return [str(CAPTURED / word) if (CAPTURED / word).exists() else word for word in words]


def imported(latlab: Latlab, *words: str) -> dict[str, Any]:
    done = latlab("import", "--json", *paths(list(words)))
    assert done.status == 0, done.err
    document: dict[str, Any] = json.loads(done.out)
    return document


def test_every_format_has_a_file_here() -> None:
    assert set(FILES) == {one.name for one in FORMATS}


@pytest.mark.slow
def test_import_then_report_then_list(tmp_path: Path) -> None:
    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", "from latlab.cli import main; main()", *words]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)

    document = json.loads(run("import", "--json", "--name", "bench-a", str(CAPTURED / "isochron.dat")).stdout)
    assert (document["format"], document["cells"][0]["streams"][0]["packets"]) == ("isochron", 40)
    reported = run("report", "--json", document["path"])
    result = json.loads(reported.stdout)
    assert reported.returncode == 4  # nothing bounds its clocks
    assert (result["label"], result["scenario"], result["verdict"]) == ("imported", "bench-a", "untrusted")
    (cell,) = result["cells"]
    assert cell["imported"]["version"].startswith("log version 4")
    assert cell["streams"]["packets"]["metrics"]["latency"]["n"] == 39
    folder = Path(document["path"])
    assert {path.name.split("-")[0] for path in (folder / "pictures").iterdir()} == {"packets"}
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert 'id="imported"' in page
    assert "one way: from the scheduled time" in page
    (listed,) = json.loads(run("list", "--json").stdout)
    assert (listed["name"], listed["verdict"], listed["status"]) == ("bench-a", "untrusted", "ended")


@pytest.mark.parametrize("name", [name for name in FILES if name != "isochron"])
def test_each_format_is_recognised_and_reported(latlab: Latlab, name: str) -> None:
    document = imported(latlab, *FILES[name])
    assert document["format"] == name
    reported = latlab("report", document["path"], "--picture", "none")
    assert reported.status in (0, 4), reported.err
    assert "the figures are from another program" in reported.out
    page = (Path(document["path"]) / "report.html").read_text(encoding="utf-8")
    assert 'id="imported"' in page
    assert ("the bins in which its percentiles lie" in page) == ('"kept": "histogram"' in json.dumps(document))
    assert ("each separately" in page) == ('"kept": "intervals"' in json.dumps(document))
    metrics = {metric for cell in document["cells"] for stream in cell["streams"] for metric in stream["metrics"]}
    assert set(load(document["path"]).metrics["metric"]) == metrics
    for metric in metrics:
        assert f"{metric} = " in reported.out


def test_what_was_recognised_kept_and_left_out_is_printed(latlab: Latlab) -> None:
    done = latlab("import", *paths(["ddsperf-ping.txt"]))
    assert "ddsperf-ping.txt: ddsperf" in done.out
    assert "kept: vm-3779: 4 intervals of 400 values, no single value: half_round_trip" in done.out
    assert "left out: 1 second: the first one" in done.out
    assert "Run: " in done.out
    assert "its latency: half a round trip" in done.out


def test_import_ends_with_the_answer_and_the_exit_code_of_a_report(latlab: Latlab) -> None:
    done = latlab("import", *paths(["isochron.dat"]), "--picture", "none")
    again = latlab("report", "--picture", "none")
    assert done.status == again.status == 4  # nothing bounds its clocks
    assert done.out.endswith(again.out)
    assert "\nVerdict: untrusted\n" in done.out
    suspect = paths(["ddsperf-ping.txt"])
    assert latlab("import", *suspect, "--picture", "none").status == 0
    assert latlab("import", *suspect, "--picture", "none", "--strict").status == 4


def test_as_a_document_import_says_what_was_read_and_analyses_nothing(latlab: Latlab) -> None:
    folder = Path(imported(latlab, "isochron.dat")["path"])
    assert not (folder / "result.json").exists()
    assert not (folder / "report.html").exists()


def test_several_files_are_several_cells_of_one_run(latlab: Latlab) -> None:
    document = imported(latlab, *FILES["sockperf"])
    result = json.loads(latlab("report", "--json", document["path"], "--picture", "none").out)
    assert [cell["cell"]["file"] for cell in result["cells"]] == FILES["sockperf"]


def test_two_files_of_one_name_are_two_cells(latlab: Latlab) -> None:
    document = imported(latlab, "rtc-histogram.txt", "rtc-histogram.txt")
    assert [cell["slug"] for cell in document["cells"]] == ["file=rtc-histogram.txt", "file=rtc-histogram.txt-2"]


def test_the_formats_are_listed(latlab: Latlab) -> None:
    assert {one["name"] for one in json.loads(latlab("import", "--list", "--json").out)} == set(FILES)
    assert all(name in latlab("import", "--list").out for name in FILES)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["unknown"], "of no recognised format"),
        (["unknown"], "latlab import --list describes them"),
        (["unknown"], "sockperf, ddsperf, rtc-testbench"),
        (["--as", "isochron", "unknown"], "it ends in its first 96 bytes"),
        (["--as", "netperf", "unknown"], "there is no format 'netperf'"),
        (["empty"], "empty"),
        (["gone"], "cannot be read: No such file"),
        ([], "no file is given"),
        (["first.pcap"], "1 capture: two are needed"),
        (["first.pcap", "isochron.dat"], "files of several formats: pcap, isochron"),
        (["--clock-bound", "soon", "isochron.dat"], "'soon' is not a duration"),
    ],
)
def test_what_cannot_be_imported_is_one_line_and_makes_no_run(
    tmp_path: Path, latlab: Latlab, words: list[str], said: str
) -> None:
    (tmp_path / "unknown").write_text("what is this\n")
    (tmp_path / "empty").touch()
    done = latlab("import", *paths(words))
    assert (done.status, done.out) == (2, "")
    assert said in done.err
    assert len(done.err.splitlines()) == 1
    assert not (tmp_path / "runs").exists()


def test_an_imported_metric_can_be_asked_for(latlab: Latlab) -> None:
    document = imported(latlab, "rtla-timerlat.txt")
    done = latlab("report", document["path"], "--metric", "interrupt", "--picture", "none")
    assert "interrupt = " in done.out
    assert "wakeup = " not in done.out
