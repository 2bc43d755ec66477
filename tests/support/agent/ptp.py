"""A real ptp4l in a namespace of the test's, which never touches a clock, and what is recorded of it."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl

from latlab.recordings.arrow import read_recording
from latlab.testbed.agent_binary import find_agent

PATIENCE_S = 30.0
Told = dict[str, Any]


class Ptp4l:
    """ptp4l at one end of a cable.

    folder: where its configuration, log and socket are. master: it is the one to be followed.
    free_running has it leave all clocks alone; the port of one that follows a master then stays UNCALIBRATED.
    """

    def __init__(
        self, folder: Path, namespace: str, interface: str, *, master: bool = False, **options: object
    ) -> None:
        self.socket = folder / f"{namespace}.sock"
        self._words = ("--transport-specific", str(int(str(options.get("transportSpecific", 0)), 0)))
        role = {"priority1": 10} if master else {"slaveOnly": 1}
        settings = {
            "free_running": 1,
            "time_stamping": "software",
            "logSyncInterval": -4,
            "logAnnounceInterval": -3,
            "announceReceiptTimeout": 5,
            "logMinDelayReqInterval": -4,
            "logMinPdelayReqInterval": -3,
            "uds_address": self.socket,
            **_read_only_socket(folder, namespace),
            **role,
            **options,
        }
        config = folder / f"{namespace}.cfg"
        config.write_text("\n".join(["[global]", *(f"{key} {value}" for key, value in settings.items()), ""]))
        with (folder / f"{namespace}.log").open("ab") as log:
            self._process = subprocess.Popen(
                ["ip", "netns", "exec", namespace, "ptp4l", "-m", "-q", "-f", str(config), "-i", interface],
                stdout=log,
                stderr=log,
            )
        self.pid = self._process.pid

    def signal(self, number: int) -> None:
        """Nothing; it has been sent the signal."""
        self._process.send_signal(number)

    def kill(self) -> None:
        """Nothing; it has ended, without any clean-up."""
        self._process.kill()
        self._process.wait()

    def shown(self, *data_sets: str) -> dict[str, str]:
        """What linuxptp's pmc shows of these data sets, by the names it gives."""
        own = self.socket.with_suffix(".pmc")
        command = [
            "pmc",
            "-u",
            "-b",
            "0",
            "-s",
            str(self.socket),
            "-i",
            str(own),
            *(f"GET {name}" for name in data_sets),
        ]
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        return dict(re.findall(r"^\s+(\w+)\s+(\S+)$", told, re.MULTILINE))

    def until(self, met: Callable[[Told], bool]) -> Told:
        """What `ptp --once` says of it, as soon as that meets the condition."""
        deadline = time.monotonic() + PATIENCE_S
        told: dict[str, Any]
        while time.monotonic() < deadline:
            found = once(self.socket, *self._words)
            if found.returncode == 0 and met(told := json.loads(found.stdout)):
                return told
            time.sleep(0.05)
        raise AssertionError(f"ptp4l did not come to it: {found.stdout} {found.stderr}")


def once(socket: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """What came of `latlab-agent ptp --once SOCKET WORDS`."""
    command = [str(find_agent()), "ptp", "--once", str(socket), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _read_only_socket(folder: Path, namespace: str) -> dict[str, Path]:
    """Where linuxptp 4.0 and newer have a second socket, which two on one machine must not share."""
    version = subprocess.run(["ptp4l", "-v"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"(\d+)\.", version)
    return {"uds_ro_address": folder / f"{namespace}.ro"} if found and int(found[1]) >= 4 else {}


def read_ptp_series(path: Path) -> pl.DataFrame:
    """The table, up to its last whole batch."""
    return read_recording(path, "ptp").table
