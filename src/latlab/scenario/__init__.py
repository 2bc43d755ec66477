"""What is measured: the scenario's models, units, loading and matrix. Imports only latlab's errors."""

from latlab.scenario.findings import Mistake, Problem, ScenarioErrors
from latlab.scenario.flows import Flow
from latlab.scenario.guests import BRIDGES, Guest, Ssh
from latlab.scenario.hosts import BoardHost, Host, LocalHost, NetnsHost, SshHost, image_for
from latlab.scenario.limits import AcceptLimit
from latlab.scenario.links import Link, Vlan
from latlab.scenario.load import Loaded, cells, load_scenario, load_text, with_trigger
from latlab.scenario.loads import Busy, Flood, Iperf3, Load, LoadBetween, LoadOn, Netperf, StressNg
from latlab.scenario.matrix import MatrixCell, MatrixRun, runs
from latlab.scenario.models import Clock, Scenario, Window
from latlab.scenario.network import Route, Segment
from latlab.scenario.parse import Parsed, parse
from latlab.scenario.parts import End
from latlab.scenario.schema import SCHEMA_FILE, scenario_schema, schema_text
from latlab.scenario.shapers import Cbs, Etf, Gate, Mqprio, Shaper, Taprio
from latlab.scenario.streams import LaunchTime, Stream
from latlab.scenario.trust import Trust
from latlab.scenario.tuning import (
    GuestTuning,
    IrqTuning,
    ListenerTuning,
    LoadTuning,
    Realtime,
    TalkerTuning,
    Threads,
    Tuning,
)
from latlab.scenario.units import (
    format_duration,
    format_rate,
    format_size,
    parse_duration,
    parse_rate,
    parse_size,
)

__all__ = [
    "BRIDGES",
    "SCHEMA_FILE",
    "AcceptLimit",
    "BoardHost",
    "Busy",
    "Cbs",
    "Clock",
    "End",
    "Etf",
    "Flood",
    "Flow",
    "Gate",
    "Guest",
    "GuestTuning",
    "Host",
    "Iperf3",
    "IrqTuning",
    "LaunchTime",
    "Link",
    "ListenerTuning",
    "Load",
    "LoadBetween",
    "LoadOn",
    "LoadTuning",
    "Loaded",
    "LocalHost",
    "MatrixCell",
    "MatrixRun",
    "Mistake",
    "Mqprio",
    "NetnsHost",
    "Netperf",
    "Parsed",
    "Problem",
    "Realtime",
    "Route",
    "Scenario",
    "ScenarioErrors",
    "Segment",
    "Shaper",
    "Ssh",
    "SshHost",
    "Stream",
    "StressNg",
    "TalkerTuning",
    "Taprio",
    "Threads",
    "Trust",
    "Tuning",
    "Vlan",
    "Window",
    "cells",
    "format_duration",
    "format_rate",
    "format_size",
    "image_for",
    "load_scenario",
    "load_text",
    "parse",
    "parse_duration",
    "parse_rate",
    "parse_size",
    "runs",
    "scenario_schema",
    "schema_text",
    "with_trigger",
]
