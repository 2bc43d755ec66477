"""Files as they come out of logs, editors and archives: read as the plain file, or refused by the cause."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
from collections.abc import Callable

import pytest

from latlab.model.errors import UsageError
from support.imports.files import Importing, named, text

LINES = text("cyclictest-summary-twice.txt").splitlines()[:3]
PLAIN = "\n".join(LINES) + "\n"


def each(before: str, after: str = "") -> str:
    return "".join(f"{before}{line}{after}\n" for line in LINES)


WRAPPED = {
    "gzip": gzip.compress(PLAIN.encode()),
    "xz": lzma.compress(PLAIN.encode()),
    "bzip2": bz2.compress(PLAIN.encode()),
    "a byte order mark": b"\xef\xbb\xbf" + PLAIN.encode(),
    "UTF-16 with its mark": PLAIN.encode("utf-16"),
    "UTF-16 big endian": b"\xfe\xff" + PLAIN.encode("utf-16-be"),
    "UTF-16 without a mark": PLAIN.encode("utf-16-le"),
    "UTF-16 in gzip": gzip.compress(PLAIN.encode("utf-16")),
    "UTF-32": PLAIN.encode("utf-32"),
    "CR": PLAIN.replace("\n", "\r").encode(),
    "CR LF": PLAIN.replace("\n", "\r\n").encode(),
    "the journal": each("Nov 14 10:12:30 node cyclictest[1500]: ").encode(),
    "BusyBox's syslogd": each("Nov 14 10:12:30 board user.notice cyclictest[812]: ").encode(),
    "OpenWrt's logread": each("Tue Nov 14 10:12:30 2023 user.notice cyclictest: ").encode(),
    "a service's output in the kernel's log": each("[   12.345678] cyclictest[812]: ").encode(),
    "dmesg -r": each("<30>[   12.345678] cyclictest[812]: ").encode(),
    "a swarm's log": each("rt_cyclictest.1.k3j9x2@node-1    | ").encode(),
    "LAVA": "".join("- " + json.dumps({"dt": "now", "lvl": "target", "msg": line}) + "\n" for line in LINES).encode(),
    "lzma": lzma.compress(PLAIN.encode(), format=lzma.FORMAT_ALONE),
    "the journal, short-iso": each("2023-11-14T10:12:03.000001+00:00 node cyclictest[1500]: ").encode(),
    "the journal as JSON": "".join(json.dumps({"_PID": "1500", "MESSAGE": line}) + "\n" for line in LINES).encode(),
    "ts": each("Nov 14 10:12:30 ").encode(),
    "ts -s %.s": each("1700000000.123456 ").encode(),
    "colours": each("\x1b[32m", "\x1b[0m").encode(),
    "syslog's header": each("<14>1 2023-11-14T10:12:03.000001+00:00 node cyclictest 1500 - - ").encode(),
    "a job's log": each("2023-11-14T10:12:03.000001Z 01O ").encode(),
    "dmesg -T": each("[Tue Nov 14 10:12:30 2023] ").encode(),
    "zeros that a crash left behind": PLAIN.encode() + bytes(4096),
    "a heading in another encoding": b"# Messung in \xb5s, Pr\xfcfstand 3\n" + PLAIN.encode(),
    "a fence of Markdown": f"As promised:\n```\n{PLAIN}```\n".encode(),
    "script": f'Script started [TERM="xterm"]\n$ cyclictest -q\n{PLAIN}\nScript done\n'.replace("\n", "\r\n").encode(),
    "a serial console": each("[    3.141592] ").encode(),
    "docker compose": each("rt-1  | ").encode(),
    "kubectl --prefix": each("[pod/latency-7d9f/cyclictest] ").encode(),
    "a container engine": "".join(json.dumps({"log": line + "\n", "time": "now"}) + "\n" for line in LINES).encode(),
    "kubernetes": each("2023-11-14T10:12:03.000000001Z stdout F ").encode(),
    "indentation": each("    ").encode(),
    "a quoted mail": each("> ").encode(),
    "grep -n": "".join(f"{n}:{line}\n" for n, line in enumerate(LINES, 1)).encode(),
    "cat -n": "".join(f"{n:6}\t{line}\n" for n, line in enumerate(LINES, 1)).encode(),
    "ansible": ('ok: [node] => {\n    "out.stdout_lines": [\n' + each('        "', '",') + "    ]\n}\n").encode(),
    "ansible's stdout": f'ok: [node] => {{\n    "out.stdout": {json.dumps(PLAIN)}\n}}\n'.encode(),
    "YAML": ("out:\n" + each("  - '", "'")).encode(),
    "the journal in a quoted mail": each("> Nov 14 10:12:30 node cyclictest[1500]: ").encode(),
}  # fmt: skip


@pytest.mark.parametrize("name", WRAPPED)
def test_it_is_read_as_the_plain_file(importing: Importing, name: str) -> None:
    found = importing(WRAPPED[name])
    assert found.outcome.format.name == "cyclictest"
    assert [found.figures(f"thread-{number}", "wakeup")["max"] for number in (0, 1)] == [21_000, 19_000]


OTHERS = (
    "rtla-timerlat.txt", "rtla-osnoise-top.txt", "sockperf-ping-pong.csv", "ddsperf-ping.txt", "rtc-testbench.log",
    "rtc-histogram.txt", "isochron-summary.txt", "sample-app-taprio.log", "txrx-tsn.txt",
)  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize(
    "wrap",
    [
        lambda line: f"Nov 14 10:12:30 node run.sh[1500]: {line.rstrip()}",
        lambda line: f"  {line}",
        lambda line: f"{json.dumps({'log': line})}",
    ],
    ids=["journal", "indented", "JSON"],
)
def test_other_formats_are_too(importing: Importing, name: str, wrap: Callable[[str], str]) -> None:
    plain = importing(name)
    found = importing("\n".join(map(wrap, text(name).splitlines())).encode())
    assert found.outcome.format == plain.outcome.format
    assert found.streams.keys() == plain.streams.keys()
    for stream, block in plain.streams.items():
        for metric, figures in block["metrics"].items():
            assert found.figures(stream, metric)["max"] == figures["max"]


def test_what_was_taken_off_is_said(importing: Importing) -> None:
    (note,) = [note for note in importing(WRAPPED["the journal"]).found.notes if "removed from its lines" in note]
    assert "time, host and process" in note
    assert "cyclictest[1500]" in note
    assert "the file was compressed (gzip)" in importing(WRAPPED["gzip"]).found.notes


def test_a_table_that_a_spreadsheet_saved(importing: Importing) -> None:
    rows = "".join(f"{q},{10**18 + q * 1000},{10**18 + q * 1000 + 500 + q}\r\n" for q in range(1, 9))
    found = importing(b"\xef\xbb\xbf" + ("q,T,R\r\n" + rows).encode())
    assert (found.outcome.format.name, found.figures("packets", "path")["max"]) == ("isochron-csv", 508)


@pytest.mark.parametrize("separator", [" ", "\t", ";", " , "])
def test_columns_may_be_separated_by_what_the_user_chose(importing: Importing, separator: str) -> None:
    rows = "".join(f"{separator.join(map(str, (q, q * 1000, q * 1000 + 500)))}\n" for q in range(1, 9))
    assert importing(rows.encode(), columns="qTR").figures("packets", "path")["n"] == 8


def test_a_table_without_a_heading_in_a_log(importing: Importing) -> None:
    rows = "".join(f"Nov 14 10:12:30 node run[15]: {q} {10**18 + q} {10**18 + q + 500}\n" for q in range(1, 9))
    assert importing(rows.encode(), columns="qTR").figures("packets", "path")["n"] == 8
    with pytest.raises(UsageError, match="its columns have no names"):
        importing(rows.encode())


def test_numbers_that_a_spreadsheet_shortened_are_refused_by_the_cause(importing: Importing) -> None:
    rows = "".join(f"{q},1.7E+18,1.7E+18\n" for q in range(1, 9))
    with pytest.raises(UsageError, match="a spreadsheet removed their last digits"):
        importing(rows.encode(), columns="qTR")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (each("<li>").encode(), "its lines are cyclictest's with other text added"),
        (b"\x28\xb5\x2f\xfd" + bytes(40), r"packed \(zstd\)"),
        (b"PK\x03\x04" + bytes(40), r"packed \(zip\)"),
        (gzip.compress(PLAIN.encode() * 50, mtime=0)[:40], "its gzip cannot be decompressed"),
    ],
    ids=["markup", "zstd", "zip", "a gzip that is cut"],
)
def test_what_is_not_read_is_refused_by_the_cause(importing: Importing, data: bytes, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        importing(data)


def test_binary_files_may_be_compressed(importing: Importing) -> None:
    found = importing(*(gzip.compress(named(name).read_bytes()) for name in ("first.pcap", "second.pcap")))
    assert found.figures("flow-1", "transit")["n"] == 46
