"""A run whose recordings were damaged says what is not known, which file misses what, and is not trusted."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pytest
from pyarrow import ipc

from latlab.evaluation.cell import cell_result
from latlab.model.errors import LabError
from latlab.recordings.packets import build_packets, read_findings, whole_packets
from latlab.recordings.run_folder import CellFolder
from support.recordings import TAI_MINUS_REAL, Row, cell_document, checked_bytes, recording_bytes, stream_of

START = 1_000_000_000
PERIOD = 1_000_000
PACKETS = 1200
BATCH = 100
END = START + PACKETS * PERIOD
HOUR = 3600 * 10**9

Rows = dict[str, list[Row]]
Damage = Callable[["Kept"], None]


def judged(folder: CellFolder) -> dict[str, Any]:
    """A cell's part of the result, and why it is not trusted."""
    found = cell_result(folder)
    return found.cell.document() | {"reasons": [one.document() for one in found.reasons]}


@dataclass(frozen=True)
class Kept:
    """A cell's folder as a run leaves it: one stream, every packet sent, stamped and received, every agent done."""

    folder: CellFolder

    def path(self, name: str) -> Path:
        return self.folder.path / f"{name}.arrow"

    def result(self) -> dict[str, Any]:
        """What `latlab report` says of it."""
        self.folder.packets_path.unlink(missing_ok=True)
        return judged(self.folder)

    def agents(self, **changes: Any) -> None:
        """Change the listener's entry in cell.json."""
        cell = self.folder.cell().document()
        for agent in cell["agents"]:
            if agent["verb"] == "listen":
                agent |= changes
        self.folder.write_cell(cell)

    def totals(self, verb: str, **changes: Any) -> None:
        """Change what an agent counted."""
        cell = self.folder.cell().document()
        for agent in cell["agents"]:
            if agent["verb"] == verb:
                agent["done"] |= changes
        self.folder.write_cell(cell)


def packet_rows() -> Rows:
    """Of each packet: woken 5 µs late, submitted, stamped, received by the kernel at 20 µs, and by the listener."""
    due = [(n, START + n * PERIOD) for n in range(PACKETS)]
    late = [(n, at, at + 5_000 + 100 * (n % 7)) for n, at in due]
    return {
        "talker-sensor.sent": [(1, n, at, at, woke, woke + 1_000, 0, 0) for n, at, woke in late],
        "talker-sensor.stamps": [
            (1, n, kind, woke + 2_000 * (kind + 1) - TAI_MINUS_REAL) for n, _, woke in late for kind in (0, 1)
        ],
        "listener-ecu.received": [
            (1, n, at, None, woke + 15_000 - TAI_MINUS_REAL, woke + 25_000) for n, at, woke in late
        ],
        "talker-sensor.clocks": readings(),
        "listener-ecu.clocks": readings(),
    }


def readings() -> list[Row]:
    """From a second before the streams until a second after them."""
    times = range(START - 10**9, END + 10**9 + 1, 10**8)
    return [(at, at - TAI_MINUS_REAL, at - 500, at - 500, 50) for at in times]


