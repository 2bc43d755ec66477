"""A comparison document as people read it: who is compared, the rows of its tables, and what is said next to them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from latlab.analysis.comparison.effect import ALPHA
from latlab.analysis.comparison.words import at, at_least, signed, unsigned
from latlab.model.statistics import HEADINGS, PERCENTILES
from latlab.report.document import Table, Toned
from latlab.report.rows import difference
from latlab.report.text import microseconds
from latlab.result.comparison import Compared, Comparison, ComparisonDocument, Differing, Regression

_ONE_DIGIT: Final = 10_000
"""± ns with which a difference has one digit: those whose ± is unknown have it."""
_LONG: Final = 60
"""Characters of a value beyond which only its words that differ are listed."""


@dataclass(frozen=True)
class Block:
    """One stream's metric of two configurations: a separate table."""

    where: str
    title: str
    a: str
    b: str
    entries: tuple[Compared, ...]

    @property
    def headings(self) -> tuple[str, ...]:
        """Of the columns that `rows` gives."""
        return ("µs", self.a, self.b, "difference", "± 95 %", "shown from", "p, adjusted")

    @property
    def rows(self) -> Iterator[tuple[str, ...]]:
        """A row for each statistic that either side has."""
        for one in self.entries:
            if not one.is_blank:
                yield figures(one)

    @property
    def table(self) -> Table:
        """The rows with their title; what is shown stands out."""
        shown = [one.shown for one in self.entries if not one.is_blank]
        texts = [
            [Toned(text, "strong") for text in row] if one else row for one, row in zip(shown, self.rows, strict=True)
        ]
        title = " · ".join(filter(None, (self.where, self.title)))
        return Table(self.headings, texts, range(1, len(self.headings)), title, remarks=list(self.lines))

    @property
    def lines(self) -> Iterator[str]:
        """What is shown, what would be if tested alone, what cannot be judged: a sentence each; one for the rest, and
        one for those that cannot be judged for the same reason: the table has their differences.
        """
        quiet = []
        unjudged: dict[str, list[str]] = {}
        for one in self.entries:
            if one.is_blank:
                continue
            if one.why_not and one.within_ns is None and one.told.endswith(f"; {one.why_not}"):
                unjudged.setdefault(one.why_not, []).append(at(one.statistic))
                continue
            is_told = one.p_adjusted is None or one.shown or one.low_ns == one.high_ns
            if is_told or one.p is None or one.half_ns is None or one.p <= ALPHA:
                yield one.told
            else:
                quiet.append(f"{at(one.statistic)} (± {at_least(one.half_ns)} µs)")
        if quiet:
            yield f"no difference shown at 95 %: {_listed(quiet)}"
        for why, where in unjudged.items():
            yield f"nothing shown {_listed(where)}: {why}"


def overview(found: Sequence[Block]) -> Table:
    """The differences of these blocks, all of one metric, with their ±: a row each, a column for each statistic.

    What is the same in all rows stands in the title.
    """
    entries = [block.entries[0] for block in found]
    columns = {
        "": [one.cell for one in entries],
        "second − first": [f"{block.b} − {block.a}" for block in found],
        "stream": [one.stream for one in entries],
        "verdict": [_verdicts(one) for one in entries],
    }
    apart = {heading: texts for heading, texts in columns.items() if len(set(texts)) > 1}
    of_all = [texts[0] for heading, texts in columns.items() if heading not in apart]
    statistics = list(dict.fromkeys(one.statistic for block in found for one in block.entries))
    differences = [{one.statistic: _difference(one) for one in block.entries} for block in found]
    rows = [
        [*(texts[number] for texts in apart.values()), *(of_it.get(name, "") for name in statistics)]
        for number, of_it in enumerate(differences)
    ]
    marks = any(one.shown for block in found for one in block.entries)
    title = " · ".join(filter(None, (_formula(entries[0]) + ", µs", *of_all)))
    legend = ["difference ± 95 %; * shown among all these comparisons"] if marks else []
    headings = (*apart, *(HEADINGS[name] for name in statistics))
    return Table(headings, rows, range(len(apart), len(headings)), title, remarks=legend).filled()


