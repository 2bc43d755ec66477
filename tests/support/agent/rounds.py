"""Round trips: the specs of ping and pong, the results, and the test's own pong."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl

from latlab.recordings.arrow import Recording
from support.agent.bed import Bed, mac
from support.agent.process import Agent
from support.agent.streams import ECU, ETHERTYPE, MS, ORDINARY, SENSOR, Probe, new_run_id, recording

UP, DOWN = 1, 2
PORT = 5557
TABLES = ("sent", "stamps", "received", "clocks")
NO_STAMPS = {"sched": False, "software": False, "hardware": False, "key": "auto"}
OF_BOTH = {
    *("run_id", "recording", "realtime", "busy_wait_ns", "ring_records", "stamp_timeout_ns", "stamps", "mode"),
    *("busy_poll_us", "hardware_stamps", "software_stamps", "up", "down", "name", "interface", "size", "priority"),
    "live",
}
"""The keys of `side` in both specs."""
Spec = dict[str, Any]


@dataclass(frozen=True)
class Trips:
    """Round trips from `sensor` to `ecu`. With count in an open loop, a period apart; without in a closed one."""

    kind: str = "udp"
    period_ns: int = MS
    count: int | None = 200
    duration_ns: int = 200 * MS
    timeout_ns: int = 2000 * MS
    size: int = 64
    vlan: int | None = None
    pcp: int | None = None

    def ping(self) -> Spec:
        """What only ping's spec has."""
        addresses = {"kind": self.kind, "source": f"{SENSOR}:0", "destination": f"{ECU}:{PORT}"}
        frames = {
            "kind": self.kind,
            "destination": mac(ECU),
            "ethertype": ETHERTYPE,
            "vlan": self.vlan,
            "pcp": self.pcp,
        }
        return {
            "period_ns": None if self.count is None else self.period_ns,
            "offset_ns": 0,
            "count": self.count,
            "duration_ns": self.duration_ns,
            "timeout_ns": self.timeout_ns,
            "transport": frames if self.kind == "ethernet" else addresses,
        }

    def pong(self) -> Spec:
        """What only pong's spec has."""
        frames = {"kind": self.kind, "ethertype": ETHERTYPE, "vlan": self.vlan, "pcp": self.pcp}
        listening = {"kind": self.kind, "listen": f"{ECU}:{PORT}"}
        return {"transport": frames if self.kind == "ethernet" else listening}

    def side(self, run_id: str, path: Path, interface: str) -> Spec:
        """What both specs have: of which run, where to record, and by which interface each."""
        return {
            "run_id": run_id,
            "recording": str(path),
            "interface": interface,
            "realtime": ORDINARY,
            "stamps": {"sched": True, "software": True, "hardware": False, "key": "auto"},
            "mode": "block",
            "busy_poll_us": None,
            "hardware_stamps": False,
            "software_stamps": True,
            "up": UP,
            "down": DOWN,
            "name": "rr",
            "size": self.size,
            "priority": 0,
        }


def ping_spec(run_id: str, folder: Path, trips: Trips, **changes: Any) -> Spec:
    """ping's spec; changes replace parts of it."""
    return changed({"side": trips.side(run_id, folder / "ping", "ecu"), **trips.ping()}, changes)


def pong_spec(run_id: str, folder: Path, trips: Trips, **changes: Any) -> Spec:
    """pong's spec; changes replace parts of it."""
    return changed({"side": trips.side(run_id, folder / "pong", "sensor"), **trips.pong()}, changes)


def changed(spec: Spec, changes: Spec) -> Spec:
    """The spec with other values, of both sides and of one only."""
    own = {key: value for key, value in changes.items() if key not in OF_BOTH}
    shared = {key: value for key, value in changes.items() if key in OF_BOTH}
    return spec | own | {"side": spec["side"] | shared}


