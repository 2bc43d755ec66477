"""What ping and pong say to a spec they cannot do: one error that helps, before anything is sent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.agent.bed import Bed, refused
from support.agent.rounds import PORT, Spec, Trips, changed, ping_spec, pong_spec
from support.agent.streams import ECU, SENSOR, new_run_id

pytestmark = pytest.mark.real

BOTH: dict[str, tuple[str, Any, str]] = {
    "an unknown field": ("speed", 3, "spec of"),
    "a run id of the wrong length": ("run_id", "12", "spec of"),
    "a probe smaller than its header": ("size", 39, "side.size"),
    "a probe larger than a datagram": ("size", 65508, "side.size"),
    "one number for both legs": ("down", 1, "side.down"),
    "a busy poll without its time": ("mode", "busy-poll", "side.busy_poll_us"),
    "a mode that does not exist": ("mode", "sleepy", "spec of"),
    "a priority that does not exist": ("realtime", {"fifo": 100}, "side.realtime.fifo"),
    "a ring of no records": ("ring_records", 0, "side.ring_records"),
    "an interface that does not exist": ("interface", "eth9", "probe rr on eth9"),
    "a recording in a folder that does not exist": ("recording", "/nowhere/at/all", "/nowhere/at/all"),
    "a transport that does not exist": ("transport", {"kind": "smoke"}, "spec of"),
    "a priority code point without a VLAN": (
        "transport",
        {"kind": "ethernet", "destination": "02:00:00:00:00:01", "ethertype": 1, "vlan": None, "pcp": 3},
        "transport.pcp",
    ),
}
PING: dict[str, tuple[str, Any, str]] = {
    "a period of nothing": ("period_ns", 0, "period_ns"),
    "a period without a count": ("count", None, "count"),
    "a count without a period": ("period_ns", None, "count"),
    "no questions": ("count", 0, "count"),
    "no patience": ("timeout_ns", 0, "timeout_ns"),
    "no time": ("duration_ns", 0, "duration_ns"),
    "a text for a number": ("timeout_ns", "1s", "spec of ping"),
    "a source that is another host's": (
        "transport",
        {"kind": "udp", "source": f"{ECU}:0", "destination": f"{ECU}:{PORT}"},
        "probe rr on ecu",
    ),
    "addresses of two families": (
        "transport",
        {"kind": "tcp", "source": "[::1]:0", "destination": f"{ECU}:{PORT}"},
        "transport.destination",
    ),
    "pong's transport": ("transport", {"kind": "udp", "listen": f"{ECU}:{PORT}"}, "spec of ping"),
}
PONG: dict[str, tuple[str, Any, str]] = {
    "a period": ("period_ns", 1, "spec of pong"),
    "an address that is another host's": (
        "transport",
        {"kind": "udp", "listen": f"{SENSOR}:{PORT}"},
        "probe rr on sensor",
    ),
    "another host's address to connect to": (
        "transport",
        {"kind": "tcp", "listen": f"{SENSOR}:{PORT}"},
        "probe rr on sensor",
    ),
}
CASES = [
    *[pytest.param(verb, *case, id=f"{verb}: {name}") for verb in ("ping", "pong") for name, case in BOTH.items()],
    *[pytest.param("ping", *case, id=f"ping: {name}") for name, case in PING.items()],
    *[pytest.param("pong", *case, id=f"pong: {name}") for name, case in PONG.items()],
]


def spec_of(verb: str, folder: Path) -> Spec:
    return (ping_spec if verb == "ping" else pong_spec)(new_run_id(), folder, Trips())


@pytest.mark.parametrize(("verb", "key", "value", "where"), CASES)
def test_a_spec_that_cannot_be_done_is_one_error_that_says_where(
    bed: Bed, tmp_path: Path, verb: str, key: str, value: Any, where: str
) -> None:
    spec = spec_of(verb, tmp_path)
    if key == "transport" and verb == "pong" and "destination" in value:
        value = {name: part for name, part in value.items() if name != "destination"}
    refused(bed, verb, changed(spec, {key: value}), where)


@pytest.mark.parametrize("line", [b"", b"\n", b"ask me\n", b'{"run_id": "00\n', b"[]\n"])
@pytest.mark.parametrize("verb", ["ping", "pong"])
def test_what_is_no_spec_at_all_is_one_error_that_names_the_format(bed: Bed, verb: str, line: bytes) -> None:
    refused(bed, verb, line, f"spec of {verb}")


@pytest.mark.parametrize("kind", ["udp", "tcp"])
def test_a_port_in_use_is_reported_before_anything_is_received(bed: Bed, tmp_path: Path, kind: str) -> None:
    first = bed.agent("ecu", "pong", pong_spec(new_run_id(), tmp_path, Trips(kind=kind)))
    first.until("ready")
    spec = pong_spec(new_run_id(), tmp_path, Trips(kind=kind), recording=str(tmp_path / "second"))
    error = refused(bed, "pong", spec, "probe rr on sensor")
    assert error["errno"] == 98
    assert "port" in error["remedy"]
