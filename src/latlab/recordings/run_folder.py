"""Where a run's files are: the run folder of docs/reference/run-folder.md, and the folder of each of its cells."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import polars as pl
from pydantic import ValidationError

from latlab.model.errors import SAID, LabError, UsageError, as_system_error, check_is_file, file_remedy
from latlab.model.facts import Facts
from latlab.model.part import Document, Failure
from latlab.recordings.cell import RecordedCell
from latlab.recordings.run import RUN_FORMAT, RecordedRun

DEFAULT_ROOT: Final = Path("runs")
CELL_FORMAT: Final = "latlab.cell/1"
RESULT_FORMAT: Final = "latlab.result/1"
_KEPT_ONCE: Final = "restore a complete copy, or repeat the run: there are no recordings to build it from"

KILLED: Final = Failure(what="latlab was killed while it measured", where="", remedy="run it again")
"""The reason of a cell that cell.json calls `running` though its lab has ended."""

PREFIX_OF_VERB: Final = {"talk": "talker", "listen": "listener"}
"""Where it is another word than the verb."""


def write_json(path: Path, document: Any) -> None:
    """Write `document` to `path`, which after a crash at any moment holds the new document or the old one."""
    data = json.dumps(document, indent=1, ensure_ascii=False).encode() + b"\n"
    with publishing(path) as temporary:
        temporary.write_bytes(data)


@contextmanager
def publishing(path: Path) -> Iterator[Path]:
    """A new file next to `path` to write to; at the end it has taken that name, and both are on the disk.

    If the writing fails, the new file is removed and `path` is what it was. The file's name is random and it is made
    exclusively, so that nothing lying in the folder, a link least of all, is written through.
    """
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.fchmod(descriptor, 0o644)
    os.close(descriptor)
    temporary = Path(name)
    try:
        yield temporary
        _fsync(temporary)
        os.replace(temporary, path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            error.filename = str(path)  # a write that fails does not name the file
        raise
    _fsync(path.parent)


@contextmanager
def writing_table(path: Path, what: str) -> Iterator[Path]:
    """As `publishing`, for a Parquet file. LabError: it cannot be written. what: what it is, in words."""
    try:
        with publishing(path) as temporary:
            yield temporary
    except (OSError, pl.exceptions.PolarsError) as error:
        refused = as_system_error(error)
        raise LabError(
            f"{what} cannot be written: {refused.strerror or refused}",
            where=str(path),
            remedy="; ".join(filter(None, (file_remedy(refused, path), "then: latlab report RUN"))),
        ) from error


def _fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_json(path: Path, remedy: str = "") -> Document:
    """The JSON object in `path`. LabError: it is not there or is not a JSON object. remedy: what to do then."""
    check_is_file(path, remedy)
    try:
        document = json.loads(path.read_bytes().decode())
    except (OSError, ValueError, RecursionError) as error:
        raise LabError(f"cannot be read: {error}", where=str(path), remedy=remedy) from error
    if not isinstance(document, dict):
        raise LabError(f"expected a JSON object, found {type(document).__name__}", where=str(path), remedy=remedy)
    return document


def read_document(path: Path, needs: Sequence[str], *, format_: str, remedy: str) -> Document:
    """The JSON object in `path`, of this format and with what every one has. LabError as read_json, or it is another.

    One that does not say its format is taken for this one.
    """
    document = read_json(path, remedy)
    found = document.get("format", format_)
    if found != format_:
        raise LabError(
            f"has another format: expected {format_}, found {found}",
            where=str(path),
            remedy="read it with the latlab that wrote it: run.json names its version",
        )
    if lacking := [name for name in needs if name not in document]:
        raise LabError(f"is incomplete: it has no {', '.join(map(repr, lacking))}", where=str(path), remedy=remedy)
    return document


@contextmanager
def _validating(path: Path, remedy: str) -> Iterator[None]:
    """A context in which a document's type is made of it. LabError: it has another shape."""
    try:
        yield
    except ValidationError as error:
        first = error.errors()[0]
        what = f"is incomplete: {'.'.join(map(str, first['loc']))}: {first['msg']}"
        raise LabError(what, where=str(path), remedy=remedy) from error