@dataclass(frozen=True)
class Tripped:
    """What came of round trips: both sides' last word and their tables."""

    ping: dict[str, Any]
    pong: dict[str, Any]
    folder: Path
    start_tai_ns: int

    def table(self, name: str) -> pl.DataFrame:
        """A recording's rows by name, as `ping.sent`; the recording is whole."""
        found = self.recording(name)
        assert found.complete, name
        return found.table

    def recording(self, name: str) -> Recording:
        """A recording by name."""
        return recording(self.folder, name)

    def sequences(self, name: str) -> list[int]:
        """The sequence numbers of a recording, as they stand in it."""
        return [int(n) for n in self.table(name)["sequence"]]

    def legs(self) -> pl.DataFrame:
        """One row a round trip that is whole: the instants of its way there and back, on the one clock."""
        up, down = self.table("ping.sent"), self.table("pong.sent")
        there, back = self.table("pong.received"), self.table("ping.received")
        instants = ["sequence", "launch_tai_ns", "wake_due_tai_ns", "wake_tai_ns", "submit_tai_ns"]
        arrived = ["sequence", "launch_tai_ns", "rx_soft_real_ns", "rx_user_tai_ns"]
        legs = up.select(instants).join(there.select(arrived), on="sequence", suffix="_there")
        legs = legs.join(down.select(instants), on="sequence", suffix="_down")
        return legs.join(back.select(arrived), on="sequence", suffix="_back").sort("sequence")


class Pair:
    """A pong at `ecu` and a ping at `sensor`, both ready."""

    def __init__(self, bed: Bed, folder: Path, trips: Trips, ping: Any = None, pong: Any = None) -> None:
        self.run_id = new_run_id()
        self.folder = folder
        self.bed = bed
        self.trips = trips
        self.pong = self.another_pong("pong", **(pong or {}))
        self.ping = bed.agent("sensor", "ping", ping_spec(self.run_id, folder, trips, **(ping or {})))
        self.ping.until("ready")
        self.start_tai_ns = 0

    def another_pong(self, name: str, **changes: Any) -> Agent:
        """A pong that is ready, and records under this name."""
        named = {"recording": str(self.folder / name)} | changes
        pong = self.bed.agent("ecu", "pong", pong_spec(self.run_id, self.folder, self.trips, **named))
        pong.until("ready")
        return pong

    def begin(self) -> None:
        """Nothing; ping has been told to start."""
        self.start_tai_ns = self.ping.begin()

    def end(self) -> Tripped:
        """What came of it, once ping is done and pong was told to stop."""
        pinged = self.ping.until("done")
        assert self.ping.ended() == 0
        return Tripped(pinged, stopped(self.pong), self.folder, self.start_tai_ns)


def stopped(agent: Agent) -> dict[str, Any]:
    """Its `done`, after it was told to stop."""
    agent.tell(stop=True)
    done = agent.until("done")
    assert agent.ended() == 0
    return done


def trip(bed: Bed, folder: Path, trips: Trips, ping: Any = None, pong: Any = None) -> Tripped:
    """What came of round trips from the first to the last."""
    pair = Pair(bed, folder, trips, ping, pong)
    pair.begin()
    return pair.end()