def written(path: Path, rows: Rows) -> Kept:
    path.mkdir(parents=True)
    folder = CellFolder(path)
    ready = {"realtime": {"problems": []}, "tai_offset_s": 37}
    stamped = [row[2] for row in rows["talker-sensor.stamps"]]
    talked = {
        "stream": 1,
        "sent": PACKETS,
        "send_errors": 0,
        "unsent_late": 0,
        "launch_late": 0,
        "launch_moved": 0,
        **{name: stamped.count(kind) for kind, name in enumerate(("tx_sched", "tx_soft", "tx_hard"))},
        "launch_invalid": 0,
        "launch_missed": 0,
    }
    received = len(rows["listener-ecu.received"])
    heard = {"stream": 1, "received": received, "repeated": 0, "reordered": 0, "out_of_range": 0}
    clocks = len(readings())
    done = {
        "talk": {"streams": [talked], "ring_full": 0, "recorded": PACKETS + len(stamped) + clocks},
        "listen": {"streams": [heard], "ring_full": 0, "socket_drops": 0, "recorded": received + clocks},
    }
    agents = [
        {"host": host, "verb": verb, "ready": ready, "done": done[verb], "error": None}
        for host, verb in (("ecu", "listen"), ("sensor", "talk"))
    ]
    folder.write_cell(
        cell_document(
            [stream_of(1, name="control", period_ns=PERIOD, count=PACKETS, interface="eth0")],
            agents=agents,
            start_tai_ns=START,
            warmup_ns=100 * PERIOD,
            duration_ns=PACKETS * PERIOD,
            clocks=[{"from": "sensor", "to": "ecu", "source": "one kernel", "lower_ns": 0, "upper_ns": 0}],
        )
    )
    kept = Kept(folder)
    for when in ("before", "after"):
        folder.write_facts(when, {"sensor": {}, "ecu": {}})
    for name, table in rows.items():
        batches = [table[first : first + BATCH] for first in range(0, len(table), BATCH)]
        kept.path(name).write_bytes(recording_bytes(name.rpartition(".")[2], batches))
    return kept


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    return written(tmp_path / "cells" / "all" / "r1", packet_rows())


def without_batches(path: Path, gone: Iterable[int]) -> None:
    """Take batches out of an Arrow IPC stream, which is whole again then."""
    with pa.OSFile(str(path)) as file:
        reader = ipc.open_stream(file)
        batches = list(reader)
        schema = reader.schema
    left = [batch for place, batch in enumerate(batches) if place not in {place % len(batches) for place in gone}]
    with pa.OSFile(str(path), "wb") as file, ipc.new_stream(file, schema) as stream:
        for batch in left:
            stream.write_batch(batch)


def cut(path: Path, share: float = 0.6) -> None:
    """End a file in the middle, as when its disk was full, or its machine gone."""
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])


def reasons(result: dict[str, Any], check: str) -> list[dict[str, Any]]:
    return [reason for reason in result["reasons"] if reason["id"] == check]


def counts(result: dict[str, Any]) -> dict[str, int]:
    found: dict[str, int] = result["streams"]["control"]["counts"]
    return found


def test_a_run_that_was_not_damaged_is_trusted(kept: Kept) -> None:
    result = kept.result()
    assert (result["verdict"], result["reasons"]) == ("trusted", [])
    assert [counts(result)[name] for name in ("received", "lost", "unsent", "unknown")] == [PACKETS, 0, 0, 0]


@pytest.mark.parametrize("gone", [(4,), (-1,), (3, 7)], ids=["the middle", "the end", "two"])
@pytest.mark.parametrize(
    "name", ["listener-ecu.received", "talker-sensor.sent", "talker-sensor.stamps", "talker-sensor.clocks"]
)
def test_a_file_that_misses_rows_that_its_agent_counted_is_named_with_their_number(
    kept: Kept, name: str, gone: tuple[int, ...]
) -> None:
    before = recording_rows(kept.path(name))
    without_batches(kept.path(name), gone)
    missing = before - recording_rows(kept.path(name))
    result = kept.result()
    (reason,) = reasons(result, "counts-agree")
    assert (result["verdict"], reason["severity"], reason["where"]) == ("untrusted", "untrusted", name)
    assert reason["expected"] == f"{before} rows, as its agent counted"
    assert reason["actual"] == f"{before - missing}: {missing} rows missing"
    assert counts(result)["lost"] == counts(result)["unsent"] == 0


def recording_rows(path: Path) -> int:
    with pa.OSFile(str(path)) as file:
        return int(ipc.open_stream(file).read_all().num_rows)


def test_packets_whose_rows_are_missing_are_unknown_and_neither_lost_nor_unsent(kept: Kept) -> None:
    without_batches(kept.path("listener-ecu.received"), [4])
    found = counts(kept.result())
    assert (found["received"], found["lost"], found["unknown"]) == (PACKETS - BATCH, 0, BATCH)


def test_a_packet_that_arrived_was_sent_though_its_row_is_missing(kept: Kept) -> None:
    without_batches(kept.path("talker-sensor.sent"), [4])
    found = counts(kept.result())
    assert [found[name] for name in ("sent", "received", "unsent", "unknown")] == [PACKETS, PACKETS, 0, 0]