@contextmanager
def reading_table(path: Path, remedy: str) -> Iterator[None]:
    """A context in which a Parquet file is read. LabError: it cannot be. remedy: what to do then."""
    check_is_file(path, remedy)
    try:
        yield
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        said = " ".join(str(error).split())[:SAID]
        raise LabError(
            f"cannot be read: it is damaged, or no Parquet file: {said}", where=str(path), remedy=remedy
        ) from error


@dataclass(frozen=True)
class CellFolder:
    """The folder of one repeat of one cell: `cells/SLUG/rN`."""

    path: Path

    @property
    def slug(self) -> str:
        """The cell's name, as `loads=none`."""
        return self.path.parent.name

    @property
    def repeat(self) -> int:
        """Which repeat, from 1."""
        return int(self.path.name.removeprefix("r"))

    def cell(self) -> RecordedCell:
        """cell.json; `running` becomes `interrupted` once its lab has ended. LabError: it is missing or damaged."""
        path = self.path / "cell.json"
        remedy = f"restore a complete copy, or remove {self.path} from the run: then the other cells can be reported"
        document = read_document(path, ("slug", "repeat", "status", "streams"), format_=CELL_FORMAT, remedy=remedy)
        with _validating(path, remedy):
            cell = RecordedCell.model_validate(document)
        if cell.status == "running" and not RunFolder(self.path.parents[2]).is_live():
            return cell.model_copy(update={"status": "interrupted", "reason": KILLED})
        return cell

    def write_cell(self, cell: RecordedCell | Document) -> None:
        """Write cell.json, whole or not at all."""
        write_json(self.path / "cell.json", cell.document() if isinstance(cell, RecordedCell) else cell)

    def facts(self, when: str) -> Facts:
        """{host: facts} of facts-`when`.json, when = `before` or `after`; empty if they were never taken."""
        path = self._facts_path(when)
        remedy = "restore a complete copy, or remove it: then the rules that use it are not checked"
        return read_json(path, remedy) if path.exists() else {}

    def write_facts(self, when: str, facts: Facts) -> None:
        """Write facts-`when`.json, whole or not at all."""
        write_json(self._facts_path(when), facts)

    def _facts_path(self, when: str) -> Path:
        if when not in ("before", "after"):
            raise ValueError(f"facts are taken before and after, not {when!r}")
        return self.path / f"facts-{when}.json"

    def prefix(self, verb: str, host: str) -> Path:
        """What an agent gets as `recording`: `talker-HOST` for talk, `listener-HOST` for listen, `ptp-PORT`, and
        `ping-PROBE` and `pong-PROBE`.
        """
        return self.path / f"{PREFIX_OF_VERB.get(verb, verb)}-{host}"

    @property
    def logs_path(self) -> Path:
        """The folder of what guests' consoles, daemons and bridges wrote."""
        return self.path / "logs"

    def begin_logs_anew(self, *, keep: bool) -> None:
        """Empty the logs of what is started next, some of which are read, too.

        keep: they are in `logs/earlier` from now on, instead of those there.
        """
        earlier = self.logs_path / "earlier"
        shutil.rmtree(earlier, ignore_errors=True)
        logs = [path for path in self.logs_path.glob("*") if path.is_file()]
        if keep and logs:
            earlier.mkdir()
        for path in logs:
            path.replace(earlier / path.name) if keep else path.unlink()

    def clock_prefix(self, initiator: str, responder: str) -> Path:
        """What the clock verb's initiator gets as `recording`: `clock-INITIATOR-RESPONDER`."""
        return self.path / f"clock-{initiator}-{responder}"

    def recording(self, verb: str, host: str, table: str) -> Path:
        """The path of one recording: `talker-HOST.sent.arrow` for ("talk", HOST, "sent")."""
        return self.path / f"{self.prefix(verb, host).name}.{table}.arrow"

    def clocks(self) -> dict[str, pl.DataFrame]:
        """{`talker-HOST` or `listener-HOST`: its clocks table}, for every agent that recorded one."""
        # pyarrow takes 30 MB, and most commands read no recording.
        from latlab.recordings.arrow import read_recording

        return {
            path.name.removesuffix(".clocks.arrow"): read_recording(path, "clocks").table
            for path in sorted(self.path.glob("*.clocks.arrow"))
        }

    @property
    def packets_path(self) -> Path:
        """Where the packet table is, or will be."""
        return self.path / "packets.parquet"

    def tool_packets_path(self, probe: str) -> Path:
        """Where the packets are that a tool measured: rows of the packet table, which has them, too."""
        return self.path / f"tool-{probe}.packets.parquet"

    def flow_packets_path(self, flow: str) -> Path:
        """Where the packets of a flow are, which were watched: rows of the packet table, which has them, too."""
        return self.path / f"flow-{flow}.packets.parquet"

    def tool_log_path(self, probe: str) -> Path:
        """What a tool printed, or the log that it wrote."""
        return self.path / f"tool-{probe}.log"

    @property
    def classes_path(self) -> Path:
        """Where it is said of each packet what is the matter with it, in the packet table's order."""
        return self.path / "classes.parquet"

    @property
    def histogram_path(self) -> Path:
        """Where an imported cell's bins are, of which single values are not known."""
        return self.path / "histogram.parquet"

    @property
    def intervals_path(self) -> Path:
        """Where an imported cell's figures of single intervals of time are."""
        return self.path / "intervals.parquet"

    def histogram(self) -> pl.DataFrame | None:
        """The bins of an imported cell; None: it has none. LabError: they cannot be read."""
        return self._kept(self.histogram_path)

    def intervals(self) -> pl.DataFrame | None:
        """An imported cell's figures of single intervals of time; None: it has none. LabError: they cannot be read."""
        return self._kept(self.intervals_path)

    def _kept(self, path: Path) -> pl.DataFrame | None:
        if not path.exists():
            return None
        with reading_table(path, _KEPT_ONCE):
            return pl.read_parquet(path)

    def packets(self, stream: int | None = None) -> pl.DataFrame:
        """The packet table, or one stream's rows of it. LabError: it has not been built, or cannot be read."""
        if not self.packets_path.exists():
            raise LabError(
                "the cell has no packet table",
                where=str(self.packets_path),
                remedy="build it from the recordings: latlab report RUN",
            )
        with reading_table(self.packets_path, _KEPT_ONCE):
            if stream is None:
                return pl.read_parquet(self.packets_path)
            return pl.scan_parquet(self.packets_path).filter(pl.col("stream") == stream).collect()


