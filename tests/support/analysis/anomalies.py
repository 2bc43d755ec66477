"""Streams of a millisecond's period with a little noise, and what is found in them."""

from __future__ import annotations

from dataclasses import replace

from latlab.analysis.anomalies import Anomalies, Context, find_anomalies
from latlab.result.types import Episode
from latlab.synthetic import Description, Synthetic, generate
from latlab.synthetic.description import Ingredient, Noise

PERIOD_NS = 1_000_000
SECOND = 1_000_000_000
SPREAD_NS = 2_000


def stream(*ingredients: Ingredient, packets: int = 20_000, **changes: object) -> Synthetic:
    """A stream with gaussian noise of 2 µs on its path, between clocks that nothing bounds."""
    plain = Description(
        seed=9,
        packets=packets,
        period_ns=PERIOD_NS,
        noise=Noise(SPREAD_NS),
        least_ns=(8_000, 3_000, 2_000, 3_000, 2_000, 30_000, 3_000, 9_000),
    )
    return generate(replace(plain, **{"ingredients": ingredients, **changes}))  # type: ignore[arg-type]


def found(synthetic: Synthetic, **context: object) -> Anomalies:
    """What is found in it; context: changes to what is known next to the packets."""
    known: Context = replace(synthetic.context(), **context)  # type: ignore[arg-type]
    return find_anomalies(synthetic.packets, known)


def episodes(anomalies: Anomalies, name: str) -> list[Episode]:
    """Those of one class, by time."""
    return [one for one in anomalies.episodes if one.class_ == name]


def only(anomalies: Anomalies) -> Episode:
    """The one episode that there is."""
    (episode,) = anomalies.episodes
    return episode
