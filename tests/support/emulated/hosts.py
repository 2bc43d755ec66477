"""Two hosts in the emulated machine, and what a measurement between them found."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from latlab.recordings.arrow import read_recording
from latlab.recordings.packets import build_packets, read_findings
from latlab.recordings.recording_findings import RecordingFindings
from latlab.recordings.run_folder import CellFolder
from support.emulated.machine import AGENT, IP, TC, Conversation, Machine

MS = 1_000_000
"""A millisecond, in ns."""

RUN_ID = "8f3c5e0d12ab34cd"
MACS = {"sensor": "02:00:00:00:00:01", "ecu": "02:00:00:00:00:02"}
ADDRESSES = {"sensor": "10.78.0.1", "ecu": "10.78.0.2"}

Document = dict[str, Any]


@dataclass(frozen=True)
class Transport:
    """How a stream travels, by its talker's and its listener's spec."""

    talk: Document
    listen: Document


def udp(sensor: str = ADDRESSES["sensor"], ecu: str = ADDRESSES["ecu"]) -> Transport:
    """UDP between these addresses."""
    port = f"{ecu}:5557"
    return Transport(
        {"kind": "udp", "source": f"{sensor}:0", "destination": port},
        {"kind": "udp", "listen": port},
    )


def ethernet(vlan: int, pcp: int) -> Transport:
    """Frames that bear their VLAN tag in-band."""
    frame = {"kind": "ethernet", "ethertype": 0x88B5, "vlan": vlan}
    return Transport(frame | {"destination": MACS["ecu"], "pcp": pcp}, frame)


def launched(lead_ns: int, *, clock: str = "tai", deadline: bool = False, **late: Any) -> Document:
    """A stream's launch time: handed in so long before, in that clock. late: what becomes of packets that are late."""
    return {"lead_ns": lead_ns, "clock": clock, "deadline": deadline, **late}


@dataclass(frozen=True)
class Stream:
    """A stream from sensor to ecu: 50 packets, one every 10 ms, unless told otherwise."""

    number: int = 1
    interface: str = "eth0"
    period_ns: int = 10 * MS
    offset_ns: int = 0
    size: int = 64
    count: int = 50
    priority: int = 7
    batch: int = 1
    launch_time: Document | None = None
    transport: Transport = field(default_factory=udp)

    def identity(self) -> Document:
        """What every document says of it."""
        return {"stream": self.number, "name": f"stream{self.number}", "size": self.size, "count": self.count}

    def schedule(self) -> Document:
        """What its talker and cell.json say of it besides."""
        names = ("period_ns", "offset_ns", "priority", "launch_time")
        return self.identity() | {name: getattr(self, name) for name in names}

    def talk(self) -> Document:
        """It, in the spec of talk."""
        return self.schedule() | {
            "interface": self.interface,
            "batch": self.batch,
            "transport": self.transport.talk,
        }

    def listen(self) -> Document:
        """It, in the spec of listen."""
        return self.identity() | {"interface": self.interface, "transport": self.transport.listen}

    def entry(self) -> Document:
        """It, in cell.json."""
        ends = {"talker": "sensor", "listener": "ecu"}
        return self.schedule() | ends | {"transport": self.transport.talk["kind"], "vlan": None}


@dataclass(frozen=True)
class Found:
    """What a measurement found.

    ready, talked, listened: the talker's ready event, both agents' done events. packets: the packet table of
    docs/reference/run-folder.md. stamps, clocks: what the talker's error queues said, and how its clocks stood, as
    recorded. findings: what the join saw of each recording.
    """

    ready: Document
    talked: Document
    listened: Document
    packets: pl.DataFrame
    stamps: pl.DataFrame
    clocks: pl.DataFrame
    findings: dict[str, RecordingFindings]

    def total(self, counter: str) -> int:
        """A counter of the talker's or the listener's, all streams together."""
        streams = [*self.talked["streams"], *self.listened["streams"]]
        return sum(stream[counter] for stream in streams if counter in stream)

    @property
    def arrived(self) -> pl.DataFrame:
        """The rows of the packets that arrived."""
        return self.packets.filter(pl.col("arrival").is_not_null())

    @property
    def lost(self) -> pl.DataFrame:
        """The rows of the packets that did not."""
        return self.packets.filter(pl.col("arrival").is_null())


