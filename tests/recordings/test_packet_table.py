"""The packet table has a row for every scheduled packet, and in it what the recordings say of that packet."""

from __future__ import annotations

import resource
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from latlab.model.errors import LabError
from latlab.recordings import packets as packets_module
from latlab.recordings.clock_offset import RealToTai
from latlab.recordings.packets import build_packets, join_cell, read_findings, whole_packets
from latlab.recordings.run_folder import CellFolder
from support.recordings import TAI_MINUS_REAL, Row, cell_document, recording_bytes, stream_of, write_cell
from support.suite.examples import examples

START = 1_000_000
CellWriter = Callable[..., CellFolder]
EPOCH = START - TAI_MINUS_REAL
SEEN_TWICE = [(4, 0, 111), (4, 0, 222), (5, 1, 333), (5, 1, 444)]
"""Packet, kind of its timestamp, and when, of two that each passed two devices."""


def sent(stream: int, sequence: int, launch: int, error: int = 0, late: int = 0) -> Row:
    return (stream, sequence, launch, launch, launch + 1, launch + 2, error, late)


def received(stream: int, sequence: int, launch: int) -> Row:
    return (stream, sequence, launch, launch + 40, launch + 50 - TAI_MINUS_REAL, launch + 60)


def clock(source: str, lower: int, upper: int, **more: Any) -> dict[str, Any]:
    """An entry of cell.json's `clocks`: ecu's clock − sensor's."""
    return {
        "from": "sensor",
        "to": "ecu",
        "source": source,
        "lower_ns": lower,
        "upper_ns": upper,
        "windows": [],
        **more,
    }


def test_a_packet_has_what_both_ends_recorded(make_cell: CellWriter) -> None:
    launch = START + 5 + 3 * 1000
    packets = join_cell(
        make_cell(
            [stream_of(7, offset_ns=5)],
            {"clocks": [clock("one kernel", 0, 0)]},
            sent=[sent(7, 3, launch)],
            stamps=[
                (7, 3, 0, launch + 10 - TAI_MINUS_REAL),
                (7, 3, 1, launch + 20 - TAI_MINUS_REAL),
                (7, 3, 2, launch + 30),
            ],
            received=[received(7, 3, launch)],
        )
    ).packets
    assert packets.height == 10
    assert packets.row(3, named=True) == {
        "stream": 7,
        "sequence": 3,
        "launch_tai_ns": launch,
        "wake_due_tai_ns": launch,
        "wake_tai_ns": launch + 1,
        "submit_tai_ns": launch + 2,
        "tx_sched_tai_ns": launch + 10,
        "tx_soft_tai_ns": launch + 20,
        "tx_hard_tai_ns": launch + 30,
        "rx_hard_tai_ns": launch + 40,
        "rx_soft_tai_ns": launch + 50,
        "rx_user_tai_ns": launch + 60,
        "clock_bound_ns": 0,
        "arrival": 0,
        "send_error": 0,
        "launch_error": 0,
        "late": 0,
        "unknown": 0,
        "warmup": False,
    }


def test_a_packet_that_was_never_sent_is_a_row_with_its_launch_time(make_cell: CellWriter) -> None:
    row = join_cell(make_cell([stream_of(1)])).packets.row(9, named=True)
    assert row.pop("launch_tai_ns") == START + 9000
    known = ("stream", "sequence", "launch_error", "late", "unknown", "warmup")
    assert [row.pop(name) for name in known] == [1, 9, 0, 0, 0, False]
    assert set(row.values()) == {None}


def test_warm_up_is_what_launches_before_its_end(make_cell: CellWriter) -> None:
    packets = join_cell(make_cell([stream_of(1, offset_ns=1)], {"warmup_ns": 3001})).packets
    assert packets["warmup"].to_list() == [True] * 3 + [False] * 7


def test_the_table_has_the_documented_types(make_cell: CellWriter) -> None:
    schema = join_cell(make_cell([stream_of(1)])).packets.schema
    assert {name: kind for name, kind in schema.items() if kind != pl.Int64} == {
        "stream": pl.UInt16,
        "sequence": pl.UInt64,
        "arrival": pl.UInt64,
        "send_error": pl.Int32,
        "launch_error": pl.UInt8,
        "late": pl.UInt8,
        "unknown": pl.UInt8,
        "warmup": pl.Boolean,
    }


