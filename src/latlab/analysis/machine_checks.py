"""The checks of the trust table about CPUs, network cards, memory, the tick and the kernel's own words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from latlab.analysis.counts import counted
from latlab.analysis.evidence import (
    MEASURING,
    Broken,
    Evidence,
    checks,
    counters,
    elapsed_ns,
    held_up,
    listed,
    pinned,
    speed_counts,
    vcpus,
    vm_hosts,
)
from latlab.analysis.words import duration, percent, plural
from latlab.model.facts import (
    CpuFacts,
    Facts,
    IdleState,
    InterfaceFacts,
    ThreadFacts,
    cpu_in,
    fact,
    interfaces_in,
    threads_in,
)
from latlab.model.units import MICROSECOND_NS, SECOND_NS

_GRAVE: Final = frozenset({"oops", "out_of_memory"})
"""What is no matter of speed: it counts in emulation, too."""
_MOVED: Final = {
    "compaction_stalls": "stalls of compaction",
    "huge_pages_collapsed": "huge pages collapsed from small ones",
}


@checks("memory-locked")
def memory_is_locked(evidence: Evidence) -> Iterator[Broken]:
    """Talkers and listeners of late packets whose pages may be taken away."""
    held = held_up(evidence)
    for agent in evidence.cell.agents:
        realtime = agent.realtime
        if agent.verb in MEASURING and agent.host in held and realtime.memory_locked is False:
            yield Broken(f"{agent.name} ({held[agent.host].where})", "memory locked", "not locked")


@checks("swapping")
def nothing_was_swapped(evidence: Evidence) -> Iterator[Broken]:
    """Hosts with late packets that read pages back from swap meanwhile."""
    held = held_up(evidence)
    for host, before, after in counters(evidence, "memory", "swapped_in_pages"):
        if host in held and after > before:
            yield Broken(f"{host} ({held[host].where})", "no page read back from swap", plural(after - before, "page"))


@checks("memory-moved")
def no_memory_was_moved(evidence: Evidence) -> Iterator[Broken]:
    """Hosts with late packets that moved pages about meanwhile, to make huge ones of them."""
    for host, late in held_up(evidence).items():
        grown = {
            words: after - before
            for key, words in _MOVED.items()
            for name, before, after in counters(evidence, "memory", key)
            if name == host
        }
        if said := counted(grown):
            yield Broken(f"{host} ({late.where})", "no pages moved", said)


@checks("guest-memory")
def guests_keep_their_memory(evidence: Evidence) -> Iterator[Broken]:
    """Guests whose memory became more or less meanwhile, and those of late packets from which it can be taken."""
    held = held_up(evidence)
    for guest in evidence.cell.guests:
        name = guest.name
        sizes = [
            fact(facts.get(name, {}), "memory", "total_bytes")
            for facts in (evidence.facts_before, evidence.facts_after)
        ]
        modules = fact(evidence.facts_before.get(name, {}), "kernel", "modules") or ()
        if None not in sizes and sizes[0] != sizes[1]:
            yield Broken(name, f"{sizes[0]} bytes of memory", f"{sizes[1]} afterwards")
        elif name in held and "virtio_balloon" in modules:
            yield Broken(f"{name} ({held[name].where})", "no balloon", "its kernel has loaded virtio_balloon")


@checks("timer-tick")
def streams_are_out_of_step(evidence: Evidence) -> Iterator[Broken]:
    """Streams through virtual machines, or in virtual time, whose period is a multiple or a divisor of a timer tick.

    Each of their packets meets the tick of that kernel at the same phase, or at one of a few: whether it comes before
    or after the tick is then the same for all of them, and decides how late they are. A CPU without a tick has none.
    """
    virtual = bool(evidence.cell.instructions_per_ns)
    if not virtual and not speed_counts(evidence):
        return
    guests = {guest.name for guest in evidence.cell.guests}
    for stream in evidence.cell.streams:
        if stream.period_ns is None or stream.leg == "down" or stream.tool:
            continue  # a closed loop drifts past every tick, and answers come as their questions do
        ends = (stream.talker, stream.listener)
        hosts = (set(ends) if virtual else set(ends) & guests) | vm_hosts(evidence, ends)
        for host in sorted(hosts):
            rate = _ticks_a_second(evidence.facts_before.get(host, {}))
            if rate and _in_step(stream.period_ns, rate) and not _is_tickless(evidence, host):
                tick = duration(SECOND_NS / rate)
                expected = f"a period that is neither a multiple nor a divisor of the tick, {tick}"
                yield Broken(f"stream {stream.name}, {host}", expected, duration(stream.period_ns))


@checks("kernel-complaints")
def kernels_did_not_complain(evidence: Evidence) -> Iterator[Broken]:
    """Hosts whose kernel's log has new lines of what makes packets late."""
    for host, facts in evidence.facts_before.items():
        before = fact(facts, "kernel", "complaints") or {}
        after = fact(evidence.facts_after.get(host, {}), "kernel", "complaints") or {}
        told = {
            name: max(0, count - before.get(name, 0))  # a full log has lost its oldest lines
            for name, count in after.items()
            if before and (name in _GRAVE or speed_counts(evidence))
        }
        if said := counted(told):
            yield Broken(host, "no such line in the kernel's log", said)


