"""Asking a guest's QEMU over QMP (docs/interop/qmp-spec in QEMU): its vCPUs' threads, and a snapshot of it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import shutil
from pathlib import Path
from typing import Any

from qemu.qmp import ConnectError, QMPClient, QMPError

from latlab.model.errors import LabError
from latlab.testbed.images.store import keep_newest, part_path

MONITOR_MODULE = "latlab.testbed.guests.ask_monitor"
"""The command that asks."""
POLL_S = 0.02
WITHIN_S = 60.0


async def ask(socket: str, *commands: tuple[str, dict[str, Any]]) -> list[Any]:
    """The answer to each command. LabError: QEMU has ended, or refuses one."""
    client = QMPClient("latlab")
    try:
        async with asyncio.timeout(WITHIN_S):
            await client.connect(socket)
        try:
            return [await client.execute(name, arguments) for name, arguments in commands]
        finally:
            await client.disconnect()
    except (ConnectError, QMPError, TimeoutError, OSError) as error:
        raise LabError(f"QEMU does not answer: {error}", where=socket, remedy="see the guest's log") from None


async def vcpu_threads(socket: str) -> dict[int, int]:
    """vCPU → the id of its thread on the host."""
    (cpus,) = await ask(socket, ("query-cpus-fast", {}))
    return {int(cpu["cpu-index"]): int(cpu["thread-id"]) for cpu in cpus}


async def until_state(socket: str, state: str, within_s: float) -> str:
    """The machine's state as QEMU calls it, once it is that one, or the time is over."""
    client = QMPClient("latlab")
    try:
        async with asyncio.timeout(WITHIN_S):
            await client.connect(socket)
        try:
            end = asyncio.get_running_loop().time() + within_s
            while True:
                answer: dict[str, Any] = await client.execute("query-status")  # type: ignore[assignment]
                if answer["status"] == state or asyncio.get_running_loop().time() > end:
                    return str(answer["status"])
                await asyncio.sleep(POLL_S)
        finally:
            await client.disconnect()
    except (ConnectError, QMPError, TimeoutError, OSError, EOFError) as error:
        raise LabError(f"QEMU does not answer: {error}", where=socket, remedy="see the machine's log") from None


async def snapshot(socket: str, path: Path) -> None:
    """Save the guest to the file as it ran, and end its QEMU: it continues there when started from that.

    The file appears whole or not at all. LabError: it cannot be written; nothing is left.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = part_path(path)
    try:
        await move_out(socket, part)
        with part.open("rb") as written:
            # Else a machine that loses its power may have the name on disk and not the file.
            os.fsync(written.fileno())
        part.replace(path)
        keep_newest(path.parent)
    except (LabError, OSError) as error:
        free = shutil.disk_usage(path.parent).free
        why = error.what if isinstance(error, LabError) else error
        what = f"no snapshot was made in {path.parent}, where {free / 1e6:.0f} MB are free: {why}"
        remedy = "free space there, or set LATLAB_CACHE to another folder; or set snapshot: false for the guest"
        raise LabError(what, where=socket, remedy=remedy) from None
    finally:
        part.unlink(missing_ok=True)


async def move_out(socket: str, path: Path) -> None:
    """Save the machine to the file as it ran, and end its QEMU. LabError: it cannot be written."""
    client = QMPClient("latlab")
    try:
        async with asyncio.timeout(WITHIN_S):
            await client.connect(socket)
        try:
            await client.execute("migrate", {"uri": f"exec:cat >{shlex.quote(str(path))}"})
            async with asyncio.timeout(WITHIN_S):
                await _migrated(client)
            with contextlib.suppress(EOFError, QMPError):
                await client.execute("quit")
        finally:
            # QEMU may have closed the connection first, as requested.
            with contextlib.suppress(EOFError):
                await client.disconnect()
    except (ConnectError, QMPError, TimeoutError, OSError) as error:
        what = f"QEMU did not write the guest's snapshot: {error}"
        raise LabError(what, where=socket, remedy="see the machine's log; free space where images are kept") from None


async def _migrated(client: QMPClient) -> None:
    while True:
        state: dict[str, Any] = await client.execute("query-migrate")  # type: ignore[assignment]
        if state.get("status") == "completed":
            return
        if state.get("status") in ("failed", "cancelled"):
            raise OSError(f"QEMU says {state.get('error-desc') or state['status']}")
        await asyncio.sleep(POLL_S)
