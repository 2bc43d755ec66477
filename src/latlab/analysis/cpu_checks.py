"""The checks of the trust table that are about a machine's CPUs: each yields the places where evidence breaks it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from latlab.analysis.evidence import Broken, Evidence, checks
from latlab.analysis.late import held_up, speed_counts
from latlab.analysis.trust_readings import MEASURING, counters, elapsed_ns, fact, listed, pinned, vcpus
from latlab.analysis.words import duration, percent
from latlab.model.part import Facts

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
            elif then and not _is_steady(fact(before, "cpu", "cpus", str(cpu)) or {}):
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
            states = fact(facts, "cpu", "cpus", str(cpu), "idle_states") or {}
            now = fact(evidence.facts_after[host], "cpu", "cpus", str(cpu), "idle_states") or {}
            slow = [number for number, state in states.items() if 1_000 * (state.get("latency_us") or 0) > limit_ns]
            slept_us = sum(_grown(states[number], now.get(number, {}), "time_us") for number in slow)
            if 1_000 * slept_us > around_ns:
                most = max(slow, key=lambda number: _grown(states[number], now.get(number, {}), "time_us"))
                state = states[most]
                said = f"{state.get('name') or f'state {most}'}, {duration(1_000 * state['latency_us'])} to wake from"
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
        machines: dict[int, list[tuple[str, Facts]]] = {}
        for name, thread in vcpus(evidence, host):
            machines.setdefault(thread["process"], []).append((name, thread))
        later = fact(evidence.facts_after.get(host, {}), "processes", "threads") or {}
        for threads in machines.values():
            allowed = frozenset(cpu for _, thread in threads for cpu in thread.get("cpus") or ())
            ran = {one.get("last_cpu", -1) for name, thread in threads for one in (thread, later.get(name, thread))}
            if len(threads) > 1 and len(allowed & isolated) > 1 and len(ran) == 1 and min(ran) >= 0:
                names = ", ".join(name.partition(" ")[2] for name, _ in threads)
                expected = f"a separate CPU for each, among {listed(allowed)}"
                yield Broken(f"{host}, {names}", expected, f"all on {listed(ran)}")


@checks("ptp-cpus")
def ptp_leaves_their_cpus_alone(evidence: Evidence) -> Iterator[Broken]:
    """PTP's programs that may run on a CPU of a measured thread, and are not above it: one of the two waits."""
    if not speed_counts(evidence):
        return
    for host, facts in evidence.facts_before.items():
        threads = fact(facts, "processes", "threads") or {}
        measured = pinned(evidence, host)
        for name, thread in threads.items():
            if not name.startswith(_PTP):
                continue
            shared = [one for one in measured if one.cpus & set(thread.get("cpus") or ())]
            above = [one for one in shared if (thread.get("priority") or 0) <= one.priority]
            if above:
                cpus = listed(cpu for one in above for cpu in one.cpus & set(thread["cpus"]))
                names = ", ".join(one.name for one in above)
                highest = max(one.priority for one in above)
                priority = f"priority {thread['priority']}" if thread.get("priority") else "an ordinary thread"
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
                for sibling in fact(evidence.facts_before[host], "cpu", "cpus", str(cpu), "siblings") or ()
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
                    kept = f"{duration(server['runtime_ns'])} of each {duration(server.get('period_ns') or 10**9)}"
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


def _frequency(facts: Any, cpu: int) -> str:
    """How the frequency of a CPU is chosen, in words; empty if it is fixed, or the kernel does not report it."""
    one = fact(facts, "cpu", "cpus", str(cpu)) or {}
    if not one.get("governor"):
        return ""
    low, high = one.get("minimum_khz"), one.get("maximum_khz")
    between = f", {low / 10**6:.4g} to {high / 10**6:.4g} GHz" if low and high else ""
    return f"governor {one['governor']}{between}"


def _is_steady(one: Facts) -> bool:
    low = one.get("minimum_khz")
    return one.get("governor") in _STEADY or (low is not None and low == one.get("maximum_khz"))


def _grown(before: Facts, after: Facts, key: str) -> int:
    """How much a counter grew; 0 where it is not known."""
    then, now = before.get(key), after.get(key)
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