def _ticks_a_second(facts: Facts) -> int | None:
    """CONFIG_HZ, by the tick's period or the kernel's configuration; None if neither is known."""
    tick_ns: int | None = fact(facts, "clock", "tick_ns")
    if tick_ns:
        return round(SECOND_NS / tick_ns)
    configured = str(fact(facts, "kernel", "config", "CONFIG_HZ") or "")
    return int(configured) if configured.isdigit() and int(configured) else None


def _in_step(period_ns: int, rate: int) -> bool:
    """Whether a period is a multiple or a divisor of 1 / rate, in whole numbers: of 300 a second, too."""
    ticks = period_ns * rate
    return ticks % SECOND_NS == 0 or SECOND_NS % ticks == 0


def _is_tickless(evidence: Evidence, host: str) -> bool:
    """Whether all that runs there for the streams is on CPUs without a tick (nohz_full)."""
    tickless = set(fact(evidence.facts_before.get(host, {}), "cpu", "nohz_full") or ())
    used: list[set[int]] = [set(thread.get("cpus") or ()) for _, thread in vcpus(evidence, host)]
    for agent in evidence.cell.agents:
        if agent.host == host and agent.verb in MEASURING:
            used.append(set(agent.realtime.cpus or ()))
    return bool(used) and all(cpus and cpus <= tickless for cpus in used)


# The checks of the trust table that are about a machine's CPUs: each yields the places where evidence breaks it.


_STEADY: Final = ("performance", "userspace")
"""Governors that leave a CPU's frequency alone (Documentation/admin-guide/pm/cpufreq.rst)."""
_PTP: Final = ("ptp4l", "phc2sys")
_LONG: Final = 4
"""Streams must last this many times longer than the readings around them to show what a CPU did."""


@checks("rt-throttled")
def realtime_was_not_throttled(evidence: Evidence) -> Iterator[Broken]:
    """Hosts on which realtime threads were throttled, in the cell or, as far as can be known, before; guests and boards
    among them, by the log of their own kernels.
    """
    for host, before, after in counters(evidence, "scheduler", "rt_throttled_count"):
        unlimited = fact(evidence.facts_after[host], "scheduler", "rt_runtime_us") == -1
        if after > before:
            yield Broken(host, "no RT throttling", "throttled during the cell")
        elif after and not unlimited:
            yield Broken(host, "no RT throttling", "throttled since boot; the kernel reports it only once")
    yield from _fair_servers(evidence)