class Hosts:
    """Namespaces `sensor` and `ecu` of a machine, whose interfaces `eth0` are one link of four queues."""

    def __init__(self, machine: Machine, folder: Path) -> None:
        self.machine = machine
        self._folder = CellFolder(folder)

    def build(self) -> None:
        """Nothing; both are up, and know each other's MAC address: ARP does not pass every qdisc."""
        lines = [
            "rm -f /tmp/*.arrow",
            f"{IP} netns add sensor",
            f"{IP} netns add ecu",
            f"{IP} -n sensor link add eth0 numtxqueues 4 numrxqueues 4 type veth peer eth0 netns ecu",
        ]
        for host, other in (("sensor", "ecu"), ("ecu", "sensor")):
            lines += [
                f"{IP} -n {host} link set eth0 address {MACS[host]} up",
                f"{IP} -n {host} address add {ADDRESSES[host]}/24 dev eth0",
                f"{IP} -n {host} neighbour add {ADDRESSES[other]} lladdr {MACS[other]} dev eth0",
            ]
        self.machine.run("sh", "-ec", "; ".join(lines))

    def remove(self) -> None:
        """Nothing; both have ended, and their link is removed."""
        self.machine.run("sh", "-ec", f"{IP} netns del sensor; {IP} netns del ecu")

    def ip(self, host: str, words: str) -> str:
        """What `ip WORDS` printed on the host."""
        return self.machine.run(IP, "-n", host, *words.split())

    def tc(self, host: str, words: str) -> str:
        """What `tc WORDS` printed on the host."""
        return self.machine.run(TC, "-n", host, *words.split())

    def facts(self, host: str) -> Document:
        """What `latlab-agent facts` says on the host."""
        facts: Document = json.loads(self.machine.run(IP, "netns", "exec", host, AGENT, "facts"))
        return facts

    @contextlib.contextmanager
    def agent(self, host: str, verb: str, spec: Document) -> Iterator[Conversation]:
        """An agent on the host that has been told its spec; it has ended when the context is left."""
        with self.machine.speak(IP, "netns", "exec", host, AGENT, verb) as agent:
            agent.say(spec)
            yield agent

    def talk_spec(self, *streams: Stream, key: str = "auto", by: str = "socket") -> Document:
        """The spec of the talker of these streams. by: who takes the kernel's timestamps."""
        return self._spec("talk", "sensor") | {
            "stamps": {"sched": True, "software": True, "hardware": False, "key": key, "by": by},
            "streams": [stream.talk() for stream in streams],
        }

    def measure(
        self, *streams: Stream, start_after_ns: int = 500 * MS, settle_ms: int = 0, by: str = "socket"
    ) -> Found:
        """What came of these streams; they start so long after both agents are ready (before that, if negative).

        settle_ms: how long the listener runs on once all is sent. by: who takes the kernel's timestamps.
        """
        listen_spec = self._spec("listen", "ecu") | {
            "mode": "block",
            "stamps_by": by,
            "streams": [stream.listen() for stream in streams],
        }
        with (
            self.agent("ecu", "listen", listen_spec) as listen,
            self.agent("sensor", "talk", self.talk_spec(*streams, by=by)) as talk,
        ):
            heard = {"listen": listen.hear("ready"), "talk": talk.hear("ready")}
            start_tai_ns = heard["talk"]["tai_ns"] + start_after_ns
            talk.say({"start_tai_ns": start_tai_ns})
            talked = talk.hear("done")
            time.sleep(settle_ms / 1000)
            listen.say({"stop": True})
            listened = listen.hear("done")
        self._fetch("talk", "sensor", "sent", "stamps", "clocks")
        self._fetch("listen", "ecu", "received", "clocks")
        agents = [
            {"host": host, "verb": verb, "ready": heard[verb]} for verb, host in (("talk", "sensor"), ("listen", "ecu"))
        ]
        self._folder.write_cell(
            {
                "format": "latlab.cell/1",
                "slug": "all",
                "repeat": 1,
                "order": 1,
                "status": "ok",
                "label": "measured",
                "run_id": RUN_ID,
                "start_tai_ns": start_tai_ns,
                "warmup_ns": 0,
                "streams": [stream.entry() for stream in streams],
                "agents": agents,
            }
        )
        stamps, clocks = (
            read_recording(self._folder.recording("talk", "sensor", table), table, run_id=RUN_ID).table
            for table in ("stamps", "clocks")
        )
        packets = build_packets(self._folder)
        return Found(heard["talk"], talked, listened, packets, stamps, clocks, read_findings(self._folder))

    def _spec(self, verb: str, host: str) -> Document:
        return {"run_id": RUN_ID, "recording": f"/tmp/{self._folder.prefix(verb, host).name}", "realtime": {}}

    def _fetch(self, verb: str, host: str, *tables: str) -> None:
        for table in tables:
            path = self._folder.recording(verb, host, table)
            path.write_bytes(self.machine.get(f"/tmp/{path.name}"))