def test_the_first_of_two_stamps_counts_and_the_second_is_stray(make_cell: CellWriter) -> None:
    joined = join_cell(make_cell([stream_of(1)], stamps=[(1, 4, 2, 111), (1, 4, 2, 222), (1, 4, 2, 333)]))
    assert joined.packets["tx_hard_tai_ns"][4] == 111
    assert joined.findings["talker-sensor.stamps"].stray == 2


def test_a_stamp_for_each_device_a_packet_passes_is_no_stray(make_cell: CellWriter) -> None:
    joined = join_cell(make_cell([stream_of(1)], stamps=[(1, *row[:2], EPOCH + row[2]) for row in SEEN_TWICE]))
    assert joined.packets["tx_sched_tai_ns"][4] == START + 111
    assert joined.packets["tx_soft_tai_ns"][5] == START + 333
    found = joined.findings["talker-sensor.stamps"]
    assert (found.stray, found.again) == (0, 2)


@pytest.mark.parametrize("row", [(1, 10, 2, 0), (1, 2**64 - 1, 2, 0), (2, 0, 2, 0), (65535, 0, 2, 0), (1, 0, 9, 0)])
def test_a_stamp_of_no_packet_is_stray(make_cell: CellWriter, row: Row) -> None:
    joined = join_cell(make_cell([stream_of(1)], stamps=[row]))
    assert joined.packets["tx_hard_tai_ns"].null_count() == 10
    assert joined.findings["talker-sensor.stamps"].stray == 1


def test_refused_launch_times_are_marked(make_cell: CellWriter) -> None:
    packets = join_cell(make_cell([stream_of(1)], stamps=[(1, 2, 3, 0), (1, 5, 4, 0)])).packets
    assert packets["launch_error"].to_list() == [0, 0, 1, 0, 0, 2, 0, 0, 0, 0]


def test_a_packet_too_late_to_be_handed_over_was_woken_for_and_never_submitted(make_cell: CellWriter) -> None:
    rows = [sent(1, n, START + n * 1000, late=late) for n, late in enumerate((0, 1, 2, 3))]
    packets = join_cell(make_cell([stream_of(1, count=5)], sent=rows)).packets
    assert packets["late"].to_list() == [0, 1, 2, 3, 0]
    assert packets["send_error"].to_list() == [0, 0, 0, None, None]
    assert packets["submit_tai_ns"].is_null().to_list() == [False, False, False, True, True]
    assert packets["wake_tai_ns"].is_null().to_list() == [False, False, False, False, True]


def test_arrival_counts_each_stream_by_itself(make_cell: CellWriter) -> None:
    arrivals = [received(s, q, START + q * 1000) for s, q in ((1, 1), (2, 0), (1, 0), (2, 1), (1, 2))]
    packets = join_cell(make_cell([stream_of(1, count=4), stream_of(2, count=2)], received=arrivals)).packets
    assert packets["arrival"].to_list() == [1, 0, 2, None, 0, 1]


def test_a_launch_time_that_is_not_the_schedules_is_counted(make_cell: CellWriter) -> None:
    joined = join_cell(make_cell([stream_of(1)], sent=[sent(1, 0, START), sent(1, 1, START + 1001)]))
    assert joined.findings["talker-sensor.sent"].launch_mismatched == 1
    assert joined.packets["launch_tai_ns"][1] == START + 1000


def test_without_clock_readings_the_agents_own_offset_converts(make_cell: CellWriter) -> None:
    agents = [{"host": "sensor", "verb": "talk", "ready": {"tai_offset_s": 37}, "done": {}, "error": None}]
    stamp = (1, 0, 1, 5 - TAI_MINUS_REAL)
    packets = join_cell(make_cell([stream_of(1)], {"agents": agents}, clocks=[], stamps=[stamp])).packets
    assert packets["tx_soft_tai_ns"][0] == 5