def test_packets_whose_rows_did_not_fit_the_ring_are_unknown_and_not_lost(kept: Kept) -> None:
    without_batches(kept.path("listener-ecu.received"), [4])
    kept.totals("listen", ring_full=BATCH)
    result = kept.result()
    assert [counts(result)[name] for name in ("received", "lost", "unknown")] == [PACKETS - BATCH, 0, BATCH]
    assert result["verdict"] == "untrusted" and shown(result) == []


@pytest.mark.parametrize(("stream", "number"), [(1, 99_999), (9, 700)], ids=["sequence", "stream"])
def test_a_row_of_no_packet_leaves_one_unknown_and_none_lost(tmp_path: Path, stream: int, number: int) -> None:
    rows = packet_rows()
    rows["listener-ecu.received"][700] = (stream, number, *rows["listener-ecu.received"][700][2:])
    result = written(tmp_path / "r1", rows).result()
    assert [counts(result)[name] for name in ("received", "lost", "unknown")] == [PACKETS - 1, 0, 1]
    (reason,) = reasons(result, "counts-agree")
    assert reason["actual"] == f"{PACKETS}, by the listener's own counters"


def test_a_recording_with_more_rows_than_its_agent_counted_is_named(kept: Kept) -> None:
    rows = packet_rows()["listener-ecu.received"]
    kept.path("listener-ecu.received").write_bytes(recording_bytes("received", [rows, rows[400:500]]))
    result = kept.result()
    (reason,) = reasons(result, "counts-agree")
    assert (result["verdict"], reason["actual"]) == ("untrusted", f"{PACKETS + 100}: 100 rows too many")


@pytest.mark.parametrize(
    ("verb", "which"), [("listen", "reordered"), ("talk", "launch_late"), ("talk", "launch_moved")]
)
def test_a_total_that_the_rows_do_not_have_is_named(kept: Kept, verb: str, which: str) -> None:
    for agent in (cell := kept.folder.cell().document())["agents"]:
        if agent["verb"] == verb:
            agent["done"]["streams"][0][which] = 7
    kept.folder.write_cell(cell)
    result = kept.result()
    (reason,) = reasons(result, "counts-agree")
    assert (result["verdict"], reason["actual"]) == ("untrusted", "7, by the agent's own counters")
    assert reason["expected"] == f"0 packets {which.replace('_', ' ')}, as recorded"


def test_a_total_below_the_rows_is_named_once_and_not_as_missing_readings(kept: Kept) -> None:
    for agent in (cell := kept.folder.cell().document())["agents"]:
        if agent["verb"] == "talk":
            agent["done"]["streams"][0]["tx_sched"] -= 5
    kept.folder.write_cell(cell)
    (reason,) = reasons(kept.result(), "counts-agree")
    assert (reason["where"], reason["actual"]) == ("talker-sensor.stamps", f"{2 * PACKETS}: 5 rows too many")


@pytest.mark.parametrize("when", ["before", "after"])
def test_facts_that_are_missing_are_a_finding_that_names_the_host(kept: Kept, when: str) -> None:
    kept.folder.write_facts(when, {"ecu": {}})
    (reason,) = reasons(kept.result(), "facts-taken")
    assert (reason["severity"], reason["where"], reason["actual"]) == (
        "suspect",
        "sensor",
        f"none in facts-{when}.json",
    )
    (kept.folder.path / f"facts-{when}.json").unlink()
    assert [one["where"] for one in reasons(kept.result(), "facts-taken")] == ["ecu, sensor"]


def test_an_agents_totals_that_contradict_each_other_are_named_as_that(kept: Kept) -> None:
    kept.totals("listen", recorded=5)
    result = kept.result()
    (reason,) = reasons(result, "counts-agree")
    assert (result["verdict"], reason["where"]) == ("untrusted", "listener-ecu.clocks")
    assert "which is impossible" in reason["actual"]


