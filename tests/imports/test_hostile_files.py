"""No file makes a reader fail except with an error message, or take more memory than its size justifies."""

from __future__ import annotations

import json
import os
import struct
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from latlab.imports.base import Given, ReadFiles, lines_of
from latlab.imports.packets import packet_table
from latlab.imports.table import FORMATS
from latlab.imports.write import import_files
from latlab.model.errors import LatlabError
from support.imports.captures import enhanced, interface, pcap, pcapng, probe, section
from support.imports.files import CAPTURED
from support.imports.isochron import HEADER, log, usual
from support.suite.examples import examples

GIVEN = Given(columns="qSwstTaRrA")
TEXTS = sorted(path for path in CAPTURED.iterdir() if path.suffix in (".txt", ".json", ".csv", ".log"))
CAPTURE = pcap([(k * 1000, probe(k)) for k in range(4)])
NEXT = pcapng([(k * 1000, probe(k)) for k in range(4)])
MEMORY = 40 << 20
"""Bytes that reading a small file may take: numpy and polars keep some for themselves."""


def read_anyhow(path: Path, data: bytes, *, second: bytes = CAPTURE) -> None:
    """Nothing; every reader has read the file, or said what is wrong with it."""
    path.write_bytes(data)
    other = path.with_name("second")
    other.write_bytes(second)
    for one in FORMATS:
        one.recognises(data[: 1 << 16], path)
        try:
            found = one.read([path, other] if one.files == 2 else [path], GIVEN)
        except LatlabError:
            continue
        assert isinstance(found, ReadFiles)
        if found.streams:
            packet_table(found.streams)


def damaged(data: bytes, places: list[tuple[int, int]], length: int) -> bytes:
    """The file with some bytes replaced, and cut."""
    wrong = bytearray(data)
    for place, value in places:
        wrong[place % len(wrong)] = value
    return bytes(wrong[: length % (len(wrong) + 1)])


DAMAGE = st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(0, 255)), max_size=12)


@settings(max_examples=examples(150))
@given(places=DAMAGE, length=st.integers(0, 1 << 20))
def test_a_damaged_isochron_log(
    tmp_path_factory: pytest.TempPathFactory, places: list[tuple[int, int]], length: int
) -> None:
    read_anyhow(tmp_path_factory.mktemp("x") / "file", damaged(log(usual(6)), places, length))


@given(
    fields=st.tuples(
        *(st.integers(0, 2**32 - 1) for _ in range(4)), st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1)
    )
)
def test_an_isochron_header_that_says_anything(
    tmp_path_factory: pytest.TempPathFactory, fields: tuple[int, ...]
) -> None:
    whole = bytearray(log(usual(6)))
    count, sent, received, _, sent_start, received_start = fields
    struct.pack_into(">I", whole, 12, count)
    struct.pack_into(">2Q2I", whole, HEADER.size - 32, sent_start, received_start, sent, received)
    read_anyhow(tmp_path_factory.mktemp("x") / "file", bytes(whole))


@settings(max_examples=examples(150))
@given(places=DAMAGE, length=st.integers(0, 1 << 20), classic=st.booleans())
def test_a_damaged_capture(
    tmp_path_factory: pytest.TempPathFactory, places: list[tuple[int, int]], length: int, classic: bool
) -> None:
    read_anyhow(tmp_path_factory.mktemp("x") / "file", damaged(CAPTURE if classic else NEXT, places, length))