@dataclass(frozen=True)
class RunSummary:
    """One line of `latlab list`; what the run never wrote is None. Times are UTC, ISO 8601.

    status: `running`, `ended` or `interrupted`; `killed` where the lab ended before it could report it.
    """

    run: str
    path: Path
    name: str | None
    started: str | None
    ended: str | None
    status: str | None
    exit_status: int | None
    verdict: str | None


def _refuse_anothers(root: Path) -> None:
    """Do nothing. UsageError: on the way to `root` another user's folder, or link, lies where all may make some.

    Who owns it could put links where the run writes, as root where the lab is run by root.
    """
    allowed = {0, os.geteuid(), int(os.environ.get("SUDO_UID") or 0)}
    for path in (root.absolute(), *root.absolute().parents):
        if not os.path.lexists(path) or path.lstat().st_uid in allowed:
            continue
        shared = path.parent.stat().st_mode
        if shared & stat.S_IWOTH and shared & stat.S_ISVTX:
            raise UsageError(
                f"{path} belongs to user {path.lstat().st_uid}, in a world-writable folder",
                where=str(root),
                remedy="choose another folder with --runs",
            )


@dataclass(frozen=True)
class RunFolder:
    """The folder of one run. run.json makes it one: it is written first."""

    path: Path

    @classmethod
    def create(cls, root: Path, name: str, *, now: datetime | None = None) -> RunFolder:
        """A new, empty run folder in `root`, called `YYYYMMDD-HHMMSS-name-xxxx` (UTC; xxxx random).

        run.json then holds `format`, `run`, `name` and `started`. UsageError: the folder cannot be made.
        """
        _refuse_anothers(root)
        started = (now or datetime.now(UTC)).astimezone(UTC)
        plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "run"
        while True:
            path = root / f"{started:%Y%m%d-%H%M%S}-{plain}-{secrets.token_hex(2)}"
            try:
                path.mkdir(parents=True)
                break
            except FileExistsError:
                continue
            except OSError as error:
                raise UsageError(
                    f"no run folder can be made: {error.strerror}",
                    where=str(path),
                    remedy=file_remedy(error, path) or "choose another folder with --runs",
                ) from error
        folder = cls(path)
        folder.write_run(RecordedRun(format=RUN_FORMAT, run=path.name, name=name, started=started.isoformat()))
        return folder

    @classmethod
    def open(cls, run: Path | str, *, root: Path = DEFAULT_ROOT) -> RunFolder:
        """The run folder at the path `run`, or called `run` in `root`. UsageError: it is none."""
        for path in (Path(run), root / run):
            if (path / "run.json").is_file():
                return cls(path)
        raise UsageError(
            "not a run folder: expected a folder that holds run.json",
            where=str(run),
            remedy=f"name a run that `latlab list` shows, by its path or by its name in {root}/",
        )

    @property
    def id(self) -> str:
        """The folder's own name."""
        return self.path.resolve().name

    def run(self) -> RecordedRun:
        """run.json. LabError: it is broken."""
        path, remedy = self.path / "run.json", "restore a complete copy of it"
        document = read_document(path, ("run", "name"), format_=RUN_FORMAT, remedy=remedy)
        with _validating(path, remedy):
            return RecordedRun.model_validate(document)

    def write_run(self, run: RecordedRun) -> None:
        """Write run.json, whole or not at all."""
        write_json(self.path / "run.json", run.document())

    def check_writable(self) -> None:
        """Do nothing where the folder can be written. LabError: it cannot, as one that a run as root has left."""
        try:
            with tempfile.TemporaryFile(dir=self.path):
                pass
        except OSError as error:
            remedy = file_remedy(error, self.path)
            if self.path.stat().st_uid != os.geteuid() and error.errno in (errno.EACCES, errno.EPERM):
                remedy += f", or take ownership of it: `sudo chown -R $USER {self.path}`"
            what = f"the report cannot be written: {error.strerror}"
            raise LabError(what, where=str(self.path), remedy=remedy) from None

    @property
    def scenario_path(self) -> Path:
        """The scenario as it was given. While the lab that makes the run is alive, it holds a lock on it."""
        return self.path / "scenario.yaml"

    def write_scenario(self, text: str) -> None:
        """Write the scenario as it was given; `scenario_digest` is then what run.json is to keep of it."""
        self.scenario_path.write_bytes(text.encode())

    def scenario_digest(self) -> str | None:
        """SHA-256 of scenario.yaml, in hexadecimal; None: there is no such file. LabError: it cannot be read."""
        check_is_file(self.scenario_path, "restore a complete copy of it")
        try:
            return hashlib.sha256(self.scenario_path.read_bytes()).hexdigest()
        except FileNotFoundError:
            return None

    @property
    def watch_path(self) -> Path:
        """What a watch was asked for. While the lab that watches is alive, it holds a lock on it."""
        return self.path / "watch.json"

    def write_watch(self, document: Document) -> None:
        """Write what a watch is asked for."""
        write_json(self.watch_path, document)

    def alive(self) -> AbstractContextManager[None]:
        """A context during which the run is live. OSError: it has neither a scenario.yaml nor a watch.json yet."""
        return held(self.watch_path if self.watch_path.exists() else self.scenario_path)

    def is_live(self) -> bool:
        """Whether the lab that makes this run is alive: what is in the folder is then half of it."""
        return is_held(self.scenario_path) or is_held(self.watch_path)

    @property
    def plan_path(self) -> Path:
        """Every command, host by host."""
        return self.path / "plan.txt"

    @property
    def result_path(self) -> Path:
        """The result document."""
        return self.path / "result.json"

    @property
    def report_path(self) -> Path:
        """The HTML report."""
        return self.path / "report.html"

    @property
    def pictures_path(self) -> Path:
        """The folder of the PNG pictures."""
        return self.path / "pictures"

    def result(self) -> Document:
        """The result document. LabError: the run has none, or it is broken."""
        if not self.result_path.exists():
            raise LabError("this run is not analysed yet", where=str(self.path), remedy=f"latlab report {self.path}")
        remedy = f"write it again: latlab report {self.path}"
        return read_document(self.result_path, ("run", "cells", "verdict"), format_=RESULT_FORMAT, remedy=remedy)

    def write_result(self, document: Document) -> None:
        """Write result.json, whole or not at all."""
        write_json(self.result_path, document)

    def add_cell(self, slug: str, repeat: int) -> CellFolder:
        """The new, empty folder of a cell's repeat (from 1)."""
        folder = self.cell(slug, repeat)
        folder.path.mkdir(parents=True)
        return folder

    def cell(self, slug: str, repeat: int) -> CellFolder:
        """The folder of a cell's repeat, which need not exist."""
        return CellFolder(self.path / "cells" / slug / f"r{repeat}")

    def cells(self) -> list[CellFolder]:
        """Every cell's folder that has a cell.json, by slug and repeat."""
        found = [
            CellFolder(path.parent)
            for path in self.path.glob("cells/*/r*/cell.json")
            if path.parent.name.removeprefix("r").isdecimal()
        ]
        return sorted(found, key=lambda cell: (cell.slug, cell.repeat))

    def summary(self) -> RunSummary:
        """The run in one line. A run.json that a crash left broken gives a line of None."""
        run = _or_empty(self.path / "run.json")
        result = _or_empty(self.result_path)
        return RunSummary(
            run=self.id,
            path=self.path,
            name=_text(run.get("name")),
            started=_text(run.get("started")),
            ended=_text(run.get("ended")),
            status=self._status(run),
            exit_status=code if isinstance(code := run.get("exit_status"), int) else None,
            verdict=_text(result.get("verdict")),
        )

    def _status(self, run: Document) -> str | None:
        """The status that run.json (`run`) gives; a run that is said to be running without its lab was killed."""
        if not run:
            return None
        status = str(run.get("status", "running"))
        return "killed" if status == "running" and not self.is_live() else status


def list_runs(root: Path = DEFAULT_ROOT) -> list[RunSummary]:
    """Every run in `root`, newest first; none if there is no such folder."""
    runs = [RunFolder(path.parent).summary() for path in root.glob("*/run.json")]
    return sorted(runs, key=lambda run: (run.run[:15], run.started or "", run.run), reverse=True)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _or_empty(path: Path) -> Document:
    try:
        return read_json(path)
    except LabError:
        return {}


# Whether the lab that makes a run is alive: it holds a lock on the run's scenario.yaml, which is written once.
#
# The lock is flock(2)'s: the kernel drops it however the lab ends, SIGKILL included.


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Make `is_held(path)` true in every process while the context lasts. OSError: there is no such file."""
    # Open for writing: network file systems give an exclusive lock only then.
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def is_held(path: Path) -> bool:
    """Whether a living process holds the file; False if there is no such file, or locks are not allowed there."""
    try:
        # Opening a pipe for reading would wait until a writer opens it.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return False