@checks("cpu-frequency")
def frequencies_are_fixed(evidence: Evidence) -> Iterator[Broken]:
    """Hosts with late packets of whose CPUs the kernel changes the frequency."""
    for host, late in held_up(evidence).items():
        before, after = evidence.facts_before.get(host, {}), evidence.facts_after.get(host, {})
        alike: dict[str, list[int]] = {}
        for cpu in _concerned(evidence, host):
            then, now = _frequency(before, cpu), _frequency(after, cpu)
            if then and now and then != now:
                alike.setdefault(f"{then} before, {now} after", []).append(cpu)
            elif then and not _is_steady(cpu_in(before, cpu)):
                alike.setdefault(then, []).append(cpu)
        for said, cpus in alike.items():
            yield Broken(
                f"{host} ({late.where})", "governor performance, from before to after", f"{listed(cpus)}: {said}"
            )


@checks("deep-idle")
def no_cpu_slept_deeply(evidence: Evidence) -> Iterator[Broken]:
    """Hosts of whose CPUs one was in a deep idle state while streams ran.

    That is certain where it was there for longer than the facts were taken before and after the streams.
    """
    if not speed_counts(evidence):
        return
    limit_ns = evidence.thresholds.idle_wakeup_ns
    for host, facts in evidence.facts_before.items():
        elapsed = elapsed_ns(evidence, host)
        if elapsed is None or not _runs_something(evidence, host):
            continue
        around_ns = elapsed - evidence.cell.duration_ns
        if around_ns < 0:
            continue  # the streams were cut short: it is not known how long they ran
        deep: dict[str, list[int]] = {}
        for cpu in _concerned(evidence, host):
            states = cpu_in(facts, cpu).get("idle_states") or {}
            now = cpu_in(evidence.facts_after[host], cpu).get("idle_states") or {}
            slow = [
                number for number, state in states.items() if MICROSECOND_NS * (state.get("latency_us") or 0) > limit_ns
            ]
            slept_us = sum(_slept_us(states[number], now.get(number, {})) for number in slow)
            if MICROSECOND_NS * slept_us > around_ns:
                most = max(slow, key=lambda number: _slept_us(states[number], now.get(number, {})))
                state = states[most]
                wakes = duration(MICROSECOND_NS * (state.get("latency_us") or 0))
                said = f"{state.get('name') or f'state {most}'}, {wakes} to wake from"
                deep.setdefault(said, []).append(cpu)
        for said, cpus in deep.items():
            expected = f"no state that takes over {duration(limit_ns)} to wake from"
            yield Broken(host, expected, f"{listed(cpus)}: {said}")


@checks("halt-polling")
def halt_polling_is_off(evidence: Evidence) -> Iterator[Broken]:
    """KVM hosts with late packets that poll for a halted guest, and so keep its CPU from others."""
    for host, late in held_up(evidence).items():
        guests = [guest for guest in evidence.cell.guests if guest.host == host]
        if any(guest.acceleration != "tcg" for guest in guests):
            polled_ns = fact(evidence.facts_before.get(host, {}), "machine", "kvm_halt_poll_ns")
            if polled_ns:
                yield Broken(f"{host} ({late.where})", "halt_poll_ns 0", f"up to {duration(polled_ns)}")


@checks("vcpus-apart")
def vcpus_are_apart(evidence: Evidence) -> Iterator[Broken]:
    """Guests all of whose virtual CPUs ran on one CPU, though they may run on several.

    The scheduler balances nothing among isolated CPUs: threads stay on the first one that they may run on.
    """
    for host, facts in evidence.facts_before.items():
        isolated = frozenset(fact(facts, "cpu", "isolated") or ())
        machines: dict[int, list[tuple[str, ThreadFacts]]] = {}
        for name, thread in vcpus(evidence, host):
            machines.setdefault(thread["process"], []).append((name, thread))
        later = threads_in(evidence.facts_after.get(host))
        for each in machines.values():
            allowed = frozenset(cpu for _, thread in each for cpu in thread.get("cpus") or ())
            ran = {one.get("last_cpu", -1) for name, thread in each for one in (thread, later.get(name, thread))}
            if len(each) > 1 and len(allowed & isolated) > 1 and len(ran) == 1 and min(ran) >= 0:
                names = ", ".join(name.partition(" ")[2] for name, _ in each)
                expected = f"a separate CPU for each, among {listed(allowed)}"
                yield Broken(f"{host}, {names}", expected, f"all on {listed(ran)}")


