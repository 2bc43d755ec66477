"""`latlab run --live`: what a user sees while it measures, on a terminal and without one, and Ctrl-C there."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.command import LATLAB, PATIENCE_S, Place, cells_of, read
from support.report.terminal import screen

pytestmark = pytest.mark.real

NUMBER = r"−?\d+\.\d"
LINE = re.compile(
    r"\[1/1\] all: (?P<name>[\w ]+): (?P<rate>\d+|–)/s, "
    rf"p50 {NUMBER} µs, p99 {NUMBER} µs, max {NUMBER} µs, lost (?P<lost>\d+|–), "
    r"(?P<clock>clock ± 0\.0 µs), steal (\d+|–) %"
)
CTRL_C = b"\x03"


def watched(place: Place, duration: str) -> Path:
    """A scenario of one cell with a stream, round trips and a timer."""
    probes = {
        "rr": {"probe": "ping", "from": "sensor", "to": "ecu", "size": "64B", "period": "5ms"},
        "irq": {"probe": "timer", "on": "ecu", "period": "5ms"},
    }
    return place.scenario(duration=duration, matrix=None, loads=None, probes=probes)


def test_without_a_terminal_each_report_is_a_line_and_the_document_is_alone(place: Place) -> None:
    ended = place.latlab("run", watched(place, "4s"), "--live", "--json")
    assert ended.status == 0
    assert ended.document["cells"][0]["status"] == "ok"
    told = [found for line in ended.err.splitlines() if (found := LINE.fullmatch(line))]
    assert {found["name"] for found in told} == {"control latency", "rr round trip", "irq lateness"}
    assert all((found["lost"] == "–") == (found["name"] == "irq lateness") for found in told)
    assert any(found["rate"] != "–" for found in told)
    run = place.only_run()
    assert read(run / "run.json")["live"] is True
    # It is not in the way of what is recorded.
    counts = ended.document["cells"][0]["streams"]["control"]["counts"]
    assert (counts["sent"], counts["received"], counts["lost"]) == (4000, 4000, 0)


class Terminal:
    """A command on a separate terminal, in whose foreground it runs."""

    def __init__(self, place: Place, *arguments: object) -> None:
        self._leader, follower = pty.openpty()
        # It is the session's only process group that is not in the background: what is typed goes to all of it.
        self.process = subprocess.Popen(
            ["setsid", "--ctty", str(LATLAB), *map(str, arguments)],
            cwd=place.folder,
            env=os.environ | place.environment | {"TERM": "xterm", "COLUMNS": "160", "LINES": "50"},
            stdin=follower,
            stdout=follower,
            stderr=follower,
        )
        os.close(follower)
        self.written = ""

    def until(self, text: str) -> None:
        """Read until the screen has shown this. The test fails if the command ends before."""
        for _ in self._read():
            if text in self.written:
                return
        raise AssertionError(f"ended without {text!r}: {self.written}")

    def press(self, key: bytes) -> None:
        """Type a key."""
        os.write(self._leader, key)

    def ended(self) -> int:
        """The exit status, once all it wrote has been read."""
        for _ in self._read():
            pass
        os.close(self._leader)
        return self.process.wait(PATIENCE_S)

    def _read(self) -> Iterator[None]:
        while True:
            try:
                self.written += os.read(self._leader, 65536).decode(errors="replace")
            except OSError:  # the terminal is no longer open
                return
            yield


def test_ctrl_c_on_a_terminal_ends_the_measurement_and_reports_what_there_is(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    before = place.trace()
    terminal = Terminal(place, "run", watched(place, "60s"), "--live", "--picture", "none")
    try:
        for shown in ("packets/s", "control latency", "rr round trip", "irq lateness"):
            terminal.until(shown)
        terminal.press(CTRL_C)
        assert terminal.ended() == 3
    finally:
        terminal.process.kill()
        terminal.process.wait()
    assert place.trace() == before

    run = place.only_run()
    document = read(run / "run.json")
    assert (document["status"], document["exit_status"]) == ("interrupted", 3)
    (cell,) = cells_of(run).values()
    assert (cell["status"], cell["reason"]["what"]) == ("interrupted", "a signal ended the run")
    # Only the lab received the key: all agents finished and reported what they had counted.
    assert all(agent["done"] and agent["error"] is None for agent in cell["agents"])
    counts = json.loads((run / "result.json").read_text())["cells"][0]["streams"]["control"]["counts"]
    assert counts["sent"] == counts["received"] > 0

    left = screen(terminal.written)
    assert not any("packets/s" in line or "steal" in line for line in left)
    assert any("interrupted: a signal ended the run" in line for line in left)
    assert any(line.startswith("Report: ") for line in left)
    assert "Traceback" not in terminal.written
