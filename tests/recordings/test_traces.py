"""A traced listener's packets and events are read by the clock of its own host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from latlab.recordings.cell import RecordedAgent, RecordedStream, Totals
from latlab.recordings.run_folder import CellFolder
from latlab.recordings.traces import read_traces
from support.recordings import TAI_MINUS_REAL, recording_bytes, stream_of

Make = Callable[..., CellFolder]
READER = 4711
EVENT = (1_004_500, 0, 11, 1, 1, 0, READER, 0)
AHEAD_NS = 300_000
"""By so much the listener's clock is ahead of the talker's, which packets.parquet takes off and nothing here."""
CLOCKS = [
    {
        "from": "sensor",
        "to": "ecu",
        "lower_ns": AHEAD_NS - 10,
        "upper_ns": AHEAD_NS + 10,
    }
]


def received(sequence: int, **changes: Any) -> tuple[Any, ...]:
    row = {
        "stream": 1,
        "sequence": sequence,
        "launch": 1_000_000 + sequence * 1000,
        "hard": None,
        "soft": 1_000_400 + sequence * 1000 - TAI_MINUS_REAL,
        "user": 1_000_700 + sequence * 1000,
        **changes,
    }
    return tuple(row.values())


def agents(*verbs: str, **of_trace: Any) -> list[dict[str, Any]]:
    said = {"listen": {"ready": {"realtime": {"tid": READER}, "tai_offset_s": 37}, "done": {}}, "trace": of_trace}
    return [{"host": "ecu", "verb": verb, "ready": {}, "done": None, "error": None} | said[verb] for verb in verbs]


def traced(make_cell: Make, rows: list[Any], **changes: Any) -> CellFolder:
    said = {"agents": agents("listen", "trace", done={"events": 1, "lost": 0}), "clocks": CLOCKS, **changes}
    folder = make_cell([stream_of(1)], said, received=rows)
    folder.recording("trace", "ecu", "trace").write_bytes(recording_bytes("trace", [[EVENT]]))
    folder.recording("trace", "ecu", "tasks").write_bytes(recording_bytes("tasks", [[(1, READER, "listen", False)]]))
    return folder


def test_packets_stand_in_the_order_in_which_they_came_by_the_listeners_clock(make_cell: Make) -> None:
    folder = traced(make_cell, [received(3), received(2), received(3), received(4, soft=None)])
    (found,) = read_traces(folder, folder.cell())
    assert (found.host, found.thread, found.done) == ("ecu", READER, Totals(events=1, lost=0))
    assert found.received.rows() == [
        (1, 3, 1_003_400, 1_003_700, True),
        (1, 2, 1_002_400, 1_002_700, True),
        (1, 4, None, 1_004_700, True),
    ]
    assert found.trace.rows() == [EVENT]
    assert found.tasks["comm"].to_list() == ["listen"]


def test_what_was_launched_before_the_end_of_the_warm_up_does_not_count(make_cell: Make) -> None:
    folder = traced(make_cell, [received(number) for number in range(4)])
    (found,) = read_traces(folder, folder.cell())
    assert found.received["counted"].to_list() == [False, False, True, True]


def test_a_guests_vm_host_is_reported_with_what_it_recorded(make_cell: Make) -> None:
    folder = traced(make_cell, [received(2)])
    folder.recording("entry", "ecu", "trace").write_bytes(recording_bytes("trace", [[EVENT, EVENT]]))
    cell = folder.cell()
    (alone,) = read_traces(folder, cell)
    assert (alone.vm_host, alone.entries) == (None, None)
    # As if the listener were in a guest of that name.
    cell.agents.append(RecordedAgent(host="machine", verb="entry", probe="ecu"))
    (found,) = read_traces(folder, cell)
    assert found.vm_host == "machine"
    assert found.entries is not None
    assert found.entries.rows() == [EVENT, EVENT]


def test_what_was_cut_short_has_what_there_is(make_cell: Make) -> None:
    folder = traced(make_cell, [], agents=agents("listen", "trace"))
    folder.recording("trace", "ecu", "tasks").unlink()
    (found,) = read_traces(folder, folder.cell())
    assert (found.done, found.received.height, found.tasks.height, found.trace.height) == (None, 0, 0, 1)


def test_who_answers_a_ping_stands_next_to_the_listener_and_who_answers_by_cyclone_does_not(make_cell: Make) -> None:
    folder = traced(make_cell, [received(2)])
    for name in ("rr", "dds"):
        folder.recording("pong", name, "received").write_bytes(recording_bytes("received", [[received(3, stream=2)]]))
        folder.recording("pong", name, "clocks").write_bytes(recording_bytes("clocks", [[]]))
    ready = {"realtime": {"tid": READER + 1}, "tai_offset_s": 37}
    pongs = [
        {"host": "ecu", "verb": "pong", "probe": "rr", "ready": ready},
        {"host": "ecu", "verb": "pong", "probe": "dds", "ready": ready | {"cyclone": "0.10.5"}},
        {"host": "sensor", "verb": "pong", "probe": "back", "ready": ready},
    ]
    cell = folder.cell()
    cell.agents.extend(RecordedAgent.model_validate(pong) for pong in pongs)
    cell.streams.append(RecordedStream.model_validate(stream_of(2)))
    found = list(read_traces(folder, cell))
    assert [one.thread for one in found] == [READER, READER + 1]
    assert found[1].received.rows() == [(2, 3, 1_003_400, 1_003_700, True)]


def test_a_listener_that_was_not_traced_or_was_never_ready_has_none(make_cell: Make) -> None:
    folder = make_cell([stream_of(1)], {"agents": agents("listen")}, received=[received(1)])
    assert list(read_traces(folder, folder.cell())) == []
    gone = agents("listen", "trace")
    gone[0]["ready"] = None
    never_ready = folder.cell().model_copy(update={"agents": [RecordedAgent.model_validate(one) for one in gone]})
    assert list(read_traces(folder, never_ready)) == []
