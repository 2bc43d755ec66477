"""Streams of sampled values and GOOSE: they are measured like others, and others read them as what they are."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.agent.bed import Bed
from support.agent.streams import MS, Stream, measure
from support.agent.watch import cell_of, transit, watching

pytestmark = pytest.mark.real

SV = Stream(1, period_ns=208_333, count=4900, size=64, vlan=10, pcp=4, payload="iec61850-sv", ethertype=0x88BA)
# A second's frames, and some more.
SLOWER, FASTER = replace(SV, period_ns=250_000, count=4100), replace(SV, period_ns=69_444, count=14500)
GOOSE = Stream(2, period_ns=20 * MS, count=40, size=200, raw=True, payload="iec61850-goose", ethertype=0x88B8)


def captured(frames: list[bytes], file: Path) -> Path:
    """A capture file of Ethernet frames."""
    with file.open("wb") as out:
        out.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        for number, frame in enumerate(frames):
            out.write(struct.pack("<IIII", number, 0, len(frame), len(frame)) + frame)
    return file


def dissected(frames: list[bytes], file: Path, protocol: str) -> list[dict[str, Any]]:
    """What tshark reads of this protocol in each frame."""
    command = ("tshark", "-n", "-r", str(captured(frames, file)), "-T", "json", "-J", f"{protocol} _ws.malformed")
    read = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    layers = [one["_source"]["layers"] for one in read]
    assert not [one for one in layers if "_ws.malformed" in one]
    return [dict(one[protocol]) for one in layers]


def of(found: Any, name: str) -> list[Any]:
    """Every value of this name, however deep."""
    if isinstance(found, list):
        return [value for one in found for value in of(one, name)]
    if not isinstance(found, dict):
        return []
    return [value for key, one in found.items() for value in ([one] if key == name else of(one, name))]


@pytest.mark.parametrize("stream", [SV, GOOSE], ids=["sv", "goose"])
def test_a_stream_of_iec_61850_is_measured_like_any_other(bed: Bed, tmp_path: Path, stream: Stream) -> None:
    key = "payload" if stream is GOOSE else "auto"
    measured = measure(
        bed,
        tmp_path,
        stream,
        talk={"stamps": {"sched": True, "software": True, "hardware": False, "key": key, "by": "auto"}},
        listen={"stamps_by": "auto"},
    )
    assert (measured.talked["streams"][0]["sent"], measured.packets.height) == (stream.count, stream.count)
    assert measured.packets["sequence"].to_list() == list(range(stream.count))
    assert measured.packets["tx_soft_tai_ns"].null_count() == 0
    assert measured.packets["rx_user_tai_ns"].null_count() == 0
    assert {measured.listened[kind] for kind in ("foreign", "truncated", "other_run", "unknown_stream")} == {0}


@pytest.mark.skipif(not Path("/sys/kernel/btf/vmlinux").exists(), reason="this kernel has no BTF")
def test_programs_find_the_probe_in_frames_of_iec_61850_and_in_others_beside_them(bed: Bed, tmp_path: Path) -> None:
    bare = Stream(3, count=200, size=64, raw=True, vlan=10, pcp=4)
    measured = measure(
        bed,
        tmp_path,
        *(SV, GOOSE, bare),
        talk={"stamps": {"sched": True, "software": True, "hardware": False, "key": "payload", "by": "both"}},
        listen={"stamps_by": "both"},
    )
    talker, listener = (agent["ready"]["stamps_by"] for agent in measured.folder.cell().document()["agents"])
    assert (talker["tx_sched"], talker["tx_soft"], listener["rx_soft"]) == ("both", "both", "both")
    assert talker["missing"] == listener["missing"] == []
    for stamp in ("tx_sched", "tx_soft", "rx_soft"):
        assert measured.packets[f"{stamp}_tai_ns"].null_count() == 0
    # The socket found the same packets.
    count = SV.count + GOOSE.count + bare.count
    compared = [one for done in (measured.talked, measured.listened) for one in done["stages"]["compared"]]
    assert {one["stamp"]: one["n"] for one in compared} == dict.fromkeys(("tx_sched", "tx_soft", "rx_soft"), count)


@pytest.mark.skipif(not Path("/sys/kernel/btf/vmlinux").exists(), reason="this kernel has no BTF")
def test_of_more_layouts_than_two_the_socket_takes_the_timestamps(bed: Bed, tmp_path: Path) -> None:
    other = replace(GOOSE, number=3, size=100)
    stamps = {"sched": True, "software": True, "hardware": False, "key": "payload", "by": "auto"}
    measured = measure(bed, tmp_path, SV, GOOSE, other, talk={"stamps": stamps}, listen={"stamps_by": "auto"})
    why = "frames of IEC 61850 have the probe at more than two places"
    (talker, listener) = (agent["ready"]["stamps_by"] for agent in measured.folder.cell().document()["agents"])
    assert talker["missing"] == [f"no tx_sched, tx_soft by eBPF: {why}"]
    assert listener["missing"] == [f"no rx_soft by eBPF: {why}"]
    assert measured.packets["rx_soft_tai_ns"].null_count() == 0


@pytest.mark.skipif(not shutil.which("tshark"), reason="tshark is missing: apt-get install tshark")
def test_others_read_the_frames_as_what_they_are(bed: Bed, tmp_path: Path) -> None:
    few = Stream(1, count=30, size=64, raw=True, payload="iec61850-sv", ethertype=0x88BA)
    tap = bed.tap("ecu", "sensor")
    measure(bed, tmp_path, few, GOOSE)
    frames = [tap.recv(2048) for _ in range(few.count + GOOSE.count)]
    samples = dissected([one for one in frames if one[12:14] == b"\x88\xba"], tmp_path / "sv.pcap", "sv")
    assert [of(one, "sv.smpCnt") for one in samples] == [[str(number)] for number in range(few.count)]
    assert {tuple(of(one, "sv.svID") + of(one, "sv.smpSynch") + of(one, "sv.appid")) for one in samples} == {
        ("latlab0001", "0", "0x4000")
    }
    events = dissected([one for one in frames if one[12:14] == b"\x88\xb8"], tmp_path / "goose.pcap", "goose")
    assert [of(one, "goose.sqNum") for one in events] == [[str(number)] for number in range(GOOSE.count)]
    read = {
        tuple(value for name in ("gocbRef", "goID", "stNum", "timeAllowedtoLive") for value in of(one, f"goose.{name}"))
        for one in events
    }
    assert read == {("latlab0002LD/LLN0$GO$cb", "latlab0002", "1", "60")}


@pytest.mark.skipif(not shutil.which("tshark"), reason="tshark is missing: apt-get install tshark")
@pytest.mark.parametrize(
    "kind", [{"payload": "iec61850-sv", "ethertype": 0x88BA}, {"vlan": 10, "pcp": 4}], ids=["sv", "probe-in-a-vlan"]
)
def test_a_copy_of_a_prp_pair_ends_in_the_trailer_and_is_measured(
    bed: Bed, tmp_path: Path, kind: dict[str, Any]
) -> None:
    source = "02:00:00:4e:00:77"
    copy = Stream(2, count=300, size=64, raw=True, prp={"lan": "B", "carries": 1, "source": source}, **kind)
    tap = bed.tap("ecu", "sensor")
    stamps = {"sched": True, "software": True, "hardware": False, "key": "payload", "by": "auto"}
    measured = measure(bed, tmp_path, copy, talk={"stamps": stamps}, listen={"stamps_by": "auto"})
    why = "programs do not recognise which copy of a PRP pair a frame is"
    assert [agent["ready"]["stamps_by"]["missing"] for agent in measured.folder.cell().document()["agents"]] == [
        [f"no tx_sched, tx_soft by eBPF: {why}"],
        [f"no rx_soft by eBPF: {why}"],
    ]
    assert (measured.packets["stream"].unique().to_list(), measured.packets.height) == ([2], copy.count)
    assert measured.packets["rx_user_tai_ns"].null_count() == 0
    assert measured.packets["tx_soft_tai_ns"].null_count() == 0
    file = captured([tap.recv(2048) for _ in range(copy.count)], tmp_path / "copies.pcap")
    fields = ("prp.trailer.prp_lan", "prp.trailer.prp_sequence_nr", "prp.trailer.prp_size", "eth.src", "sv.svID")
    wanted = [word for field in fields for word in ("-e", field)]
    command = ("tshark", "-n", "-o", "prp.enable:TRUE", "-r", str(file), "-T", "fields", *wanted)
    rows = subprocess.run(command, capture_output=True, check=True, text=True).stdout.splitlines()
    size, name = (114, "latlab0001") if copy.payload else (70, "")
    assert rows == [f"11\t{number}\t{size}\t{source}\t{name}" for number in range(copy.count)]


@pytest.mark.skipif(not Path("/sys/kernel/btf/vmlinux").exists(), reason="this kernel has no BTF")
@pytest.mark.parametrize(("samples", "rate"), [(SV, 4800), (SLOWER, 4000), (FASTER, 14400)])
def test_watch_recognises_each_frame_in_its_vlan_and_counts_by_the_numbers_of_samples(
    bed: Bed, tmp_path: Path, samples: Stream, rate: int
) -> None:
    def act() -> None:
        measure(bed, tmp_path / "streams", samples, GOOSE)

    flow = "(ether proto sv and vlan 10 and pcp 4) or (goose and not vlan)"
    folder = watching(tmp_path, act, ("ns:sensor/ecu:out", "ns:ecu/sensor:in"), flow=flow)
    cell = cell_of(folder)
    name = "ns-sensor-ecu-out-to-ns-ecu-sensor-in"
    for number, stream in enumerate((samples, GOOSE), start=1):
        figures = transit(cell, f"{name}.flow-{number}")
        assert (figures["n"], figures["lost"]) == (stream.count, 0)
    said = [one for one in cell["imported"]["notes"] if one.startswith("at-ns-ecu-sensor-in")]
    assert said == [
        f"at-ns-ecu-sensor-in.flow-1: by the smpCnt of sampled values of 1 source, {rate} samples/s, "
        f"0 are missing here, 0 came again and 0 late; {samples.count} with: smpSynch 0",
        "at-ns-ecu-sensor-in.flow-2: by the stNum and sqNum of GOOSE of 1 source 0 are missing here, "
        "0 came again and 0 late",
    ]
    assert cell["verdict"] == "trusted"
