"""Loads in words: where each ran, and how much of its work it did."""

from __future__ import annotations

from latlab.recordings.cell import Load
from latlab.report import text


def ends(load: Load) -> tuple[str, str]:
    """Where it comes from and where it goes; of one that is sent nowhere where it is, and nothing."""
    return (f"on {load.on}", "") if load.on else (load.from_ or "", load.to or "")


def way(load: Load) -> str:
    """Both in one: "sensor → ecu", "on vm2"."""
    return " → ".join(filter(None, ends(load)))


def work(load: Load) -> str:
    """What it did a second of what is no traffic: "exits 812 k/s"; blank of one that does nothing else than send.

    Of stress-ng its options precede its bogus operations, which say nothing without them.
    """
    rates = [f"{name} {text.rate(per_s, '/s')}" for name, per_s in load.work_per_s.items()]
    asked = load.work
    if not asked:
        return ", ".join(rates)
    workers = f" by {asked.workers} workers" if asked.workers > 1 else ""
    return f"{asked.what}{workers}: {', '.join(rates)}"
