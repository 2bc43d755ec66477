"""What each host's and guest's tuning must keep: whom it names, and what there is to tune."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from latlab.scenario.findings import Mistake, Path, unknown
from latlab.scenario.guests import Guest, facts_of
from latlab.scenario.hosts import CPU_LISTS, BoardHost, Host, kernel_cpus
from latlab.scenario.parts import Cpus, End, UnknownError, parse_end
from latlab.scenario.probes import PingProbe, TimerProbe
from latlab.scenario.sketch import Sketch, known, where_known
from latlab.scenario.tuning import Tuning
from latlab.scenario.units import format_duration


def spinning_is_confined(_: Sketch, path: Path, tuning: Tuning) -> Iterator[Mistake]:
    """A listener that spins leaves the machine a CPU."""
    listener = tuning.listener
    if listener.mode == "spin" and listener.fifo is not None and listener.cpus is None:
        what = f"polling at SCHED_FIFO {listener.fifo} on every CPU would stop the machine"
        yield Mistake((*path, "listener", "mode"), what, "cpus: [n] in addition, or fifo: null")


def polling_has_a_time(_: Sketch, path: Path, tuning: Tuning) -> Iterator[Mistake]:
    """A listener that is to poll has a time to do it."""
    if tuning.listener.mode == "busy-poll" and tuning.listener.busy_poll is None:
        what = "mode busy-poll without a time"
        yield Mistake((*path, "listener", "busy_poll"), what, "a duration such as 50us")


def traced_listener_receives(sketch: Sketch, path: Path, tuning: Tuning) -> Iterator[Mistake]:
    """Where a listener is traced something of latlab's receives, in some cell at least."""
    if not any(_given(tuning, "listener", "trace")) or not {"streams", "probes"} <= sketch.names.keys():
        return
    known = [*sketch.streams, *sketch.probes]
    if len(known) < len((*sketch.names["streams"], *sketch.names["probes"])):
        return
    host = path[1]
    receivers = dict(where_known(sketch.streams, lambda _, stream: stream.listener))
    pings = {name: probe for name, probe in sketch.probes.items() if isinstance(probe, PingProbe)}
    receivers |= dict(where_known(pings, lambda _, ping: ping.to))
    if len(receivers) < len(sketch.streams) + len(pings) or host in receivers.values():
        return
    timers = {name: probe for name, probe in sketch.probes.items() if isinstance(probe, TimerProbe)}
    here = [name for name, on in where_known(timers, lambda _, timer: timer.on) if on == host]
    what = f"latlab receives nothing on {host}, so there is nothing to trace"
    remedy = "false, or a stream or a ping to it"
    yield Mistake((*path, "listener", "trace"), what, f"probes.{here[0]}.trace: threads" if here else remedy)


def tuned_guests_are_here(sketch: Sketch, path: Path, tuning: Tuning) -> Iterator[Mistake]:
    """A guest's threads run on its host."""
    if path[1] not in sketch.names.get("hosts", ()) or "guests" not in sketch.names:
        return
    places = dict(where_known(sketch.guests, lambda _, guest: guest.host))
    for name in tuning.guests:
        if name not in sketch.names["guests"]:
            here = [guest for guest, host in places.items() if host == path[1]]
            yield Mistake((*path, "guests", name), *unknown("guest", name, here))
        elif places.get(name) in {*sketch.names["hosts"]} - {path[1]}:
            what = f"{name} is a guest of {places[name]}"
            yield Mistake((*path, "guests", name), what, f"tuning.{places[name]}.guests.{name}")


def guests_have_no_guests(sketch: Sketch, path: Path, tuning: Tuning) -> Iterator[Mistake]:
    """What tunes a hypervisor goes with a host."""
    if path[1] in sketch.names.get("guests", ()) and path[1] not in sketch.names.get("hosts", ()):
        for key in ("guests", "halt_poll"):
            for value in _given(tuning, key):
                if value != {}:
                    what = f"{path[1]} is a guest, and has no {key}"
                    yield Mistake((*path, key), what, f"{key} in tuning of its host")


def machines_have_the_cpus(sketch: Sketch, path: Path, tuning: Tuning) -> Iterator[Mistake]:
    """CPUs of a guest are its vCPUs, and a board's are its own, counted from 0; of no other does the scenario say."""
    for where, cpus in _cpus(tuning):
        yield from cpus_are_there(sketch, str(path[1]), (*path, *where), [range(cpu, cpu + 1) for cpu in cpus])


def ptp_has_the_cpus(sketch: Sketch) -> Iterator[Mistake]:
    """The CPUs of linuxptp are of every machine that it is started on; of several without one the first is reported."""
    ptp = sketch.top.clock.ptp
    for cpus in _given(ptp, "cpus") if ptp else ():
        one_each = [range(cpu, cpu + 1) for cpu in cpus]
        for host in dict.fromkeys(parse_end(name).host for ports in _given(ptp, "ports") for name in ports):
            if found := list(known(cpus_are_there(sketch, host, ("clock", "ptp", "cpus"), one_each))):
                yield from found
                return


def kernel_has_the_cpus(sketch: Sketch, path: Path, machine: Host | Guest) -> Iterator[Mistake]:
    """The CPUs that are listed on the command line of a board's or a guest's kernel are its own."""
    if isinstance(machine, BoardHost | Guest):
        for append in _given(machine, "append"):
            listed = kernel_cpus(append, *CPU_LISTS)
            yield from cpus_are_there(sketch, str(path[1]), (*path, "append"), listed)


