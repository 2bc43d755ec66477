"""How many examples Hypothesis makes up for a test."""

from __future__ import annotations

from hypothesis import settings

MOST = 100
"""Hypothesis's own number."""
FEW = 20
"""Where fast tests alone are run."""


def examples(most: int) -> int:
    """So many where all tests are run, and the same share of them as of others where fast ones alone are."""
    return most * settings().max_examples // MOST