@pytest.mark.parametrize("names", [["listener-ecu.received"], ["talker-sensor.sent", "listener-ecu.received"]])
def test_what_came_after_the_end_of_a_cut_recording_is_unknown(kept: Kept, names: list[str]) -> None:
    for name in names:
        cut(kept.path(name))
    kept.agents(done=None, error={"what": "no space left on device", "where": "", "remedy": "make room"})
    result = kept.result()
    found = counts(result)
    assert found["lost"] == found["unsent"] == 0
    assert 0 < found["unknown"] == PACKETS - found["received"]
    cut_ones = [reason for reason in result["reasons"] if reason["id"] == "recordings-whole"]
    assert ", ".join(reason["where"] for reason in cut_ones) == ", ".join(names)
    assert all("cut short: " in reason["actual"] for reason in cut_ones)
    assert result["streams"]["control"]["metrics"]["latency"]["lost"] == 0
    assert not any(one["class"] == "loss_burst" for one in shown(result))


def shown(result: dict[str, Any]) -> list[dict[str, Any]]:
    return [one for found in result["streams"]["control"]["anomalies"].values() for one in found["shown"]]


def test_packets_that_were_lost_before_the_end_of_a_cut_recording_stay_lost(kept: Kept) -> None:
    rows = packet_rows()
    table = [row for row in rows["listener-ecu.received"] if row[1] not in (150, 151)]
    kept.path("listener-ecu.received").write_bytes(recording_bytes("received", [table[:500], table[500:]])[:-8])
    kept.agents(done=None)
    found = counts(kept.result())
    assert (found["lost"], found["unknown"], found["received"]) == (2, 0, PACKETS - 2)


def test_timestamps_after_the_end_of_a_cut_recording_are_not_missing(kept: Kept) -> None:
    cut(kept.path("talker-sensor.stamps"))
    result = kept.result()
    path = result["streams"]["control"]["metrics"]["path"]
    assert path["missing"] == 0 and 0 < path["n"] < PACKETS - 100
    assert reasons(result, "timestamps-there") == []


@pytest.mark.parametrize("name", ["listener-ecu.received", "talker-sensor.sent", "talker-sensor.clocks"])
def test_a_recording_that_is_not_there_is_absent(kept: Kept, name: str) -> None:
    kept.path(name).unlink()
    result = kept.result()
    (reason,) = reasons(result, "recordings-whole")
    assert (reason["where"], reason["actual"]) == (name, "absent: there is no such file")
    assert (result["verdict"], counts(result)["lost"], counts(result)["unsent"]) == ("untrusted", 0, 0)


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo], ids=["folder", "pipe"])
def test_a_recording_that_is_no_file_is_an_error_that_names_it(kept: Kept, make: Callable[[Path], None]) -> None:
    path = kept.path("listener-ecu.received")
    path.unlink()
    make(path)
    with pytest.raises(LabError, match="cannot be read: it is a folder, a pipe or a device") as told:
        kept.result()
    assert told.value.where == str(path)


@pytest.mark.parametrize("checked", [True, False])
def test_a_recording_with_another_behind_it_is_damaged_and_its_packets_stay(kept: Kept, checked: bool) -> None:
    name = "listener-ecu.received"
    data = with_checksums(kept, name) if checked else kept.path(name).read_bytes()
    kept.path(name).write_bytes(data * 2)
    result = kept.result()
    (reason,) = reasons(result, "recordings-whole")
    assert (result["verdict"], reason["where"]) == ("untrusted", name)
    assert "damaged" in reason["actual"]
    assert [counts(result)[name] for name in ("received", "lost", "unknown")] == [PACKETS, 0, 0]


def with_checksums(kept: Kept, name: str) -> bytes:
    """Write a recording as agents do that add checksums; its bytes."""
    table, rows = name.rpartition(".")[2], packet_rows()[name]
    data = checked_bytes(table, [rows[first : first + BATCH] for first in range(0, len(rows), BATCH)])
    kept.path(name).write_bytes(data)
    return data


