"""The whole matrix: every repetition of every cell, one after the other, into one run folder."""

from __future__ import annotations

import asyncio
import contextlib
import os
import platform
import random
import secrets
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import latlab
from latlab.model.errors import UsageError, writing
from latlab.model.units import SECOND_NS
from latlab.recordings.run import RUN_FORMAT, OrderedCell, RecordedRun, RunVersions
from latlab.recordings.run_folder import RunFolder
from latlab.run.beds import Beds
from latlab.run.cell import Making, load_duration_ns, run_cell
from latlab.run.clock_legs import leg_specs, needed_legs
from latlab.run.clocks import planned_with_kvm_clock
from latlab.run.drops import drops_spec, drops_watched_on, kernels_watched
from latlab.run.events import (
    CellEnded,
    CellStarted,
    Cleaned,
    ClockBound,
    Event,
    Followed,
    Listener,
    Packets,
    Phase,
    RunStarted,
    TimerWindowEnded,
    Waiting,
    ignore,
)
from latlab.run.flows import flow_kernels, flow_recording, keep_of, planned_point, planned_trigger
from latlab.run.probe_specs import ping_spec, pings, pong_spec, timer_spec, timers, verb_of
from latlab.run.returning import Returning
from latlab.run.room import available_memory, check_room
from latlab.run.specs import (
    BedFacts,
    around_spec,
    entry_spec,
    listen_spec,
    listeners,
    talk_spec,
    talkers,
    trace_spec,
    waking_spec,
)
from latlab.run.watching import watch_spec
from latlab.scenario import BoardHost, Loaded, MatrixCell, MatrixRun, Scenario, cells, runs
from latlab.scenario.watched import parse_flow
from latlab.testbed.agent_binary import find_agent, find_agents
from latlab.testbed.bridges.joints import mac_of
from latlab.testbed.guests.qemu import acceleration
from latlab.testbed.guests.start import TAG, image_names, images_in_use, planned_site
from latlab.testbed.images import Image
from latlab.testbed.journal import Journal
from latlab.testbed.loads import plan_loads
from latlab.testbed.machines.board_qemu import emulator_cpu
from latlab.testbed.makers import make_hosts
from latlab.testbed.places import find_places
from latlab.testbed.plan import Command, PlannedCell, plan_text
from latlab.testbed.preflight import image_problems, preflight_cells, raise_problems, warnings
from latlab.testbed.probes import plan_probes
from latlab.testbed.site import Site
from latlab.testbed.unavailable import unavailable
from latlab.testbed.undo import clean_stale

ANY_RUN = "0" * 16
"""The run id in a plan: a run has a random one."""


def check(loaded: Loaded, root: Path, repeat: int) -> list[MatrixCell]:
    """The scenario's cells. UsageError, LabError: all that would keep them from running here; nothing is changed.

    root: where the run's folder is to be. repeat: how often each is to be measured.
    """
    found = cells(loaded)
    raise_problems(preflight_cells(loaded))
    check_room(found, repeat, root)
    return found


def plan(loaded: Loaded) -> str:
    """Every command that a run of the scenario would give, ready to paste."""
    problems, warned = ([str(one) for one in found] for found in (image_problems(loaded), warnings(loaded)))
    return plan_text([planned_cell(cell) for cell in cells(loaded)], problems, warned)


async def run(
    loaded: Loaded,
    root: Path,
    listener: Listener = ignore,
    *,
    check_repeat: bool = False,
    jobs: int | None = None,
    live: bool = False,
) -> RunFolder:
    """The run's folder, with every cell that could be run in it. A cell that failed leaves the others' results whole.

    check_repeat: every cell is measured twice, in virtual time with the same seed, and the result says what the two
    differ by. jobs: how many cells in virtual time are measured at once; as many as there are CPUs for if not given.
    live: the listener is informed once a second how late packets were, how well clocks are known, what CPUs wait for.

    SIGINT and SIGTERM end the run in order: the cell's recordings are finished, the test bed is undone, and the folder
    returned says `interrupted`. UsageError, LabError: nothing was run, and nothing is changed.
    """
    with images_in_use(cell.scenario for cell in cells(loaded)) as images:
        return await _run(loaded, root, listener, images, check_repeat=check_repeat, jobs=jobs, live=live)


