"""The five published experiments."""

from typing import Final

from published.dds import DDS
from published.experiment import Experiment
from published.interrupts import INTERRUPTS
from published.launch_time import LAUNCH_TIME
from published.round_trips import ROUND_TRIPS
from published.tsn import TSN

FIVE: Final[tuple[Experiment, ...]] = (TSN, ROUND_TRIPS, DDS, LAUNCH_TIME, INTERRUPTS)
