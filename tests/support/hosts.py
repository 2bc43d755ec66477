"""A machine that takes turns, without QEMU: its monitors, what the test lets it do (docs/reference/agent.md)."""

from __future__ import annotations

import contextlib
import json
import mmap
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from latlab.hosts.turns import BLOCKING_MONITOR, HALTED, IDENTITY, MAILBOX, MAILBOX_BYTES, MONITOR

START, INPUT, INPUT_END, SIGNAL, MORE, OUT, ERR, EXIT = range(1, 9)
IN_AT, OUT_AT = 4096, 4096 + 512 * 1024
HEADER = struct.Struct("=III")

Record = tuple[int, int, bytes]
"""Program, kind, payload."""
Turn = Callable[[list[Record]], list[Record] | None]
"""What the machine says, of what it heard; None: it stops in the middle of its turn."""


class OwnMachine:
    """Halted until `cont` is said on a monitor; `turn` is its turn. heard: all records, turn by turn."""

    def __init__(self, directory: Path, turn: Turn) -> None:
        self.heard: list[list[Record]] = []
        self._turn = turn
        self._status = HALTED
        self._clients: list[socket.socket] = []
        self._servers = []
        (directory / MAILBOX).write_bytes(IDENTITY.ljust(MAILBOX_BYTES, b"\0"))
        with (directory / MAILBOX).open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), MAILBOX_BYTES)
        for name in (MONITOR, BLOCKING_MONITOR):
            server = socket.socket(socket.AF_UNIX)
            server.bind(str(directory / name))
            server.listen()
            self._servers.append(server)
            threading.Thread(target=self._serve, args=(server,), daemon=True).start()

    def __enter__(self) -> OwnMachine:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        self.die()

    def say_it_starves(self, report: bytes) -> None:
        """Write what its watch has found. A turn that does so returns None."""
        self._memory[48 : 48 + len(report)] = report
        struct.pack_into("=Q", self._memory, 40, len(report))

    def look(self, tai_ns: int) -> None:
        """Have its watch look at that instant of the machine's time."""
        struct.pack_into("=q", self._memory, 32, tai_ns)

    def die(self) -> None:
        """Nothing; its monitors have ended."""
        for one in (*self._servers, *self._clients):
            one.close() if one in self._servers else one.shutdown(socket.SHUT_RDWR)
        self._clients = []

    def _serve(self, server: socket.socket) -> None:
        while True:
            try:
                client, _ = server.accept()
            except OSError:
                return
            self._clients.append(client)
            self._speak(client)
            if client in self._clients:
                self._clients.remove(client)

    def _speak(self, client: socket.socket) -> None:
        self._say(client, {"QMP": {"version": {"qemu": {"major": 10, "minor": 0, "micro": 2}}, "capabilities": []}})
        for asked in _objects(client):
            answer: dict[str, object] = {
                "return": {"status": self._status} if asked["execute"] == "query-status" else {}
            }
            self._say(client, answer | ({"id": asked["id"]} if "id" in asked else {}))
            if asked["execute"] == "cont":
                self._take_turn()
                for one in list(self._clients):
                    self._say(one, {"event": "STOP", "timestamp": {"seconds": 0, "microseconds": 0}})

    def _take_turn(self) -> None:
        (length,) = struct.unpack_from("=Q", self._memory, 8)
        heard, at = [], IN_AT
        while at < IN_AT + length:
            program, kind, size = HEADER.unpack_from(self._memory, at)
            heard.append((program, kind, self._memory[at + 12 : at + 12 + size]))
            at += 12 + size
        self.heard.append(heard)
        says = self._turn(heard)
        if says is None:
            self._status = "paused"
            return
        said = b"".join(HEADER.pack(program, kind, len(body)) + body for program, kind, body in says)
        self._memory[OUT_AT : OUT_AT + len(said)] = said
        struct.pack_into("=QQq", self._memory, 8, 0, len(said), 1_000 * len(self.heard))

    def _say(self, client: socket.socket, what: dict[str, object]) -> None:
        with contextlib.suppress(OSError):
            client.sendall(json.dumps(what).encode() + b"\n")


def _objects(client: socket.socket) -> Iterator[dict[str, Any]]:
    """What a client says: JSON objects, with or without anything between them."""
    said = ""
    while True:
        try:
            read = client.recv(1 << 16)
        except OSError:
            return
        if not read:
            return
        said += read.decode()
        while said := said.lstrip():
            try:
                asked, end = json.JSONDecoder().raw_decode(said)
            except ValueError:
                break
            said = said[end:]
            yield asked
