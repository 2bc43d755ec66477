"""A run that is cut short, by whom and when ever: what was recorded is readable, and the machine is as it was."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

import latlab
from latlab.recordings.arrow import Recording, read_recording
from support.command import PACKETS, Lab, Place, cells_of, read

pytestmark = pytest.mark.real

MINUTE = 60 * 1000
ENOUGH_S = 1.3  # a recording has its first batch after a second


def long(place: Place) -> Path:
    """A scenario of one loaded cell that would measure for a minute."""
    return place.scenario(duration="60s", matrix={"loads": ["flood1"]})


def short(place: Place) -> Path:
    """A scenario of one loaded cell that is over soon."""
    return place.scenario(duration="500ms", matrix={"loads": ["flood1"]})


def recordings(run: Path) -> dict[str, Recording]:
    """Every recording of a run by its name, read; the test fails if one cannot be."""
    return {path.stem: read_recording(path, path.stem.partition(".")[2]) for path in run.rglob("*.arrow")}


def measuring(place: Place) -> Lab:
    """A lab that has measured for a little while."""
    lab = place.start("run", long(place), "--verbose")
    lab.until(": measuring")
    time.sleep(ENOUGH_S)
    return lab


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_a_run_that_is_interrupted_ends_in_order(place: Place, number: signal.Signals) -> None:
    before = place.trace()
    lab = measuring(place)
    lab.signal(number)
    if number is signal.SIGINT:
        lab.until(": stopping")
        lab.signal(number)  # an impatient hand changes nothing
    ended = lab.ended()
    assert (ended.status, ended.err) == (3, "")
    assert place.trace() == before

    run = place.only_run()
    document = read(run / "run.json")
    assert (document["status"], document["exit_status"]) == ("interrupted", 3)
    (cell,) = cells_of(run).values()
    assert (cell["status"], cell["reason"]["what"]) == ("interrupted", "a signal ended the run")
    assert (run / "report.html").exists()
    assert all(recording.complete for recording in recordings(run).values())
    packets = latlab.load(run).packets()
    sent = packets["send_error"].count()
    assert packets.height == MINUTE
    assert packets["sequence"].head(sent).to_list() == packets.drop_nulls("arrival")["sequence"].to_list()
    assert sent > 0
    counts = read(run / "result.json")["cells"][0]["streams"]["control"]["counts"]
    whole = dict.fromkeys(counts, 0) | {"scheduled": MINUTE, "warmup": 200, "sent": sent, "received": sent}
    assert counts == whole | {"unsent": MINUTE - sent}


@pytest.mark.parametrize("phase", ["setting up", "loading", "measuring", "stopping", "tearing down", "joining"])
def test_a_lab_that_is_killed_leaves_no_agent_and_nothing_that_clean_does_not_undo(place: Place, phase: str) -> None:
    before = place.trace()
    if phase == "measuring":
        lab = measuring(place)
    else:
        lab = place.start("run", short(place), "--verbose")
        lab.until(f": {phase}")
    lab.signal(signal.SIGKILL)
    assert lab.ended().status == -signal.SIGKILL
    place.wait_until_agents_are_gone()

    found = recordings(place.only_run())
    if phase in ("measuring", "stopping", "tearing down", "joining"):
        # An agent that its lab leaves finishes what it has, as if it had been told to.
        assert all(recording.complete for recording in found.values())
        sent, received = (found[name].table["sequence"] for name in ("talker-sensor.sent", "listener-ecu.received"))
        assert sent.to_list() == list(range(len(sent))) and len(sent) > 0
        assert set(received) <= set(sent)

    assert place.latlab("clean").status == 0
    assert place.trace() == before
    assert place.latlab("clean").out == "nothing to undo\n"


def test_the_next_run_undoes_what_a_killed_one_left_and_says_so(place: Place) -> None:
    before = place.trace()
    lab = measuring(place)
    lab.signal(signal.SIGKILL)
    lab.ended()
    assert place.trace() != before
    ended = place.latlab("run", short(place))
    assert ended.status == 0
    assert ended.out.startswith("An earlier run was interrupted; undoing it now: ")
    assert "sensor's namespace" in ended.out.splitlines()[0]
    assert place.trace() == before
    killed, finished = sorted(place.runs.iterdir())
    assert read(killed / "run.json")["status"] == "running"
    assert read(finished / "run.json")["status"] == "ended"


def victim(place: Place, verb: str) -> int:
    """The pid of an agent with this verb."""
    return next(pid for pid, found in sorted(place.agents().items()) if found == verb)


def test_a_process_that_dies_fails_its_cell_with_its_name_and_no_other(place: Place) -> None:
    before = place.trace()
    scenario = place.scenario(repeat=2, seed=3)
    lab = place.start("run", scenario, "--json", "--verbose")
    verbs = {"loads=none": ["talk", "listen"], "loads=flood1": ["flood"]}
    killed: dict[str, str] = {}
    assert lab.process.stderr
    while len(killed) < 3:
        line = lab.process.stderr.readline()
        assert line
        if not line.endswith(": measuring\n"):
            continue
        slug, _, repeat = line.replace(",", "").split()[1:4]
        if left := verbs[slug]:
            killed[f"{slug}/r{repeat}"] = left[0]
            os.kill(victim(place, left.pop(0)), signal.SIGKILL)
    ended = lab.ended()
    assert ended.status == 3
    assert place.trace() == before

    cells: dict[str, Any] = cells_of(place.only_run())
    assert len(cells) == 4
    for key, cell in cells.items():
        if key not in killed:
            assert (cell["status"], cell["reason"]) == ("ok", None)
            continue
        assert cell["status"] == "failed"
        host = {"talk": "sensor", "listen": "ecu"}.get(killed[key])
        assert cell["reason"]["where"] in ((host,) if host else ("sensor", "ecu"))
        assert f"latlab-agent {killed[key]}`" in cell["reason"]["what"]
        assert "status -9" in cell["reason"]["what"]
    (whole,) = [one for one in ended.document["cells"] if one["status"] == "ok"]
    counts = whole["streams"]["control"]["counts"]
    assert (counts["scheduled"], counts["sent"], counts["received"], counts["lost"]) == (PACKETS, PACKETS, PACKETS, 0)
    assert len(ended.document["cells"]) == 4
    assert recordings(place.only_run())


def test_two_labs_at_once_do_not_disturb_each_other(place: Place) -> None:
    before = place.trace()
    scenario = place.scenario(duration="1s", matrix=None, loads=None, accept={"control.latency.max": "1ns"})
    labs = [place.start("run", scenario, "--json", "--verbose") for _ in range(2)]
    for ended in [lab.ended() for lab in labs]:
        assert ended.status == 1
        (cell,) = ended.document["cells"]
        counts = cell["streams"]["control"]["counts"]
        assert (counts["sent"], counts["received"], counts["foreign"]) == (1000, 1000, 0)
    assert place.trace() == before
    assert len(list(place.runs.iterdir())) == 2


def test_a_reader_that_goes_away_does_not_end_the_run(place: Place) -> None:
    before = place.trace()
    lab = place.start("run", place.scenario(duration="500ms", matrix=None, loads=None), "--verbose")
    lab.until("setting up")
    assert lab.process.stdout and lab.process.stderr
    lab.process.stdout.close()
    assert lab.process.stderr.read() == ""
    assert lab.process.wait() == 0
    assert place.trace() == before
    run = place.only_run()
    assert read(run / "run.json")["status"] == "ended"
    assert read(run / "result.json")["cells"][0]["status"] == "ok"
    assert (run / "report.html").exists()