@pytest.mark.parametrize("name", ["listener-ecu.received", "talker-sensor.sent", "talker-sensor.stamps"])
def test_a_damaged_batch_is_one_finding_and_its_packets_are_unknown(kept: Kept, name: str) -> None:
    data = bytearray(with_checksums(kept, name))
    data[len(data) // 2] ^= 4
    kept.path(name).write_bytes(data)
    result = kept.result()
    (reason,) = result["reasons"]
    assert (result["verdict"], reason["id"], reason["where"]) == ("untrusted", "recordings-whole", name)
    batch = 12 if name == "talker-sensor.stamps" else 6
    begins = (batch - 1) * BATCH + 1
    expected = f"batch {batch} is damaged: rows {begins} to {begins + BATCH - 1} are not in any figure"
    assert reason["actual"] == expected
    assert counts(result)["lost"] == counts(result)["unsent"] == 0
    kept.path(name).write_bytes(with_checksums(kept, name))
    whole_packets(kept.folder)
    assert cell_result(kept.folder).cell.verdict == "trusted"


def test_a_recording_without_one_whole_batch_is_an_error_that_names_it(kept: Kept) -> None:
    data = with_checksums(kept, "listener-ecu.received")
    kept.path("listener-ecu.received").write_bytes(data.replace(b"latlab.first_row", b"latlab.first_raw"))
    with pytest.raises(LabError, match=r"listener-ecu\.received\.arrow: no row can be trusted"):
        kept.result()


@pytest.mark.slow
def test_a_flipped_bit_of_a_cells_json_gives_a_result_or_an_error(kept: Kept) -> None:
    kept.result()
    path = kept.folder.path / "cell.json"
    data = path.read_bytes()
    for bit in sorted(random.Random(2).sample(range(8 * len(data)), 60)):
        changed_data = bytearray(data)
        changed_data[bit // 8] ^= 1 << bit % 8
        path.write_bytes(changed_data)
        try:
            kept.result()
        except LabError as error:
            assert str(kept.folder.path) in str(error), f"bit {bit}"


@pytest.mark.parametrize("done", [None, {}], ids=["null", "empty"])
def test_an_agent_without_its_totals_in_a_cell_that_ended_well_is_a_finding(kept: Kept, done: Any) -> None:
    kept.agents(done=done)
    result = kept.result()
    (reason,) = reasons(result, "agents-ended")
    assert (result["verdict"], reason["where"], reason["actual"]) == ("untrusted", "listen on ecu", "none")


def test_an_agents_error_is_a_finding(kept: Kept) -> None:
    kept.agents(error={"what": "disk full", "where": "/x", "remedy": "make room", "errno": 28})
    (reason,) = reasons(kept.result(), "agents-ended")
    assert (reason["actual"], reason["remedy"]) == ("/x: disk full", "make room")


def changed(kept: Kept, name: str, place: int, **columns: int) -> None:
    """Write a recording again with columns of one row moved by so much."""
    table = name.rpartition(".")[2]
    with pa.OSFile(str(kept.path(name))) as file:
        whole = ipc.open_stream(file).read_all()
    rows = whole.to_pylist()
    for column, by in columns.items():
        rows[place][column] += by
    kept.path(name).write_bytes(recording_bytes(table, [[tuple(row.values()) for row in rows]]))


@pytest.mark.parametrize(
    ("name", "place", "columns", "stamp", "metric"),
    [
        ("listener-ecu.received", 500, {"rx_user_tai_ns": HOUR}, "rx_user", "latency_user"),
        ("listener-ecu.received", 500, {"rx_soft_real_ns": HOUR}, "rx_soft", "latency"),
        ("listener-ecu.received", 500, {"rx_user_tai_ns": -HOUR}, "rx_user", "latency_user"),
        ("listener-ecu.received", 500, {"rx_soft_real_ns": 50_000}, "rx_soft", "latency"),
        ("talker-sensor.sent", 500, {"wake_tai_ns": -20_000}, "wake", "wakeup"),
        ("talker-sensor.stamps", 1001, {"stamp_ns": -20_000}, "tx_soft", "path"),
    ],
)
def test_an_instant_that_cannot_be_is_a_finding_and_in_no_statistic(
    kept: Kept, name: str, place: int, columns: dict[str, int], stamp: str, metric: str
) -> None:
    whole = kept.result()["streams"]["control"]["metrics"][metric]
    changed(kept, name, place, **columns)
    result = kept.result()
    (reason,) = reasons(result, "timestamps-possible")
    assert (result["verdict"], reason["where"]) == ("untrusted", name)
    assert reason["expected"].startswith(f"no {stamp} ")
    assert reason["actual"] == "1 packet of control, sequence 500: not in any figure"
    found = result["streams"]["control"]["metrics"][metric]
    assert (found["n"], found["missing"]) == (whole["n"] - 1, 1)
    assert (found["min"], found["max"]) == (whole["min"], whole["max"])


@pytest.mark.parametrize(
    ("name", "column", "metric"),
    [("listener-ecu.received", "rx_user_tai_ns", "latency_user"), ("talker-sensor.sent", "wake_tai_ns", "wakeup")],
)
def test_an_instant_that_is_late_by_periods_but_in_its_place_cannot_be(
    kept: Kept, name: str, column: str, metric: str
) -> None:
    """It lies within the time of its agent; but one thread has the packets in their order."""
    whole = kept.result()["streams"]["control"]["metrics"][metric]
    changed(kept, name, 500, **{column: 67 * PERIOD})
    result = kept.result()
    (reason,) = reasons(result, "timestamps-possible")
    assert (result["verdict"], reason["where"]) == ("untrusted", name)
    assert reason["actual"] == "1 packet of control, sequence 500: not in any figure"
    found = result["streams"]["control"]["metrics"][metric]
    assert (found["n"], found["max"]) == (whole["n"] - 1, whole["max"])


def test_of_instants_that_were_exchanged_both_are_out_of_order(tmp_path: Path) -> None:
    rows = packet_rows()
    received = rows["listener-ecu.received"]
    received[300], received[900] = received[900], received[300]
    (reason,) = reasons(written(tmp_path / "r1", rows).result(), "timestamps-possible")
    assert reason["expected"] == "no rx_user out of order with packets recorded before or after it"
    assert reason["actual"] == "2 packets of control, from sequence 300 on: not in any figure"


def test_an_application_timestamp_that_stands_still_is_the_wrong_one_and_not_the_kernels(tmp_path: Path) -> None:
    rows = packet_rows()
    received = rows["listener-ecu.received"]
    received[601:605] = [(*row[:5], received[600][5]) for row in received[601:605]]
    result = written(tmp_path / "r1", rows).result()
    (reason,) = reasons(result, "timestamps-possible")
    assert reason["expected"] == "no rx_user that of the previous packet, from before the kernel had this one"
    assert reason["actual"] == "4 packets of control, from sequence 601 on: not in any figure"
    found = result["streams"]["control"]["metrics"]
    assert (found["latency"]["missing"], found["latency_user"]["missing"]) == (0, 4)


def with_cards(rows: Rows, *, off: Callable[[int], int]) -> Rows:
    """The rows with cards' timestamps: of packet n `off(n)` from when it left, and 2 µs later."""
    stamps = [(1, n, 2, START + n * PERIOD + 5_000 + 100 * (n % 7) + 5_000 + off(n)) for n in range(PACKETS)]
    received = [
        (*row[:3], START + row[1] * PERIOD + 12_000 + 100 * (row[1] % 7) + off(row[1]), *row[4:])
        for row in rows["listener-ecu.received"]
    ]
    return rows | {"talker-sensor.stamps": rows["talker-sensor.stamps"] + stamps, "listener-ecu.received": received}


def test_a_cards_timestamp_before_its_packets_own_wake_up_is_anothers(tmp_path: Path) -> None:
    rows = with_cards(packet_rows(), off=lambda n: -PERIOD if n == 700 else 0)
    kept = written(tmp_path / "r1", rows)
    found = reasons(kept.result(), "timestamps-possible")
    assert [(one["where"], one["actual"]) for one in found] == [
        ("talker-sensor.stamps", "1 packet of control, sequence 700: not in any figure")
    ]
    assert whole_packets(kept.folder)["tx_hard_tai_ns"].null_count() == 1


def test_cards_with_another_clock_than_the_system_still_measure_what_is_between_them(tmp_path: Path) -> None:
    kept = written(tmp_path / "r1", with_cards(packet_rows(), off=lambda _: -37 * 10**9))
    result = kept.result()
    (reason,) = reasons(result, "timestamps-possible")
    assert reason["where"] == "talker-sensor.stamps"
    assert "the card's clock differs from the system's" in reason["actual"]
    path = result["streams"]["control"]["metrics"]["path"]
    assert (path["from"], path["to"], path["min"], path["max"]) == ("tx_hard", "rx_hard", 2_000, 2_000)


LATE = range(800, 815)


def late_without(stamp: str, *, late: bool) -> Rows:
    """Fifteen packets without rx_soft, and 700 µs late, in the talker; or as all others."""
    rows = packet_rows()
    by = 700_000 if late else 0
    received = []
    for row in rows["listener-ecu.received"]:
        number, at, soft, user = row[1], row[2], row[4], row[5]
        of_them = number in LATE
        received.append((1, number, at, None, None if of_them else soft, user + (by if of_them else 0)))
    return rows | {"listener-ecu.received": received}


def test_late_packets_without_a_timestamp_do_not_hide_the_tail(tmp_path: Path) -> None:
    result = written(tmp_path / "r1", late_without("rx_soft", late=True)).result()
    latency = result["streams"]["control"]["metrics"]["latency"]
    assert (latency["missing"], latency["max"]) == (15, latency["max_at_least"])
    assert latency["max_at_most"] > 700_000
    (reason,) = reasons(result, "unstamped-alike")
    assert reason["where"] == "stream control"
    assert reason["actual"] == (
        "15 of 15 packets without rx_soft are among the 1.4% of all that took the longest from launch to rx_user"
    )


def test_packets_that_lack_a_timestamp_by_chance_and_are_as_late_as_others_are_no_finding(tmp_path: Path) -> None:
    result = written(tmp_path / "r1", late_without("rx_soft", late=False)).result()
    assert reasons(result, "unstamped-alike") == []


def test_who_did_not_stamp_arrivals_is_the_listeners_side(tmp_path: Path) -> None:
    found = reasons(written(tmp_path / "r1", late_without("rx_soft", late=False)).result(), "timestamps-there")
    assert found and all("listener's kernel" in one["remedy"] for one in found)
    rows = packet_rows()
    rows["talker-sensor.stamps"] = [row for row in rows["talker-sensor.stamps"] if row[1] not in LATE or row[2] != 1]
    found = reasons(written(tmp_path / "r2", rows).result(), "timestamps-there")
    assert found and all("talker's helper threads" in one["remedy"] for one in found)


def test_the_largest_value_is_at_least_what_the_timestamps_before_say(tmp_path: Path) -> None:
    rows = packet_rows()
    late = {800: 700_000}
    for name, columns in (("talker-sensor.sent", (4, 5)), ("listener-ecu.received", (4, 5))):
        rows[name] = [
            tuple(
                value + late.get(row[1], 0) if place in columns and value else value for place, value in enumerate(row)
            )
            for row in rows[name]
        ]
    rows["talker-sensor.stamps"] = [(*row[:3], row[3] + late.get(row[1], 0)) for row in rows["talker-sensor.stamps"]]
    rows["listener-ecu.received"] = [
        (*row[:4], None, row[5]) if row[1] == 800 else row for row in rows["listener-ecu.received"]
    ]
    latency = written(tmp_path / "r1", rows).result()["streams"]["control"]["metrics"]["latency"]
    assert latency["max"] < 100_000 < 700_000 < latency["max_at_least"] < latency["max_at_most"]


@pytest.mark.parametrize("stamp", ["rx_soft", "tx_soft"])
def test_a_timestamp_that_every_packet_does_not_have_is_a_finding(tmp_path: Path, stamp: str) -> None:
    rows = packet_rows()
    if stamp == "rx_soft":
        rows["listener-ecu.received"] = [(*row[:4], None, row[5]) for row in rows["listener-ecu.received"]]
    else:
        rows["talker-sensor.stamps"] = [row for row in rows["talker-sensor.stamps"] if row[2] != 1]
    found = reasons(written(tmp_path / "r1", rows).result(), "timestamps-there")
    assert (f"packets with {stamp}", f"none of {PACKETS - 100} has it") in [
        (one["expected"], one["actual"]) for one in found
    ]


def test_a_table_that_an_earlier_version_joined_is_joined_again(kept: Kept) -> None:
    without_batches(kept.path("listener-ecu.received"), [4])
    build_packets(kept.folder)
    earlier = kept.folder.packets().drop("unknown")
    earlier.write_parquet(kept.folder.packets_path, metadata={"latlab.findings": "{}"})
    assert "unknown" in whole_packets(kept.folder).columns
    assert read_findings(kept.folder)["listener-ecu.received"].is_short


def test_findings_are_read_back_as_they_were_written(kept: Kept) -> None:
    changed(kept, "listener-ecu.received", 500, rx_user_tai_ns=HOUR)
    build_packets(kept.folder)
    (found,) = read_findings(kept.folder)["listener-ecu.received"].impossible
    assert replace(found) == found and (found.stream, found.stamp, found.first_sequence) == (1, "rx_user", 500)


def timer_rows(count: int = 20) -> list[Row]:
    return [(1, n, START + n * PERIOD, None, START + n * PERIOD + 5_000, False) for n in range(count)]


def with_timer(path: Path, rows: list[Row], *, ended: bool = True, events: int) -> CellFolder:
    """A cell with one timer of 20 instants."""
    own = {"how": "nanosleep", "threshold_ns": 50_000, "window_ns": 4 * PERIOD}
    ends = {"talker": "ecu", "listener": "ecu", "probe": "irq", "leg": None, "timer": own}
    stream = stream_of(1, name="irq", period_ns=PERIOD, count=20, **ends)
    done = {"events": events, "overdue": 0, "trace_lost": 0, "ring_full": 0, "recorded": events + len(readings())}
    agent = {"host": "ecu", "verb": "timer", "probe": "irq", "ready": {}, "done": done, "error": None}
    path.mkdir(parents=True)
    folder = CellFolder(path)
    folder.write_cell(cell_document([stream], agents=[agent], start_tai_ns=START, warmup_ns=0))
    data = recording_bytes("timer", [rows])
    folder.recording("timer", "irq", "timer").write_bytes(data if ended else data[:-8])
    folder.recording("timer", "irq", "clocks").write_bytes(recording_bytes("clocks", [readings()]))
    return folder


@pytest.mark.parametrize("ended", [True, False])
def test_instants_that_a_timers_recording_misses_are_unknown(tmp_path: Path, ended: bool) -> None:
    result = judged(with_timer(tmp_path / "r1", timer_rows()[:15], ended=ended, events=20))
    block = result["streams"]["irq"]
    assert [block["counts"][name] for name in ("came", "unrecorded", "unknown")] == [15, 0, 5]
    assert block["metrics"]["wakeup"]["lost"] == 0
    (reason,) = reasons(result, "counts-agree")
    assert (reason["where"], reason["actual"]) == ("timer-irq.timer", "15: 5 rows missing")


def test_a_timer_that_is_awake_before_its_instant_is_a_finding_and_in_no_statistic(tmp_path: Path) -> None:
    rows = timer_rows()
    rows[7] = (*rows[7][:4], rows[7][2] - 9_000, False)
    result = judged(with_timer(tmp_path / "r1", rows, events=20))
    (reason,) = reasons(result, "timestamps-possible")
    assert (reason["where"], reason["actual"]) == ("timer-irq.timer", "1 instant of irq, sequence 7: not in any figure")
    assert result["streams"]["irq"]["metrics"]["wakeup"]["min"] == 5_000


def test_a_row_without_what_every_row_has_is_an_error_that_names_it(kept: Kept) -> None:
    first, *others = packet_rows()["talker-sensor.sent"]
    rows = [(*first[:7], None, *first[8:]), *others]
    kept.path("talker-sensor.sent").write_bytes(recording_bytes("sent", [rows]))
    kept.folder.packets_path.unlink(missing_ok=True)
    with pytest.raises(LabError, match="late: a recording has rows without late"):
        build_packets(kept.folder)
