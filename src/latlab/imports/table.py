"""Every format that can be imported, and which one a file has."""

from __future__ import annotations

import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from latlab.errors import UsageError
from latlab.imports import (
    capture_pair,
    cyclictest,
    ddsperf,
    iotg,
    isochron,
    isochron_text,
    rtc_histogram,
    rtc_testbench,
    rtla,
    sockperf,
)
from latlab.imports.base import HEAD, Format

FORMATS: Final[tuple[Format, ...]] = (
    isochron.FORMAT,
    isochron_text.CSV,
    isochron_text.SUMMARY,
    cyclictest.TEXT,
    cyclictest.JSON,
    rtla.FORMAT,
    sockperf.FORMAT,
    ddsperf.FORMAT,
    rtc_testbench.FORMAT,
    rtc_histogram.FORMAT,
    iotg.TAPRIO,
    iotg.TXRX,
    capture_pair.FORMAT,
)

_BY_NAME: Final = {one.name: one for one in FORMATS}
_SURE_ENOUGH: Final = 0.5


def format_of(paths: Sequence[Path], name: str | None = None) -> Format:
    """The format called `name`, or else the one that all of the files have.

    UsageError: no such format; a file cannot be read, is empty or of no known format; files of several.
    """
    if name is not None and name not in _BY_NAME:
        raise UsageError(f"there is no format {name!r}", where="--as", remedy=f"one of {', '.join(_BY_NAME)}")
    heads = [_head(path) for path in paths]
    if name is not None:
        return _BY_NAME[name]
    found = {one.name: one for one in (_recognised(path, head) for path, head in zip(paths, heads, strict=True))}
    if len(found) > 1:
        raise UsageError(
            f"files of several formats: {', '.join(found)}",
            where=", ".join(map(str, paths)),
            remedy="import those of each format by themselves",
        )
    return next(iter(found.values()))


def _head(path: Path) -> bytes:
    """The file's first bytes. UsageError: there are none."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise UsageError(
                "cannot be read: it is a folder, a pipe or a device",
                where=str(path),
                remedy="name a file to import: what comes through a pipe has to be written to one",
            )
        with path.open("rb") as file:
            head = file.read(HEAD)
    except OSError as error:
        raise UsageError(
            f"cannot be read: {error.strerror}", where=str(path), remedy="name a file to import"
        ) from error
    if not head:
        raise UsageError(
            "empty: it has no byte", where=str(path), remedy="look whether the program ended with an error"
        )
    return head


def _recognised(path: Path, head: bytes) -> Format:
    """The format that is the likeliest. UsageError: none is likely."""
    likely, best = max(((one.recognises(head, path), one) for one in FORMATS), key=lambda scored: scored[0])
    if likely < _SURE_ENOUGH:
        known = ", ".join(one.name for one in FORMATS)
        raise UsageError(
            "of no format that is recognised",
            where=str(path),
            remedy=f"name its format with --as, if it is one of {known}; latlab import --list says what each is",
        )
    return best
