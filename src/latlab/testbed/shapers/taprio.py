"""Gates by a schedule (tc-taprio(8)): set up for an instant to come, and waited for until it is the one in force.

The base time lies on the grid of the cycle in TAI, so that the schedules of all hosts whose clocks agree are aligned.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from latlab.model.units import SECOND_NS
from latlab.scenario.shapers import Taprio
from latlab.testbed.shapers.base import Qdisc, QdiscPlace, ShaperKind, in_words, needs
from latlab.testbed.shapers.mqprio import class_options, class_words, classes_in_words
from latlab.testbed.step import Check, Step

FLAGS = {"software": 0, "txtime-assist": 1, "offload": 2}
"""TCA_TAPRIO_ATTR_FLAG_*, include/uapi/linux/pkt_sched.h."""
AHEAD_NS = 200_000_000
"""The base time lies this far in the future at least: what some NICs ask for, and long enough for tc."""
IN_FORCE_WITHIN_MS = 5_000


class TaprioKind(ShaperKind):
    """tc-taprio(8)."""

    use = "gate schedules"
    tried = (
        *("num_tc", "2", "map", "0", "1", "queues", "1@0", "1@1", "base-time", "0"),
        *("sched-entry", "S", "01", "500000", "sched-entry", "S", "02", "500000", "clockid", "CLOCK_TAI"),
    )

    def steps(self, shaper: Taprio, place: QdiscPlace) -> Iterator[Step]:
        """The schedule is set up, and comes into force."""
        tai = (place.site.agent, "tai", "--next", str(shaper.cycle), "--shift", str(shaper.shift))
        words = ("taprio", *class_words(shaper), "base-time", "BASE", *schedule_words(shaper))
        line = shlex.join(place.replaced(*words)).replace(" BASE ", ' "$base" ')
        on_cpu = f"taskset -c {shaper.cpu} " if shaper.cpu is not None else ""
        script = f"base=$({shlex.join(tai)} --after {AHEAD_NS}) && exec {on_cpu}{line}"
        expected = in_words({"kind": "taprio", "options": _options(shaper)}, lambda one: schedule_in_words(one, shaper))
        check = place.check(expected, lambda one: schedule_in_words(latest(one), shaper))
        yield self.shaped(place, shaper, ("sh", "-c", script), check)
        yield Step(
            host=place.end.host,
            title=f"the gates of {place.end} are in force",
            do=("sleep", f"{AHEAD_NS / SECOND_NS:.9f}"),
            check=_in_force(place),
        )
        if shaper.cpu is not None:
            yield Step(
                host=place.end.host,
                title=f"the timer of the gates of {place.end} is on CPU {shaper.cpu}",
                do=(),
                check=_timer_on(shaper.cpu),
            )

    def instead(self, shaper: Taprio, has_clock: bool) -> str:
        if shaper.mode == "offload":
            why = "" if has_clock else "full offload needs a NIC with a PTP clock; "
            return f"{why}mode: txtime-assist or mode: software works with a transmit queue for each class"
        return f"{needs(shaper)}, and as many transmit queues as its classes have"


def _timer_on(cpu: int) -> Check:
    """That a timer of gates is there. It stays where tc has started it (hrtimer_start() in net/sched/sch_taprio.c), and
    the list does not say whose it is.
    """

    def read(output: str) -> str:
        on, found = "", set[str]()
        for line in output.splitlines():
            if line.startswith("cpu:"):
                on = line.split()[1]
            else:
                found.add(on)
        return f"CPU {cpu}" if str(cpu) in found else f"CPU {', '.join(sorted(found))}" if found else "no timer"

    return Check(("grep", "-E", "^cpu:|advance_sched", "/proc/timer_list"), expected=f"CPU {cpu}", read=read)


def _in_force(place: QdiscPlace) -> Check:
    return place.check("taprio in force", lambda options: waiting(options), IN_FORCE_WITHIN_MS)


def schedule_words(shaper: Taprio) -> tuple[str, ...]:
    """`sched-entry S 03 101000 … flags 0x1 txtime-delay 300000 clockid CLOCK_TAI`.

    A NIC that keeps the gates does so by its own clock, and none is named.
    """
    entries = [word for gate in shaper.gates for word in ("sched-entry", "S", f"{gate.mask:02x}", str(gate.for_))]
    flags = FLAGS[shaper.mode]
    words = [*entries, "flags", f"{flags:#x}"] if flags else entries
    if shaper.mode == "txtime-assist":
        words += ["txtime-delay", str(shaper.delay)]
    return (*words, *(() if shaper.mode == "offload" else ("clockid", "CLOCK_TAI")))


def _options(shaper: Taprio) -> Qdisc:
    """What `tc -j` is to say of it."""
    options = class_options(shaper)
    flags = FLAGS[shaper.mode]
    if shaper.mode != "offload":
        options["clockid"] = "TAI"
    if flags:
        options["flags"] = f"{flags:#x}"
    if shaper.mode == "txtime-assist":
        options["txtime_delay"] = shaper.delay
    schedule = [{"cmd": "S", "gatemask": f"{gate.mask:#x}", "interval": gate.for_} for gate in shaper.gates]
    return options | {"base_time": shaper.shift, "cycle_time": shaper.cycle, "schedule": schedule}


def latest(options: Qdisc) -> Qdisc:
    """The options with the schedule that was set up last: one that waits for its base time, else the one in force."""
    admin: Qdisc = options.get("admin", {})
    return options | admin


def waiting(options: Qdisc) -> str:
    """Whether the schedule that was set up last is in force."""
    if "admin" in options or not options.get("schedule"):
        return f"waits for its base time, {latest(options).get('base_time')} ns"
    return "in force"


def schedule_in_words(options: Qdisc, shaper: Taprio) -> str:
    """Classes, clock and flags, and each entry: `…, cycle 503000 ns from 0, 0x3 101000, 0x2 103000`.

    The base time is given modulo the cycle.
    """
    # tc writes a mask of no gates as 0, without 0x.
    entries = ", ".join(f"{int(entry['gatemask'], 16):#x} {entry['interval']}" for entry in options["schedule"])
    clock = options.get("clockid", "NIC")
    assist = f", txtime-delay {options['txtime_delay']} ns" if "txtime_delay" in options else ""
    phase = options["base_time"] % shaper.cycle
    return (
        f"{classes_in_words(options)}, clock {clock}, flags {options.get('flags', '0x0')}{assist}, "
        f"cycle {options['cycle_time']} ns from {phase}, {entries}"
    )
