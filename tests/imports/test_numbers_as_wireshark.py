"""Numbers in frames that other programs made are those that Wireshark's dissectors read there."""

from __future__ import annotations

import csv
import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from latlab.imports.numbering import NUMBERINGS
from latlab.imports.numbering.base import Frame, Number, Numbering, frame_of

CAPTURED = Path(__file__).parent / "captured"
HEADER, RECORD = 24, 16
FILES = {
    "numbered": {"goose": 19, "sv": 13, "prp": 6, "r-tag": 3},
    "stated": {"goose": 7, "sv": 32},
    "fieldbus": {"profinet": 7, "hsr": 4, "avtp": 5, "some-ip": 6, "rtps": 6},
    "media": {"rtp": 9},
}
"""{capture: {kind: how many of its frames are of such a protocol}}; those with PRP's trailer are of GOOSE, too."""
MS = 1_000_000
DATA, HEARTBEAT = "0x15", "0x07"


def frames(capture: str) -> Iterator[Frame]:
    """The frames of the capture, in order."""
    data = (CAPTURED / f"{capture}.pcap").read_bytes()
    at = HEADER
    while at < len(data):
        *_, captured, wire = struct.unpack_from("<IIII", data, at)
        frame = frame_of(data[at + RECORD : at + RECORD + captured], wire, ethernet=True)
        assert frame
        yield frame
        at += RECORD + captured