def test_without_any_offset_software_stamps_are_dropped_and_counted(make_cell: CellWriter) -> None:
    joined = join_cell(make_cell([stream_of(1)], clocks=[], stamps=[(1, 0, 1, 5), (1, 0, 2, 6)]))
    assert (joined.packets["tx_soft_tai_ns"][0], joined.packets["tx_hard_tai_ns"][0]) == (None, 6)
    assert joined.findings["talker-sensor.stamps"].unconverted == 1


def test_an_offset_that_changes_applies_from_halfway_between_the_readings() -> None:
    s = 1_000_000_000
    clocks = pl.DataFrame({"tai_ns": [10 * s, 11 * s, 49 * s], "real_ns": [10 * s + 90, 11 * s - 70, 12 * s]})
    convert = RealToTai.from_clocks(clocks)
    assert convert is not None
    halfway = (11 * s - 70 + 12 * s) // 2
    assert convert(np.array([5 * s, halfway - 1, halfway, 20 * s])).tolist() == [
        5 * s,
        halfway - 1,
        halfway + 37 * s,
        57 * s,
    ]


def test_the_listeners_timestamps_are_put_on_the_talkers_clock_and_its_delivery_stays(make_cell: CellWriter) -> None:
    arrivals = [received(1, 0, START), (1, 1, START + 1000, None, None, START + 1060)]
    clocks = {"clocks": [clock("exchange", 100, 120)]}
    packets = join_cell(make_cell([stream_of(1)], clocks, received=arrivals)).packets
    assert packets["rx_soft_tai_ns"].to_list()[:2] == [START + 50 - 110, None]
    assert packets["rx_user_tai_ns"].to_list()[:2] == [START + 60 - 110, START + 1060 - 110]
    assert packets["rx_hard_tai_ns"][0] == START + 40
    assert packets["clock_bound_ns"].to_list()[:3] == [10, 10, None]


def test_an_offset_that_changes_moves_each_packet_by_its_own(make_cell: CellWriter) -> None:
    # The listener gains a thousandth: 1 ns a packet. What its application read 10 ns later it would have moved as far.
    window = {"reference_tai_ns": START, "lower_ns": -4, "upper_ns": 6, "span_ns": 10_000}
    drift = {"drift_lower_ppb": 1e6, "drift_upper_ppb": 1e6}
    clocks = {"clocks": [clock("shared page", -20, 20, windows=[window | drift])]}
    arrivals = [received(1, n, START + n * 1000) for n in range(10)]
    packets = join_cell(make_cell([stream_of(1)], clocks, received=arrivals)).packets
    arrived = packets["rx_soft_tai_ns"] - packets["launch_tai_ns"]
    assert all(abs(value - (50 - 1 - n)) <= 1 for n, value in enumerate(arrived))
    assert set(packets["rx_user_tai_ns"] - packets["rx_soft_tai_ns"]) == {10}
    assert packets["clock_bound_ns"].is_between(5, 8).all()


def test_without_a_bound_timestamps_stay_the_listeners_and_say_so(make_cell: CellWriter) -> None:
    packets = join_cell(make_cell([stream_of(1)], received=[received(1, 0, START)])).packets
    assert (packets["rx_soft_tai_ns"][0], packets["clock_bound_ns"].null_count()) == (START + 50, 10)


def test_each_stream_counts_from_its_own_talkers_start(make_cell: CellWriter) -> None:
    streams = [stream_of(1, count=4), stream_of(2, count=4, start_tai_ns=50)]
    packets = join_cell(make_cell(streams, {"warmup_ns": 2000})).packets
    assert packets["launch_tai_ns"].to_list() == [START + n * 1000 for n in range(4)] + [
        50 + n * 1000 for n in range(4)
    ]
    assert packets["warmup"].to_list() == [True, True, False, False] * 2


def test_a_recording_that_was_never_begun_counts_as_cut_short(make_cell: CellWriter) -> None:
    folder = make_cell([stream_of(1)])
    folder.recording("listen", "ecu", "received").unlink()
    joined = join_cell(folder)
    assert joined.packets["arrival"].null_count() == 10
    assert not joined.findings["listener-ecu.received"].complete


