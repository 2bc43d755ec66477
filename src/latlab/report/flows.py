"""What is said of flows whose packets were watched in a cell: why figures are doubtful, and what to know of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from latlab.analysis.imported import before_they_left, unbounded
from latlab.analysis.words import duration, left_out_text
from latlab.model.reasons import Reason, reason_of
from latlab.recordings.cell import RecordedCell
from latlab.result.types import Result, Stream


def flow_reasons(cell: RecordedCell, streams: Mapping[str, Stream]) -> Iterator[Reason]:
    """Reasons not to trust the figures of a cell's flows: what was found in their recordings, and of their clocks."""
    for flow in cell.flows:
        for problem in flow.problems:
            where = ": ".join(filter(None, (f"flow {flow.name}", problem.where)))
            yield problem.model_copy(update={"where": where})
    watched = {one.name: streams[one.name] for one in cell.streams if one.flow and one.name in streams}
    if unknown := unbounded(watched):
        yield reason_of(
            "clock-bound",
            ", ".join(unknown),
            "a bound of the offset between the two clocks",
            "the clocks of their points are not compared continuously",
            case="flow",
        )
    for where, least, bound in before_they_left(watched):
        yield reason_of("arrived-early", where, f"{duration(-bound)} or more", duration(least), case="flow")


def flow_notes(result: Result) -> Iterator[str]:
    """What is to be known of the flows of a result, a sentence each; what holds for several cells once."""
    said: dict[str, None] = {}
    for cell in result.cells:
        for flow in cell.flows:
            said |= dict.fromkeys(f"flow {flow.name}: {note}" for note in flow.notes)
            left_out = (left_out_text(one.count, one.what, one.why) for one in flow.left_out)
            said |= dict.fromkeys(f"flow {flow.name}: left out: {text}" for text in left_out)
    yield from said


def has_flows(result: Result) -> bool:
    """Whether packets were watched in any cell of the result, next to what was measured."""
    return any(cell.flows for cell in result.cells)