async def _run(
    loaded: Loaded,
    root: Path,
    listener: Listener,
    images: Mapping[str, Image],
    *,
    check_repeat: bool,
    jobs: int | None,
    live: bool,
) -> RunFolder:
    """As `run`. images: every built one, by name."""
    repeat = 2 if check_repeat else loaded.scenario.repeat
    found = check(loaded, root, repeat)
    if check_repeat:
        check_comparable(found)
    jobs = at_once(found, jobs)
    undone = await clean_stale(leave_unreached=True)
    if undone:
        listener(Cleaned(tuple(undone)))
    # A journal that cannot be written is reported now, before anything starts.
    Journal.create(f"try-{secrets.token_hex(4)}").close()
    seed = loaded.scenario.seed if loaded.scenario.seed is not None else random.SystemRandom().randrange(2**32)
    order = runs(found, repeat, seed, copies=check_repeat)
    # A copy is to show that all is alike, from the first step on.
    beds = Beds([] if check_repeat else order, Site(TAG, agent=str(find_agent()), images=images), jobs)
    order = beds.in_groups(order, jobs)
    folder = RunFolder.create(root, loaded.scenario.name)
    folder.write_scenario(loaded.text)
    with folder.alive():
        with writing(folder.plan_path):
            folder.plan_path.write_text(plan(loaded), encoding="utf-8")
        recorded = RecordedRun(
            format=RUN_FORMAT,
            run=folder.id,
            name=loaded.scenario.name,
            description=loaded.scenario.description,
            scenario_sha256=folder.scenario_digest(),
            seed=seed,
            trust=loaded.scenario.trust.model_dump(mode="json", exclude_unset=True),
            check_repeat=check_repeat,
            live=live,
            order=[OrderedCell(slug=one.cell.slug, repeat=one.repeat) for one in order],
            versions=run_versions(found, images),
            started=_now(),
            ended=None,
            status="running",
        )
        folder.write_run(recorded)
        listener(RunStarted(folder.path, len(found), len(order), seed, tuple(map(str, warnings(loaded)))))
        try:
            status = (
                "ended"
                if await until_told(_run_all(order, folder, listener, jobs, beds, images, live=live))
                else "interrupted"
            )
        except BaseException:
            # On a full disk run.json cannot be written either; what has happened is the error that is raised.
            with contextlib.suppress(OSError):
                folder.write_run(recorded.over(_now(), "interrupted"))
            raise
        folder.write_run(recorded.over(_now(), status))
    return folder


def run_versions(found: Sequence[MatrixCell], images: Mapping[str, Image]) -> RunVersions:
    """What the run is made with: latlab, from which commit, Python, and the digests of the images that it uses."""
    used = {name for cell in found for name in image_names(cell.scenario)} & images.keys()
    return RunVersions(
        latlab=latlab.__version__,
        commit=source_commit(),
        python=platform.python_version(),
        images={name: images[name].digest for name in sorted(used)},
    ).without_empty("commit")


def source_commit() -> str | None:
    """The commit of the repository that latlab runs from, with `-dirty` where a file differs; None: it is installed."""
    source = Path(latlab.__file__).parents[2]
    if not (source / ".git").exists():
        return None
    git = ("git", "--no-optional-locks", "-C", str(source), "describe", "--always", "--dirty", "--exclude=*")
    try:
        said = subprocess.run([*git, "--abbrev=12"], capture_output=True, text=True, check=False)
    except OSError:
        return None
    return said.stdout.strip() or None


def check_comparable(found: Sequence[MatrixCell]) -> None:
    """Check that two measurements of each of these cells are to be equal. UsageError: not in real time."""
    if not all(cell.scenario.in_virtual_time for cell in found):
        what = "in real time no repetition is equal to another"
        raise UsageError(what, where="--check-repeat", remedy="boards with time: virtual, or `repeat` in the scenario")


def at_once(found: Sequence[MatrixCell], jobs: int | None) -> int:
    """Return how many of these cells are measured at once. UsageError: more than one was asked for, and they cannot be.

    Only boards in virtual time do not notice each other. Each takes a CPU and its memory, which it may need twice: once
    more for its snapshot, in the page cache.
    """
    if not all(cell.scenario.in_virtual_time for cell in found):
        if jobs is not None and jobs > 1:
            what = "cells that share this machine's clock and CPUs would disturb each other"
            raise UsageError(what, where="--jobs", remedy="--jobs 1, or boards with time: virtual")
        return 1
    if jobs is not None:
        return jobs
    available = available_memory()
    needed = 2 * max(
        sum(host.memory for host in cell.scenario.hosts.values() if isinstance(host, BoardHost)) for cell in found
    )
    fitting = len(found) if available is None else available // needed
    return max(1, min(len(os.sched_getaffinity(0)), fitting))