def _difference(one: Compared) -> str | Toned:
    """ "−8.1 ± 2.0 *", the mark where it is shown; without ± where there is none."""
    _, _, _, difference, half, _, _ = figures(one)
    text = f"{difference} ± {half}" if half else difference
    return Toned(f"{text} *", "strong") if one.shown else f"{text}  " if text else ""


def figures(one: Compared) -> tuple[str, ...]:
    """One comparison's row: statistic, a, b, b − a, ±, what would be shown, adjusted p; blank where there is none."""
    half = one.half_ns
    worth = _ONE_DIGIT if half is None else half
    return (
        HEADINGS[one.statistic],
        *("" if side is None else unsigned(side, worth) for side in (one.a_ns, one.b_ns)),
        "" if one.difference_ns is None else signed(one.difference_ns, worth),
        "" if one.p_adjusted is None or half is None else at_least(half),
        "" if one.smallest_ns is None else at_least(one.smallest_ns),
        probability(one.p_adjusted),
    )


def blocks(comparisons: Sequence[Compared]) -> list[Block]:
    """The comparisons, those of the same two configurations, stream and metric together."""
    groups: dict[tuple[str, ...], list[Compared]] = {}
    for one in comparisons:
        pair = (one.a.run, one.a.slug, one.b.run, one.b.slug)
        groups.setdefault((*pair, one.stream, one.metric), []).append(one)
    return [_block(entries) for entries in groups.values()]


def legend(document: ComparisonDocument) -> list[str]:
    """Who is compared: a line for each run, or cell of one, with its label and verdict."""
    sides = document.sides
    named = len(sides) > 1 and len({side.run for side in sides}) > 1
    return [
        (f"{side.name}: " if named else "")
        + f"{side.scenario} ({side.run})"
        + (f", {side.cell}" if side.cell and named else "")
        + f" · {side.label} · {side.verdict}"
        for side in (sides if named else sides[:1])
    ]


def summary(document: Comparison | ComparisonDocument) -> str:
    """How many differences are shown, of how many comparisons, and how they were corrected."""
    found = [one for one in document.comparisons if one.p_adjusted is not None]
    if not found:
        return "Nothing can be shown: no comparison has two repetitions on both sides"
    shown = sum(one.shown for one in found)
    one, family, main = len(found) == 1, document.family, document.main
    what = f"The one comparison shows {'a' if shown else 'no'} difference"
    what = what if one else f"{shown} of {len(found)} comparisons show{'s' if shown == 1 else ''} a difference"
    if family == 1:
        return what
    level = f"{100 * document.alpha:.0f} %"
    if main:
        of_main = f"the {main.comparisons} of {main.metric} {at(main.statistic)}"
        return f"{what} (Holm: {level} for {of_main}, and {level} for the {family} others)"
    # Earlier versions judged each statistic of a run's own cells alone.
    among = f"all {family} of all metrics" if family > len(found) else f"the {family} of one statistic"
    together = "all" if family == len(found) else among
    return f"{what} (Holm: {level} for {together} together)"


def powerless(document: ComparisonDocument) -> str:
    """How many thresholds could not have been seen exceeded, in words; empty without any."""
    against = [one.regression for one in document.comparisons if one.regression]
    judged = [one for one in against if one.threshold_ns]
    count = sum(one.coarse for one in judged)
    if not count:
        return ""
    which = "The one threshold" if len(judged) == 1 else f"{count} of {len(judged)} thresholds"
    return f"{which} cannot be checked: too few repetitions to detect such a change (--need-power exits with 4 then)"


def remarks(document: ComparisonDocument, most: int | None = None) -> list[tuple[str, list[str]]]:
    """(heading, lines) of other notes. most: how many lines of one kind are listed, if not all."""
    streams = [one.text for one in document.differs if one.kind == "stream"]
    against = [(one, one.regression) for one in document.comparisons if one.regression]
    listed = (
        (
            "Regressions:",
            [f"{_place(one)}: {one.told}" for one, found in against if found.outcome == "regression"],
        ),
        ("Too coarse for the threshold:", [_coarse(one, found) for one, found in against if found.coarse]),
        (
            "Lost packets (the figures are of those that arrived):",
            [one.sentence for one in document.losses],
        ),
        ("Failed or not run:", document.lost),
        ("Left out:", document.left_out),
        ("Not compared:", [*document.unmatched, *_blank(document)]),
        ("Measured differently:", streams),
        ("Other differences:", list(_circumstances(document))),
        ("Notes:", document.notes),
    )
    return [(heading, _few(lines, most)) for heading, lines in listed if lines]


