"""Synthetic runs with known anomalies, for tests: `generate(description)`, `random_description(seed, kinds)`."""

from latlab.synthetic.choose import CLASS_OF, KINDS, random_description, random_mix
from latlab.synthetic.description import Description
from latlab.synthetic.generate import Synthetic, generate
from latlab.synthetic.run import write_run
from latlab.synthetic.truth import TrueEpisode, Truth

__all__ = [
    "CLASS_OF",
    "KINDS",
    "Description",
    "Synthetic",
    "TrueEpisode",
    "Truth",
    "generate",
    "random_description",
    "random_mix",
    "write_run",
]
