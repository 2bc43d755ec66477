"""ddsperf as a probe, Cyclone DDS's own: a pong that answers and a ping that asks, which reports each second."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from latlab.hosts.tools import install_remedy
from latlab.model.errors import LabError
from latlab.recordings.ddsperf import Second, seconds
from latlab.testbed.loads.base import Cores, LoadProcess
from latlab.testbed.probes.base import DdsOptions, ToolKind, ToolPlan
from latlab.testbed.probes.dds import FIRST_PORT, PORTS, Cyclone, configuration

OLDEST: Final = (0, 8)
NEWEST: Final = 11
"""The versions of Cyclone DDS whose ddsperf is known."""
DISCOVERY_S: Final = 10
"""How long ping looks for its pong before it gives up, with exit status 1."""
_DROPPED_S: Final = 1
_WORDS: Final = 4
"""Lines of what it said that an error quotes."""
_DISCOVERY_PORT: Final = 10
"""Where the first program on a host learns of others, of the domain's ports (DDSI-RTPS 2.5, section 9.6.2.1: d1)."""
_SAID_BY: Final = (
    "<Tracing><Category>trace</Category><OutputFile>stderr</OutputFile></Tracing><General><Interfaces>"
    '<NetworkInterface name="lo"/></Interfaces><AllowMulticast>false</AllowMulticast></General>'
)
"""ddsperf has no option that prints its version, but Cyclone's trace does. lo is in every namespace, and it is needed:
Cyclone ends its receiving threads by a packet to itself."""
_SPARE_DOMAIN: Final = 230
_KNOWN: Final = f"use ddsperf of Cyclone DDS {'.'.join(map(str, OLDEST))} to {NEWEST}, or the probe dds"


def server(plan: ToolPlan) -> LoadProcess:
    """The pong. It answers until it is stopped."""
    argv = _command(plan, asks=False)
    port = FIRST_PORT + PORTS * _over(plan).domain + _DISCOVERY_PORT
    return LoadProcess("server", plan.answerer, argv, ending="terminate", udp_port=port)


def client(plan: ToolPlan) -> LoadProcess:
    """The ping. It ends on its own, a second later than required, as its first second is dropped."""
    return LoadProcess("source", plan.asker, _command(plan, asks=True), ending="itself")


def version_of(printed: str) -> str:
    """Its version, out of Cyclone's trace. ValueError: it is none that is read here, or it did not start."""
    found = re.search(r" - internals: \S*?/(\d+)\.(\d+)(\.[0-9A-Za-z.+-]+)?/", printed)
    if found is None:
        last = (printed.strip().splitlines() or ["nothing"])[-1]
        raise ValueError(f"its trace has no version; it ends with {last[-120:]!r}")
    if not OLDEST <= (int(found[1]), int(found[2])) < (NEWEST + 1, 0):
        raise ValueError(f"it is {found[1]}.{found[2]}, and {OLDEST[0]}.{OLDEST[1]} to {NEWEST} are supported")
    return f"{found[1]}.{found[2]}{found[3] or ''}"


def failed(plan: ToolPlan, status: int, stdout: str, stderr: str) -> LabError:
    """The error for a ping's exit status (ddsperf.c, usage, EXIT STATUS; env(1) for 126 and 127; below 0: a signal)."""
    domain = _over(plan).domain
    what, remedy = {
        1: (
            "found no peer, or not all of its readers and writers",
            _found_remedy(plan),
        ),
        2: (
            "had a DDS error",
            f"check that {plan.asker_interface} has an address, and that domain {domain} has a free participant index",
        ),
        3: ("rejects its arguments", _KNOWN),
        126: ("cannot be run", "see its permissions"),
        127: ("does not exist", install_remedy("ddsperf")),
    }.get(status, ("was ended" if status < 0 or status > 128 else "failed", "see its output"))
    return _error(plan, f"{what} (exit status {status})", remedy, stdout, stderr)


