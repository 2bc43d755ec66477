"""Evidence that breaks each rule of trust."""

from __future__ import annotations

from support.analysis.broken import causes, clocks, machine, recordings

BROKEN = [*recordings.BROKEN, *clocks.BROKEN, *machine.BROKEN, *causes.BROKEN]
