"""What ping and pong refuse: counted by the kind of its fault, not recorded, not answered, and the end of neither."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from support.agent.bed import Bed, mac
from support.agent.process import Agent
from support.agent.rounds import DOWN, PORT, UP, OwnPong, Trips, answer, ping_spec, pong_spec, question, stopped
from support.agent.streams import ECU, ETHERTYPE, MS, SENSOR, new_run_id, recording

pytestmark = pytest.mark.real

RUN = new_run_id()
KINDS = ("repeated", "reordered", "out_of_range", "foreign", "truncated", "other_run", "unknown_stream", "socket_drops")


def faults(done: dict[str, int]) -> dict[str, int]:
    """What was counted of each kind there was any of."""
    return {kind: done[kind] for kind in KINDS if done[kind]}


def wrong(make: object, sequence: int, stream: int) -> dict[str, list[bytes]]:
    """Packets that every receiver refuses, by kind. make: `answer` or `question`, which is of this stream."""
    assert callable(make)
    return {
        "foreign": [
            b"something else entirely, and long enough to be a probe of ours",
            make(RUN, sequence, magic=b"LATX"),
        ],
        "truncated": [make(RUN, sequence)[:39], make(RUN, sequence)[:63]],
        "other_run": [make(new_run_id(), sequence) for _ in range(3)],
        "unknown_stream": [make(RUN, sequence, stream=UP + DOWN - stream), make(RUN, sequence, size=65)],
    }


@pytest.mark.parametrize("loop", ["open", "closed"])
def test_ping_counts_what_is_no_answer_and_takes_the_answer_all_the_same(bed: Bed, tmp_path: Path, loop: str) -> None:
    bad = wrong(answer, 0, DOWN)

    def rule(n: int) -> list[bytes]:
        out_of_range = [answer(RUN, 2**32), answer(RUN, 2**64 - 1)]
        first = [packet for packets in bad.values() for packet in packets] + out_of_range if n == 0 else []
        return [*first, answer(RUN, n), *([answer(RUN, n)] if n % 2 else [])]

    trips = Trips(count=50, period_ns=4 * MS) if loop == "open" else Trips(count=None, duration_ns=100 * MS)
    with OwnPong(bed.udp("ecu", ECU, PORT), rule):
        ping = bed.agent("sensor", "ping", ping_spec(RUN, tmp_path, trips))
        ping.until("ready")
        ping.begin()
        done = ping.until("done")
        assert ping.ended() == 0
    sent = done["sent"]
    found = faults(done)
    # The last question's second answer may come when ping has left.
    assert found.pop("repeated") in (sent // 2 - 1, sent // 2)
    assert found == {kind: len(packets) for kind, packets in bad.items()} | {"out_of_range": 2}
    assert (done["answered"], done["received"], done["unanswered"]) == (sent, sent, 0)
    assert recording(tmp_path, "ping.received").table["sequence"].to_list() == list(range(sent))


def test_answers_that_overtake_each_other_are_recorded_as_they_come(bed: Bed, tmp_path: Path) -> None:
    held: list[int] = []

    def rule(n: int) -> list[bytes]:
        if n % 2 == 0:
            held.append(n)
            return []
        return [answer(RUN, n), answer(RUN, held.pop())]

    with OwnPong(bed.udp("ecu", ECU, PORT), rule):
        ping = bed.agent("sensor", "ping", ping_spec(RUN, tmp_path, Trips(count=40)))
        ping.until("ready")
        ping.begin()
        done = ping.until("done")
        assert ping.ended() == 0
    assert faults(done) == {"reordered": 20}
    came = recording(tmp_path, "ping.received").table["sequence"].to_list()
    assert came == [n + 1 if n % 2 == 0 else n - 1 for n in range(40)]


@pytest.fixture
def pong(bed: Bed, tmp_path: Path) -> Agent:
    """A pong, ready for questions of RUN."""
    agent = bed.agent("ecu", "pong", pong_spec(RUN, tmp_path, Trips()))
    agent.until("ready")
    return agent


def answered(asker: socket.socket, *questions: bytes) -> list[int]:
    """The sequence numbers of the answers to these questions, the last of which is a right one."""
    for packet in questions:
        asker.sendto(packet, (ECU, PORT))
    last = int.from_bytes(questions[-1][16:24], "little")
    came: list[int] = []
    while not came or came[-1] != last:
        try:
            packet = asker.recv(65536)
        except TimeoutError:
            pytest.fail(f"nothing after the answers to {came}")
        assert packet[:4] == b"LATL" and packet[6:8] == DOWN.to_bytes(2, "little")
        came.append(int.from_bytes(packet[16:24], "little"))
    return came


def test_pong_counts_what_is_no_question_and_answers_nothing_but_questions(
    bed: Bed, tmp_path: Path, pong: Agent
) -> None:
    asker = bed.udp("sensor", SENSOR)
    bad = wrong(question, 0, UP)
    bad["out_of_range"] = [question(RUN, 2**32)]
    assert answered(asker, *[packet for packets in bad.values() for packet in packets], question(RUN, 5)) == [5]
    done = stopped(pong)
    assert faults(done) == {kind: len(packets) for kind, packets in bad.items()}
    assert (done["received"], done["answered"]) == (1, 1)
    for name in ("pong.received", "pong.sent"):
        assert recording(tmp_path, name).table["sequence"].to_list() == [5]
    asker.close()


def test_a_question_that_comes_again_is_not_answered_again(bed: Bed, tmp_path: Path, pong: Agent) -> None:
    asker = bed.udp("sensor", SENSOR)
    assert answered(asker, *[question(RUN, n) for n in (0, 1, 1, 3, 0, 2, 3, 4)]) == [0, 1, 3, 2, 4]
    done = stopped(pong)
    assert faults(done) == {"repeated": 3, "reordered": 1}
    assert recording(tmp_path, "pong.sent").table["sequence"].to_list() == [0, 1, 3, 2, 4]
    asker.close()


def test_a_question_far_behind_is_not_taken_for_a_new_one(bed: Bed, tmp_path: Path, pong: Agent) -> None:
    asker = bed.udp("sensor", SENSOR)
    far = 2**25
    assert answered(asker, *[question(RUN, n) for n in (0, far, 1, far - 2**23, far + 1)]) == [
        0,
        far,
        far - 2**23,
        far + 1,
    ]
    assert faults(stopped(pong)) == {"out_of_range": 1, "reordered": 1}
    asker.close()


def test_whoever_asks_is_answered_where_it_asked(bed: Bed, tmp_path: Path, pong: Agent) -> None:
    askers = [bed.udp("sensor", SENSOR) for _ in range(3)]
    for sequence in range(30):
        assert answered(askers[sequence % 3], question(RUN, sequence)) == [sequence]
    done = stopped(pong)
    assert (done["received"], done["answered"], faults(done)) == (30, 30, {})
    for asker in askers:
        asker.close()


def test_a_frame_is_answered_to_the_address_it_came_from_and_in_its_vlan(bed: Bed, tmp_path: Path) -> None:
    agent = bed.agent("ecu", "pong", pong_spec(RUN, tmp_path, Trips(kind="ethernet", vlan=5, pcp=3)))
    agent.until("ready")
    wire = bed.tap("sensor", "ecu")
    ecu = bytes.fromhex(mac(ECU).replace(":", ""))

    def frame(source: bytes, tag: int | None, sequence: int) -> bytes:
        tagged = b"" if tag is None else b"\x81\x00" + tag.to_bytes(2, "big")
        return ecu + source + tagged + ETHERTYPE.to_bytes(2, "big") + question(RUN, sequence)

    sources = [bytes.fromhex(f"0200000000{n:02x}") for n in (1, 0x77)]
    for sequence, source in enumerate(sources):
        wire.send(frame(source, 0x0006, 40 + sequence))  # another VLAN's
        wire.send(frame(source, None, 40 + sequence))  # whose tag was taken off
        wire.send(frame(source, 0xE005, sequence))
        reply = wire.recv(2048)
        # The kernel took the tag off.
        assert (reply[:6], reply[6:12], reply[12:14]) == (source, ecu, ETHERTYPE.to_bytes(2, "big"))
        assert int.from_bytes(reply[14 + 16 : 14 + 24], "little") == sequence
    done = stopped(agent)
    assert (done["received"], done["answered"], done["untagged"], faults(done)) == (2, 2, 2, {})
    wire.close()
