"""One configuration of one run with its repetitions, as the result document has them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb

from latlab.analysis.repetitions import Pooled, pooled
from latlab.model.part import VERDICTS, Keys, Verdict
from latlab.result.types import Cell, Interval, Metric, Result

Figure = int | float


@dataclass(frozen=True)
class Configuration:
    """One cell of the matrix, and what each of its repetitions measured.

    cell: matrix key → value. repetitions: {repeat: the result's cell} of those that ran to their end.
    left_out: {repeat: status} of the others: they are no measurements of the same length.
    """

    run: str
    slug: str
    cell: Keys
    repetitions: Mapping[int, Cell]
    left_out: Mapping[int, str]

    @property
    def labels(self) -> tuple[str, ...]:
        """`measured`, `functional only`, `virtual time`: one, unless the machine was another meanwhile."""
        return tuple(dict.fromkeys(str(one.label) for one in self.repetitions.values()))

    @property
    def verdict(self) -> Verdict:
        """The worst of the repetitions' verdicts."""
        return max((one.verdict for one in self.repetitions.values()), key=VERDICTS.index, default=VERDICTS[-1])

    @property
    def streams(self) -> tuple[str, ...]:
        """Every stream that a repetition has."""
        return tuple(dict.fromkeys(name for one in self.repetitions.values() for name in one.streams))

    def probed(self, stream: str) -> tuple[bool, bool]:
        """Whether it is a probe's, and whether one host has both ends, as of a timer."""
        found = next(one.streams[stream] for one in self.repetitions.values() if stream in one.streams)
        return found.probe is not None, found.talker == found.listener

    def figures(self, stream: str, metric: str, statistic: str) -> dict[int, Figure]:
        """{repeat: the statistic} of the repetitions that have it."""
        found = {repeat: getattr(one, statistic) for repeat, one in self._metrics(stream, metric).items()}
        return {repeat: value for repeat, value in found.items() if value is not None}

    def ends(self, stream: str, metric: str) -> tuple[tuple[str, str], ...]:
        """The (from, to) timestamps that the metric was computed from: one pair, unless repetitions differ."""
        return tuple(dict.fromkeys((one.from_, one.to) for one in self._metrics(stream, metric).values()))

    def early_ns(self, stream: str, metric: str) -> frozenset[int]:
        """How long before the launch times that the metric counts from etf sent; 0 where a card or nothing launched."""
        found = self._metrics(stream, metric)
        return frozenset(
            self.repetitions[repeat].streams[stream].early_ns or 0
            for repeat, one in found.items()
            if one.from_ == "launch"
        )

    def clocks_ns(self, stream: str, metric: str, repeats: Iterable[int]) -> int | None:
        """By how much clocks may make the metric wrong in any of these repetitions, ± ns; None if nothing bounds it."""
        found = self._metrics(stream, metric)
        bounds = [found[repeat].uncertainty_ns for repeat in repeats]
        known = [bound for bound in bounds if bound is not None]
        return max(known) if len(known) == len(bounds) else None

    def counts(self, stream: str) -> dict[int, Mapping[str, int | None]]:
        """{repeat: what was counted of the stream's packets} of the repetitions that have it."""
        found = {repeat: one.streams.get(stream) for repeat, one in self.repetitions.items()}
        return {repeat: block.counts for repeat, block in found.items() if block and block.counts}

    def together(self, stream: str, metric: str) -> Pooled | None:
        """All packets of its repetitions as one sample; None where they were not kept so that they can be merged."""
        return pooled(list(self._metrics(stream, metric).values()))

    def interval(self, repeat: int, stream: str, metric: str, statistic: str) -> tuple[float, float] | None:
        """The statistic's 95 % interval by this repetition's own packets, ns; None where they support none."""
        found = self._metrics(stream, metric).get(repeat)
        interval = getattr(found.confidence, statistic, None) if found else None
        # The maximum has none.
        if not isinstance(interval, Interval) or interval.low is None or interval.high is None:
            return None
        return interval.low, interval.high

    def has_packets(self, stream: str, metric: str) -> bool:
        """Whether the metric is of single packets wherever it is there: what other programs summed up is not."""
        return not any(one.kept for one in self._metrics(stream, metric).values())

    def _metrics(self, stream: str, metric: str) -> dict[int, Metric]:
        """{repeat: the metric} of the repetitions that have it."""
        return {
            repeat: found
            for repeat, one in self.repetitions.items()
            if (found := one.figures(stream, metric)) is not None
        }


def configurations(result: Result) -> tuple[Configuration, ...]:
    """Every configuration of which at least one repetition ran to its end, in the result's order.

    Where repetitions were made alike, to see whether they are equal, one of them counts.
    """
    groups: dict[str, list[Cell]] = {}
    for cell in result.cells:
        if not result.repeats or cell.repeat == 1:
            groups.setdefault(cell.slug, []).append(cell)
    found = (_configuration(result.run, cells) for cells in groups.values())
    return tuple(one for one in found if one.repetitions)


def _configuration(run: str, cells: Sequence[Cell]) -> Configuration:
    ended = {cell.repeat: cell for cell in cells if cell.status == "ok" and cell.streams}
    others: dict[int, str] = {cell.repeat: cell.status for cell in cells if cell.repeat not in ended}
    return Configuration(run, cells[0].slug, cells[0].cell, dict(sorted(ended.items())), others)


def matched(
    first: Sequence[Configuration], other: Sequence[Configuration]
) -> tuple[list[tuple[Configuration, Configuration]], list[Configuration]]:
    """The configurations of two runs that have the same matrix values, and those that only one of them has."""
    pairs = [(a, b) for a in first for b in other if a.cell == b.cell]
    met = [id(one) for pair in pairs for one in pair]
    return pairs, [one for one in (*first, *other) if id(one) not in met]


def by_key(found: Sequence[Configuration], key: str) -> list[tuple[Configuration, Configuration]]:
    """Every two configurations of a run that differ in this matrix key alone: those that share the rest together."""
    return [pair for group in _sharing_the_rest(found, key) for pair in combinations(group, 2)]


def against_first(found: Sequence[Configuration], key: str) -> list[tuple[Configuration, Configuration]]:
    """Each configuration of a run with the first of those that differ from it in this matrix key alone."""
    return [(group[0], other) for group in _sharing_the_rest(found, key) for other in group[1:]]


def streams_of_both(a: Configuration, b: Configuration) -> list[tuple[str, str]]:
    """(a's, b's) names of the streams that are compared: those of the same name.

    The matrix of one run may choose one probe or stream in one cell and another one in the other, as a timer on the
    host and a timer in the guest. Then each has one stream that the other does not have: these two are compared,
    if both are of one kind.
    """
    same = [(name, name) for name in a.streams if name in b.streams]
    only_a, only_b = ([name for name in one.streams if name not in other.streams] for one, other in ((a, b), (b, a)))
    if a.run != b.run or len(only_a) != 1 or len(only_b) != 1 or a.probed(only_a[0]) != b.probed(only_b[0]):
        return same
    return [*same, (only_a[0], only_b[0])]


def _sharing_the_rest(found: Sequence[Configuration], key: str) -> Iterable[list[Configuration]]:
    """The configurations that have the key, in groups that differ in nothing else."""
    groups: dict[str, list[Configuration]] = {}
    for one in found:
        if key in one.cell:
            rest = {name: value for name, value in one.cell.items() if name != key}
            groups.setdefault(repr(rest), []).append(one)
    return groups.values()


# How many packets each side of a comparison lost: figures of latency are of those that arrived.
#
# A loss is counted and not estimated, and has no distribution that a test could assume: of two sides the second lost
# more where each of its repetitions lost a larger share than any of the first's. With n and m repetitions that comes
# about by chance once in C(n + m, n) times at most.


@dataclass(frozen=True)
class LossShares:
    """What one side lost of a stream: packets lost and sent over all repetitions, and the shares of each repetition."""

    lost: int
    sent: int
    shares: tuple[float, ...]

    @property
    def share(self) -> float:
        """Of all packets."""
        return self.lost / self.sent


@dataclass(frozen=True)
class PairLosses:
    """What the two sides of a pair lost of one stream."""

    stream: str
    a: LossShares
    b: LossShares

    @property
    def more(self) -> bool:
        """Whether each repetition of b lost a larger share than any of a."""
        return min(self.b.shares) > max(self.a.shares)

    @property
    def chance(self) -> float:
        """How probable `more` is at most where nothing differs: of all ways to deal the repetitions out, one has it."""
        return 1 / comb(len(self.a.shares) + len(self.b.shares), len(self.a.shares))


def losses(a: Configuration, b: Configuration, streams: Sequence[str] = ()) -> Iterator[PairLosses]:
    """Of each stream that both sent packets of and either lost some. streams: only these, where any is named."""
    for names in streams_of_both(a, b):
        if not streams or any(name in streams for name in names):
            both = [_lost(one.counts(name)) for one, name in zip((a, b), names, strict=True)]
            if both[0] and both[1] and (both[0].lost or both[1].lost):
                yield PairLosses(", ".join(dict.fromkeys(names)), both[0], both[1])


def _lost(counts: Mapping[int, Mapping[str, int | None]]) -> LossShares | None:
    found = (
        # It is not known whether unknown packets were lost.
        (lost, lost + (one["received"] or 0) if one.get("unknown") else sent)
        for one in counts.values()
        if (sent := one.get("sent")) and (lost := one.get("lost")) is not None
    )
    known = [(lost, sent) for lost, sent in found if sent]
    if not known:
        return None
    return LossShares(
        sum(lost for lost, _ in known), sum(sent for _, sent in known), tuple(lost / sent for lost, sent in known)
    )
