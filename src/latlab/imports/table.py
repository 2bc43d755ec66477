"""Every format that can be imported, and which one a file has."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from latlab.imports import capture_pair, cyclictest, ddsperf, iotg, isochron, rtc_testbench, rtla, sockperf
from latlab.imports.base import HEAD, Format
from latlab.imports.wrapping import Source, unwrapped, without
from latlab.model.errors import UsageError

FORMATS: Final[tuple[Format, ...]] = (
    isochron.FORMAT,
    isochron.CSV,
    isochron.SUMMARY,
    cyclictest.TEXT,
    cyclictest.JSON,
    rtla.FORMAT,
    sockperf.FORMAT,
    ddsperf.FORMAT,
    rtc_testbench.FORMAT,
    rtc_testbench.HISTOGRAM,
    iotg.TAPRIO,
    iotg.TXRX,
    capture_pair.FORMAT,
)

_BY_NAME: Final = {one.name: one for one in FORMATS}
_SURE_ENOUGH: Final = 0.5


def format_named(name: str) -> Format:
    """The format of that name. UsageError: there is none."""
    if name not in _BY_NAME:
        raise UsageError(f"there is no format {name!r}", where="--as", remedy=f"one of {', '.join(_BY_NAME)}")
    return _BY_NAME[name]


def recognised(sources: Sequence[Source], folder: Path, name: str | None = None) -> tuple[Format, list[Source]]:
    """The format of that name, or else the one that all of the files have; and the files without what stood around
    their lines, in copies in `folder`.

    UsageError: no such format; a file is of no known format; files of several.
    """
    formats = FORMATS if name is None else (format_named(name),)
    found: dict[str, Format] = {}
    plain = []
    for number, source in enumerate(sources):
        head = _head(source.path)
        one = _best(formats, head, source.path)
        if one is None and (wrappings := unwrapped(_whole_lines(head), _likely(formats, source.path))):
            source = without(source, wrappings, folder / str(number))
            one = _best(formats, _head(source.path), source.path)
        if one is None and name is None:
            raise _unknown(source.given, head)
        one = one or formats[0]
        found[one.name] = one
        plain.append(source)
    if len(found) > 1:
        raise UsageError(
            f"files of several formats: {', '.join(found)}",
            where=", ".join(str(source.given) for source in sources),
            remedy="import the files of each format separately",
        )
    return next(iter(found.values())), plain


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(HEAD)


def _whole_lines(head: bytes) -> str:
    """The text of the head, without a last line that may be cut."""
    text = head.decode("utf-8", "replace")
    return text.rpartition("\n")[0] if len(head) == HEAD else text


def _best(formats: Sequence[Format], head: bytes, path: Path) -> Format | None:
    """The format that is the likeliest; None: none is likely."""
    likely, best = max(((one.recognises(head, path), one) for one in formats), key=lambda scored: scored[0])
    return best if likely >= _SURE_ENOUGH else None


def _likely(formats: Sequence[Format], path: Path) -> Callable[[str], bool]:
    """Whether a text is of one of the formats that are texts."""
    texts = [one for one in formats if one.runs is not None]
    return lambda text: bool(texts) and _best(texts, text.encode(), path) is not None


def _unknown(path: Path, head: bytes) -> UsageError:
    """The error for a file of no format, which names the one whose lines it has with something before them."""
    lines = head.decode("utf-8", "replace").splitlines()
    for one in FORMATS:
        line = next((line for line in lines if one.mark and re.search(one.mark, line)), None)
        if line is not None:
            return UsageError(
                f"its lines are {one.name}'s with other text added, as in {line.strip()[:80]!r}",
                where=str(path),
                remedy=(
                    f"remove the other text from each line, so that only {one.name}'s output remains, and import it "
                    "again"
                ),
            )
    known = ", ".join(one.name for one in FORMATS)
    return UsageError(
        "of no recognised format",
        where=str(path),
        remedy=f"give its format with --as, if it is one of {known}; latlab import --list describes them",
    )
