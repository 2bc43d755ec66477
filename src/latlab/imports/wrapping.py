"""What files are wrapped in: compression, encodings, what a log writes before each line, several runs in one file."""

from __future__ import annotations

import codecs
import gzip
import json
import lzma
import re
import stat
import textwrap
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from latlab.imports.base import COLOURS, HEAD, LINE_BYTES, Format, raw_lines, too_large
from latlab.model.errors import UsageError

try:
    import bz2
except ImportError:  # a Python that was compiled without libbz2
    bz2 = None  # type: ignore[assignment]

_MOST_BYTES: Final = 8 << 30
_DEPTH: Final = 3
"""So many wrappings inside each other are looked for: the journal's prefix, quoted in a ticket, and indented."""

_OPEN: Final[dict[bytes, tuple[str, Callable[[Path], Any]]]] = {
    b"\x1f\x8b": ("gzip", gzip.open),
    b"\xfd7zXZ\x00": ("xz", lzma.open),
    **({b"BZh": ("bzip2", bz2.open)} if bz2 else {}),
    # The format before xz has no magic: its first bytes are the usual properties, and the lowest byte of a power of 2.
    b"\x5d\x00\x00": ("lzma", lzma.open),
}
_PACKED: Final = {
    b"\x28\xb5\x2f\xfd": ("zstd", "unzstd"),
    b"\x04\x22\x4d\x18": ("lz4", "unlz4"),
    **({} if bz2 else {b"BZh": ("bzip2", "bunzip2")}),
    b"PK\x03\x04": ("zip", "unzip"),
    b"7z\xbc\xaf\x27\x1c": ("7-Zip", "7z x"),
    b"LPKSHHRH": ("systemd's journal", "journalctl --file"),
}
_ENCODED: Final = {
    codecs.BOM_UTF8: "utf-8-sig",
    # UTF-32's mark begins with that of UTF-16.
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}

_ISO: Final = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?: ?(?:Z|UTC|[+-]\d\d:?\d\d))?"
_MONTH: Final = r"(?:[A-Z][a-z]{2} )?[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d{1,9})?(?: \d{4})?"
_STAMP: Final = rf"\[?(?:{_ISO}|{_MONTH}|\d\d:\d\d:\d\d(?:[.,]\d{{1,9}})?|\d{{1,10}}\.\d{{3,9}})\]?"
_UPTIME: Final = r"(?:<\d{1,3}>)?\[ {0,8}\d{1,7}\.\d{3,9}(?: {1,8}\d{1,7}\.\d{3,9})?\]"
_TIME: Final = rf"(?:{_STAMP}|{_UPTIME})"
_FACILITY: Final = r"[a-z]+\d?\.(?:emerg|alert|crit|err|warn|notice|info|debug)"
"""As BusyBox's syslogd and OpenWrt's logd put it before the process."""


@dataclass(frozen=True)
class Source:
    """One file as its reader gets it.

    given: the file that was named. path: what is read, the same or a plain copy under its name. notes: what was taken
    off. run: which of the file's runs it is, from 1, where there are several; first_line: where that begins.
    """

    given: Path
    path: Path
    notes: tuple[str, ...] = ()
    run: int | None = None
    first_line: int = 1

    @property
    def name(self) -> str:
        """The file's name, with the run's number where it has several."""
        return self.given.name if self.run is None else f"{self.given.name}-run-{self.run}"

    def error(self, error: UsageError) -> UsageError:
        """The reader's error, about the file that was named."""
        if str(self.path) not in error.where:
            return error
        told = str(self.given) + ("" if self.run is None else f", run {self.run} (from line {self.first_line})")
        return UsageError(error.what, where=error.where.replace(str(self.path), told), remedy=error.remedy)


@dataclass(frozen=True)
class Wrapping:
    """What stands around a program's lines. what: with an example, for people. line: of one line what the program
    printed (several lines where it was quoted with their ends), None where it is not wrapped in this.
    """

    what: str
    line: Callable[[str], str | None]


def _prefix(what: str, pattern: str) -> Wrapping:
    compiled = re.compile(pattern)

    def line(text: str) -> str | None:
        return text[match.end() :] if (match := compiled.match(text)) else None

    return Wrapping(what, line)


def _quoted(text: str) -> str | None:
    """Out of a JSON string that is an item of a list, or a value, with or without a comma behind it."""
    match = re.match(r'^\s*(?:- )?(?:"[\w. ]{1,64}": )?("(?:[^"\\]|\\.)*"),?\s*$', text)
    try:
        return str(json.loads(match[1])) if match else None
    except ValueError:
        return None


def _listed(text: str) -> str | None:
    """Out of an item of a YAML list."""
    match = re.match(r"^\s*- (?:'((?:[^']|'')*)'|(\S.*))\s*$", text)
    return None if match is None else match[2] if match[1] is None else match[1].replace("''", "'")