@checks("ptp-cpus")
def ptp_leaves_their_cpus_alone(evidence: Evidence) -> Iterator[Broken]:
    """PTP's programs that may run on a CPU of a measured thread, and are not above it: one of the two waits."""
    if not speed_counts(evidence):
        return
    for host, facts in evidence.facts_before.items():
        measured = pinned(evidence, host)
        for name, thread in threads_in(facts).items():
            if not name.startswith(_PTP):
                continue
            own = set(thread.get("cpus") or ())
            shared = [one for one in measured if one.cpus & own]
            above = [one for one in shared if (thread.get("priority") or 0) <= one.priority]
            if above:
                cpus = listed(cpu for one in above for cpu in one.cpus & own)
                names = ", ".join(one.name for one in above)
                highest = max(one.priority for one in above)
                priority = f"priority {thread.get('priority')}" if thread.get("priority") else "an ordinary thread"
                expected = f"other CPUs than those of {names}, or a priority above {highest}"
                yield Broken(f"{host}, {name.partition(' ')[2]}", expected, f"{priority} on {cpus}, too")


@checks("siblings-quiet")
def siblings_are_quiet(evidence: Evidence) -> Iterator[Broken]:
    """Hosts with late packets on which the other thread of a measured thread's core was busy."""
    most = evidence.thresholds.sibling_share
    for host, late in held_up(evidence).items():
        elapsed = elapsed_ns(evidence, host)
        for one in pinned(evidence, host) if elapsed else ():
            siblings = {
                sibling
                for cpu in one.cpus
                for sibling in cpu_in(evidence.facts_before[host], cpu).get("siblings") or ()
            }
            for cpu in sorted(siblings - one.cpus):
                busy = _busy_share(evidence, host, cpu, elapsed or 1)
                if busy is not None and busy > most:
                    expected = f"the siblings of {listed(one.cpus)} ({one.name}) busy for {percent(most)} at most"
                    yield Broken(f"{host} ({late.where})", expected, f"{listed([cpu])} busy for {percent(busy, 2)}")


def _fair_servers(evidence: Evidence) -> Iterator[Broken]:
    """Hosts with late packets on which a real-time thread kept its CPU busy all the time, while the kernel gives
    ordinary threads a part of that (Linux 6.12 and newer: kernel/sched/deadline.c, dl_server). Its log does not say so.
    """
    for host, late in held_up(evidence).items():
        for one in pinned(evidence, host):
            for cpu in sorted(one.cpus) if one.priority else ():
                server = fact(evidence.facts_before[host], "scheduler", "fair_servers", str(cpu)) or {}
                if server.get("runtime_ns") and _had_no_rest(evidence, host, cpu):
                    kept = f"{duration(server['runtime_ns'])} of each {duration(server.get('period_ns') or SECOND_NS)}"
                    actual = f"{listed([cpu])} ({one.name}) was never idle; {kept} are reserved for ordinary threads"
                    yield Broken(f"{host} ({late.where})", "no RT throttling", actual)


def _runs_something(evidence: Evidence, host: str) -> bool:
    """Whether a talker, a listener or a guest runs on the host itself."""
    agents = {agent.host for agent in evidence.cell.agents if agent.verb in MEASURING}
    return host in agents | {guest.host for guest in evidence.cell.guests}


def _concerned(evidence: Evidence, host: str) -> list[int]:
    """The CPUs that matter on a host: those of threads bound to some of them; where none is bound, all."""
    online: list[int] = fact(evidence.facts_before.get(host, {}), "cpu", "online") or []
    return sorted({cpu for one in pinned(evidence, host) for cpu in one.cpus}) or online


def _frequency(facts: Facts, cpu: int) -> str:
    """How the frequency of a CPU is chosen, in words; empty if it is fixed, or the kernel does not report it."""
    one = cpu_in(facts, cpu)
    if not (governor := one.get("governor")):
        return ""
    low, high = one.get("minimum_khz"), one.get("maximum_khz")
    between = f", {low / 10**6:.4g} to {high / 10**6:.4g} GHz" if low and high else ""
    return f"governor {governor}{between}"


