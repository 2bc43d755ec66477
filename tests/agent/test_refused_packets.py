"""What a listener refuses: counted by the kind of its fault, never recorded, never the end of the listener."""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.agent.bed import Bed
from support.agent.process import Agent
from support.agent.streams import ECU, SENSOR, Probe, Stream, listen_spec, new_run_id, recording, talk_spec

pytestmark = pytest.mark.real

RUN = new_run_id()
STREAM = Stream(count=1000)
FUZZED = 4000
SEED = 20261121
GOOD = Probe(RUN)


@pytest.fixture
def listener(bed: Bed, tmp_path: Path) -> Agent:
    """A listener, ready for STREAM of RUN."""
    agent = bed.agent("ecu", "listen", listen_spec(RUN, tmp_path, STREAM))
    agent.until("ready")
    return agent


def send(bed: Bed, packets: Iterable[bytes]) -> None:
    """Nothing; the packets have gone from `sensor` to where the listener listens."""
    sender = bed.udp("sensor", SENSOR)
    for number, packet in enumerate(packets, start=1):
        sender.sendto(packet, (ECU, STREAM.port))
        if number % 64 == 0:
            time.sleep(0.001)  # a queue of the kernel's holds 1000


def heard(listener: Agent, folder: Path) -> tuple[dict[str, Any], list[int]]:
    """What the listener counted, and the sequence numbers it recorded, after it was told to stop."""
    listener.tell(stop=True)
    done = listener.until("done")
    assert listener.ended() == 0
    received = recording(folder, "listener-ecu.received")
    assert received.complete
    return done, received.table["sequence"].to_list()


def counts(done: dict[str, Any]) -> dict[str, int]:
    """All counts of the one stream and of what was refused."""
    (stream,) = done["streams"]
    kinds = ("foreign", "truncated", "other_run", "unknown_stream", "socket_drops", "ring_full")
    return {key: stream[key] for key in stream if key != "stream"} | {kind: done[kind] for kind in kinds}


FAULTS = {
    "foreign": [
        *[b"something else entirely, and long enough to be a probe of ours"] * 3,
        replace(GOOD, magic=b"LATX").bytes(),
        replace(GOOD, version=1).bytes(),
        GOOD.bytes()[:36] + b"\1\2\3\4" + GOOD.bytes()[40:],
    ],
    "truncated": [GOOD.bytes()[:39], GOOD.bytes()[:63], GOOD.bytes()[:4], replace(GOOD, size=200).bytes()[:64]],
    "other_run": [replace(GOOD, run_id=new_run_id(), sequence=n).bytes() for n in range(5)],
    "unknown_stream": [replace(GOOD, stream=2).bytes(), replace(GOOD, stream=0).bytes()],
    "another size": [replace(GOOD, size=65).bytes()],
    "out_of_range": [replace(GOOD, sequence=n).bytes() for n in (1000, 2**32, 2**64 - 1)],
}


@pytest.mark.parametrize("kind", FAULTS)
def test_a_faulty_packet_is_counted_as_what_it_is_and_not_recorded(
    bed: Bed, listener: Agent, tmp_path: Path, kind: str
) -> None:
    send(bed, FAULTS[kind])
    done, recorded = heard(listener, tmp_path)
    counted_as = "unknown_stream" if kind == "another size" else kind
    assert {name: count for name, count in counts(done).items() if count} == {counted_as: len(FAULTS[kind])}
    assert recorded == []
    assert done["recorded"] == recording(tmp_path, "listener-ecu.clocks").table.height


def test_of_a_packet_that_comes_again_only_the_first_is_recorded(bed: Bed, listener: Agent, tmp_path: Path) -> None:
    send(bed, [replace(GOOD, sequence=n).bytes() for n in (0, 1, 1, 2, 0, 0, 3, 3)])
    done, recorded = heard(listener, tmp_path)
    assert recorded == [0, 1, 2, 3]
    assert {name: count for name, count in counts(done).items() if count} == {"received": 4, "repeated": 4}


def test_packets_that_overtake_each_other_are_recorded_as_they_arrive(
    bed: Bed, listener: Agent, tmp_path: Path
) -> None:
    order = [0, 2, 1, 5, 3, 4, 6, 999, 7]
    send(bed, [replace(GOOD, sequence=n).bytes() for n in order])
    done, recorded = heard(listener, tmp_path)
    assert recorded == order
    assert {name: count for name, count in counts(done).items() if count} == {"received": 9, "reordered": 4}


