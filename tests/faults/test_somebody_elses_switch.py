"""Open vSwitch that runs on the machine already, with a foreign bridge, is never touched."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.guests.place import PACKETS, GuestPlace
from support.machine import run

pytestmark = pytest.mark.real

SCHEMA = "/usr/share/openvswitch/vswitch.ovsschema"
PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
WITHIN_S = 20.0


@contextlib.contextmanager
def somebody_elses_switch(folder: Path) -> Iterator[list[str]]:
    """Daemons with a bridge `theirs` and a port in it; the command that shows it all."""
    database, socket = folder / "conf.db", folder / "db.sock"
    folder.mkdir()
    environment = {"OVS_RUNDIR": str(folder), "OVS_DBDIR": str(folder), "OVS_LOGDIR": str(folder), "PATH": PATH}
    run("ovsdb-tool", "create", str(database), SCHEMA)
    daemons = (
        ("ovsdb-server", str(database), f"--remote=punix:{socket}", f"--unixctl={folder}/db.ctl"),
        ("ovs-vswitchd", f"unix:{socket}", f"--unixctl={folder}/switch.ctl"),
    )
    show = ["ovs-vsctl", f"--db=unix:{socket}", "--timeout=10", "show"]
    with contextlib.ExitStack() as stack:
        for argv in daemons:
            log = stack.enter_context((folder / f"{argv[0]}.log").open("wb"))
            process = subprocess.Popen(argv, env=environment, stdout=log, stderr=log)
            stack.callback(process.wait)
            stack.callback(process.terminate)
            deadline = time.monotonic() + WITHIN_S
            while not socket.exists() and time.monotonic() < deadline:
                time.sleep(0.05)
        run("ip", "link", "add", "their0", "type", "veth", "peer", "name", "their1")
        vsctl = show[:-1]
        run(*vsctl, "add-br", "theirs", "--", "set", "bridge", "theirs", "datapath_type=netdev")
        run(*vsctl, "add-port", "theirs", "their0")
        yield show


def test_a_run_through_open_vswitch_leaves_somebody_elses_bridge_as_it_is(place: GuestPlace) -> None:
    with somebody_elses_switch(place.folder / "theirs") as show:
        before, trace = run(*show), place.trace()
        assert "their0" in before
        told = place.measure("ovs")
        assert told.cell().status == "ok", told.cell().reason
        (listened,) = (agent for agent in told.cell().document()["agents"] if agent["verb"] == "listen")
        assert [stream["received"] for stream in listened["done"]["streams"]] == [PACKETS]
        assert run(*show) == before
        assert place.trace() == trace
