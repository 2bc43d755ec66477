"""The whole matrix: every repetition of every cell, one after the other, into one run folder."""

from __future__ import annotations

import asyncio
import contextlib
import platform
import random
import secrets
import signal
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import latlab
from latlab.data.run_folder import RunFolder
from latlab.errors import LatlabError
from latlab.lab.journal import Journal
from latlab.lab.loads import plan_loads
from latlab.lab.plan import Command, PlannedCell, plan_text
from latlab.lab.preflight import find_agent, preflight, raise_problems
from latlab.lab.undo import clean_stale
from latlab.measure.cell import load_duration_ns, run_cell
from latlab.measure.events import CellEnded, CellStarted, Cleaned, Listener, RunStarted, ignore
from latlab.measure.specs import Bed, listen_spec, listeners, talk_spec, talkers
from latlab.scenario import Cell, Loaded, Run, cells, runs

RUN_FORMAT = "latlab.run/1"


def check(loaded: Loaded) -> list[Cell]:
    """The scenario's cells. UsageError, LabError: all that would keep them from running here; nothing is changed."""
    found = cells(loaded)
    raise_problems([problem for cell in found for problem in preflight(cell.scenario)])
    return found


def plan(loaded: Loaded) -> str:
    """Every command that a run of the scenario would give, ready to paste."""
    return plan_text([_planned(cell) for cell in cells(loaded)])


async def run(loaded: Loaded, root: Path, listener: Listener = ignore) -> RunFolder:
    """The run's folder, with every cell that could be run in it. A cell that failed leaves the others' results whole.

    SIGINT and SIGTERM end the run in order: the cell's recordings are finished, the test bed is undone, and the folder
    returned says `interrupted`. UsageError, LabError: nothing was run, and nothing is changed.
    """
    found = check(loaded)
    undone = await clean_stale()
    if undone:
        listener(Cleaned(tuple(undone)))
    # A journal that cannot be written is told now, while nothing has begun.
    Journal.create(f"try-{secrets.token_hex(4)}").close()
    seed = loaded.scenario.seed if loaded.scenario.seed is not None else random.SystemRandom().randrange(2**32)
    order = runs(found, loaded.scenario.repeat, seed)
    folder = RunFolder.create(root, loaded.scenario.name)
    folder.scenario_path.write_text(loaded.text, encoding="utf-8")
    folder.plan_path.write_text(plan(loaded), encoding="utf-8")
    document = {
        "format": RUN_FORMAT,
        "run": folder.id,
        "name": loaded.scenario.name,
        "description": loaded.scenario.description,
        "seed": seed,
        "order": [{"slug": one.cell.slug, "repeat": one.repeat} for one in order],
        "versions": {"latlab": latlab.__version__, "python": platform.python_version()},
        "started": _now(),
        "ended": None,
        "status": "running",
    }
    folder.write_run(document)
    listener(RunStarted(folder.path, len(order), seed))
    try:
        status = "ended" if await _until_told(_run_all(order, folder, listener)) else "interrupted"
    except BaseException:
        # On a full disk run.json cannot be written either; what has happened is the error that is raised.
        with contextlib.suppress(OSError):
            folder.write_run(document | {"ended": _now(), "status": "interrupted"})
        raise
    folder.write_run(document | {"ended": _now(), "status": status})
    return folder


async def _run_all(order: Sequence[Run], folder: RunFolder, listener: Listener) -> None:
    tag = secrets.token_hex(2)
    for number, one in enumerate(order, start=1):
        listener(CellStarted(number, one.cell.slug, one.repeat, one.cell.scenario.duration))
        cell_folder = folder.add_cell(one.cell.slug, one.repeat)
        listener(CellEnded(number, await run_cell(one, number, tag, cell_folder, listener)))


async def _until_told(work: Any) -> bool:
    """Whether the work came to its own end; False if SIGINT or SIGTERM ended it, in order."""
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, task.cancel)
    try:
        await task
    except asyncio.CancelledError:
        return False
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.remove_signal_handler(number)
    return True


def _planned(cell: Cell) -> PlannedCell:
    scenario = cell.scenario
    # What only the machine knows once the bed stands is named by what it is.
    at = Bed({str(end): f"MAC of {end}" for link in scenario.links for end in link.ends})
    try:
        binary = str(find_agent())
    except LatlabError:
        binary = "latlab-agent"
    agents = [
        Command(host, (binary, "listen"), "listens", listen_spec(scenario, host, at, "RUN_ID", f"listener-{host}"))
        for host in listeners(scenario)
    ]
    agents += [
        Command(host, (binary, "talk"), "talks", talk_spec(scenario, host, at, "RUN_ID", f"talker-{host}"))
        for host in talkers(scenario)
    ]
    return PlannedCell(cell.slug, scenario, plan_loads(scenario, load_duration_ns(scenario), binary), agents)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
