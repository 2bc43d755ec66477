"""Percentiles of a histogram, where the histogram itself is not kept next to them."""

from __future__ import annotations

from dataclasses import replace

from latlab.analysis.bins import bin_of_percentiles
from latlab.imports.base import Figures


def with_percentiles(figures: Figures) -> Figures:
    """The figures with the percentiles that their histogram has: the lower ends of the bins that these lie in.

    resolution_ns is a bin's width then, if that is more. Figures without a histogram are as they were.
    """
    if figures.tally is None:
        return figures
    bins = bin_of_percentiles(figures.tally)
    return replace(
        figures,
        percentiles={name: found[0] for name, found in bins.items() if found is not None},
        resolution_ns=max(figures.resolution_ns, figures.tally.width_ns),
    )
