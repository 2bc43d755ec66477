"""`latlab synthetic` makes a run that `latlab report` reads, and that is marked as synthetic everywhere."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from latlab.cli import main
from latlab.recordings.run_folder import RunFolder, list_runs

TEXT = """\
seed: 7
packets: 4000
period: 1ms
ingredients:
  - {kind: stall, at: 1s, length: 6300us}
  - {kind: stall, at: 2s, length: 8300us}
"""
Latlab = Callable[..., tuple[int, str, str]]


@pytest.fixture
def latlab(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Latlab:
    """Runs the command line in a folder with try.yaml: exit code, standard output and error.

    Where runs go is always said whole: threads of a process may be in other folders than the one that asks.
    """
    monkeypatch.chdir(tmp_path)
    (tmp_path / "try.yaml").write_text(TEXT)

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["latlab", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        return int(ended.value.code or 0), *capsys.readouterr()

    return run


def test_it_says_what_it_made_and_what_to_do_with_it(latlab: Latlab, tmp_path: Path) -> None:
    made = tmp_path / "made"
    code, out, err = latlab("synthetic", "try.yaml", "--output", str(made))
    (run,) = list_runs(made)
    assert (code, err) == (0, "")
    assert re.fullmatch(r"\d{8}-\d{6}-synthetic-try-[0-9a-f]{4}", run.run)
    assert out.splitlines() == [
        "Generated, not measured: 4000 packets, 2 × stall",
        f"Run: {made}/{run.run}",
        f"The truth of each packet: {made}/{run.run}/cells/all/r1/truth.json, truth.parquet",
        f"What the analysis finds: latlab report {run.run} --runs {made}",
    ]


def test_its_report_is_of_a_run_that_is_never_trusted(latlab: Latlab, tmp_path: Path) -> None:
    runs = str(tmp_path / "runs")
    assert latlab("synthetic", "try.yaml", "--output", runs)[0] == 0
    code, out, _ = latlab("report", "--picture", "none", "--runs", runs, "--full")
    assert code == 4
    assert "it was generated from a description, not measured" in out and "untrusted · synthetic" in out
    (run,) = list_runs(tmp_path / "runs")
    assert run.verdict == "untrusted" and run.started is not None and run.started.startswith("20")
    result = RunFolder(run.path).result()
    assert (result["label"], result["scenario"]) == ("synthetic", "synthetic-try")
    assert result["cells"][0]["streams"]["control"]["anomalies"]["stall"]["episodes"] == 2
    page = (run.path / "report.html").read_text()
    assert "Label: generated from a description, not measured" in page


def test_with_json_it_prints_one_document(latlab: Latlab, tmp_path: Path) -> None:
    code, out, _ = latlab("synthetic", "try.yaml", "--json", "--output", str(tmp_path / "runs"))
    document = json.loads(out)
    assert code == 0 and (document["label"], document["ingredients"]) == ("synthetic", {"stall": 2})
    assert (Path(document["path"]) / "run.json").is_file()


def test_a_wrong_description_makes_no_folder(latlab: Latlab, tmp_path: Path) -> None:
    (tmp_path / "try.yaml").write_text(TEXT.replace("1ms", "1"))
    code, _, err = latlab("synthetic", "try.yaml")
    assert (code, err) == (
        2,
        "latlab: try.yaml: 1 mistake\ntry.yaml:3: period: 1 has no unit; expected a duration such as 1006us\n",
    )
    assert not (tmp_path / "runs").exists()


def test_a_folder_that_cannot_be_made_is_reported(latlab: Latlab, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code, _, err = latlab("synthetic", "try.yaml", "--output", "file")
    assert code == 2 and "no run folder can be made" in err


def test_its_help_says_that_nothing_is_measured(latlab: Latlab) -> None:
    code, out, _ = latlab("synthetic", "--help")
    assert code == 0 and "nothing is measured" in " ".join(out.split()) and "--output" in out


@pytest.mark.parametrize("text", [b"", b"name: [", b"\0" * 40, b"- 1\n"])
def test_a_damaged_scenario_is_an_error_and_not_a_run_without_limits(
    latlab: Latlab, tmp_path: Path, text: bytes
) -> None:
    runs = tmp_path / "runs"
    assert latlab("synthetic", "try.yaml", "--output", str(runs))[0] == 0
    (run,) = list_runs(runs)
    scenario = RunFolder(run.path).scenario_path
    scenario.write_bytes(text)
    code, out, err = latlab("report", "--picture", "none", "--runs", str(runs))
    assert (code, out) == (3, "")
    assert err.startswith(f"latlab: {scenario}: the run's scenario is damaged, including its limits: ")
    scenario.write_text("name: of another version\naccept: {control.latency.max: 1us}\nunheard_of: 1\n")
    code, _, err = latlab("report", "--picture", "none", "--runs", str(runs))
    assert code == 4 and "no limit of `accept` was evaluated: this latlab does not read the scenario: " in err
