"""ptp4l at a port, phc2sys next to it, and what both turn: read before, and set again afterwards (linuxptp)."""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from latlab.model.units import MILLISECOND_NS, SECOND_NS
from latlab.testbed.host_setup import TAI_MINUS_UTC_S
from latlab.testbed.loads.base import Cores
from latlab.testbed.ptp.port import LOCKED, MASTER, SILENT_REMEDY, SYNCS, ClockPort, settings
from latlab.testbed.step import WITH_ITS_LAB, Argv, Before, Check, Service, Step
from latlab.testbed.timestamping import hardware_setting, parse_timestamping

SYSTEM = "CLOCK_REALTIME"
FOLLOWS = "follows"
TX_TIMEOUT_MS = "50"
"""How long a transmit timestamp is waited for: ptp4l's own 1 ms is short for software and for emulated cards."""

STAMPS = "hardware timestamps in both directions, by a PTP clock"
SOFTWARE_REMEDY = "set `timestamps: software` in clock.ptp, or use a card that has them"

OF_CARDS = ("ptp4l", "phc2sys", "ts2phc", "timemaster", "statime", "statime-linux")
OF_THE_SYSTEM = ("chronyd", "ntpd", "ntp-daemon", "openntpd", "systemd-timesyn")
"""Names as the kernel has them, cut to 15 characters (TASK_COMM_LEN)."""
FIND = 'cat /proc/[0-9]*/comm 2>/dev/null | grep -xE "$0" | sort | tr "\\n" " "'
NOBODY = "nobody"
OBSERVED = "ptp4l"
"""What is observed where it runs already."""

NEAR_NS = 5_000
"""A card is read over PCIe: how close it is to the system's clock is not known better, however close two cards are."""
FOLLOWING_REMEDY = (
    "check phc2sys's log: it must be able to read the card's clock, and no other program may adjust a clock"
)

AS_IT_IS = 'said=$(phc_ctl -q "$0" freq 2>&1) || { echo "$said" >&2; exit 1; }; echo "$said"'
"""Prints a clock's frequency: before linuxptp 4.2, phc_ctl prints it where it prints errors."""

AS_IT_WAS = """\
phc_ctl -q "$0" -- freq "$1" || exit
now=$(phc_ctl -q "$0" freq 2>&1 | sed -n 's/.*frequency offset is \\(-*[0-9]*\\)[.].*/\\1/p')
off=$((now - ${1%%.*}))
[ -n "$now" ] && [ "$off" -ge -1 ] && [ "$off" -le 1 ] && exit
echo "the frequency of $0 is ${now:-not known} ppb, and was $1" >&2; exit 1"""
"""Sets a clock's frequency, and reads it: phc_ctl ends with 0 even if it could not set it. What it sets is a whole
number of 2^-16 ppm, so what is read differs from what was set by less than 1 ppb."""

# Since linuxptp 4 there is a second socket, of one name for all that is started without another.
RUN = 'grep -q uds_ro_address "$(command -v ptp4l)" && set -- "$@" "--uds_ro_address=$1.ro"; shift; exec {}ptp4l "$@"'


def port_steps(port: ClockPort) -> Iterator[Step | Service]:
    """The port's ptp4l runs, as does what joins its card's clock and the system's; a slave is locked."""
    device = port.end.interface
    if port.in_hardware:
        yield Step(
            host=port.end.host,
            title=f"{port.end} has a separate clock for timestamps",
            do=(),
            check=Check(("ethtool", "-T", device), expected=STAMPS, read=stamps, remedy=SOFTWARE_REMEDY),
        )
        yield Step(
            host=port.end.host,
            title=f"record how {port.end} stamps packets",
            do=("hwstamp_ctl", "-i", device),
            undo=("hwstamp_ctl", "-i", device, "-t", "{tx_type}", "-r", "{rx_filter}"),
            before=Before(("hwstamp_ctl", "-i", device), hardware_setting),
        )
        yield _frequency_kept(port, device)
        if port.role == "master":
            yield _phc2sys(port, SYSTEM, device, f"{TAI_MINUS_UTC_S}")
    if port.turns_the_system:
        yield _frequency_kept(port, SYSTEM)
    yield Service(
        host=port.end.host,
        title=f"run ptp4l at {port.end}, as {port.role}",
        argv=ptp4l_argv(port),
        log=port.site.log(f"ptp4l-{port.end}"),
        ready=port.locked() if port.role == "slave" else port.leads,
    )
    if port.system_follows:
        yield _phc2sys(port, device, SYSTEM, f"-{TAI_MINUS_UTC_S}")


def stamps(output: str) -> str:
    """STAMPS, or what the card does not have, by what `ethtool -T` printed. ValueError: that is not its output."""
    able = parse_timestamping(output)
    if able.ptp_in_hardware:
        return STAMPS
    ways = (("sends", able.tx_hardware), ("receives", able.rx_hardware))
    lacking = [f"no hardware timestamp of packets that it {way}" for way, can in ways if not can]
    return ", ".join((*lacking, *(("no PTP clock",) if able.phc is None else ())))


def observed_steps(port: ClockPort) -> Iterator[Step]:
    """The port's ptp4l answers, and is locked if it is a slave."""
    locked = port.locked()

    def read(output: str) -> str:
        return LOCKED if json.loads(output)["state"] == MASTER else locked.read(output)

    check = Check(port.ask, LOCKED, read, within_ms=locked.within_ms, remedy=SILENT_REMEDY)
    yield Step(port.end.host, f"the ptp4l that runs at {port.end} is locked, or is the master", (), check=check)


