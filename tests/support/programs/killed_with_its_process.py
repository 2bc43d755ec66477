"""A lab that kills itself over an iperf3 server, whose pid it prints: `killed_with_its_process.py TAG WHAT WHERE`.

WHAT: `step` is a command of a step, which makes the namespace half a second later, or `endless`, which never does; else
`bare` is a process of the test bed, and the lab dies the moment it has begun, before anything else; `load` is
one of a load, and the lab dies once it is ready. WHERE: `local`, or in a namespace, `netns`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import Any

from latlab.hosts import MACHINE, Host, LocalMachine, NamespaceHost
from latlab.hosts.base import Process
from latlab.testbed.apply import TestBed
from latlab.testbed.host_setup import namespace_name
from latlab.testbed.loads.base import LoadProcess
from latlab.testbed.loads.runner import RunningProcess
from latlab.testbed.step import Step

LATER = "sleep {}; ip netns add {}"
SERVER = ("iperf3", "--server", "--json", "--port", "5600")


def die(process: Process) -> None:
    assert isinstance(process, asyncio.subprocess.Process)
    os.write(1, str(process.pid).encode())
    os.kill(os.getpid(), signal.SIGKILL)


class Deadly(Host):
    """A host, until a server has begun there."""

    async def spawn(self, argv: Any, **options: Any) -> Process:
        process = await super().spawn(argv, **options)
        if argv == SERVER or argv[:2] == ("sh", "-c"):
            die(process)
        return process


class DeadlyLocal(Deadly, LocalMachine):
    """This machine, until a server has begun here."""


class DeadlyNetns(Deadly, NamespaceHost):
    """A namespace, until a server has begun there."""


async def main(tag: str, what: str, where: str) -> None:
    namespace = namespace_name(tag, "sensor")
    sensors: dict[str, Host] = {"local": DeadlyLocal("sensor"), "netns": DeadlyNetns("sensor", namespace)}
    hosts = {MACHINE: LocalMachine(MACHINE), "sensor": sensors[where]}
    made = ("ip", "netns", "add", namespace)
    async with TestBed(tag, hosts) as bed:
        if where == "netns":
            await bed.apply([Step(MACHINE, "make a namespace", made, undo=("ip", "netns", "del", namespace))])
        if what in ("step", "endless"):
            script = LATER.format("0.5" if what == "step" else "1000", f"{namespace}b")
            undo, present = ("ip", "netns", "del", f"{namespace}b"), ("test", "-e", f"/run/netns/{namespace}b")
            await bed.apply([Step("sensor", "a slow step", ("sh", "-c", script), undo=undo, present=present)])
        if what == "bare":
            await bed.spawn(hosts["sensor"], "a server", SERVER)
        load = LoadProcess("server", "sensor", SERVER, ending="interrupt", tcp_port=5600)
        die((await RunningProcess.start("load1", load, bed))._process.process)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
