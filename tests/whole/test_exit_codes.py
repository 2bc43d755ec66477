"""Every way a command can end has its exit code, one clear line, and no trace on the machine when nothing was run."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from latlab.evaluation.run import exit_code, make_result
from latlab.recordings.run_folder import RunFolder
from latlab.result.store import typed
from support.command import SMALL, Ended, FinishedRun, Place, read

pytestmark = pytest.mark.real

NO_PRIVILEGE = ("setpriv", "--bounding-set", "-net_admin,-sys_admin")


def assert_refused(ended: Ended, place: Place, before: Any, status: int, *words: str) -> None:
    """The command ended with this status and said these words; nothing was run and nothing is changed."""
    assert ended.status == status
    assert ended.out == ""
    assert ended.err.startswith("latlab: ")
    for word in words:
        assert word in ended.err
    assert place.trace() == before
    assert not place.runs.exists()


@pytest.fixture
def changed(finished: FinishedRun, tmp_path: Path) -> Callable[..., RunFolder]:
    """A copy of the finished run: accept put into its scenario, and each cell.json changed by a function."""

    def made(accept: dict[str, str] | None = None, cell: Callable[[Any], None] = lambda cell: None) -> RunFolder:
        run = Path(shutil.copytree(finished.folder, tmp_path / "changed"))
        scenario = run / "scenario.yaml"
        scenario.write_text(yaml.safe_dump(yaml.safe_load(scenario.read_text()) | {"accept": accept or {}}))
        for path in run.glob("cells/*/*/cell.json"):
            document = read(path)
            cell(document)
            path.write_text(json.dumps(document))
        return RunFolder(run)

    return made


def full_ring(cell: Any) -> None:
    for agent in cell["agents"]:
        agent["done"]["ring_full"] = 3


def weak_setting(cell: Any) -> None:
    cell["agents"][0]["ready"]["realtime"]["problems"] = ["/dev/cpu_dma_latency: not there"]


def failed(cell: Any) -> None:
    cell["status"], cell["reason"] = "failed", {"what": "it broke", "where": "sensor", "remedy": ""}


IMPOSSIBLE = {"control.latency.max": "1ns", "control.latency.p99": "1h"}


def test_a_limit_that_is_exceeded_is_1_and_each_limit_stands_in_the_result(
    changed: Callable[..., RunFolder], finished: FinishedRun
) -> None:
    run = changed(IMPOSSIBLE)
    ended = finished.place.latlab("report", run.path, "--json")
    assert ended.status == 1
    accepted = [(one["cell"], one["path"], one["limit"], one["ok"]) for one in ended.document["accept"]]
    assert accepted == [
        (cell, path, limit, ok)
        for cell in ("loads=none", "loads=flood1")
        for path, limit, ok in (("control.latency.max", 1, False), ("control.latency.p99", 3600 * 10**9, True))
    ]
    assert run.run().exit_status == 1


def test_a_terminal_without_a_character_gets_another_and_the_exit_code_stays(
    changed: Callable[..., RunFolder], finished: FinishedRun
) -> None:
    ended = finished.place.latlab("report", changed(IMPOSSIBLE).path, PYTHONIOENCODING="ascii")
    assert (ended.status, ended.err) == (1, "")
    assert ended.out.isascii()
    assert "latency = rx_soft - launch, us" in ended.out


def test_a_report_on_a_run_of_root_s_by_another_user_names_the_owner_and_what_to_do(
    changed: Callable[..., RunFolder], finished: FinishedRun, tmp_path: Path
) -> None:
    run, user = changed(), ("setpriv", "--reuid", "65534", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all")
    for inner in (tmp_path, finished.place.folder):
        for folder in (inner, *inner.parents[:-2]):
            folder.chmod(0o755)
    ended = finished.place.latlab("report", run.path, before=user, HOME="/nowhere", MPLCONFIGDIR="/tmp")
    assert ended.status == 3
    assert ended.err.endswith(
        f"{run.path}: the report cannot be written: Permission denied ({run.path} belongs to root: run with sudo, or "
        f"take ownership of it: `sudo chown -R $USER {run.path}`)\n"
    )


def test_a_measurement_that_cannot_be_trusted_is_4_with_the_reason(
    changed: Callable[..., RunFolder], finished: FinishedRun
) -> None:
    ended = finished.place.latlab("report", changed(cell=full_ring).path, "--full")
    assert ended.status == 4
    assert "Verdict: untrusted" in ended.out
    assert "ring_full 3" in ended.out
    # What only the run's folder has.
    assert "Clocks: bounds of the second host's clock" in ended.out


WORST: dict[str, tuple[dict[str, str], Callable[[Any], None], int, int]] = {
    "a suspect measurement": ({}, weak_setting, 0, 4),
    "a suspect measurement and a limit": (IMPOSSIBLE, weak_setting, 1, 4),
    "no trust and a limit": (IMPOSSIBLE, full_ring, 4, 4),
    "a failed cell and a limit": (IMPOSSIBLE, failed, 3, 3),
}


@pytest.mark.parametrize(("accept", "cell", "code", "strict"), WORST.values(), ids=WORST)
def test_of_several_codes_the_worst_is_the_exit_code(
    changed: Callable[..., RunFolder],
    accept: dict[str, str],
    cell: Callable[[Any], None],
    code: int,
    strict: int,
) -> None:
    result = make_result(changed(accept, cell)).document()
    assert (exit_code(typed(result)), exit_code(typed(result), strict=True)) == (code, strict)


def test_strict_takes_a_suspect_measurement_for_an_untrusted_one(
    changed: Callable[..., RunFolder], finished: FinishedRun
) -> None:
    assert finished.place.latlab("report", changed(cell=weak_setting).path, "--strict", "--json").status == 4


def test_every_mistake_of_a_scenario_is_reported_at_once_with_its_line(place: Place) -> None:
    before = place.trace()
    path = place.scenario(duraton="1s", duration="-1s", hosts={"sensor": {"kind": "moon"}, "ecu": {"kind": "netns"}})
    lines = path.read_text().splitlines()
    for verb in ("validate", "run", "plan"):
        ended = place.latlab(verb, path)
        assert_refused(ended, place, before, 2, "duraton", "duration", "unknown kind 'moon'")
        assert ended.err.splitlines()[0].endswith("small.yaml: 3 mistakes")
        for word in ("duraton: 1s", "duration: -1s"):
            assert f"\n{path}:{lines.index(word) + 1}: " in ended.err, (
                "an editor finds the file and line it begins with"
            )


def test_a_scenario_s_mistakes_are_a_document_with_json(place: Place) -> None:
    ended = place.latlab("validate", place.scenario(duraton="1s"), "--json")
    assert ended.status == 2
    assert ended.document["exit_status"] == 2
    (problem,) = ended.document["error"]["problems"]
    assert set(problem) == {"file", "line", "column", "path", "what", "expected"}
    assert (problem["path"], problem["what"]) == ("duraton", "unknown key 'duraton'")


USAGE: dict[str, tuple[tuple[str, ...], str]] = {
    "a scenario that does not exist": (("run", "nowhere.yaml"), "latlab: nowhere.yaml: there is no such file"),
    "a section that does not exist": (("show", "stage"), "neither a run nor a section (the nearest section is stages"),
    "a run that does not exist": (("report", "20260101-000000-no-such-run"), "not a run folder"),
    "no runs yet": (("report",), "there are no runs yet"),
    "a metric that is none": (("report", "--metric", "foo"), "no metric 'foo' (one of wakeup, "),
}


@pytest.mark.parametrize(("arguments", "word"), USAGE.values(), ids=USAGE)
def test_what_is_not_there_is_one_line_and_2(place: Place, arguments: tuple[str, ...], word: str) -> None:
    ended = place.latlab(*arguments)
    assert_refused(ended, place, place.trace(), 2, word)
    assert len(ended.err.splitlines()) == 1


@pytest.mark.parametrize("arguments", [("measure",), ("run", "--fast", "x.yaml"), ("report", "--picture", "gif")])
def test_a_command_line_that_is_wrong_is_2(place: Place, arguments: tuple[str, ...]) -> None:
    ended = place.latlab(*arguments)
    assert ended.status == 2
    assert "Usage: latlab" in ended.err


def test_an_interface_this_machine_does_not_have_is_2(place: Place) -> None:
    before = place.trace()
    here = {"sensor": {"kind": "local"}, "ecu": {"kind": "local"}}
    frames = {"control": SMALL["streams"]["control"] | {"transport": "ethernet"}}
    links = [{"ends": ["sensor.tsn0", "ecu.tsn1"]}]
    scenario = place.scenario(hosts=here, links=links, streams=frames, loads=None, matrix=None)
    assert_refused(place.latlab("run", scenario), place, before, 2, "tsn0", "tsn1")


READ_ONLY_SYSCTLS = 'mount --bind /proc/sys /proc/sys && mount -o remount,ro,bind /proc/sys && exec "$0" "$@"'
IN_A_CONTAINER = ("unshare", "--mount", "sh", "-c", READ_ONLY_SYSCTLS)
LACKING: dict[str, tuple[tuple[str, ...], dict[str, str], str]] = {
    "a tool": ((), {"PATH": "/nowhere"}, "ip is missing"),
    "the agent": ((), {"LATLAB_AGENT": "/nowhere/latlab-agent"}, "/nowhere/latlab-agent"),
    "a privilege": (NO_PRIVILEGE, {}, "missing privilege: CAP_NET_ADMIN, CAP_SYS_ADMIN"),
    "sysctls that can be written": (IN_A_CONTAINER, {}, "sysctls cannot be written: /proc/sys is read-only"),
    "a place for the journal": ((), {"LATLAB_STATE": "/dev/null/journal"}, "/dev/null/journal"),
}


@pytest.mark.parametrize(("before", "environment", "word"), LACKING.values(), ids=LACKING)
def test_what_the_machine_does_not_have_is_one_line_with_a_remedy_and_3(
    place: Place, before: tuple[str, ...], environment: dict[str, Any], word: str
) -> None:
    trace = place.trace()
    ended = place.latlab("run", place.scenario(), before=before, **environment)
    assert_refused(ended, place, trace, 3, word, "(")


def test_doctor_and_validate_say_what_run_will_refuse(place: Place) -> None:
    doctor = place.latlab("doctor", "--json", before=IN_A_CONTAINER)
    assert doctor.status == 3
    assert [one["found"] for one in doctor.document if one["name"] == "sysctls"] == ["/proc/sys is read-only"]
    assert any(one["name"] == "ping" for one in doctor.document)
    validated = place.latlab("validate", place.scenario(), before=IN_A_CONTAINER)
    assert "it cannot run on this machine: sysctls cannot be written" in validated.out


def test_a_run_that_no_disk_can_hold_is_3_with_the_numbers(place: Place) -> None:
    before = place.trace()
    stream = SMALL["streams"]["control"] | {"period": "1us"}
    scenario = place.scenario(streams={"control": stream}, duration="1h", repeat=1000)
    assert_refused(
        place.latlab("run", scenario), place, before, 3, "7200000000000 packets need about 1440.0 TB of disk"
    )


def test_a_run_that_fails_says_so_in_its_document_too(place: Place) -> None:
    ended = place.latlab("run", place.scenario(), "--json", PATH="/nowhere")
    assert ended.status == 3
    assert ended.document["exit_status"] == 3
    assert "ip is missing" in json.dumps(ended.document["error"])


def test_a_folder_for_the_runs_that_cannot_be_made_is_2(place: Place) -> None:
    before = place.trace()
    scenario = place.scenario()
    ended = place.latlab("run", scenario, "--runs", scenario / "runs")
    assert_refused(ended, place, before, 2, "no run folder can be made")