def together(document: ComparisonDocument) -> Table:
    """A row for each side of a pair: all its repetitions pooled, in µs."""
    names = [name for name in PERCENTILES if any(getattr(one, name) for one in document.together)]
    rows = [
        (
            *(one.slug, f"{one.stream} {one.metric}", one.name, str(one.repeats), str(one.n), microseconds(one.min)),
            *(" … ".join(dict.fromkeys(map(microseconds, getattr(one, name) or ()))) for name in names),
            microseconds(one.max),
        )
        for one in document.together
    ]
    headings = ("cell", "stream, metric", "", "repetitions", "n", "min", *(HEADINGS[name] for name in names), "max")
    title = "All repetitions together, µs; a percentile lies between the two figures"
    return Table(headings, rows, range(3, len(headings)), title)


def _block(entries: Sequence[Compared]) -> Block:
    one = entries[0]
    title = f"{one.stream}: {_formula(one)} · {one.label} · {_verdicts(one)}"
    return Block(one.cell, title, one.a.name, one.b.name, tuple(entries))


def _circumstances(document: ComparisonDocument) -> Iterator[str]:
    """What else differs, a line each. A fact that several hosts have alike, such as the kernel of namespaces, is one.

    Of long values, such as kernels' command lines, only the words that differ.
    """
    found: dict[tuple[str, tuple[str, ...]], list[Differing]] = {}
    for one in document.differs:
        if one.kind != "stream":
            what = one.what.partition(".")[2] if one.kind == "fact" else one.what
            found.setdefault((what, tuple(one.values.values())), []).append(one)
    for (what, values), ones in found.items():
        hosts = ",".join(one.what.partition(".")[0] for one in ones)
        common = (
            set[str].intersection(*(set(value.split()) for value in values)) if max(map(len, values)) > _LONG else ()
        )
        shortened = {
            name: " ".join(["…", *(word for word in value.split() if word not in common)]) if common else value
            for name, value in ones[0].values.items()
        }
        path = f"{{{hosts}}}.{what}" if len(ones) > 1 else ones[0].what
        yield ones[0].model_copy(update={"what": path, "values": shortened}).text


def _formula(one: Compared) -> str:
    return f"{one.metric} = {difference(one.to, one.from_)}"


def _verdicts(one: Compared) -> str:
    return " | ".join(dict.fromkeys((one.a.verdict, one.b.verdict)))


def _blank(document: ComparisonDocument) -> list[str]:
    """The figures that neither side has, a line each."""
    found = Counter(
        (f"{one.stream}: {one.metric} {HEADINGS[one.statistic]}", one.why_not)
        for one in document.comparisons
        if one.is_blank
    )
    return [f"{what}, of {count} pair{'s' if count > 1 else ''}: {why}" for (what, why), count in found.items()]


def _place(one: Compared) -> str:
    """Which comparison it is: "loads none, control latency"."""
    return ", ".join(filter(None, (one.cell, f"{one.stream} {one.metric}")))


def _coarse(one: Compared, regression: Regression) -> str:
    would = f"{at_least(one.smallest_ns or 0.0)} µs would have been shown, {regression.threshold} allowed"
    return f"{_place(one)} {HEADINGS[one.statistic]}: {would}"


def _few(lines: Sequence[str], most: int | None) -> list[str]:
    if most is None or len(lines) <= most:
        return list(lines)
    return [*lines[:most], f"and {len(lines) - most} more, with --json"]


def _listed(words: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def probability(p: float | None) -> str:
    """A p-value in three digits, more where fewer would put it on the other side of `ALPHA`; "" of none."""
    if p is None:
        return ""
    if p < 0.001:
        return "< 0.001"
    # What is above the line in all its digits is so as printed: no 0.050 beside "no difference shown".
    told = (f"{p:.{digits}f}" for digits in range(3, 6))
    return next((text for text in told if (float(text) <= ALPHA) == (p <= ALPHA)), f"> {ALPHA:g}")