def unready(plan: ToolPlan) -> LabError:
    """The error for a pong that runs, and has not opened the port for discovery."""
    port = FIRST_PORT + PORTS * _over(plan).domain + _DISCOVERY_PORT
    what = f"on {plan.answerer} is not reachable for discovery: nothing listens on its UDP port {port}"
    return _error(plan, what, _found_remedy(plan))


def _found_remedy(plan: ToolPlan) -> str:
    """What both ends need to find each other."""
    domain = _over(plan).domain
    first = FIRST_PORT + PORTS * domain
    return (
        f"check that ddsperf still runs on {plan.answerer}, that {plan.asker_interface} and {plan.answerer_interface} "
        f"are up, have addresses and reach each other, and that no firewall drops UDP to ports {first} to "
        f"{first + PORTS - 1}; another program in domain {domain} counts as well"
    )


def measured(plan: ToolPlan, stdout: str, stderr: str = "") -> tuple[Second, ...]:
    """What a ping that succeeded reported for each second after the first, of half a round trip.

    LabError: what it printed is none of what ddsperf is known to print, or not of this probe.
    """
    told = [one for one in seconds(stdout.splitlines()) if one.kind == "ping"]
    kept = tuple(one for one in told if one.start_ns > 0)
    if not told:
        raise _error(plan, "printed no line of figures in a known format", _KNOWN, stdout, stderr)
    if not kept:
        remedy = f"check whether ddsperf on {plan.answerer} still ran, and whether packets were lost"
        raise _error(plan, "received no answer after the first second, which is not counted", remedy, stdout, stderr)
    if sizes := {one.size for one in kept} - {plan.size}:
        found = ", ".join(map(str, sorted(sizes)))
        raise _error(plan, f"measured with samples of {found} bytes, not {plan.size}", _KNOWN)
    if others := sorted({one.peer for one in kept})[1:]:
        what = f"received answers from {1 + len(others)} programs instead of one: {', '.join(others)} as well"
        raise _error(plan, what, "stop the other ddsperf, or choose another domain")
    return kept


def _command(plan: ToolPlan, *, asks: bool) -> tuple[str, ...]:
    over = _over(plan)
    if asks:
        cores, cyclone = plan.asker_cores, Cyclone(plan.asker_interface, (plan.sink_address,))
        # Nothing is measured before one peer's readers and writers are all matched; without a peer its status is 1.
        options: Sequence[str] = (
            "-Q",
            "minmatch:1",
            "-Q",
            f"initwait:{DISCOVERY_S}",
            "-D",
            str(plan.seconds + _DROPPED_S),
        )
        rate = () if plan.period_ns is None else (f"{plan.rate()}Hz",)
        mode: Sequence[str] = ("ping", *rate, "size", str(plan.size), over.take)
    else:
        cores, cyclone = plan.answerer_cores, Cyclone(plan.answerer_interface, (plan.source_address,))
        options, mode = (), ("pong", over.take)
    kept = () if over.reliable else ("-u",)
    return _with(cores, configuration(cyclone), "-i", str(over.domain), *kept, *options, "-T", "KS", *mode)


def _with(cores: Cores, configured: str, *arguments: str) -> tuple[str, ...]:
    return (*cores.prefix(), "env", f"CYCLONEDDS_URI={configured}", "ddsperf", *arguments)


def _over(plan: ToolPlan) -> DdsOptions:
    if plan.dds is None:
        raise ValueError(f"{plan.name} is not over DDS")
    return plan.dds


def _error(plan: ToolPlan, what: str, remedy: str, *said: str) -> LabError:
    lines = [line.strip() for text in said for line in text.splitlines() if line.strip()]
    words = f": {'; '.join(lines[-_WORDS:])}" if lines else ""
    return LabError(f"ddsperf {what}{words}", where=f"{plan.asker}: probes.{plan.name}", remedy=remedy)


DDSPERF = ToolKind(
    "ddsperf",
    ("ddsperf",),
    ("ddsperf",),
    server,
    client,
    _with(Cores(), _SAID_BY, "-D", "0.1", "-i", str(_SPARE_DOMAIN), "pong"),
    version_of,
    failed=failed,
    dropped_s=_DROPPED_S,
    unready=unready,
)