async def _run_all(
    order: Sequence[MatrixRun],
    folder: RunFolder,
    listener: Listener,
    jobs: int,
    beds: Beds,
    images: Mapping[str, Image],
    *,
    live: bool = False,
) -> None:
    """Run every cell, `jobs` at once, in this order. images: those that were built, by name."""
    left = iter(enumerate(order, start=1))
    repeats = max(one.repeat for one in order)
    own, making, returning = find_agent(), Making(), Returning()
    agents = find_agents(own)

    async def work() -> None:
        tag = secrets.token_hex(2)
        for number, one in left:
            scenario = one.cell.scenario
            shown = tuple(followed(scenario)) if live else ()
            listener(CellStarted(number, one.cell.slug, one.repeat, repeats, scenario.duration, shown))
            with emulator_cpu() if scenario.in_virtual_time else contextlib.nullcontext(0) as cpu:
                site = Site(tag, agent=str(own), agents=agents, images=images, emulator_cpu=cpu)
                known = partial(_of_cell, listener, number)
                await returning.wait(scenario, site, known)
                cell_folder = folder.add_cell(one.cell.slug, one.repeat)
                bed = beds.of(one)
                cell = await run_cell(one, number, site, cell_folder, known, making, bed=bed, live=live)
                returning.note(cell)
                if bed:
                    bed.ended()
                listener(CellEnded(number, cell))
            if (this := asyncio.current_task()) and this.cancelling():
                # A wait that was over at that moment may have lost it.
                raise asyncio.CancelledError

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(jobs, len(order))):
                group.create_task(work())
    except BaseExceptionGroup as several:
        raise several.exceptions[0] from None
    finally:
        beds.close()


def followed(scenario: Scenario) -> Iterator[Followed]:
    """What is shown live of a cell, in the scenario's order: what our own agents send and receive."""
    for name, stream in scenario.streams.items():
        number = scenario.stream_number(name)
        yield Followed(name, number, number, stream.talker, stream.listener)
    for name in pings(scenario):
        asks, _ = scenario.probe_hosts(name)
        up, down = (scenario.stream_number(f"{name}.{leg}") for leg in ("up", "down"))
        yield Followed(name, down, up, asks, asks)
    for name in timers(scenario):
        (host,) = scenario.probe_hosts(name)
        yield Followed(name, scenario.probe_number(name), None, host, host)


def _of_cell(listener: Listener, number: int, event: Event) -> None:
    """Pass an event of a cell on, with which cell it is."""
    if isinstance(event, Phase | Waiting | Packets | ClockBound | TimerWindowEnded):
        event = replace(event, order=number)
    listener(event)


async def until_told(work: Any) -> bool:
    """Whether the work finished; False if SIGINT, SIGTERM or SIGHUP ended it, cleanly.

    One that the process was started to ignore, as by nohup, stays ignored.
    """
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    before = {number: handler for number, handler in handlers.items() if handler is not signal.SIG_IGN}
    for number in before:
        loop.add_signal_handler(number, task.cancel)
    try:
        await task
    except asyncio.CancelledError:
        return False
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)
    return True