def test_a_replayed_recording_of_another_run_is_refused_to_the_last_packet(
    bed: Bed, listener: Agent, tmp_path: Path
) -> None:
    elsewhere = bed.udp("ecu", ECU, 6000)
    stream = replace(STREAM, number=444, count=40)
    spec = talk_spec(new_run_id(), tmp_path, stream)
    spec["streams"][0]["stream"] = STREAM.number
    talker = bed.agent("sensor", "talk", spec)
    talker.until("ready")
    talker.begin()
    replayed = [elsewhere.recv(2048) for _ in range(stream.count)]
    assert talker.ended() == 0
    send(bed, replayed)
    done, recorded = heard(listener, tmp_path)
    assert recorded == []
    assert {name: count for name, count in counts(done).items() if count} == {"other_run": 40}


def mutated(chance: random.Random, sequence: int) -> bytes:
    """A probe of this run with a few bytes changed, cut or grown; now and then it is still whole."""
    packet = bytearray(replace(GOOD, sequence=sequence, stream=chance.choice((1, 1, 1, 7))).bytes())
    for _ in range(chance.randrange(4)):
        packet[chance.randrange(len(packet))] = chance.randrange(256)
    return bytes(packet[: chance.randrange(len(packet) + 1)] if chance.random() < 0.3 else packet)


def test_thousands_of_random_and_mutated_datagrams_are_all_accounted_for(
    bed: Bed, listener: Agent, tmp_path: Path
) -> None:
    chance = random.Random(SEED)
    noise = [chance.randbytes(chance.choice((0, 1, 39, 40, 64, 1400))) for _ in range(FUZZED // 2)]
    send(bed, noise + [mutated(chance, n % 1200) for n in range(FUZZED // 2)])
    done, recorded = heard(listener, tmp_path)
    counted = counts(done)
    received = counted["received"]
    assert sum(counted.values()) - counted["reordered"] == FUZZED  # a reordered packet is a received one, too
    assert received == len(recorded) == len(set(recorded)) > 0
    assert min(counted[kind] for kind in ("foreign", "truncated", "unknown_stream", "out_of_range")) > 0


def frame(tag: int | None, payload: bytes) -> bytes:
    """A frame from `sensor` to `ecu`; tag: what its VLAN tag says, if it has one."""
    tagged = b"" if tag is None else b"\x81\x00" + tag.to_bytes(2, "big")
    return bytes.fromhex("020000000002020000000001") + tagged + b"\x88\xb5" + payload


def test_frames_of_another_vlan_are_nothing_to_the_listener_and_short_ones_are_refused(
    bed: Bed, tmp_path: Path
) -> None:
    stream = Stream(count=10, vlan=5)
    agent = bed.agent("ecu", "listen", listen_spec(RUN, tmp_path, stream))
    agent.until("ready")
    wire: socket.socket = bed.tap("sensor", "ecu")
    for tag, payload in (
        (0xE005, GOOD.bytes()),
        (0x0006, replace(GOOD, sequence=1).bytes()),
        (0x0005, b"LA"),
        (0x0005, GOOD.bytes()[:20]),
        (0x0005, replace(GOOD, sequence=2).bytes()),
    ):
        wire.send(frame(tag, payload))
    done, recorded = heard(agent, tmp_path)
    assert recorded == [0, 2]
    found = {name: count for name, count in counts(done).items() if count}
    assert found == {"received": 2, "truncated": 2}


def test_frames_of_a_stream_that_came_without_its_tag_are_counted_as_that_stream_s_and_are_not_received(
    bed: Bed, tmp_path: Path
) -> None:
    """As a card that strips tags leaves them; there are more of them than an unread socket has room for."""
    streams = (
        Stream(count=2000, vlan=5),
        Stream(number=2, count=2000, raw=True),
        Stream(number=3, count=2000, vlan=6),
        Stream(number=4, count=2000, vlan=7, prp={"carries": 9}),
    )
    agent = bed.agent("ecu", "listen", listen_spec(RUN, tmp_path, *streams))
    agent.until("ready")
    wire: socket.socket = bed.tap("sensor", "ecu")
    for n in range(1000):
        wire.send(frame(None, replace(GOOD, sequence=n).bytes()))
        if n % 64 == 0:
            time.sleep(0.001)
    for tag, payload in (
        (0xE000, replace(GOOD, sequence=1000).bytes()),  # a priority without a VLAN
        (0xE005, replace(GOOD, sequence=1001).bytes()),
        (None, replace(GOOD, stream=2).bytes()),
        (None, replace(GOOD, stream=3).bytes()),
        (None, replace(GOOD, stream=9).bytes()),  # what the fourth stream carries
        (None, replace(GOOD, run_id=new_run_id()).bytes()),
        (None, b"LATL" + bytes(60)),
    ):
        wire.send(frame(tag, payload))
    agent.tell(stop=True)
    done = agent.until("done")
    assert agent.ended() == 0
    assert [(one["received"], one["untagged"]) for one in done["streams"]] == [(1, 1001), (1, 0), (0, 1), (0, 1)]
    assert (done["other_run"], done["foreign"], done["socket_drops"]) == (1, 1, 0)
