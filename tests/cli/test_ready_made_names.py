"""Ready-made scenarios by name: a file that is there comes first, an unknown name is an error, none lists them all."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

import latlab.cli
from latlab.cli import app
from latlab.cli.ready_made import ready_made, scenario_path
from latlab.model.errors import EXIT_USAGE, UsageError

ROOT = Path(__file__).parents[2]
NAMES = sorted(path.stem for path in (ROOT / "scenarios").glob("*.yaml"))
TAKERS = ("run", "validate", "plan", "gates")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A new folder, which the test is in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_file_of_the_folder_has_its_name() -> None:
    assert [one.name for one in ready_made()] == NAMES
    assert all(scenario_path(name, "run").samefile(ROOT / f"scenarios/{name}.yaml") for name in NAMES)


def test_each_says_in_its_head_what_it_measures_and_what_is_to_be_built() -> None:
    found = {one.name: one for one in ready_made()}
    assert all(one.description for one in found.values())
    assert [one.name for one in found.values() if not one.needs] == [
        "first",
        "substation-prp",
        "watch-dds",
        "watch-plc",
    ]
    assert found["bridges-board"].needs == "latlab image build --board; latlab image build debian-rt"
    assert found["netperf-rr"].needs == "latlab image build debian-rt --package netperf"
    assert found["bridges"].takes == "about an hour and a half"
    assert found["first"].takes == "20 s"
    for one in found.values():
        head = one.path.read_text(encoding="utf-8").partition("\nname:")[0]
        assert f"#     latlab run {one.name}" in head, "it names itself as the command line does"


def test_a_name_is_planned_from_any_folder() -> None:
    ended = CliRunner().invoke(app, ["plan", "first"])
    assert ended.exit_code == 0
    assert "ip netns add" in ended.output


def test_a_file_that_is_there_comes_before_a_name(elsewhere: Path) -> None:
    (elsewhere / "demo").write_text("name: mine\n", encoding="utf-8")
    assert scenario_path("demo", "run") == Path("demo")
    assert scenario_path("demo", "run").read_text(encoding="utf-8") == "name: mine\n"


def test_a_folder_of_that_name_is_no_scenario(elsewhere: Path) -> None:
    (elsewhere / "demo").mkdir()
    assert scenario_path("demo", "run").samefile(ROOT / "scenarios/demo.yaml")


@pytest.mark.parametrize(
    ("given", "what", "remedy"),
    [
        ("demoo", "no ready-made scenario of that name", "nearest: demo; `latlab plan` lists them"),
        ("bridge", "no ready-made scenario of that name", "nearest: bridges, "),
        ("xyzzy", "no ready-made scenario of that name", "`latlab plan` lists them"),
        ("scenarios/demo.yaml", "there is no such file", "the ready-made one is `latlab plan demo`"),
        ("demo.yaml", "there is no such file", "the ready-made one is `latlab plan demo`"),
        ("mine/lab.yaml", "there is no such file", "`latlab plan` lists the ready-made scenarios"),
    ],
)
def test_an_unknown_name_is_an_error_with_what_is_near(given: str, what: str, remedy: str) -> None:
    with pytest.raises(UsageError) as raised:
        scenario_path(given, "plan")
    assert raised.value.where == given
    assert what in raised.value.what
    assert raised.value.remedy.startswith(remedy)


def test_a_path_to_nothing_is_a_usage_error_with_the_next_step(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["latlab", "validate", "mine/lab.yaml"])
    with pytest.raises(SystemExit) as ended:
        latlab.cli.main()
    assert ended.value.code == EXIT_USAGE
    assert capsys.readouterr().err == (
        "latlab: mine/lab.yaml: there is no such file (`latlab validate` lists the ready-made scenarios)\n"
    )


@pytest.mark.parametrize("verb", TAKERS)
def test_without_a_scenario_those_that_are_ready_made_are_listed(
    verb: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("sys.argv", ["latlab", verb])
    with pytest.raises(SystemExit) as ended:
        latlab.cli.main()
    out, err = capsys.readouterr()
    assert ended.value.code == EXIT_USAGE
    assert err == f"latlab: no scenario was given (latlab {verb} FILE, or one of the names above)\n"
    heading, *lines = out.splitlines()
    assert heading == "Ready-made scenarios:"
    assert [line.split()[0] for line in lines if line[2] != " "] == NAMES
    assert max(map(len, lines)) <= 80
    words = " ".join(out.split())
    assert all(one.description in words and one.takes in words and one.needs in words for one in ready_made())


def test_as_json_the_list_is_one_document_with_the_error() -> None:
    ended = CliRunner().invoke(app, ["run", "--json"])
    document = json.loads(ended.output)
    assert ended.exit_code == document["exit_status"] == EXIT_USAGE
    assert document["error"]["what"] == "no scenario was given"
    assert [one["name"] for one in document["ready_made"]] == NAMES
    assert all(Path(one["path"]).is_file() for one in document["ready_made"])


@pytest.mark.slow
def test_an_installed_package_has_them(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=600)
    (wheel,) = tmp_path.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path / "installed")
    told = "from latlab.cli.ready_made import *; print(*(f'{one.name} {one.path}' for one in ready_made()), sep='\\n')"
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, 'installed'); {told}"],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.stdout.splitlines() == [f"{name} {tmp_path}/installed/latlab/scenarios/{name}.yaml" for name in NAMES]