def cpus_are_there(sketch: Sketch, name: str, path: Path, listed: Iterable[range]) -> Iterator[Mistake]:
    """The CPUs of a host or guest of that name, as far as the scenario says how many it has."""
    found = _cpu_count(sketch, name)
    if found is None:
        return
    count, key = found
    beyond = [(max(count, cpus.start), cpus.stop - 1) for cpus in listed if max(count, cpus.start) < cpus.stop]
    if beyond:
        missing = dict.fromkeys(str(first) if first == last else f"{first}-{last}" for first, last in beyond)
        there = f"0 to {count - 1}" if count > 1 else "0"
        yield Mistake(path, f"{name} has no CPU {', '.join(missing)}", f"{there}, or more {key}")


def guests_have_the_queues(sketch: Sketch, path: Path, tuning: Tuning) -> Iterator[Mistake]:
    """Queues of a guest's network card are counted from 0; a card passed through and a domain's have their own."""
    guest = sketch.guests.get(str(path[1]))
    if guest is None or guest.domain is not None or facts_of(guest).gives_device:
        return
    for where, queue in _queues(tuning):
        if queue >= guest.queues:
            what = f"the network card of {path[1]} has no queue {queue}"
            yield Mistake((*path, *where), what, f"guests.{path[1]}.queues of {queue + 1} or more")


def tuned_interfaces_are_there(sketch: Sketch, path: Path, tuning: Tuning) -> Iterator[Mistake]:
    """Interrupts and queues are those of interfaces that the scenario has."""
    machine = str(path[1])
    there = _interfaces(sketch, machine)
    if there is None:
        return
    for key in ("irq", "steering", "rss", "coalescing"):
        for tuned in _given(tuning, key):
            for name in tuned:
                end = End(machine, name)
                if end in sketch.vlan_parents:
                    port = sketch.parent_of(end).interface
                    what = f"{name} is a VLAN interface: interrupts and queues are those of {port}"
                    yield Mistake((*path, key, name), what, port)
                elif name not in there:
                    yield Mistake((*path, key, name), *unknown(f"interface of {machine}", name, there))


def halt_poll_is_one(sketch: Sketch) -> Iterator[Mistake]:
    """A machine has one KVM, which all hosts on it share."""
    first: dict[str | None, tuple[str, int]] = {}
    asked = where_known(sketch.tuning, lambda host, tuning: (sketch.machine_of(host), tuning.halt_poll))
    for host, (machine, time) in asked:
        if time is None or host not in sketch.names.get("hosts", ()):
            continue
        other, there = first.setdefault(machine, (host, time))
        if time != there:
            what = f"{host} is on the machine of {other}, which has {format_duration(there)}"
            yield Mistake(("tuning", host, "halt_poll"), what, "the same for both, or one of them")


def _interfaces(sketch: Sketch, machine: str) -> list[str] | None:
    """The interfaces of a host or a guest; None while one of them may be missing."""
    if machine in sketch.guests:
        return [sketch.guests[machine].interface]
    if machine in sketch.names.get("hosts", ()) and "links" in sketch.names and not sketch.loose_links:
        return [end.interface for end in sketch.ends.values() if end.host == machine]
    return None


def _cpu_count(sketch: Sketch, name: str) -> tuple[int, str] | None:
    """How many CPUs a guest, or a host on a board, has, and what reports it; None where the scenario does not."""
    if name in sketch.guests:
        guest = sketch.guests[name]
        return None if guest.domain is not None else (guest.vcpus, "vcpus")
    machine = sketch.machine_of(name)
    board = sketch.hosts[machine] if machine is not None else None
    return (board.cpus, f"cpus of {machine}") if isinstance(board, BoardHost) else None


def _cpus(tuning: Tuning) -> Iterator[tuple[Path, Cpus]]:
    """Where CPUs of the machine itself stand, and which."""
    for path in (("talker", "cpus"), ("listener", "cpus"), ("load", "cpus"), ("isolated",)):
        yield from ((path, cpus) for cpus in _given(tuning, *path))
    for guests in _given(tuning, "guests"):
        for name, part in guests.items():
            for threads in ("vcpus", "emulator", "vhost"):
                yield from ((("guests", name, threads, "cpus"), cpus) for cpus in _given(part, threads, "cpus"))
    for irq in _given(tuning, "irq"):
        for name, part in irq.items():
            yield from ((("irq", name, "cpus"), cpus) for cpus in _given(part, "cpus"))
            for queues in _given(part, "queues"):
                yield from ((("irq", name, "queues", str(queue)), cpus) for queue, cpus in queues.items())


def _queues(tuning: Tuning) -> Iterator[tuple[Path, int]]:
    """Where queues stand, and which."""
    for irq in _given(tuning, "irq"):
        for name, part in irq.items():
            for queues in _given(part, "queues"):
                yield from ((("irq", name, "queues", str(queue)), queue) for queue in queues)
    for steering in _given(tuning, "steering"):
        for name, steered in steering.items():
            yield from ((("steering", name, str(priority)), queue) for priority, queue in steered.items())
    for spread in _given(tuning, "rss"):
        for name, chosen in spread.items():
            yield from ((("rss", name, place), queue) for place, queue in enumerate(chosen))


def _given(part: Any, *keys: str) -> Iterator[Any]:
    """The value that the keys lead to, one below the other, where it is known and not null."""
    try:
        for key in keys:
            part = getattr(part, key)
    except UnknownError:
        return
    if part is not None:
        yield part