def test_a_recording_of_another_run_is_refused(make_cell: CellWriter) -> None:
    with pytest.raises(LabError, match=r"run_id = 0000"):
        join_cell(make_cell([stream_of(1)], {"run_id": "0000"}))


def test_the_built_table_is_read_back_with_what_the_join_saw(make_cell: CellWriter) -> None:
    folder = make_cell([stream_of(1)], sent=[sent(1, 0, START)], stamps=[(9, 0, 0, 0)])
    assert read_findings(folder) == {}
    packets = build_packets(folder)
    assert folder.packets().equals(packets)
    assert read_findings(folder) == join_cell(folder).findings
    assert read_findings(folder)["talker-sensor.stamps"].stray == 1


@pytest.mark.parametrize("kept", ["cut", "empty", "zeros", "rows"])
def test_a_damaged_table_is_built_again_from_the_recordings(make_cell: CellWriter, kept: str) -> None:
    folder = make_cell([stream_of(1)], sent=[sent(1, 0, START)], received=[received(1, 0, START)])
    whole = build_packets(folder)
    data = folder.packets_path.read_bytes()
    half = len(data) // 2
    damaged = {
        "cut": data[:-9],
        "empty": b"",
        "zeros": bytes(len(data)),
        "rows": data[:4] + bytes(half) + data[4 + half :],
    }
    folder.packets_path.write_bytes(damaged[kept])
    assert whole_packets(folder).equals(whole)
    assert pl.read_parquet(folder.packets_path).equals(whole) and read_findings(folder)["talker-sensor.sent"].rows == 1


def test_a_damaged_table_without_recordings_is_an_error_that_names_it(make_cell: CellWriter) -> None:
    folder = make_cell([stream_of(1)], sent=[sent(1, 0, START)])
    build_packets(folder)
    for path in folder.path.glob("*.arrow"):
        path.unlink()
    folder.packets_path.write_bytes(folder.packets_path.read_bytes()[:-9])
    with pytest.raises(LabError, match=r"packets\.parquet: cannot be read: it is damaged.*restore a complete copy"):
        whole_packets(folder)


def test_a_disk_without_room_is_an_error_that_leaves_no_half_table(make_cell: CellWriter) -> None:
    folder = make_cell([stream_of(1)])
    before = sorted(folder.path.iterdir())
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, hard))  # every write beyond fails, as on a full disk
    try:
        with pytest.raises(LabError, match="cannot be written"):
            build_packets(folder)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert sorted(folder.path.iterdir()) == before


def test_nothing_that_lies_in_the_folder_is_written_through(make_cell: CellWriter, tmp_path: Path) -> None:
    folder = make_cell([stream_of(1)])
    victim = tmp_path / "victim"
    victim.write_text("untouched")
    folder.packets_path.symlink_to(victim)
    (folder.path / "packets.parquet.tmp").symlink_to(victim)
    build_packets(folder)
    assert victim.read_text() == "untouched"
    assert not folder.packets_path.is_symlink()


def test_each_talker_and_listener_is_joined_by_its_own_recordings(make_cell: CellWriter) -> None:
    folder = make_cell(
        [stream_of(1, count=2), stream_of(2, count=2, talker="ecu", listener="sensor")],
        sent=[sent(1, 0, START), sent(2, 1, START + 1000)],
    )
    back = {"sent": [sent(2, 0, START)], "stamps": [], "clocks": []}
    for table, rows in back.items():
        folder.recording("talk", "ecu", table).write_bytes(recording_bytes(table, [rows]))
    joined = join_cell(folder)
    assert joined.packets["send_error"].to_list() == [0, None, 0, None]
    assert joined.findings["talker-sensor.sent"].stray == 1  # stream 2 is not sensor's to send


keys = st.tuples(st.sampled_from([1, 2, 9]), st.one_of(st.integers(0, 6), st.just(2**63)))
stamps = st.integers(-(2**60), 2**60)


