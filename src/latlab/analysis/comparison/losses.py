"""How many packets each side of a comparison lost: figures of latency are of those that arrived.

A loss is counted and not estimated, and has no distribution that a test could assume: of two sides the second lost more
where each of its repetitions lost a larger share than any of the first's. With n and m repetitions that comes about by
chance once in C(n + m, n) times at most.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from latlab.analysis.comparison.configuration import Configuration, streams_of_both


@dataclass(frozen=True)
class Lost:
    """What one side lost of a stream: packets lost and sent over all repetitions, and the shares of each repetition."""

    lost: int
    sent: int
    shares: tuple[float, ...]

    @property
    def share(self) -> float:
        """Of all packets."""
        return self.lost / self.sent


@dataclass(frozen=True)
class Losses:
    """What the two sides of a pair lost of one stream."""

    stream: str
    a: Lost
    b: Lost

    @property
    def more(self) -> bool:
        """Whether each repetition of b lost a larger share than any of a."""
        return min(self.b.shares) > max(self.a.shares)


def losses(a: Configuration, b: Configuration, streams: Sequence[str] = ()) -> Iterator[Losses]:
    """Of each stream that both sent packets of and either lost some. streams: only these, where any is named."""
    for names in streams_of_both(a, b):
        if not streams or any(name in streams for name in names):
            both = [_lost(one.counts(name)) for one, name in zip((a, b), names, strict=True)]
            if both[0] and both[1] and (both[0].lost or both[1].lost):
                yield Losses(", ".join(dict.fromkeys(names)), both[0], both[1])


def _lost(counts: Mapping[int, Mapping[str, int | None]]) -> Lost | None:
    found = (
        # It is not known whether unknown packets were lost.
        (lost, lost + (one["received"] or 0) if one.get("unknown") else sent)
        for one in counts.values()
        if (sent := one.get("sent")) and (lost := one.get("lost")) is not None
    )
    known = [(lost, sent) for lost, sent in found if sent]
    if not known:
        return None
    return Lost(
        sum(lost for lost, _ in known), sum(sent for _, sent in known), tuple(lost / sent for lost, sent in known)
    )
