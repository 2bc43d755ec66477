"""How well anomalies were found: what was said of each packet and episode, against the truth."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from latlab.analysis.anomalies import CODE, NAMES, Anomalies
from latlab.synthetic.generate import Synthetic
from latlab.synthetic.truth import Truth

Codes = NDArray[np.uint8]
HALF = 0.5


@dataclass
class Count:
    """Of packets, or of episodes.

    right: found and true. missed: true and not found. wrong: found and not true. excused: packets that were given a
    class that they may have; they count neither way.
    """

    right: int = 0
    missed: int = 0
    wrong: int = 0
    excused: int = 0

    @property
    def precision(self) -> float:
        """right / (right + wrong); 1 where nothing was said."""
        return self.right / (self.right + self.wrong) if self.right + self.wrong else 1.0

    @property
    def recall(self) -> float:
        """right / (right + missed); 1 where there was nothing to find."""
        return self.right / (self.right + self.missed) if self.right + self.missed else 1.0

    def add(self, other: Count) -> None:
        """Add the other's counts."""
        self.right += other.right
        self.missed += other.missed
        self.wrong += other.wrong
        self.excused += other.excused


@dataclass
class Score:
    """{class: Count} of packets and of episodes, and how many packets there were."""

    packets: dict[str, Count] = field(default_factory=dict)
    episodes: dict[str, Count] = field(default_factory=dict)
    judged: int = 0

    def add(self, other: Score) -> None:
        """Add the other's counts."""
        for mine, theirs in ((self.packets, other.packets), (self.episodes, other.episodes)):
            for name, count in theirs.items():
                mine.setdefault(name, Count()).add(count)
        self.judged += other.judged


def score(synthetic: Synthetic, anomalies: Anomalies) -> Score:
    """What was found against the truth of one run.

    Packets: one that is plainly of a class counts for it, and as wrong for another class that it was given; one that is
    excused counts where it was given a class it may not have. Episodes: a true one is found if half of its packets were
    given its class; one that was found is wrong if more than half of its packets are neither of its class in truth nor
    excused. Duplicates, which have no packets: the one episode there may be.
    """
    truth, said = synthetic.truth, anomalies.class_of
    result = Score(judged=len(said))
    for name in NAMES:
        if name == "duplicate":
            continue
        result.packets[name] = _packets(truth, said, CODE[name])
        result.episodes[name] = _episodes(truth, anomalies, name)
    result.episodes["duplicate"] = _duplicates(synthetic, anomalies)
    return result


def _excused(truth: Truth, code: int) -> NDArray[np.bool_]:
    excused: NDArray[np.bool_] = (truth.excused & np.uint32(1 << code)) != 0
    return excused


def _packets(truth: Truth, said: Codes, code: int) -> Count:
    true, found = truth.class_of == code, said == code
    return Count(
        right=int((true & found).sum()),
        missed=int((true & ~found).sum()),
        wrong=int((found & ~true & ~_excused(truth, code)).sum()),
        excused=int((found & ~true & _excused(truth, code)).sum()),
    )


def _episodes(truth: Truth, anomalies: Anomalies, name: str) -> Count:
    code, count = CODE[name], Count()
    said = anomalies.class_of
    for one in truth.episodes:
        if one.class_ == name:
            here = slice(one.from_sequence, one.to_sequence + 1)
            true = truth.class_of[here] == code
            if not true.any():
                continue
            found = (said[here][true] == code).mean() >= HALF
            count.right += int(found)
            count.missed += int(not found)
    excused = _excused(truth, code)
    for episode in anomalies.episodes:
        if episode.class_ == name and episode.packets:
            here = slice(episode.from_sequence, episode.to_sequence + 1)
            given = said[here] == code
            wrong = given & (truth.class_of[here] != code) & ~excused[here]
            count.wrong += int(wrong.sum() > HALF * given.sum())
    return count


def _duplicates(synthetic: Synthetic, anomalies: Anomalies) -> Count:
    found = sum(one.packets for one in anomalies.episodes if one.class_ == "duplicate")
    there = synthetic.duplicated
    return Count(right=int(found == there > 0), missed=int(there > 0 and found != there), wrong=int(found > 0 == there))
