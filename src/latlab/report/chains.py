"""Where the time went, of the cells of a result: what the terminal, the page, pictures and Markdown show of it."""

from __future__ import annotations

from latlab.analysis.reception import RECEPTION
from latlab.analysis.worst import CHAINS_SHOWN
from latlab.report import rows
from latlab.report.chain_view import ChainView, chain_view
from latlab.report.places import cell_name
from latlab.result.types import Chain, Result, Stream


def chain_views(result: Result) -> dict[tuple[str, str], ChainView]:
    """{(stream, metric): its chains, cells in the order of the summary}, of the metrics that go all the way.

    Those that are a part of it, as `path`, have their chains in the result document. Behind them, as RECEPTION, that of
    a listener that was traced.
    """
    return {
        (stream, metric): chain_view(stream, metric, found)
        for stream in rows.stream_names(result)
        for metric in (*CHAINS_SHOWN, RECEPTION)
        if (found := _documents(result, stream, metric))
    }


def chain_of(block: Stream, metric: str) -> Chain | None:
    """A metric's chain in a stream's block of the result, or RECEPTION's; None where it has none."""
    holder = block.trace if metric == RECEPTION else block.metrics.get(metric)
    return holder.chain if holder else None


def has_parts(metric: str, chain: Chain) -> bool:
    """Whether a chaieffective n showing: a wake-up of one interval, a stream's, is not."""
    return metric != "wakeup" or len(chain.stops) > 2


def _documents(result: Result, stream: str, metric: str) -> list[tuple[str, Chain]]:
    return [
        (cell_name(result, cell), chain)
        for cell in rows.ordered_cells(result)
        if stream in cell.streams and (chain := chain_of(cell.streams[stream], metric)) and has_parts(metric, chain)
    ]
