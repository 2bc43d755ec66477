"""Streams in the specs of talkers and listeners, probes as they are on the wire, and one whole measurement."""

from __future__ import annotations

import secrets
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from latlab.recordings.arrow import Recording, read_recording
from latlab.recordings.packets import join_cell
from latlab.recordings.run_folder import CellFolder
from support.agent.bed import Bed, mac
from support.agent.process import PATIENCE_S, Agent

ORDINARY = {"fifo": None, "cpus": None, "lock_memory": False, "cpu_dma_latency_us": None, "timer_slack_ns": 1}
SENSOR, ECU = "10.78.0.1", "10.78.0.2"
ETHERTYPE = 0x88B5
MS = 1_000_000


@dataclass(frozen=True)
class Stream:
    """One stream from `sensor` to `ecu`. raw or a vlan makes it one of Ethernet frames; source, sink are addresses."""

    number: int = 1
    period_ns: int = MS
    count: int = 200
    size: int = 64
    offset_ns: int = 0
    priority: int = 0
    raw: bool = False
    vlan: int | None = None
    pcp: int | None = None
    payload: str | None = None
    prp: dict[str, Any] | None = None
    ethertype: int = ETHERTYPE
    source: str = SENSOR
    target: str = ECU
    sink: str = ECU
    talks_by: str = "ecu"
    heard_by: str = "sensor"
    launch_time: dict[str, Any] | None = None

    @property
    def framed(self) -> bool:
        """Whether it goes in raw Ethernet frames."""
        return self.raw or self.vlan is not None

    @property
    def port(self) -> int:
        """Its UDP port, at the target and at the sink."""
        return 5556 + self.number

    def _frames(self) -> dict[str, Any]:
        return {"ethertype": self.ethertype} | ({"payload": self.payload} if self.payload else {})

    def talk(self) -> dict[str, Any]:
        """Its part of the talker's spec."""
        ethernet = {"kind": "ethernet", "destination": mac(self.target), **self._frames()}
        udp = {"kind": "udp", "source": f"{self.source}:0", "destination": f"{self.target}:{self.port}"}
        copy = {"prp": self.prp} if self.prp else {}
        transport = ethernet | {"vlan": self.vlan, "pcp": self.pcp, **copy} if self.framed else udp
        kept = ("period_ns", "offset_ns", "size", "count", "priority")
        return {
            "stream": self.number,
            "name": f"stream{self.number}",
            "interface": self.talks_by,
            **{key: getattr(self, key) for key in kept},
            "batch": 1,
            "launch_time": self.launch_time,
            "transport": transport,
        }

    def listen(self) -> dict[str, Any]:
        """Its part of the listener's spec."""
        ethernet = {"kind": "ethernet", **self._frames(), "vlan": self.vlan}
        return {
            "stream": self.number,
            "name": f"stream{self.number}",
            **({"carries": self.prp["carries"]} if self.prp else {}),
            "interface": self.heard_by,
            "size": self.size,
            "count": self.count,
            "transport": ethernet if self.framed else {"kind": "udp", "listen": f"{self.sink}:{self.port}"},
        }

    def entry(self) -> dict[str, Any]:
        """Its entry in cell.json."""
        return {
            "name": f"stream{self.number}",
            "stream": self.number,
            "talker": "sensor",
            "listener": "ecu",
            "period_ns": self.period_ns,
            "offset_ns": self.offset_ns,
            "size": self.size,
            "count": self.count,
            "priority": self.priority,
            "transport": "ethernet" if self.framed else "udp",
            "vlan": self.vlan,
            "launch_time": self.launch_time,
        }


def new_run_id() -> str:
    """Sixteen hexadecimal digits that no other run has."""
    return secrets.token_hex(8)


def talk_spec(run_id: str, folder: Path, *streams: Stream, **changes: Any) -> dict[str, Any]:
    """A talker's spec; changes replace parts of it."""
    return {
        "run_id": run_id,
        "recording": str(folder / "talker-sensor"),
        "realtime": ORDINARY,
        "busy_wait_ns": 0,
        "stamps": {"sched": True, "software": True, "hardware": False, "key": "auto"},
        "streams": [stream.talk() for stream in streams],
        **changes,
    }


def listen_spec(run_id: str, folder: Path, *streams: Stream, **changes: Any) -> dict[str, Any]:
    """A listener's spec; changes replace parts of it."""
    return {
        "run_id": run_id,
        "recording": str(folder / "listener-ecu"),
        "realtime": ORDINARY,
        "mode": "block",
        "busy_poll_us": None,
        "hardware_stamps": False,
        "streams": [stream.listen() for stream in streams],
        **changes,
    }