def assert_no_faster_than_recorded(launches: pl.Series, ring: int) -> None:
    """Nothing; these questions waited for the recordings in rings of so many rows.

    The writer comes round each 5 ms at most, and may be interrupted meanwhile. Each time it came, and before, three
    quarters of the ring were filled and one question more was asked; the next one then rested for 10 ms.
    """
    most = 3 * (ring * 3 // 4 + 1)
    spans = launches[most:] - launches[:-most]
    assert (spans >= 5 * MS).all(), (most, spans.min())


Answers = Callable[[int], Sequence[bytes]]
"""What is sent back, packet by packet, when the question of a sequence number has come."""


@dataclass
class OwnPong:
    """Takes questions in at `ecu` by UDP and answers them by its rule; use it as a context.

    asked: the sequence number of each question, as they came.
    """

    at: socket.socket
    rule: Answers
    asked: list[int] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> OwnPong:
        self.at.settimeout(0.02)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._stop.set()
        self._thread.join()
        self.at.close()

    def _run(self) -> None:
        while not self._stop.is_set():
            with contextlib.suppress(TimeoutError):
                question, asker = self.at.recvfrom(65536)
                sequence = int.from_bytes(question[16:24], "little")
                self.asked.append(sequence)
                for packet in self.rule(sequence):
                    self.at.sendto(packet, asker)


def answer(run_id: str, sequence: int, **changes: Any) -> bytes:
    """A right answer; changes make it a wrong one."""
    return Probe(**{"run_id": run_id, "sequence": sequence, "stream": DOWN, **changes}).bytes()


def question(run_id: str, sequence: int, **changes: Any) -> bytes:
    """A right question; changes make it a wrong one."""
    return Probe(**{"run_id": run_id, "sequence": sequence, "stream": UP, **changes}).bytes()


NOTHING_WRONG = dict.fromkeys(
    (
        *("send_errors", "repeated", "reordered", "out_of_range", "foreign", "truncated", "other_run"),
        *(
            "untagged",
            "unknown_stream",
            "rejected",
            "socket_drops",
            "empty_wakeups",
            "tx_hard",
            "stray_stamps",
            "ring_full",
        ),
    ),
    0,
)


def assert_whole(tripped: Tripped, *, stamped: bool) -> None:
    """Every question that was asked was answered, each leg recorded once on either side, and nothing else happened."""
    sent = tripped.ping["sent"]
    every = list(range(sent))
    stamps = dict.fromkeys(("tx_sched", "tx_soft"), sent if stamped else 0)
    for done in (tripped.ping, tripped.pong):
        side = "ping" if done is tripped.ping else "pong"
        asked = {"sent": sent, "unanswered": 0} if side == "ping" else {}
        rows = sum(tripped.table(f"{side}.{name}").height for name in ("sent", "stamps", "received", "clocks"))
        counted = {"event": "done", "answered": sent, "received": sent, "recorded": rows}
        assert done == NOTHING_WRONG | asked | stamps | counted
        for name in ("sent", "received"):
            assert tripped.sequences(f"{side}.{name}") == every, f"{side}.{name}"
    for side, sends in (("ping", UP), ("pong", DOWN)):
        assert set(tripped.table(f"{side}.sent")["stream"]) == {sends}
        assert set(tripped.table(f"{side}.received")["stream"]) == {UP + DOWN - sends}
        stamps_of = tripped.table(f"{side}.stamps")
        assert sorted(zip(stamps_of["sequence"], stamps_of["kind"], strict=True)) == [
            (sequence, kind) for sequence in every for kind in (0, 1) if stamped
        ]
        assert set(tripped.table(f"{side}.sent")["error"]) == {0}


def assert_legs_follow(tripped: Tripped, *, kernel: bool) -> None:
    """No packet was anywhere before it was at the place before; a question's arrival is its answer's launch."""
    legs = tripped.legs()
    assert legs.height == tripped.ping["sent"] > 0
    way = ["launch_tai_ns", "submit_tai_ns", "rx_user_tai_ns", "submit_tai_ns_down", "rx_user_tai_ns_back"]
    for before, after in pairwise(way):
        assert (legs[before] <= legs[after]).all(), f"{before} to {after}"
    for of_the_answer in ("launch_tai_ns_down", "wake_due_tai_ns_down", "wake_tai_ns_down", "launch_tai_ns_back"):
        assert (legs[of_the_answer] == legs["rx_user_tai_ns"]).all(), of_the_answer
    assert (legs["launch_tai_ns_there"] == legs["launch_tai_ns"]).all()
    for stamp in ("rx_soft_real_ns", "rx_soft_real_ns_back"):
        assert legs[stamp].null_count() == (0 if kernel else legs.height), stamp