@given(body=st.binary(max_size=300), kind=st.sampled_from([1, 2, 3, 5, 6, 0x0A0D0D0A]))
def test_blocks_that_hold_anything(tmp_path_factory: pytest.TempPathFactory, body: bytes, kind: int) -> None:
    body = body[: len(body) // 4 * 4]
    length = struct.pack("<I", 12 + len(body))
    block = struct.pack("<I", kind) + length + body + length
    read_anyhow(
        tmp_path_factory.mktemp("x") / "file", section() + interface(resolution=9) + block + enhanced(7, probe(1))
    )


@given(data=st.data())
def test_a_damaged_text(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    whole = data.draw(st.sampled_from(TEXTS)).read_bytes()[:6_000]
    read_anyhow(
        tmp_path_factory.mktemp("x") / "file", damaged(whole, data.draw(DAMAGE), data.draw(st.integers(0, 6_000)))
    )


@given(data=st.binary(max_size=2_000))
def test_any_bytes(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    read_anyhow(tmp_path_factory.mktemp("x") / "file", data)


HUGE = "9" * 18
ALL_VALUES = {
    "file_version": 1,
    "thread": {"0": {"cycles": 1, "min": 0, "max": 1, "avg": 1, "histogram": dict.fromkeys(range(50), 2 * 10**12)}},
}
HOSTILE = {
    "counts beyond all": log(usual(3), packet_count=2**32 - 1, send_log_size=2**32 - 1, rcv_log_size=2**32 - 1),
    "a packet of 4 GiB": CAPTURE[:24] + struct.pack("<IIII", 0, 0, 2**32 - 1, 2**32 - 1) + bytes(100),
    "a block of 4 GiB": section() + struct.pack("<II", 6, 2**32 - 4) + bytes(100),
    "a resolution of 2 to the -127": section() + interface(resolution=0xFF) + enhanced(2**64 - 1, probe(1)),
    "an offset beyond all time": section() + interface(resolution=0, offset_s=-(2**63)) + enhanced(2**64 - 1, probe(1)),
    "a bin at the end of all": f"# Histogram\n000001 000001\n{HUGE} 000001\n# Total: 000002\n".encode(),
    "a bin of all values": f"# RTLA timerlat histogram\nIndex   Thr-000\n0 {HUGE}\n999999999 9999999999\n".encode(),
    "a histogram of all values": json.dumps(ALL_VALUES).encode(),
    "json nested without end": b'{"file_version": ' + b"[" * 100_000,
    "a number of a million digits": b'{"file_version": 1, "thread": {"0": {"cycles": ' + b"9" * 1_000_000 + b"}}}",
    "sequence numbers far apart": b"".join(b"1\t%d\t0\t1\t1\t2\n" % number for number in (1, 4_000_000_000)),
    "frames without end": b"[1.000000000]: [DEBUG]: Rtc: 999999999 frames[999999999999999999] sent\n" * 3,
    "one line of a megabyte": b"a" * (1 << 20),
    "many empty lines": b"\n" * (1 << 15),
    "one item of a megabyte": b"[1.000000000]: [INFO]: " + b"a" * (1 << 20) + b"Sent=1 | ",
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE)
def test_what_a_file_claims_takes_no_memory(tmp_path: Path, name: str) -> None:
    data = HOSTILE[name]
    read_anyhow(tmp_path / "warm", data[:100])
    tracemalloc.start()
    try:
        read_anyhow(tmp_path / "file", data)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < MEMORY + 150 * len(data)


@pytest.mark.parametrize("name", HOSTILE)
def test_an_import_of_it_ends_in_a_run_or_an_error_for_people(tmp_path: Path, name: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(HOSTILE[name])
    try:
        outcome = import_files([path], tmp_path / "runs")
    except LatlabError as error:
        assert error.what
        assert not (tmp_path / "runs").exists()
    else:
        assert outcome.folder.cells()


def test_a_folder_and_a_file_that_is_not_there_are_errors(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(LatlabError, match="cannot be read"):
            import_files([path], tmp_path / "runs")


def test_a_line_without_an_end_takes_no_memory_and_is_named(tmp_path: Path) -> None:
    path = tmp_path / "endless.txt"
    path.write_bytes(b"T: 0 (1) P:80 I:1000 C: 1 Min: 1 Act: 2 Avg: 2 Max: 3\n" + b"x" * (64 << 20))
    tracemalloc.start()
    (cyclictest,) = [one for one in FORMATS if one.name == "cyclictest"]
    with pytest.raises(LatlabError, match="line 2 is longer than 1 MiB"):
        cyclictest.read([path], Given())
    with pytest.raises(LatlabError, match="line 2 is longer than 1 MiB"):
        lines_of(path)
    assert tracemalloc.get_traced_memory()[1] < MEMORY
    tracemalloc.stop()


JSON_LINE = b'{"cmdline": "cyclictest -q --json=x", "rt_test_version": "2.40", "x": "'
LARGE = {
    "json in one line": (JSON_LINE + b"x" * (64 << 20), "it is larger than 32 MiB"),
    "a text in one line": (
        b"# Histogram\n000001 000001\n# Total: 000001\n" + b"x" * (64 << 20),
        "line 4 is longer than 1 MiB",
    ),
}


@pytest.mark.parametrize("name", LARGE)
def test_the_import_of_a_large_line_takes_no_memory_and_names_it(tmp_path: Path, name: str) -> None:
    data, said = LARGE[name]
    path = tmp_path / "large"
    path.write_bytes(data)
    tracemalloc.start()
    try:
        with pytest.raises(LatlabError, match=f"{path}: {said}"):
            import_files([path], tmp_path / "runs")
        assert tracemalloc.get_traced_memory()[1] < MEMORY
    finally:
        tracemalloc.stop()


def test_a_pipe_is_no_file_to_import(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(LatlabError, match="cannot be read: it is a folder, a pipe or a device"):
        import_files([tmp_path / "pipe"], tmp_path / "runs")
