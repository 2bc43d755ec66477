"""A guest that does not come up: what it last printed is reported, nothing is left, and no other cell suffers."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from pathlib import Path
from typing import Any

import pytest

from latlab.hosts import MACHINE, Host, LocalMachine
from latlab.model.errors import LabError
from latlab.testbed import apply
from latlab.testbed.apply import LAST_LINES, TestBed
from latlab.testbed.guests import steps
from latlab.testbed.step import Check, Service
from support.guests.place import GuestPlace

pytestmark = pytest.mark.real

SLEEPS = "loglevel=7 rdinit=/usr/bin/busybox -- sleep 100000"
TOO_OLD = "#!/bin/sh\necho QEMU emulator version 5.2.0\n"
ENDS_AT_ONCE = (
    '#!/bin/sh\n[ "$1" != --version ] || exec echo QEMU emulator version 7.2.22\necho out of order >&2\nexit 3\n'
)


def why(cell: dict[str, Any]) -> dict[str, str]:
    """What is reported of a cell that failed."""
    assert cell["status"] == "failed"
    reason: dict[str, str] = cell["reason"]
    assert reason["where"] and reason["remedy"]
    return reason


@pytest.mark.parametrize(
    ("guest", "words", "said"),
    [
        ({"append": "rdinit=/nonexistent"}, "its kernel panicked: VFS: Unable to mount root fs", "not syncing"),
        ({"vcpus": 300}, "ended with status 1", "Invalid SMP CPUs 300"),
    ],
    ids=["its kernel panics", "QEMU refuses it"],
)
def test_a_guest_that_ends_before_it_answers_is_reported_with_its_last_words(
    place: GuestPlace, guest: dict[str, Any], words: str, said: str
) -> None:
    before = place.trace()
    reason = why(place.measure(**{f"guest_{name}": value for name, value in guest.items()}).cell().document())
    assert (reason["where"], words in reason["what"]) == ("ecu", True), reason["what"]
    assert said in reason["what"]
    assert len(reason["what"].splitlines()) <= LAST_LINES + 2
    assert place.trace() == before


def test_a_guest_that_boots_and_never_answers_is_reported_with_its_last_words(
    place: GuestPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "BOOT_S", 7)
    monkeypatch.setattr(steps, "BOOT_MS", 7000)
    before = place.trace()
    reason = why(place.measure(guest_append=SLEEPS).cell().document())
    assert "expected 'answers' within 7 s" in reason["what"]
    assert "the last lines of its console" in reason["what"]
    assert place.trace() == before


def test_a_service_that_ends_is_reported_at_once_though_a_cancellation_gets_lost(
    place: GuestPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def read_back(host: Host, check: Check) -> str:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        await asyncio.sleep(60)
        return "never read"

    async def session() -> None:
        service = Service(MACHINE, "serve", ("false",), f"{place.folder}/log", ready=Check(("true",), "ready"))
        async with TestBed("t1", {MACHINE: LocalMachine(MACHINE)}) as bed:
            await bed.apply([service])

    monkeypatch.setattr(apply, "read_back", read_back)
    began = time.monotonic()
    with pytest.raises(LabError, match="serve: `false` ended with status 1"):
        asyncio.run(session())
    assert time.monotonic() - began < 30


def tools_with(place: GuestPlace, qemu: str | None) -> Path:
    """A PATH of links to every tool there is, but with that QEMU, or none."""
    folder = place.folder / "tools"
    folder.mkdir()
    for directory in reversed(os.environ["PATH"].split(os.pathsep)):
        for tool in Path(directory).glob("*"):
            link = folder / tool.name
            link.unlink(missing_ok=True)
            link.symlink_to(tool)
    link = folder / "qemu-system-x86_64"
    link.unlink()
    if qemu:
        link.write_text(qemu)
        link.chmod(0o755)
    return folder


@pytest.mark.parametrize(
    ("qemu", "status", "words"),
    [
        (None, "unavailable", "qemu-system-x86_64 is missing"),
        (TOO_OLD, "unavailable", "QEMU 5.2.0 is too old"),
        (ENDS_AT_ONCE, "failed", "ended with status 3"),
    ],
    ids=["missing", "too old", "ends at once"],
)
def test_a_qemu_that_does_not_serve_is_named_with_what_to_do(
    place: GuestPlace, qemu: str | None, status: str, words: str
) -> None:
    before = place.trace()
    tools = tools_with(place, qemu)
    ended = place.latlab("run", place.file(), "--json", PATH=str(tools))
    assert ended.status == 3
    (cell,) = ended.document["cells"]
    assert (cell["status"], words in cell["reason"]["what"]) == (status, True), cell["reason"]
    assert cell["reason"]["remedy"]
    if status == "failed":
        assert "out of order" in cell["reason"]["what"]
    assert place.trace() == before
