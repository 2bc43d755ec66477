"""Numbers in frames that other programs made are those that Wireshark's dissectors read there."""

from __future__ import annotations

import csv
import struct
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from latlab.imports.numbering.base import Frame, Number, frame_of
from latlab.imports.numbering.table import NUMBERINGS

CAPTURED = Path(__file__).parent / "captured"
HEADER, RECORD = 24, 16
KINDS = {"goose": 19, "sv": 13, "prp": 6, "r-tag": 3}
"""{kind: how many frames of the capture have such a number}; those with PRP's trailer are of GOOSE, too."""


def frames() -> Iterator[Frame]:
    """The frames of the capture, in order."""
    data = (CAPTURED / "numbered.pcap").read_bytes()
    at = HEADER
    while at < len(data):
        *_, captured, wire = struct.unpack_from("<IIII", data, at)
        frame = frame_of(data[at + RECORD : at + RECORD + captured], wire, ethernet=True)
        assert frame
        yield frame
        at += RECORD + captured


def told() -> list[dict[str, str]]:
    """What tshark printed of each."""
    with (CAPTURED / "numbered.tsv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def expected(row: dict[str, str]) -> dict[str, Number]:
    """The numbers in a frame, by their kind, as tshark's fields have them."""
    found = {}
    if row["goose.sqNum"]:
        source, state = row["goose.gocbRef"].encode(), int(row["goose.stNum"])
        found["goose"] = Number(int(row["goose.sqNum"]), source=source, epoch=state)
    if row["sv.smpCnt"]:
        samples = row["sv.smpCnt"].split(",")
        found["sv"] = Number(int(samples[0]), source=row["sv.svID"].split(",")[0].encode(), step=len(samples))
    if row["prp.trailer.prp_sequence_nr"]:
        lan = int(row["prp.trailer.prp_lan"])
        found["prp"] = Number(int(row["prp.trailer.prp_sequence_nr"]), source=bytes([lan]))
    if row["ieee8021cb.seq"]:
        found["r-tag"] = Number(int(row["ieee8021cb.seq"], 16))
    return found


def test_each_frame_has_the_numbers_that_wireshark_reads() -> None:
    kinds: Counter[str] = Counter()
    for frame, row in zip(frames(), told(), strict=True):
        found = {one.name: number for one in NUMBERINGS if (number := one.read(frame))}
        assert found == expected(row), row
        kinds.update(found.keys())
    assert kinds == KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_of_a_frame_that_was_cut_no_other_number_is_read(kind: str) -> None:
    (numbering,) = (one for one in NUMBERINGS if one.name == kind)
    for frame in frames():
        whole = numbering.read(frame)
        for length in range(len(frame.body)):
            cut = frame_of(_rebuilt(frame, length), 2000, ethernet=True)
            number = cut and numbering.read(cut)
            assert number is None or (whole is not None and number.value == whole.value)


def _rebuilt(frame: Frame, length: int) -> bytes:
    """The frame without its tags, with so many bytes of its body."""
    return bytes(12) + struct.pack(">H", frame.ether_type) + frame.body[:length]
