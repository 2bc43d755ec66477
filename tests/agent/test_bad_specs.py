"""What an agent says to a spec it cannot do: one error that helps, before anything is sent."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from support.agent.bed import Bed, refused
from support.agent.streams import ECU, SENSOR, Stream, listen_spec, new_run_id, recording, talk_spec

pytestmark = pytest.mark.real

STREAM = Stream()
Spec = dict[str, Any]


def talk(folder: Path) -> Spec:
    return talk_spec(new_run_id(), folder, STREAM)


def listen(folder: Path) -> Spec:
    return listen_spec(new_run_id(), folder, STREAM)


def with_(spec: Spec, path: str, value: Any) -> Spec:
    """The spec with a value at a dotted path."""
    spec = copy.deepcopy(spec)
    *above, last = path.split(".")
    place: Any = spec
    for part in above:
        place = place[int(part)] if isinstance(place, list) else place[part]
    place[last] = value
    return spec


CHANGED: dict[str, tuple[str, str, Any, str]] = {
    "an unknown field": ("talk", "speed", 3, "spec of talk"),
    "an unknown field of a stream": ("listen", "streams.0.colour", "red", "spec of listen"),
    "a run id of the wrong length": ("talk", "run_id", "12", "spec of talk"),
    "a text for a number": ("talk", "streams.0.period_ns", "1ms", "spec of talk"),
    "no streams": ("talk", "streams", [], "streams"),
    "a probe smaller than its header": ("talk", "streams.0.size", 39, "streams[0].size"),
    "a probe larger than a datagram": ("listen", "streams.0.size", 65508, "streams[0].size"),
    "a period of nothing": ("talk", "streams.0.period_ns", 0, "streams[0].period_ns"),
    "no packets": ("listen", "streams.0.count", 0, "streams[0].count"),
    "a batch without launch times": ("talk", "streams.0.batch", 8, "streams[0].batch"),
    "a priority that does not exist": ("talk", "realtime.fifo", 100, "realtime.fifo"),
    "an empty set of CPUs": ("listen", "realtime.cpus", [], "realtime.cpus"),
    "a busy poll without its time": ("listen", "mode", "busy-poll", "busy_poll_us"),
    "a mode that does not exist": ("listen", "mode", "sleepy", "spec of listen"),
    "an interface that does not exist": ("talk", "streams.0.interface", "eth9", "stream stream1 on eth9"),
    "an interface that does not exist here": ("listen", "streams.0.interface", "ecu", "stream stream1 on ecu"),
    "a source that is another host's": ("talk", "streams.0.transport.source", f"{ECU}:0", "stream stream1 on ecu"),
    "an address that is another host's": (
        *("listen", "streams.0.transport.listen", f"{SENSOR}:5557", "stream stream1 on sensor"),
    ),
    "a recording in a folder that does not exist": ("talk", "recording", "/nowhere/at/all", "/nowhere/at/all"),
    "a ring of no records": ("talk", "ring_records", 0, "ring_records"),
    "a ring larger than the memory": ("talk", "ring_records", 2**62, "ring_records"),
}


@pytest.mark.parametrize(("verb", "path", "value", "where"), CHANGED.values(), ids=CHANGED)
def test_a_spec_that_cannot_be_done_is_one_error_that_says_where(
    bed: Bed, tmp_path: Path, verb: str, path: str, value: Any, where: str
) -> None:
    spec = with_({"talk": talk, "listen": listen}[verb](tmp_path), path, value)
    refused(bed, verb, spec, where)


LINES: dict[str, bytes] = {
    "nothing": b"",
    "an empty line": b"\n",
    "no JSON": b"talk to me\n",
    "half an object": b'{"run_id": "00\n',
    "a list": b"[]\n",
    "bytes that are no text": b"\xff\xfe\x00\n",
}


@pytest.mark.parametrize("line", LINES.values(), ids=LINES)
@pytest.mark.parametrize("verb", ["talk", "listen", "clock", "timer", "flood"])
def test_what_is_no_spec_at_all_is_one_error_that_names_the_format(bed: Bed, verb: str, line: bytes) -> None:
    refused(bed, verb, line, f"spec of {verb}")


def test_a_port_in_use_is_reported_before_anything_is_received(bed: Bed, tmp_path: Path) -> None:
    taken = bed.udp("ecu", ECU, STREAM.port)
    error = refused(bed, "listen", listen(tmp_path), "stream stream1 on sensor")
    assert error["errno"] == 98
    assert "port" in error["remedy"]
    taken.close()


def test_a_launch_time_s_clock_is_one_that_a_socket_takes(bed: Bed, tmp_path: Path) -> None:
    launch = {"lead_ns": 300_000, "clock": "boottime", "deadline": False}
    refused(bed, "talk", with_(talk(tmp_path), "streams.0.launch_time", launch), "spec of talk")


BAD_FLOODS: dict[str, tuple[str, Any, str]] = {
    "no flows": ("flows", 0, "flows"),
    "more flows than ports": ("destination", f"{ECU}:65535", "flows"),
    "packets of nothing": ("size", 0, "size"),
    "packets larger than a datagram": ("size", 70000, "size"),
    "an unknown field": ("colour", "red", "spec of flood"),
}


@pytest.mark.parametrize(("field", "value", "where"), BAD_FLOODS.values(), ids=BAD_FLOODS)
def test_a_flood_that_cannot_be_is_one_error(bed: Bed, field: str, value: Any, where: str) -> None:
    spec = {
        "role": "source",
        "source": f"{SENSOR}:0",
        "destination": f"{ECU}:5600",
        "flows": 2,
        "size": 1000,
        "rate_bps": None,
        "priority": 0,
        "duration_ns": 1_000_000_000,
        "realtime": {},
    }
    refused(bed, "flood", spec | {field: value}, where)


def test_a_command_that_is_none_ends_the_run_with_an_error_and_its_recordings_whole(bed: Bed, tmp_path: Path) -> None:
    agent = bed.agent("sensor", "talk", talk(tmp_path))
    agent.until("ready")
    agent.tell(begin="now")
    assert agent.ended() == 1
    assert [event["event"] for event in agent.events] == ["ready", "error", "done"]
    assert "start_tai_ns" in agent.events[1]["remedy"]
    assert recording(tmp_path, "talker-sensor.sent").complete


@pytest.mark.parametrize("verb", ["talk", "busy"])
def test_a_first_line_without_an_end_is_refused_and_not_kept(bed: Bed, verb: str) -> None:
    error = refused(bed, verb, b"x" * (17 << 20), f"spec of {verb}")
    assert error["what"] == "is longer than 16777216 bytes"
