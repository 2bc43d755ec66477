"""A cell with a guest is taken down by asking, not by force, and how long it takes is reported."""

from __future__ import annotations

import signal

import pytest

from latlab.hosts import Host
from latlab.testbed import apply, undo
from latlab.testbed.supervised import Supervised
from support.guests.place import GuestPlace

pytestmark = [pytest.mark.real, pytest.mark.alone]


@pytest.mark.parametrize("bridge", ["xdp", "ovs-afxdp"])
def test_all_that_runs_ends_when_it_is_asked_to(
    place: GuestPlace, bridge: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[int] = []
    searched: list[str] = []
    tell, end_process = Supervised.signal, undo.end_process

    def counted(process: Supervised, number: int) -> None:
        if not process.ended:
            sent.append(number)
        tell(process, number)

    async def noted(host: Host, mark: str) -> bool:
        searched.append(mark)
        return await end_process(host, mark)

    monkeypatch.setattr(Supervised, "signal", counted)
    monkeypatch.setattr(apply, "end_process", noted)
    told = place.measure(bridge)
    cell = told.cell().document()
    assert cell["status"] == "ok"
    # QEMU and the bridge's own processes: each by SIGTERM, and by its handle rather than by a search of all processes.
    assert len(sent) >= 2
    assert set(sent) == {signal.SIGTERM}
    assert searched == []

    begun = [step["seconds"] for step in cell["steps"] if step["title"] in ("start vm1", "boot vm1 for its snapshot")]
    others = sum(step["seconds"] for step in cell["steps"]) - sum(begun)
    up, down = told.seconds("setting up", "measuring"), told.seconds("tearing down", "joining")
    print(f"{bridge}: up {up:.2f} s: QEMU {sum(begun):.2f}, other steps {others:.2f}; down {down:.2f} s")