def crc32c(data: bytes) -> int:
    """CRC-32C of this, bit by bit."""
    total = 0xFFFFFFFF
    for byte in data:
        total ^= byte
        for _ in range(8):
            total = total >> 1 ^ (0x82F63B78 if total & 1 else 0)
    return total ^ 0xFFFFFFFF


@dataclass(frozen=True)
class Probe:
    """A probe packet as docs/reference/agent.md lays it out."""

    run_id: str
    sequence: int = 0
    stream: int = 1
    launch_tai_ns: int = 0
    size: int = 64
    magic: bytes = b"LATL"
    version: int = 2

    def bytes(self) -> bytes:
        """The packet."""
        run_id = int(self.run_id, 16)
        words = (self.magic, self.version, 0, self.stream, run_id, self.sequence, self.launch_tai_ns, self.size)
        header = struct.pack("<4sBBHQQqI", *words)
        return (header + struct.pack("<I", crc32c(header))).ljust(self.size, b"\0")


def recording(folder: Path, name: str) -> Recording:
    """A recording by its file's name without the ending, as `talker-sensor.sent`."""
    return read_recording(folder / f"{name}.arrow", name.rpartition(".")[2])


def until_recorded(folder: Path, *names: str) -> None:
    """Nothing; each of the recordings has rows on disk."""
    deadline = time.monotonic() + PATIENCE_S
    while not all(recording(folder, name).table.height for name in names):
        assert time.monotonic() < deadline
        time.sleep(0.02)


@dataclass(frozen=True)
class Measured:
    """What came of a measurement: both agents' last word, and the packet table."""

    talked: dict[str, Any]
    listened: dict[str, Any]
    packets: pl.DataFrame
    folder: CellFolder

    def stream(self, number: int) -> pl.DataFrame:
        """One stream's packets."""
        return self.packets.filter(pl.col("stream") == number)


class Measurement:
    """A listener at `ecu` and a talker at `sensor`, both ready."""

    def __init__(self, bed: Bed, folder: Path, streams: Sequence[Stream], talk: Any = None, listen: Any = None) -> None:
        self.folder = CellFolder(folder)
        self.run_id = new_run_id()
        self._streams = streams
        folder.mkdir(parents=True, exist_ok=True)
        self.listener = bed.agent("ecu", "listen", listen_spec(self.run_id, folder, *streams, **(listen or {})))
        self.listener.until("ready")
        self.talker = bed.agent("sensor", "talk", talk_spec(self.run_id, folder, *streams, **(talk or {})))
        self.talker.until("ready")
        self.start_tai_ns = 0
        self._talked: dict[str, Any] = {}

    def begin(self) -> None:
        """Nothing; the talker has been told to start."""
        self.start_tai_ns = self.talker.begin()

    def all_sent(self) -> None:
        """Nothing; the talker is done and gone."""
        self._talked = self._talked or self.talker.until("done")
        assert self.talker.ended() == 0

    def end(self, *, complete: bool = True) -> Measured:
        """What came of it once all is sent and, if complete, received."""
        self.all_sent()
        if complete:
            self.listener.until("complete")
        self.listener.tell(stop=True)
        listened = self.listener.until("done")
        assert self.listener.ended() == 0
        self.write_cell(self.folder)
        return Measured(self._talked, listened, join_cell(self.folder).packets, self.folder)

    def write_cell(self, folder: CellFolder) -> None:
        """Nothing; the folder has a cell.json that says what was measured."""
        cell = {
            "format": "latlab.cell/1",
            "cell": {},
            "slug": "all",
            "repeat": 1,
            "order": 1,
            "status": "ok",
            "reason": None,
            "label": "measured",
            "run_id": self.run_id,
            "start_tai_ns": self.start_tai_ns,
            "warmup_ns": 0,
            "duration_ns": max(stream.period_ns * stream.count for stream in self._streams),
            "streams": [stream.entry() for stream in self._streams],
            "agents": [_entry("sensor", self.talker), _entry("ecu", self.listener)],
            "loads": [],
            "clocks": [{"from": "sensor", "to": "ecu", "source": "one kernel", "lower_ns": 0, "upper_ns": 0}],
            "steps": [],
        }
        folder.write_cell(cell)


def measure(bed: Bed, folder: Path, *streams: Stream, talk: Any = None, listen: Any = None) -> Measured:
    """What came of the streams, sent and received to the last packet."""
    measurement = Measurement(bed, folder, streams, talk, listen)
    measurement.begin()
    return measurement.end()


def relayed(stream: Stream) -> Stream:
    """The stream, on its path through the namespace `relay`."""
    return replace(stream, target="10.78.0.2", sink="10.78.1.2", talks_by="relay", heard_by="relay")


def _entry(host: str, agent: Agent) -> dict[str, Any]:
    said = {event["event"]: event for event in agent.events}
    return {"host": host, "verb": agent.verb, "ready": said.get("ready"), "done": said.get("done"), "error": None}
