"""The specs of both sides of a probe over DDS, from a cell's scenario: pure, as the other specs."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from latlab.run.specs import Bed, realtime_spec
from latlab.scenario import Scenario
from latlab.scenario.flows import dds_domains
from latlab.scenario.probes import DdsProbe
from latlab.scenario.tuning import ListenerTuning, TalkerTuning
from latlab.testbed.probes.dds import Cyclone, DdsPlan, Mode, Side

RECEIVES: Final = "recvUC"
"""Cyclone's thread that takes samples from the socket."""
_MODES: Final[dict[str, Mode]] = {"listener": "listener", "waitset": "block", "spin": "spin"}


def dds_plan(scenario: Scenario, name: str, bed: Bed, run_id: str, recording: Path | str) -> DdsPlan:
    """The probe, resolved. Who asks runs as its host's talker, who answers as its host's listener; so does Cyclone's
    receiving thread.

    recording: of the side that gets the spec.
    """
    probe, route = scenario.probes[name], scenario.route(f"{name}.up")
    assert isinstance(probe, DdsProbe), name
    talker, listener = scenario.tuning_of(probe.from_).talker, scenario.tuning_of(probe.to).listener
    here, there = bed.places.device(route.talker_end), bed.places.device(route.listener_end)
    return DdsPlan(
        name=name,
        run_id=run_id,
        asker=_side(probe, here, str(route.destination), talker, recording),
        answerer=_side(probe, there, str(route.source), listener, recording),
        domain=dds_domains(scenario.probes)[name],
        up=scenario.stream_number(f"{name}.up"),
        down=scenario.stream_number(f"{name}.down"),
        size=probe.size,
        period_ns=probe.period,
        duration_ns=scenario.duration,
        timeout_ns=probe.timeout,
        offset_ns=probe.offset,
        busy_wait_ns=talker.busy_wait,
        reliable=probe.reliable,
    )


def _side(
    probe: DdsProbe, interface: str, peer: str, tuning: TalkerTuning | ListenerTuning, recording: Path | str
) -> Side:
    own = {} if tuning.fifo is None else {RECEIVES: tuning.fifo}
    # A thread that spins leaves Cyclone's nothing of its CPU.
    cpus = tuple(tuning.cpus) if tuning.cpus and probe.take != "spin" else None
    return Side(
        cyclone=Cyclone(interface, (peer,), own | probe.threads),
        recording=str(recording),
        mode=_MODES[probe.take],
        cpus=cpus,
        realtime=realtime_spec(tuning),
    )
