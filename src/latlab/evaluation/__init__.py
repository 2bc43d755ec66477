"""From a run folder to its result: every cell joined, summarised and judged, and compared with others."""