def _json_log(text: str) -> str | None:
    """Out of an object a line, as container engines and `journalctl -o json` write them."""
    if not text.startswith("{"):
        return None
    try:
        entry: Any = json.loads(text)
    except (ValueError, RecursionError):
        return None
    said = next((entry[key] for key in ("log", "MESSAGE", "message", "msg") if key in entry), None)
    return said.rstrip("\n") if isinstance(said, str) else None


def _coloured(text: str) -> str | None:
    """Without the colours that a wrapper gave a line."""
    plain = COLOURS.sub("", text)
    return plain if plain != text else None


WRAPPINGS: Final = (
    Wrapping("colours", _coloured),
    _prefix("the log's header", rf"<\d{{1,3}}>1 {_ISO} \S{{1,128}} \S{{1,128}} \S{{1,128}} \S{{1,128}} (?:-|\[.*?\]) "),
    _prefix("the job log's time and stream", rf"{_ISO} \d\d[OE][ +]"),
    _prefix("the log's time, host and process", rf"{_TIME} \S{{1,128}} (?:{_FACILITY} )?[^\s:]{{1,128}}: ?"),
    _prefix("the container log's time and stream", rf"{_ISO} (?:stdout|stderr) [FP] "),
    _prefix("the log's time", rf"{_TIME}:? "),
    _prefix("the kernel log's time and process", rf"{_UPTIME} [^\s:\[]{{1,64}}\[\d{{1,10}}\]: "),
    _prefix("the container's name", r"[\w.-]{1,128}(?:@[\w.-]{1,128})? {1,32}\| ?"),
    _prefix("the pod's name", r"\[pod/[\w.-]{1,256}/[\w.-]{1,64}\] "),
    Wrapping("the log's JSON", _json_log),
    Wrapping("quotes", _quoted),
    Wrapping("the list's dash", _listed),
    _prefix("a quotation's mark", r"(?:> ?)+"),
    _prefix("the file's name", r"[\w./-]{1,256}\.(?:txt|log|out|csv)[:-](?:\d{1,9}[:-])?"),
    _prefix("the line's number", r" {0,9}\d{1,9}(?:[:-]|\t)"),
)


def plain_copy(path: Path, folder: Path) -> Source:
    """The file, or a copy in `folder` (made then) that is neither compressed nor in another encoding than UTF-8.

    UsageError: it cannot be decompressed here, or not at all.
    """
    head, notes, source = _head(path), [], path
    for magic, (name, command) in _PACKED.items():
        if head.startswith(magic):
            raise UsageError(f"packed ({name})", where=str(path), remedy=f"unpack it first: {command} {path.name}")
    for magic, (name, opened) in _OPEN.items():
        if head.startswith(magic):
            name_inside = path.name.removesuffix(path.suffix) if path.suffix in _SUFFIXES else path.name
            source = _decompress(path, name, opened, _made(folder) / name_inside)
            notes.append(f"the file was compressed ({name})")
            head = _head(source, path)
            break
    encoding = next((name for magic, name in _ENCODED.items() if head.startswith(magic)), _without_mark(head))
    if encoding is not None:
        source = _decode(source, encoding, _made(folder / "utf-8") / source.name)
        if encoding != "utf-8-sig":
            notes.append(f"the file was {encoding[:6].upper()}")
        head = _head(source, path)
    if b"\r" in head and b"\n" not in head and b"\0" not in head:
        copy = _made(folder / "lf") / source.name
        with source.open("rb") as file, copy.open("wb") as plain:
            while piece := file.read(1 << 20):
                plain.write(piece.replace(b"\r", b"\n"))
        source = copy
        notes.append("its lines ended in CR")
    return Source(path, source, tuple(notes))


_SUFFIXES: Final = (".gz", ".xz", ".bz2", ".lzma")


def _head(path: Path, given: Path | None = None) -> bytes:
    """The file's first bytes. given: the file that was named, if that is another. UsageError: there are none."""
    where = str(given or path)
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise UsageError(
                "cannot be read: it is a folder, a pipe or a device",
                where=where,
                remedy="name a file to import: write the output of a pipe to a file first",
            )
        with path.open("rb") as file:
            head = file.read(HEAD)
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", where=where, remedy="name a file to import") from error
    if not head:
        raise UsageError("empty", where=where, remedy="check whether the program ended with an error")
    return head