def _is_steady(one: CpuFacts) -> bool:
    low = one.get("minimum_khz")
    return one.get("governor") in _STEADY or (low is not None and low == one.get("maximum_khz"))


def _slept_us(before: IdleState, after: IdleState) -> int:
    """For how much longer a CPU was in the state; 0 where it is not known."""
    then, now = before.get("time_us"), after.get("time_us")
    return now - then if then is not None and now is not None else 0


def _idle_ns(evidence: Evidence, host: str, cpu: int) -> int | None:
    """How long a CPU was idle between the facts; None where they do not report it."""
    total = 0
    for key in ("idle_ns", "iowait_ns"):
        found = [grown for name, *grown in counters(evidence, "cpu", "cpus", str(cpu), key) if name == host]
        if not found:
            return None
        total += found[0][1] - found[0][0]
    return total


def _busy_share(evidence: Evidence, host: str, cpu: int, elapsed: int) -> float | None:
    idle = _idle_ns(evidence, host, cpu)
    return None if idle is None else max(0.0, 1 - idle / elapsed)


def _had_no_rest(evidence: Evidence, host: str, cpu: int) -> bool:
    """Whether a CPU was idle for no longer than facts were taken before and after the streams, and that was short."""
    elapsed, idle = elapsed_ns(evidence, host), _idle_ns(evidence, host, cpu)
    if elapsed is None or idle is None:
        return False
    around_ns = elapsed - evidence.cell.duration_ns
    return bool(idle <= around_ns <= evidence.cell.duration_ns / _LONG)


# The checks of the trust table about network cards and interrupts: each yields the places where they break it.


_SKIPPED = ("tx_hwtstamp_skipped", "tx_hwtstamp_timeouts", "rx_hwtstamp_cleared")
"""Timestamps that a driver did not hand over, as Intel's count them (`ethtool -S`): the one before was still being read
(skipped), or nothing came of it (timeouts, cleared)."""


@checks("irq-moved")
def interrupts_stayed(evidence: Evidence) -> Iterator[Broken]:
    """Measured interfaces whose interrupts may go to other CPUs after the cell than before it, or are others."""
    for host, name, before, after in _interfaces(evidence):
        irqs = before.get("irqs") or []
        if (now := after.get("irqs")) is not None and now != irqs:
            yield Broken(
                f"{host}.{name}",
                f"interrupt{'s' if len(irqs) != 1 else ''} {_numbers(irqs)}",
                f"{_numbers(now)} afterwards",
            )
            continue
        for irq in irqs:
            first, last = (
                fact(facts.get(host, {}), "interrupts", "irqs", str(irq), "affinity")
                for facts in (evidence.facts_before, evidence.facts_after)
            )
            if first and last and first != last:
                yield Broken(f"{host}.{name}, interrupt {irq}", listed(first), f"{listed(last)} afterwards")


@checks("irqbalance")
def nothing_moves_interrupts(evidence: Evidence) -> Iterator[Broken]:
    """Hosts with late packets and network cards on which irqbalance runs."""
    for host, late in held_up(evidence).items():
        facts = evidence.facts_before.get(host, {})
        cards = [name for name, one in interfaces_in(facts).items() if one.get("irqs")]
        if cards and fact(facts, "processes", "irqbalance"):
            yield Broken(f"{host} ({late.where})", f"the interrupts of {', '.join(cards)} not moved", "irqbalance runs")


@checks("irq-cpus")
def interrupts_have_other_cpus(evidence: Evidence) -> Iterator[Broken]:
    """Measured threads, of late packets, on whose CPU a network card's interrupts came while the cell ran."""
    held = held_up(evidence)
    for host, name, before, _ in _interfaces(evidence):
        if host not in held:
            continue
        for irq in before.get("irqs") or ():
            for thread in pinned(evidence, host):
                for cpu in sorted(thread.cpus):
                    if came := _came(evidence, host, irq, cpu):
                        where = f"{host}.{name} ({held[host].where})"
                        yield Broken(
                            where,
                            f"other CPUs than {thread.name}'s",
                            f"interrupt {irq} came {_times(came)} on CPU {cpu}",
                        )


