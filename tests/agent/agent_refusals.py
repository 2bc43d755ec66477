"""Agents that cannot do what their spec requires, and report it once."""

from __future__ import annotations

import json
from typing import Any

from agent_bed import Bed
from agent_process import Agent


def refused(bed: Bed, verb: str, spec: Any, where: str) -> dict[str, Any]:
    """The error of an agent told this spec: all it said, with every part a person needs; nothing was sent."""
    agent = bed.agent("ecu" if verb in ("listen", "pong") else "sensor", verb, spec)
    if spec == b"":
        agent.hang_up()
    error = only_error(agent)
    assert set(error) == {"event", "what", "where", "remedy", "errno"}
    assert where in error["where"], json.dumps(error)
    assert bed.sent("sensor", "ecu") == bed.sent("ecu", "sensor") == 0
    return error


def only_error(agent: Agent) -> dict[str, Any]:
    """The error that is all the agent said before it ended."""
    assert agent.ended() == 1, agent.events
    (error,) = agent.events
    assert error["event"] == "error"
    assert error["what"] and error["remedy"]
    assert "panicked" not in agent.stderr()
    return error
