"""Loads in words: where each ran, and how much of its work it did."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from latlab.report import text


def ends(load: Mapping[str, Any]) -> tuple[str, str]:
    """Where it comes from and where it goes; of one that is sent nowhere where it is, and nothing."""
    return (f"on {load['on']}", "") if load.get("on") else (load["from"], load["to"])


def way(load: Mapping[str, Any]) -> str:
    """Both in one: "sensor → ecu", "on vm2"."""
    return " → ".join(filter(None, ends(load)))


def work(load: Mapping[str, Any]) -> str:
    """What it did a second of what is no traffic: "exits 812 k/s"; blank of one that does nothing else than send.

    Of stress-ng what it was told to do stands before its bogus operations, which say nothing without that.
    """
    rates = [f"{name} {text.rate(per_s, '/s')}" for name, per_s in (load.get("work_per_s") or {}).items()]
    asked = load.get("work")
    if not asked:
        return ", ".join(rates)
    workers = f" by {asked['workers']} workers" if asked["workers"] > 1 else ""
    return f"{asked['what']}{workers}: {', '.join(rates)}"