def told(capture: str) -> list[dict[str, str]]:
    """What tshark printed of each."""
    with (CAPTURED / f"{capture}.tsv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def hexadecimal(text: str) -> bytes:
    return bytes.fromhex(text.removeprefix("0x"))


def expected(row: dict[str, str]) -> dict[str, list[Number]]:
    """The numbers in a frame, by their kind, as tshark's fields have them."""
    found: dict[str, list[Number]] = {}
    row = dict.fromkeys(("goose.sqNum", "sv.smpCnt", "prp.trailer.prp_sequence_nr", "ieee8021cb.seq"), "") | row
    if row["goose.sqNum"]:
        source, state = row["goose.gocbRef"].encode(), int(row["goose.stNum"])
        valid_ns = int(row["goose.timeAllowedtoLive"]) * MS
        found["goose"] = [Number(int(row["goose.sqNum"]), source=source, epoch=state, valid_ns=valid_ns)]
    if row["sv.smpCnt"]:
        samples = row["sv.smpCnt"].split(",")
        found["sv"] = [Number(int(samples[0]), source=row["sv.svID"].split(",")[0].encode(), step=len(samples))]
    if row["prp.trailer.prp_sequence_nr"]:
        lan = int(row["prp.trailer.prp_lan"])
        found["prp"] = [Number(int(row["prp.trailer.prp_sequence_nr"]), source=bytes([lan]))]
    if row["ieee8021cb.seq"]:
        found["r-tag"] = [Number(int(row["ieee8021cb.seq"], 16))]
    return found | (fieldbus(row) if "pn_rt.frame_id" in row else {}) | (media(row) if "rtp.seq" in row else {})


def media(row: dict[str, str]) -> dict[str, list[Number]]:
    """The same of RTP; RTCP on its port has no number."""
    if row["rtp.seq"]:
        return {"rtp": [Number(int(row["rtp.seq"]), source=hexadecimal(row["rtp.ssrc"]))]}
    return {"rtp": []} if row["rtcp.pt"] else {}


def fieldbus(row: dict[str, str]) -> dict[str, list[Number]]:
    """The same of fieldbuses, cars and DDS."""
    found: dict[str, list[Number]] = {}
    if row["pn_rt.frame_id"]:
        source = int(row["pn_rt.frame_id"]).to_bytes(2, "big")
        found["profinet"] = [Number(int(row["pn_rt.cycle_counter"]), source=source, step=0)]
    if row["hsr.sequence_nr"]:
        found["hsr"] = [Number(int(row["hsr.sequence_nr"]), source=bytes([int(row["hsr.path"])]))]
    for kind in ("aaf", "crf", "ntscf"):
        if row[f"{kind}.seqnum"]:
            found["avtp"] = [Number(int(row[f"{kind}.seqnum"]), source=hexadecimal(row[f"{kind}.stream_id"]))]
    if row["someip.sessionid"]:
        fields = (row[f"someip.{name}"].split(",") for name in ("messageid", "clientid", "messagetype", "sessionid"))
        found["some-ip"] = [
            Number(int(session, 16) - 1, source=b"".join(map(hexadecimal, source)))
            for *source, session in zip(*fields, strict=True)
        ]
    if row["rtps.sm.id"]:
        writers, numbers = (row[f"rtps.sm.{name}"].split(",") for name in ("wrEntityId", "seqNumber"))
        found["rtps"] = []
        for kind in row["rtps.sm.id"].split(","):
            if kind == DATA:
                source = hexadecimal(row["rtps.guidPrefix.src"]) + hexadecimal(writers.pop(0))
                found["rtps"].append(Number(int(numbers.pop(0)), source=source))
            if kind == HEARTBEAT:
                writers.pop(0)
                del numbers[:2]  # the first and the last that the writer has
    return found


def kinds() -> dict[str, Numbering]:
    """The numberings; of SOME/IP the one by methods."""
    return {one.name: one for one in reversed(NUMBERINGS)}


@pytest.mark.parametrize("capture", FILES)
def test_each_frame_has_the_numbers_that_wireshark_reads(capture: str) -> None:
    counted: Counter[str] = Counter()
    for frame, row in zip(frames(capture), told(capture), strict=True):
        found = {name: read for name, one in kinds().items() if (read := one.numbers(frame)) is not None}
        bare = {name: [replace(one, said=(), sampled=None) for one in numbers] for name, numbers in found.items()}
        assert bare == expected(row), row
        counted.update(found.keys())
    assert counted == FILES[capture]


def test_what_profinet_says_of_its_data_is_what_wireshark_reads() -> None:
    said = {
        (row["pn_rt.ds"], row["pn_rt.transfer_status"]): kinds()["profinet"].numbers(frame)
        for frame, row in zip(frames("fieldbus"), told("fieldbus"), strict=True)
        if row["pn_rt.frame_id"]
    }
    assert {key: numbers and numbers[0].said for key, numbers in said.items()} == {
        ("0x35", "0"): (),
        ("0x21", "0"): ("data not valid", "provider stopped"),
        ("0x35", "1"): ("transfer status 1",),
    }


def test_the_time_of_a_sample_is_what_wireshark_reads_unless_its_clock_is_not_to_be_trusted() -> None:
    read = [
        (row["sv.refrTm"], numbers[0].sampled)
        for frame, row in zip(frames("stated"), told("stated"), strict=True)
        if row["sv.smpCnt"] and (numbers := kinds()["sv"].numbers(frame))
    ]
    usable = [(text, sampled) for text, sampled in read if sampled]
    assert [sampled.ns for _, sampled in usable] == [instant_ns(text) for text, _ in usable]
    # Four frames of each quality: with 20, 24, 0, unspecified and 10 bits; the clock failed, is not synchronised, both.
    assert [sampled and sampled.accuracy_bits for _, sampled in read[::4]] == [20, 24, 0, None, 10, None, None, None]
    assert [sampled is not None for _, sampled in read] == [True] * 20 + [False] * 12


def instant_ns(text: str) -> int:
    """What tshark prints, as "Nov 22, 2025 16:46:40.000249981 UTC"."""
    whole, fraction = text.removesuffix(" UTC").split(".")
    seconds = datetime.strptime(whole, "%b %d, %Y %H:%M:%S").replace(tzinfo=UTC).timestamp()
    return int(seconds) * 1_000_000_000 + int(fraction)


@pytest.mark.parametrize(("capture", "kind"), [(file, kind) for file, kinds in FILES.items() for kind in kinds])
def test_of_a_frame_that_was_cut_no_other_number_is_read(capture: str, kind: str) -> None:
    numbering = kinds()[kind]
    for frame in frames(capture):
        whole = numbering.numbers(frame)
        for length in range(len(frame.body)):
            cut = frame_of(_rebuilt(frame, length), 2000, ethernet=True)
            numbers = cut and numbering.numbers(cut)
            values = [one.value for one in numbers or ()]
            assert not numbers or (whole is not None and values == [one.value for one in whole])


def _rebuilt(frame: Frame, length: int) -> bytes:
    """The frame without its tags, with so many bytes of its body."""
    return bytes(12) + struct.pack(">H", frame.ether_type) + frame.body[:length]
