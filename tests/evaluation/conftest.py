"""Run folders made of numbers, of which results are made."""

from __future__ import annotations

from support.report.folders import brief_pristine_run, brief_run, new_run, pristine_run, shared_run
from support.report.judged import judged

__all__ = ["brief_pristine_run", "brief_run", "judged", "new_run", "pristine_run", "shared_run"]