def planned_cell(cell: MatrixCell) -> PlannedCell:
    """Return what a run of the cell would start."""
    scenario = cell.scenario
    site = planned_site(scenario)
    hosts = make_hosts(scenario, site)
    places = find_places(scenario, site, hosts)
    emulated = {name for name in scenario.guests if _runs_by(scenario, site, name) != "kvm"}
    at = BedFacts(
        {
            # The address of a NIC that is there is only known to the machine: it is named by what it is.
            str(end): mac_of(scenario, TAG, segment, end) or f"MAC of {end}"
            for segment in scenario.segments()
            for end in segment.members
        },
        places=places,
        emulated=frozenset(emulated),
    )
    needed_ns = load_duration_ns(scenario)
    seconds = -(-needed_ns // SECOND_NS)
    listening = {host: listen_spec(scenario, host, at, ANY_RUN, f"listener-{host}") for host in listeners(scenario)}
    talking = {host: talk_spec(scenario, host, at, ANY_RUN, f"talker-{host}") for host in talkers(scenario)}
    agents = [
        Command(host, (places.agent(host), "listen"), "listens", spec, seconds=seconds)
        for host, spec in listening.items()
    ]
    agents += [
        Command(
            host,
            (places.agent(host), "trace"),
            "traces what receives, whose thread is `tid` of its `ready`",
            trace_spec(scenario, host, ["TID"] * len(scenario.receivers[host]), ANY_RUN, f"trace-{host}"),
            seconds=seconds,
        )
        for host in scenario.traced
    ]
    agents += [
        Command(
            scenario.guests[name].host,
            (places.agent(scenario.guests[name].host), "trace"),
            f"traces how interrupts come into {name}, in whose QEMU and vhost the threads are TID",
            entry_spec(scenario, name, ["TID"], ANY_RUN, f"entry-{name}"),
            seconds=seconds,
        )
        for name in scenario.entered
        if _runs_by(scenario, site, name) == "kvm"
    ]
    agents += [
        Command(
            kernel.watcher,
            (places.agent(kernel.watcher), "drops"),
            "watches where packets are dropped",
            drops_spec(scenario, ANY_RUN, f"drops-{kernel.watcher}"),
            seconds=seconds,
        )
        for kernel in kernels_watched(scenario, hosts, emulated)
        if kernel.why_not is None
    ]
    agents += [
        Command(
            host,
            (places.agent(host), "trace"),
            f"keeps what the kernel does around late packets of flow {name}",
            around_spec(ANY_RUN, flow_recording(name, host)),
            seconds=seconds,
        )
        for name, asked in scenario.watched.items()
        for host in flow_kernels(scenario, hosts, asked)
        if asked.trigger
    ]
    agents += [
        Command(
            host,
            (places.agent(host), "watch"),
            f"watches flow {name}",
            watch_spec(
                ANY_RUN,
                flow_recording(name, host),
                [planned_point(scenario, places, point) for point in points],
                parse_flow(asked.match),
                keep_of(asked, drops=drops_watched_on(scenario, host, emulated)),
                planned_trigger(asked, points),
            ),
            seconds=seconds,
        )
        for name, asked in scenario.watched.items()
        for host, points in flow_kernels(scenario, hosts, asked).items()
    ]
    agents += [
        Command(host, (places.agent(host), "talk"), "talks", spec, started=True, seconds=seconds)
        for host, spec in talking.items()
    ]
    for name in pings(scenario):
        asks, answers = scenario.probe_hosts(name)
        pong, ping = (
            pong_spec(scenario, name, at, ANY_RUN, f"pong-{name}"),
            ping_spec(scenario, name, at, ANY_RUN, f"ping-{name}"),
        )
        agents += [
            Command(
                answers,
                (places.agent(answers), verb_of(scenario, name, "pong")),
                f"answers {name}",
                pong,
                seconds=seconds,
            ),
            Command(
                asks,
                (places.agent(asks), verb_of(scenario, name, "ping")),
                f"asks {name}",
                ping,
                started=True,
                seconds=seconds,
            ),
        ]
    for name in timers(scenario):
        (host,) = scenario.probe_hosts(name)
        timer = timer_spec(scenario, name, ANY_RUN, f"timer-{name}")
        argv = (places.agent(host), "timer")
        agents.append(Command(host, argv, f"waits for {name}", timer, started=True, seconds=seconds))
    for name in scenario.traced_timers:
        (host,) = scenario.probe_hosts(name)
        spec = waking_spec(["TID"], ANY_RUN, f"waking-{name}")
        argv, what = (places.agent(host), "trace"), f"traces {name}, whose thread is `tid` of its `ready`"
        agents.append(Command(host, argv, what, spec, seconds=seconds))
    for leg in needed_legs(scenario, hosts, planned_with_kvm_clock(scenario, site.machine, hosts)):
        if not leg.source.is_exact:
            recording = f"clock-{leg.here}-{leg.there}"
            told = leg_specs(scenario, site, leg, ANY_RUN, recording, "TAI offset of {}".format)
            agents += [
                Command(host, (places.agent(host), "clock"), "compares clocks", spec, seconds=seconds)
                for host, spec in told
            ]
    reasons = tuple(str(reason) for reason in unavailable(scenario, site))
    loads, tools = plan_loads(scenario, needed_ns, places), plan_probes(scenario, places)
    return PlannedCell(cell.slug, scenario, site, loads, agents, reasons, tools)


def _runs_by(scenario: Scenario, site: Site, guest: str) -> str:
    return acceleration(scenario.guests[guest], site.on(scenario.machine_of(guest)).machine)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
