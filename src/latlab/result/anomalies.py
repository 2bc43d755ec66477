"""Of result.json: what happened to packets, and figures of parts of the time."""

from __future__ import annotations

from typing import Any

from latlab.model.part import DocumentPart
from latlab.result.metrics import Confidence, Statistics

Evidence = dict[str, Any]
"""Figures of an episode, by its class (docs/reference/anomaly-classes.md)."""


class Episode(DocumentPart):
    """Something that happened, not noise. packets: how many of its class are in it. evidence: figures of its kind."""

    number: int
    class_: str
    from_tai_ns: int
    to_tai_ns: int
    from_sequence: int
    to_sequence: int
    packets: int
    severity: float
    evidence: Evidence
    text: str


class Anomaly(DocumentPart):
    """All episodes of one class. packets: of the class; worst: the text of the most severe; shown: the most severe."""

    title: str
    meaning: str
    packets: int
    episodes: int
    worst: str
    shown: list[Episode]


class Range(DocumentPart):
    """A figure that changes over the stream."""

    least: int
    middle: int
    greatest: int


class Gap(DocumentPart):
    """Packets beyond a gap in the distribution."""

    packets: int
    of: int
    ends_ns: int
    begins_ns: int


class Bursts(DocumentPart):
    """Packets that came together. regular: at equal intervals; usual: that is how this path works."""

    packets: int
    of: int
    times: int
    size: int
    every_ns: int
    regular: bool
    usual: bool
    share: float


class LateLimits(DocumentPart):
    """From when on a packet is late (docs/explanation/anomalies.md). until: the timestamp that latencies count to."""

    packets: int
    period_ns: int
    until: str
    usual_ns: Range
    above_ns: Range
    from_ns: Range
    sender_share: float
    sender_ns: Range | None
    spread_ns: int
    exponential_ns: int | None
    largest_ns: int
    parted: Gap | None = None
    bursts: Bursts | None
    beside_ns: Range | None = None
    heavy: bool
    out_of_reach: bool

    @property
    def since(self) -> str:
        """The timestamp that latencies count from: watched packets have no launch."""
        return "first_point" if self.until == "second_point" else "launch"

    @property
    def way(self) -> str:
        """From which timestamp to which latencies are, in words."""
        return f"from {self.since} to {self.until}"


class KeptWindow(DocumentPart):
    """A clean window."""

    from_tai_ns: int
    to_tai_ns: int
    packets: int


class Cut(DocumentPart):
    """Launch times that no clean window has. reason: a class of anomalies; text: its episodes."""

    from_tai_ns: int
    to_tai_ns: int
    reason: str
    text: str
    packets: int


class PacketsKept(DocumentPart):
    """Packets after the warm-up, those within the windows, and the others."""

    whole: int
    kept: int
    cut: int


class CleanStatistics(Statistics):
    """Statistics of the clean windows. confidence: of latencies, where something is cut."""

    confidence: Confidence | None = None


class Beside(DocumentPart):
    """The whole run and its clean windows."""

    whole: Statistics
    clean: CleanStatistics


class ChosenWindow(DocumentPart):
    """A user-defined window, ns from the start of the streams."""

    from_ns: int
    to_ns: int
    why: str
    packets: int
    metrics: dict[str, Statistics]


class PassedOver(DocumentPart):
    """An episode that a chosen window does not cut."""

    class_: str
    text: str


class Chosen(DocumentPart):
    """User-defined windows, of the scenario or chosen after the run, and statistics of all of them together."""

    after_the_fact: bool
    kept: list[ChosenWindow]
    cuts: list[Cut]
    passed_over: list[PassedOver]
    packets: PacketsKept
    metrics: dict[str, Statistics]


class Windows(DocumentPart):
    """Clean windows next to the whole run; chosen: user-defined windows."""

    kept: list[KeptWindow]
    cuts: list[Cut]
    packets: PacketsKept
    metrics: dict[str, Beside]
    chosen: list[Chosen] = []
