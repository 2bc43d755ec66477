"""What the sides of a comparison lost, as it stands in the comparison document (docs/explanation/comparing.md)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from latlab.analysis.comparison.compare import Pair
from latlab.analysis.comparison.losses import Losses, Lost, losses
from latlab.analysis.comparison.words import Names
from latlab.report.comparison.entry import names_of
from latlab.report.places import matrix_title
from latlab.result.comparison import ComparedLosses, SideLosses


def loss_entries(
    pairs: Sequence[Pair], streams: Sequence[str], sides: Mapping[str, str], *, judged: bool
) -> Iterator[ComparedLosses]:
    """An entry for each pair and stream of which either side lost packets.

    streams: only these, where any is named. sides: {run: the side's name}. judged: the first is a baseline, and to lose
    more than it is a regression.
    """
    for a, b in pairs:
        names = names_of(a, b, sides)
        shared = {key: value for key, value in a.cell.items() if b.cell.get(key) == value}
        for one in losses(a, b, streams):
            regression = judged and one.more
            cell = matrix_title(shared) if shared else ""
            where = ", ".join(filter(None, (cell, one.stream)))
            yield ComparedLosses(
                cell=cell,
                stream=one.stream,
                a=_side(names.a, one.a),
                b=_side(names.b, one.b),
                more=one.more,
                regression=regression,
                sentence=f"{where}: {_sentence(one, names)}{'; a regression' if regression else ''}",
            )


def _sentence(one: Losses, names: Names) -> str:
    more = f"; each repetition of {names.b} lost more than any of {names.a}" if one.more else ""
    return f"{names.b} lost {_share(one.b)}, {names.a} {_share(one.a)}{more}"


def _share(one: Lost) -> str:
    return f"{100 * one.share:.3g} % of its packets ({one.lost} of {one.sent})" if one.lost else "none"


def _side(name: str, one: Lost) -> SideLosses:
    return SideLosses(name=name, lost=one.lost, sent=one.sent, shares=list(one.shares))