def _without_mark(head: bytes) -> str | None:
    """UTF-16 without its mark: of plain text every second byte is 0."""
    for place, name in ((1, "utf-16-le"), (0, "utf-16-be")):
        zeros, others = head[place::2], head[1 - place :: 2]
        if len(head) >= 32 and zeros.count(0) >= 0.95 * len(zeros) and others.count(0) == 0:
            return name
    return None


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _decompress(path: Path, name: str, opened: Callable[[Path], Any], copy: Path) -> Path:
    done = 0
    try:
        with opened(path) as packed, copy.open("wb") as plain:
            while piece := packed.read(1 << 20):
                done += len(piece)
                if done > _MOST_BYTES:
                    raise UsageError(
                        f"{name} of more than {_MOST_BYTES >> 30} GiB", where=str(path), remedy="decompress it first"
                    )
                plain.write(piece)
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        raise UsageError(
            f"its {name} cannot be decompressed: {error}", where=str(path), remedy="copy the complete file again"
        ) from error
    return copy


def _decode(path: Path, encoding: str, copy: Path) -> Path:
    with (
        path.open(encoding=encoding, errors="replace", newline="") as text,
        copy.open("w", encoding="utf-8", newline="") as plain,
    ):
        while piece := text.read(1 << 20):
            plain.write(piece.replace("\ufeff", ""))
    return copy


def stripped(lines: Sequence[str], wrapping: Wrapping) -> list[str] | None:
    """The lines without the wrapping, others as they are; None where fewer than a third of those with text are in it.

    A third, as the brackets around a list of quoted lines are lines, too.

    What was quoted with line ends becomes several lines.
    """
    found = [wrapping.line(line) for line in lines]
    if 3 * sum(one is not None for one in found) < max(1, sum(bool(line.strip()) for line in lines)):
        return None
    whole: list[str] = []
    for line, inside in zip(lines, found, strict=True):
        whole += [line] if inside is None else inside.split("\n")
    return whole


def unwrapped(head: str, likely: Callable[[str], bool]) -> tuple[Wrapping, ...] | None:
    """The wrappings, outermost first, without which `likely` holds of the text; none if it holds as it is; None: none.

    head: the text's beginning.
    """
    if likely(head):
        return ()
    return next(_without(head.splitlines(), likely, _DEPTH), None)


def _without(lines: list[str], likely: Callable[[str], bool], depth: int) -> Iterator[tuple[Wrapping, ...]]:
    inner = [(one, text) for one in (*WRAPPINGS, INDENTED) if (text := _taken_off(lines, one)) is not None]
    yield from ((one,) for one, text in inner if likely("\n".join(text)))
    if depth > 1:
        for one, text in inner:
            yield from ((one, *more) for more in _without(text, likely, depth - 1))


INDENTED: Final = Wrapping("indentation", lambda line: None)
"""All lines begin with the same blanks: a matter of all of them together."""


def _taken_off(lines: list[str], wrapping: Wrapping) -> list[str] | None:
    if wrapping is not INDENTED:
        return stripped(lines, wrapping)
    dedented = textwrap.dedent("\n".join(lines)).split("\n")
    return dedented if dedented != lines and any(line.strip() for line in lines) else None


def _lines(source: Source, longest: int) -> list[str]:
    """The lines of the file, each at most `longest` bytes. UsageError, about the file that was named: one is longer."""
    try:
        return list(raw_lines(source.path, longest))
    except UsageError as error:
        raise source.error(error) from None


def without(source: Source, wrappings: Sequence[Wrapping], folder: Path) -> Source:
    """The source with the wrappings taken off all of its lines, in a copy in `folder`."""
    lines = _lines(source, LINE_BYTES)
    example = next((line for line in lines if wrappings[0].line(line) is not None), lines[0])
    for wrapping in wrappings:
        lines = _taken_off(lines, wrapping) or lines
    copy = _made(folder) / source.path.name
    copy.write_text("\n".join(lines) + "\n", encoding="utf-8")
    what = " and ".join(one.what for one in wrappings)
    note = f"removed from its lines: {what}, for example {example[:80]!r}"
    return replace(source, path=copy, notes=(*source.notes, note))


def parts(source: Source, kind: Format, folder: Path) -> list[Source]:
    """A source for each run that the file holds, in copies in `folder`; the source itself where there is one run.

    UsageError: the file, or a line of it, is larger than any of its format.
    """
    if kind.runs is None:
        return [source]
    if kind.most_bytes is not None and source.path.stat().st_size > kind.most_bytes:
        raise too_large(source.given, kind.most_bytes)
    lines = _lines(source, kind.most_bytes or LINE_BYTES)
    found = kind.runs(lines)
    if len(found) < 2:
        return [source]
    several = []
    earlier: set[int] = set()
    for number, places in enumerate(found, start=1):
        # What all runs have is in each of them, and runs may have printed alternately.
        first = next((place for place in places if place not in earlier), places[0])
        earlier.update(places)
        copy = _made(folder / str(number)) / source.path.name
        copy.write_text("".join(f"{lines[place]}\n" for place in places), encoding="utf-8")
        note = f"run {number} of {len(found)} in the file, from its line {first + 1}"
        several.append(Source(source.given, copy, (note, *source.notes), number, first + 1))
    return several