def ptp4l_argv(port: ClockPort) -> Argv:
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
        # A timestamp that got lost is no reason to be silent for 16 s.
        "fault_reset_interval": "ASAP",
    }
    words = ("-i", port.end.interface, "-m", "-q", *(f"--{key}={value}" for key, value in told.items()))
    return (*WITH_ITS_LAB, "TERM", "sh", "-c", RUN.format(_cores(port)), "ptp4l", port.socket, *words)


def _phc2sys(port: ClockPort, leader: str, follower: str, offset_s: str) -> Service:
    """One clock follows another by `offset_s` seconds: a card's counts TAI, the system's UTC.

    A card that is reset is stepped again. A system's clock is stepped at the start only: whatever becomes of the card
    later, no clock jumps with it.
    """
    step = ("-S", "1") if leader == SYSTEM else ()
    argv = ("phc2sys", "-s", leader, "-c", follower, "-O", offset_s, *step, "-R", "8", "-m", "-q")
    return Service(
        host=port.end.host,
        title=f"{_named(port, follower)} follows {_named(port, leader)}",
        argv=(*WITH_ITS_LAB, "TERM", "sh", "-c", f'exec {_cores(port)}"$0" "$@"', *argv),
        log=port.site.log(f"phc2sys-{port.end}"),
        ready=following(port),
    )


def following(port: ClockPort) -> Check:
    """That a card's clock and its system's are together, whichever follows."""
    return Check(
        ("phc_ctl", "-q", port.end.interface, "cmp"),
        expected=FOLLOWS,
        read=PhcFollowed(max(port.limit_ns, NEAR_NS)),
        within_ms=port.ptp.wait // MILLISECOND_NS,
        remedy=FOLLOWING_REMEDY,
    )


class PhcFollowed:
    """How what `phc_ctl cmp` prints is read, time after time: FOLLOWS once it is near three times running."""

    def __init__(self, limit_ns: int) -> None:
        self._limit_ns = limit_ns
        self._near = 0

    def __call__(self, output: str) -> str:
        """phc_ctl prints CLOCK_REALTIME − the card's clock, which counts TAI. ValueError: it printed no such thing."""
        found = re.search(r"offset from CLOCK_REALTIME is (?:approximately )?(-?\d+)ns", output)
        if found is None:
            raise ValueError("no offset in the output of phc_ctl")
        off = -(int(found[1]) + int(TAI_MINUS_UTC_S) * SECOND_NS)
        self._near = self._near + 1 if abs(off) <= self._limit_ns else 0
        return FOLLOWS if self._near >= SYNCS else f"the card's clock is off by {off} ns"


def nobody_else(ports: Sequence[ClockPort], observed: Sequence[ClockPort]) -> Step | None:
    """No other program adjusts the clocks of these ports, which are on one machine; None where nothing is.

    Of two who turn one clock each undoes what the other does. observed: the ports there whose ptp4l runs already. Such
    a one turns its own card's clock, and that may be; one that stamps by the system's clock may turn that.
    """
    system = any(port.turns_the_system for port in ports)
    cards = any(port.in_hardware for port in ports)
    expected = len({port.socket for port in observed if port.in_hardware or not system})
    names = (*(OF_CARDS if cards or system else ()), *(OF_THE_SYSTEM if system else ()))
    if not names:
        return None
    site = ports[0].site
    return Step(
        host=site.name,
        title=f"no other program adjusts {site.name}'s clocks",
        do=(),
        check=Check(
            ("sh", "-c", FIND, "|".join(names)),
            expected=NOBODY,
            read=lambda output: _others(output.split(), expected),
            remedy="stop it for the run, for example by `systemctl stop chrony`, or list your own ptp4l "
            "under `observed`, which may run with hardware timestamps",
        ),
    )


def _others(names: Sequence[str], observed: int) -> str:
    """The names, each once, but for as many ptp4l as are observed: each of those is asked, and must answer."""
    found = Counter(names)
    found[OBSERVED] -= observed
    return " ".join(sorted(name for name, count in found.items() if count > 0)) or NOBODY


def _frequency_kept(port: ClockPort, clock: str) -> Step:
    return Step(
        host=port.end.host,
        title=f"record the frequency of {_named(port, clock)}",
        do=("phc_ctl", "-q", clock, "freq"),
        # Behind `--`: one below zero is no option.
        undo=("sh", "-c", AS_IT_WAS, clock, "{ppb}"),
        before=Before(("sh", "-c", AS_IT_IS, clock), frequency),
    )


def frequency(output: str) -> Mapping[str, str]:
    """`{"ppb": …}`, as phc_ctl printed it; ValueError when it did not."""
    found = re.search(r"clock frequency offset is (-?[\d.]+)ppb", output)
    if found is None:
        raise ValueError("no frequency in the output of phc_ctl")
    return {"ppb": found[1]}


def _named(port: ClockPort, clock: str) -> str:
    return f"{port.site.name}'s clock" if clock == SYSTEM else f"the clock of {port.end}"


def _cores(port: ClockPort) -> str:
    words = Cores(port.ptp.fifo, port.ptp.cpus).prefix()
    return shlex.join(words) + " " if words else ""
