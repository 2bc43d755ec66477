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
from latlab.recordings.run import RUN_FORMAT, OrderedCell, RecordedRun, RunVersions
from latlab.recordings.run_folder import RunFolder
from latlab.run.beds import Beds
from latlab.run.cell import Making, run_cell
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
from latlab.run.planned import planned_cell
from latlab.run.probe_specs import pings
from latlab.run.returning import Returning
from latlab.run.room import available_memory, check_room
from latlab.scenario import Loaded, MatrixCell, MatrixRun, Scenario, cells, runs
from latlab.testbed.agent_binary import find_agent, find_agents
from latlab.testbed.guests.start import TAG, image_names, images_in_use
from latlab.testbed.images import Image
from latlab.testbed.journal import Journal
from latlab.testbed.machines.board_qemu import emulator_cpu
from latlab.testbed.plan import plan_text
from latlab.testbed.preflight import image_problems, preflight_cells, raise_problems, warnings
from latlab.testbed.site import Site
from latlab.testbed.undo import clean_stale


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
    needed = 2 * max(cell.scenario.board_memory for cell in found)
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
    for name in scenario.timers:
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


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