@checks("irq-coalescing")
def coalescing_is_small(evidence: Evidence) -> Iterator[Broken]:
    """Interfaces whose interrupts wait for more packets, for long next to the latency of streams that end there."""
    if not speed_counts(evidence):
        return
    share = evidence.thresholds.coalescing_share
    for stream in evidence.cell.streams:
        measured = evidence.streams.get(stream.name)
        latency = measured.metrics.get("latency") if measured else None
        median = abs((latency and latency.p50) or 0)
        near = {stream.listener} | vm_hosts(evidence, (stream.listener,))
        for host, name, before, after in _interfaces(evidence) if median else ():
            waited_ns = MICROSECOND_NS * (fact(before, "coalescing", "rx_us") or 0)
            if host in near and waited_ns > share * median and _received(before, after) >= (stream.count or 0):
                expected = f"at most {percent(share)} of {stream.name}'s median latency, {duration(median)}"
                yield Broken(f"{host}.{name}", expected, f"interrupts wait for {duration(waited_ns)} (rx-usecs)")


@checks("eee-off")
def links_do_not_rest(evidence: Evidence) -> Iterator[Broken]:
    """Measured interfaces whose link rests while nothing is sent (Energy-Efficient Ethernet, IEEE 802.3 clause 78)."""
    for host, name, before, _ in _interfaces(evidence) if speed_counts(evidence) else ():
        if fact(before, "energy_efficient_ethernet", "active"):
            yield Broken(f"{host}.{name}", "Energy-Efficient Ethernet off", "in force: the link wakes for each packet")


@checks("card-timestamps")
def cards_gave_every_timestamp(evidence: Evidence) -> Iterator[Broken]:
    """Measured interfaces whose driver counted timestamps that it did not hand over."""
    for host, name, before, after in _interfaces(evidence) if speed_counts(evidence) else ():
        then, now = (one.get("driver_statistics") or {} for one in (before, after))
        missed = {key: now[key] - then[key] for key in _SKIPPED if key in then and now.get(key, 0) > then[key]}
        if missed:
            yield Broken(f"{host}.{name}", "none", ", ".join(f"{key} {count}" for key, count in missed.items()))


@checks("link-up")
def links_stayed_up(evidence: Evidence) -> Iterator[Broken]:
    """Measured interfaces whose carrier came or went between the facts."""
    for host, name, before, after in _interfaces(evidence):
        then, now = before.get("carrier_changes"), after.get("carrier_changes")
        if then is not None and now is not None and now != then:
            changes = f"it changed {_times(now - then)}"
            yield Broken(f"{host}.{name}", "a link that is up from before the streams until after them", changes)


def _interfaces(evidence: Evidence) -> Iterator[tuple[str, str, InterfaceFacts, InterfaceFacts]]:
    """(host, name, facts before, facts after) of every measured interface that was there."""
    for host, facts in evidence.facts_before.items():
        later = interfaces_in(evidence.facts_after.get(host))
        for name, before in interfaces_in(facts).items():
            yield host, name, before, later.get(name) or {}


def _came(evidence: Evidence, host: str, irq: int, cpu: int) -> int:
    """How often an interrupt came on a CPU between the facts."""
    then, now = (
        fact(facts.get(host, {}), "interrupts", "irqs", str(irq), "cpu_counts")
        for facts in (evidence.facts_before, evidence.facts_after)
    )
    if then is None or now is None:
        return 0
    return int(now.get(str(cpu), 0) - then.get(str(cpu), 0))


def _received(before: InterfaceFacts, after: InterfaceFacts) -> int:
    """Packets that came in by an interface between the facts."""
    then, now = fact(before, "statistics", "rx_packets"), fact(after, "statistics", "rx_packets")
    return int(now - then) if then is not None and now is not None else 0


def _numbers(irqs: list[int]) -> str:
    return ", ".join(map(str, irqs)) or "none"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