@settings(max_examples=examples(150))
@given(
    sent_rows=st.lists(st.tuples(keys, stamps, stamps, stamps, st.sampled_from([0, 105]), st.integers(0, 3))),
    stamp_rows=st.lists(st.tuples(keys, st.integers(0, 5), stamps)),
    received_rows=st.lists(st.tuples(keys, st.none() | stamps, st.none() | stamps, stamps)),
    piece=st.integers(1, 5),
)
# Two errors of one packet, behind one of the second's kind: the first counts.
@example(sent_rows=[], stamp_rows=[((1, 0), 4, 0), ((1, 1), 3, 0), ((1, 1), 4, 0)], received_rows=[], piece=3)
def test_the_join_is_what_a_join_by_dictionary_gives(
    sent_rows: list[Any], stamp_rows: list[Any], received_rows: list[Any], piece: int
) -> None:
    streams = [stream_of(1, count=5), stream_of(2, count=3)]
    scheduled = {(s["stream"], n): START + n * 1000 for s in streams for n in range(s["count"])}
    tables = {
        "sent": [(*key, scheduled.get(key, 0), *rest) for key, *rest in sent_rows],
        "stamps": [(*key, *rest) for key, *rest in stamp_rows],
        "received": [(*key, scheduled.get(key, 0), *rest) for key, *rest in received_rows],
    }
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(packets_module, "_PIECE", piece)
        patch.setattr(packets_module, "drop_impossible", lambda *_, **__: [])  # none of these instants makes sense
        found = join_cell(write_cell(Path(folder) / "r1", cell_document(streams), **tables))
    expected, strays = naive_join(scheduled, tables)
    actual = [{name: row[name] for name in expected[0]} for row in found.packets.iter_rows(named=True)]
    assert actual == expected
    assert {name.split(".")[1]: seen.stray for name, seen in found.findings.items()} == {
        **strays,
        "clocks": 0,
    }


def naive_join(
    scheduled: dict[tuple[int, int], int], tables: dict[str, list[Row]]
) -> tuple[list[dict[str, Any]], dict[str, int]]:
    kinds = {0: "tx_sched_tai_ns", 1: "tx_soft_tai_ns", 2: "tx_hard_tai_ns"}
    names = ("wake_due_tai_ns", "wake_tai_ns", "submit_tai_ns", "send_error", *kinds.values())
    names += ("rx_hard_tai_ns", "rx_soft_tai_ns", "rx_user_tai_ns", "arrival")
    packets = {key: dict.fromkeys(names) | {"launch_error": 0, "late": 0} for key in scheduled}
    strays = dict.fromkeys(("sent", "stamps", "received"), 0)
    for stream, sequence, _, *rest in tables["sent"]:
        packet = packets.get((stream, sequence))
        if packet is None or packet["wake_tai_ns"] is not None:
            strays["sent"] += 1
            continue
        packet.update(zip((*names[:4], "late"), rest, strict=True))
        if packet["late"] == 3:
            packet |= dict.fromkeys(("submit_tai_ns", "send_error"))
    for stream, sequence, kind, stamp in tables["stamps"]:
        packet = packets.get((stream, sequence))
        name = kinds.get(kind, "launch_error")
        if packet is None or kind > 4:
            strays["stamps"] += 1
        elif packet[name]:
            strays["stamps"] += kind not in (0, 1)
        elif kind in kinds and packet[name] is None:
            packet[name] = stamp + (TAI_MINUS_REAL if kind < 2 else 0)
        elif kind in kinds:
            strays["stamps"] += kind not in (0, 1)
        else:
            packet[name] = kind - 2
    arrived: Counter[int] = Counter()
    for stream, sequence, _, hard, soft, user in tables["received"]:
        packet = packets.get((stream, sequence))
        if packet is None or packet["arrival"] is not None:
            strays["received"] += 1
            continue
        packet["arrival"] = arrived[stream]
        arrived[stream] += 1
        packet["rx_hard_tai_ns"], packet["rx_user_tai_ns"] = hard, user
        packet["rx_soft_tai_ns"] = None if soft is None else soft + TAI_MINUS_REAL
    return [packets[key] for key in sorted(packets)], strays
