"""What is measured: the scenario's models, units, loading and matrix. Imports only latlab's errors."""

from latlab.scenario.findings import Finding
from latlab.scenario.hosts import Host, LocalHost, NetnsHost
from latlab.scenario.limits import Limit
from latlab.scenario.links import Link, Route
from latlab.scenario.load import Loaded, cells, load_scenario
from latlab.scenario.loads import Flood, Iperf3, Load, Netperf
from latlab.scenario.matrix import Cell, Run, runs
from latlab.scenario.models import Clock, Scenario
from latlab.scenario.parse import Parsed, parse
from latlab.scenario.parts import End
from latlab.scenario.problems import Problem, ScenarioErrors
from latlab.scenario.schema import SCHEMA_FILE, scenario_schema, schema_text
from latlab.scenario.streams import LaunchTime, Stream
from latlab.scenario.tuning import ListenerTuning, LoadTuning, Realtime, TalkerTuning, Tuning
from latlab.scenario.units import (
    format_duration,
    format_rate,
    format_size,
    parse_duration,
    parse_rate,
    parse_size,
)

__all__ = [
    "SCHEMA_FILE",
    "Cell",
    "Clock",
    "End",
    "Finding",
    "Flood",
    "Host",
    "Iperf3",
    "LaunchTime",
    "Limit",
    "Link",
    "ListenerTuning",
    "Load",
    "LoadTuning",
    "Loaded",
    "LocalHost",
    "NetnsHost",
    "Netperf",
    "Parsed",
    "Problem",
    "Realtime",
    "Route",
    "Run",
    "Scenario",
    "ScenarioErrors",
    "Stream",
    "TalkerTuning",
    "Tuning",
    "cells",
    "format_duration",
    "format_rate",
    "format_size",
    "load_scenario",
    "parse",
    "parse_duration",
    "parse_rate",
    "parse_size",
    "runs",
    "scenario_schema",
    "schema_text",
]
