"""ptp4l at a port, phc2sys beside it, and what both turn: read before, and set again afterwards (linuxptp)."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping

from latlab.lab.loads.base import Cores
from latlab.lab.ptp.port import LOCKED, MASTER, SILENT_REMEDY, Port
from latlab.lab.ptp.profiles import settings
from latlab.lab.service import WITH_ITS_LAB, Service
from latlab.lab.step import Argv, Before, Check, Step
from latlab.lab.tai import TAI_MINUS_UTC_S
from latlab.lab.timestamping import hardware_setting

SYSTEM = "CLOCK_REALTIME"
FOLLOWS = "follows"
TX_TIMEOUT_MS = "50"
"""How long a transmit timestamp is waited for: ptp4l's own 1 ms is short for software and for emulated cards."""

# A process's name in the kernel is cut to 15 characters (TASK_COMM_LEN).
OTHERS = "cat /proc/[0-9]*/comm | grep -xE 'chronyd|ntpd|systemd-timesyn|phc2sys' | sort -u | tr '\\n' ' '"
NOBODY = "nobody"

# Since linuxptp 4 there is a second socket, of one name for all that is started without another.
RUN = 'grep -q uds_ro_address "$(command -v ptp4l)" && set -- "$@" "--uds_ro_address=$1.ro"; shift; exec {}ptp4l "$@"'


def port_steps(port: Port) -> Iterator[Step | Service]:
    """The port's ptp4l runs, as does what joins its card's clock and the system's; a slave is locked."""
    device = port.end.interface
    if port.in_hardware:
        yield Step(
            host=port.end.host,
            title=f"note how {port.end} stamps packets",
            do=("hwstamp_ctl", "-i", device),
            undo=("hwstamp_ctl", "-i", device, "-t", "{tx_type}", "-r", "{rx_filter}"),
            before=Before(("hwstamp_ctl", "-i", device), hardware_setting),
        )
        yield _frequency_kept(port, device)
        if port.role == "master":
            yield _phc2sys(port, SYSTEM, device, f"{TAI_MINUS_UTC_S}")
    if port.system_follows or (port.role == "slave" and not port.in_hardware and not port.free_running):
        yield _nobody_else(port)
        yield _frequency_kept(port, SYSTEM)
    yield Service(
        host=port.end.host,
        title=f"keep time at {port.end}, as {port.role}",
        argv=ptp4l_argv(port),
        log=port.site.log(f"ptp4l-{port.end}"),
        ready=port.locked if port.role == "slave" else port.leads,
    )
    if port.system_follows:
        yield _phc2sys(port, device, SYSTEM, f"-{TAI_MINUS_UTC_S}")


def observed_steps(port: Port) -> Iterator[Step]:
    """The port's ptp4l answers, and is locked if it is a slave."""
    locked = port.locked

    def read(output: str) -> str:
        return LOCKED if json.loads(output)["state"] == MASTER else locked.read(output)

    check = Check(port.ask, LOCKED, read, within_ms=locked.within_ms, remedy=SILENT_REMEDY)
    yield Step(port.end.host, f"the ptp4l that runs at {port.end} is locked, or is the master", (), check=check)


def ptp4l_argv(port: Port) -> Argv:
    """The command of a port's ptp4l: its messages on its standard output."""
    assert port.role
    told = {
        **settings(port.ptp.profile, port.role, software=not port.in_hardware),
        "time_stamping": port.timestamps,
        "uds_address": port.socket,
        "domainNumber": str(port.ptp.domain),
        "socket_priority": str(port.ptp.priority),
        "tx_timestamp_timeout": TX_TIMEOUT_MS,
        "free_running": str(int(port.free_running)),
    }
    words = ("-i", port.end.interface, "-m", "-q", *(f"--{key}={value}" for key, value in told.items()))
    return (*WITH_ITS_LAB, "TERM", "sh", "-c", RUN.format(_cores(port)), "ptp4l", port.socket, *words)


def _phc2sys(port: Port, leader: str, follower: str, offset_s: str) -> Service:
    """One clock follows another by `offset_s` seconds: a card's counts TAI, the system's UTC."""
    card = follower if leader == SYSTEM else leader
    sign = 1 if leader == SYSTEM else -1
    argv = ("phc2sys", "-s", leader, "-c", follower, "-O", offset_s, "-S", "1", "-R", "8", "-m", "-q")
    return Service(
        host=port.end.host,
        title=f"{_named(port, follower)} follows {_named(port, leader)}",
        argv=(*WITH_ITS_LAB, "TERM", "sh", "-c", f'exec {_cores(port)}"$0" "$@"', *argv),
        log=port.site.log(f"phc2sys-{port.end}"),
        ready=Check(
            ("phc_ctl", "-q", card, "cmp"),
            expected=FOLLOWS,
            read=lambda output: _followed(output, sign, port.limit_ns),
            within_ms=port.ptp.wait // 1_000_000,
        ),
    )


def _followed(output: str, sign: int, limit_ns: int) -> str:
    """FOLLOWS, or how far the card's clock is from where it ought to be: phc_ctl prints CLOCK_REALTIME − card's."""
    found = re.search(r"offset from CLOCK_REALTIME is (?:approximately )?(-?\d+)ns", output)
    if found is None:
        raise ValueError("no offset in the output of phc_ctl")
    off = int(found[1]) + int(TAI_MINUS_UTC_S) * 10**9
    return FOLLOWS if abs(off) <= limit_ns else f"{-sign * off} ns off"


def _nobody_else(port: Port) -> Step:
    """Of two who turn one clock each undoes what the other does."""
    return Step(
        host=port.end.host,
        title=f"nobody else turns {_named(port, SYSTEM)}",
        do=(),
        check=Check(
            ("sh", "-c", OTHERS),
            expected=NOBODY,
            read=lambda output: output.strip() or NOBODY,
            remedy="stop it for the time of the run, as by `systemctl stop chrony`, or have your own ptp4l `observed`",
        ),
    )


def _frequency_kept(port: Port, clock: str) -> Step:
    return Step(
        host=port.end.host,
        title=f"note the frequency of {_named(port, clock)}",
        do=("phc_ctl", "-q", clock, "freq"),
        undo=("phc_ctl", "-q", clock, "freq", "{ppb}"),
        before=Before(("phc_ctl", "-q", clock, "freq"), frequency),
    )


def frequency(output: str) -> Mapping[str, str]:
    """`{"ppb": …}`, as phc_ctl printed it; ValueError when it did not."""
    found = re.search(r"clock frequency offset is (-?[\d.]+)ppb", output)
    if found is None:
        raise ValueError("no frequency in the output of phc_ctl")
    return {"ppb": found[1]}


def _named(port: Port, clock: str) -> str:
    return f"{port.site.name}'s clock" if clock == SYSTEM else f"the clock of {port.end}"


def _cores(port: Port) -> str:
    words = Cores(port.ptp.fifo, port.ptp.cpus).prefix()
    return shlex.join(words) + " " if words else ""
