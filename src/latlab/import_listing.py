"""What was imported, and what can be, as text and as documents."""

from __future__ import annotations

from rich.console import Console

from latlab.analysis.words import counted
from latlab.imports.base import Figures, PacketStream
from latlab.imports.table import FORMATS
from latlab.imports.write import ImportOutcome
from latlab.model.part import Document
from latlab.report.columns import print_sentence, print_table
from latlab.report.document import Table


def formats_document() -> list[Document]:
    """Every format: its name, what it is, and how many files make one measurement."""
    return [{"name": one.name, "what": one.what, "files": one.files} for one in FORMATS]


def print_formats(console: Console) -> None:
    """Print the formats."""
    rows = [(one.name, str(one.files), one.what) for one in FORMATS]
    print_table(Table(("format", "files", "what"), rows, figures=(1,)), console)


def outcome_document(outcome: ImportOutcome) -> Document:
    """What was imported, cell by cell."""
    return {
        "run": outcome.folder.id,
        "path": str(outcome.folder.path.resolve()),
        "format": outcome.format.name,
        "cells": [
            {
                "slug": cell.slug,
                "files": [str(path) for path in cell.paths],
                "tool": cell.imported.tool,
                "version": cell.imported.version,
                "latency": cell.imported.latency,
                "streams": [_packets(one) for one in cell.imported.streams]
                + [_summed(one) for one in cell.imported.figures],
                "left_out": [vars(one) for one in cell.imported.left_out],
                "notes": list(cell.imported.notes),
                "problems": [one.document() for one in cell.imported.problems],
            }
            for cell in outcome.cells
        ],
    }


def print_outcome(outcome: ImportOutcome, console: Console) -> None:
    """Print what was recognised and kept, and the run's folder; the answer below it has what was noted and left out."""
    lines = []
    for cell in outcome.cells:
        found = cell.imported
        lines.append(f"{', '.join(path.name for path in cell.paths)}: {outcome.format.name} ({outcome.format.what})")
        lines += [f"  kept: {text}" for text in (*map(_packets_text, found.streams), *map(_summed_text, found.figures))]
    lines.append(f"Run: {outcome.folder.path.resolve()}")
    for line in lines:
        print_sentence(line, console)


def _packets(stream: PacketStream) -> Document:
    return {
        "name": stream.name,
        "packets": len(stream.sent),
        "arrived": int(stream.arrived.sum()),
        "metrics": list(stream.metrics),
    }


def _summed(figures: Figures) -> Document:
    return {"name": figures.stream, "packets": 0, "n": figures.n, "metrics": [figures.metric], "kept": figures.kept}


def _packets_text(stream: PacketStream) -> str:
    absent = int((stream.sent & ~stream.arrived).sum())
    told = f", {absent} of them not seen at the receiver" if absent else ""
    return f"{stream.name}: {counted(len(stream.sent), 'packet')}{told}: {', '.join(stream.metrics)}"


def _summed_text(figures: Figures) -> str:
    intervals = counted(len(figures.intervals), "interval")
    what = {"histogram": "a histogram", "intervals": intervals, "summary": "a summary"}
    of = "" if figures.n is None else f" of {counted(figures.n, 'value')}"
    return f"{figures.stream}: {what[figures.kept]}{of}, no single value: {figures.metric}"
