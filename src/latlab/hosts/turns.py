"""A machine in virtual time: it runs only while the lab waits for it, and takes requests only when it is stopped.

The clock of such a machine counts the instructions it executes. If it ran on while the lab thinks, or if a command
reached it at an instant that depends on this machine's speed, no two runs would be alike. So they take turns
(docs/reference/agent.md, Turns): the machine halts as soon as it has something to say, and the lab resumes it once
there is someone who waits for more. All that the lab wants of it until then it hears at that instant, in the order of
asking.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import mmap
import os
import re
import signal
import socket
import struct
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TextIO

from qemu.qmp import ConnectError, EventListener, QMPClient, QMPError, Runstate

from latlab.model.facts import Facts
from latlab.model.units import SECOND_NS

MAILBOX: Final = "turns"
MAILBOX_BYTES: Final = 1 << 21
MONITOR: Final = "turns.sock"
BLOCKING_MONITOR: Final = "qmp.sock"
"""A monitor has one client at a time."""
FINE: Final = "fine"
FINE_NET: Final = "fine-net"
WAIT_US: Final = 10
"""So long a CPU that has work waits for the others at most, while they change places often."""
PID: Final = "pid"
"""Where QEMU writes its process id."""
IDENTITY: Final = b"LATLTRN1"

_IN_LENGTH, _OUT_LENGTH, _HALTED_TAI_NS, _WATCHED_TAI_NS, _STARVED_LENGTH, _STARVED_AT = range(8, 56, 8)
_IN_AT: Final = 4096
_AREA: Final = 512 * 1024
_OUT_AT: Final = _IN_AT + _AREA
_HEADER: Final = struct.Struct("=III")
_PIECE: Final = 64 * 1024
_START, _INPUT, _INPUT_END, _SIGNAL, _MORE, _OUT, _ERR, _EXIT = range(1, 9)

HALTED: Final = "guest-panicked"
"""What QEMU calls the state of a machine that asked it to halt: by the device for a kernel's panic."""
_PASSES: Final = 64
"""So often everything that is ready in the event loop has its turn, before the machine has: whoever was woken by what
it said may have something to ask, and that may wake others."""
_LINE: Final = 1 << 24
_NO_STATUS: Final = 125
"""Of a process whose end was reported without its status."""
_LAST_CHANCE_S: Final = 30.0
"""How long a turn may still take once a wait for its result has timed out."""


_HANG_UP_S: Final = 10.0


def fine_us(cpus: int) -> int:
    """How often a timer of the virtual clock is due by which so many CPUs wait for each other for WAIT_US at most.

    It is that of a network filter of a netdev that nothing is connected to. Each CPU executes for its share of the time
    until the next timer, and the others stop meanwhile: for a millisecond and more, where the timer tick is the next
    (QEMU: icount_percpu_budget() in accel/tcg/tcg-accel-ops-icount.c, net/filter-buffer.c).
    """
    return WAIT_US * cpus // (cpus - 1)


@dataclass(frozen=True)
class Turn:
    """One turn of a machine: what it received when it began, CLOCK_TAI when it halted, and what it said in it."""

    heard: bytes
    halted_tai_ns: int
    said: bytes


@dataclass(frozen=True)
class LostMachine:
    """Why a machine no longer answers although its QEMU runs; what to change, where that is known."""

    why: str
    remedy: str = ""


class _LostError(Exception):
    """The machine is there, and will never again say anything."""

    def __init__(self, lost: LostMachine) -> None:
        self.lost = lost
        super().__init__(lost.why)


class TurnsProcess:
    """A process on the machine, with what asyncio's have: streams, an exit status once it has ended, waiting."""

    def __init__(self, turns: Turns, number: int, stdout: int | None, stderr: int | None) -> None:
        self._turns = turns
        self._number = number
        self._gone = asyncio.Event()
        self.returncode: int | None = None
        self.said = bytearray()
        """What it wrote to a standard output that goes nowhere else."""
        self.stdin = _Input(turns, number)
        self.stdout, self._out = _output(stdout)
        self.stderr, self._err = _output(stderr)

    async def wait(self) -> int:
        """The exit status, once it has ended; the machine runs until then."""
        with self._turns.waiting():
            await self._gone.wait()
        assert self.returncode is not None
        return self.returncode

    async def communicate(self, input: bytes | None = None) -> tuple[bytes, bytes]:
        """What it wrote to its outputs that are pipes, once it has ended. input: all it is to read."""
        if input:
            self.stdin.write(input)
        self.stdin.close()
        await self.wait()
        said = [await stream.read() if stream else b"" for stream in (self.stdout, self.stderr)]
        return said[0], said[1]

    def signal_group(self, number: int) -> None:
        """Send its process group the signal in the machine's next turn. It counts as gone if that kills it."""
        if self.returncode is None:
            self._turns.say(self._number, _SIGNAL, bytes([number]))
            if number == signal.SIGKILL:
                self.ended(-number)

    def heard(self, kind: int, payload: bytes) -> None:
        """Take in what the machine reported of it."""
        if self.returncode is not None:
            return
        if kind == _EXIT:
            self.ended(payload[0] if payload else _NO_STATUS)
            return
        stream, file = (self.stdout, self._out) if kind == _OUT else (self.stderr, self._err)
        if stream:
            stream.feed_data(payload)
        elif file is not None:
            os.write(file, payload)
        elif kind == _OUT:
            self.said += payload

    def ended(self, status: int) -> None:
        """Note that it has ended."""
        if self.returncode is not None:
            return
        self.returncode = status
        for stream in filter(None, (self.stdout, self.stderr)):
            stream.feed_eof()
        for file in (self._out, self._err):
            if file is not None:
                os.close(file)
        self._gone.set()


class _Input:
    """A process's standard input."""

    def __init__(self, turns: Turns, number: int) -> None:
        self._turns = turns
        self._number = number
        self._open = True

    def write(self, data: bytes) -> None:
        for at in range(0, len(data), _PIECE):
            self._turns.say(self._number, _INPUT, data[at : at + _PIECE])

    def close(self) -> None:
        if self._open:
            self._turns.say(self._number, _INPUT_END)
        self._open = False


def _output(wanted: int | None) -> tuple[asyncio.StreamReader | None, int | None]:
    """What a process's output goes to: a stream, or a file descriptor of this process; neither if it is not needed."""
    if wanted == asyncio.subprocess.PIPE:
        return asyncio.StreamReader(limit=_LINE), None
    if wanted is None or wanted == asyncio.subprocess.DEVNULL:
        return None, None
    return None, os.dup(wanted)


class Turns:
    """The lab's side of taking turns with one machine, whose mailbox and monitor are in `directory`."""

    def __init__(self, name: str, directory: str) -> None:
        self.name = name
        self.tai_ns = 0
        """The machine's CLOCK_TAI when it halted last."""
        self.lost: LostMachine | None = None
        """Why it no longer answers though its QEMU runs; None as long as it may answer."""
        self.kept: list[Turn] = []
        """Its turns, as long as `keeping` is true; from the beginning on also those that it repeats."""
        self.keeping = False
        self.differs = False
        """Whether the lab has said anything else than in the turn that it was to repeat: the machine is lost then."""
        self._repeated: deque[Turn] = deque()
        self._directory = Path(directory)
        self._numbers = 0
        self._processes: dict[int, TurnsProcess] = {}
        self._said: list[bytes] = []
        self._heard = b""
        self._mailbox: mmap.mmap | None = None
        self.fine_us = 0
        """How often a timer makes several CPUs change places, from the machine's next turn on; 0: there is none."""
        self._is_fine = False
        self._turns = 0
        self._ended = 0
        """Turns that were begun, and those of them that were seen to end."""
        self._halted = asyncio.Event()
        self._halted.set()
        self._waiting = 0
        self._wanted = asyncio.Event()
        self._taken = asyncio.Event()
        """Set at the end of each turn, and replaced then; also once there will be no more."""
        self._driver: asyncio.Task[None] | None = None

    def start(self, words: Sequence[str], stdin: int | None, stdout: int | None, stderr: int | None) -> TurnsProcess:
        """The process, which starts in the machine's next turn; it has ended at once where there is none."""
        self._numbers += 1
        process = TurnsProcess(self, self._numbers, stdout, stderr)
        if self.lost:
            process.ended(-signal.SIGKILL)
            return process
        self._processes[self._numbers] = process
        self.say(self._numbers, _START, b"".join(os.fsencode(word) + b"\0" for word in words))
        if stdin != asyncio.subprocess.PIPE:
            process.stdin.close()
        return process

    def go_on_after(self, turns: Iterable[Turn]) -> None:
        """Repeat these turns, which the machine has had already: the lab, which has not, gets the same answers at once.

        Where the lab then says anything else than in the turn that is next, the machine is lost.
        """
        self._repeated = deque(turns)
        self.kept = [*self._repeated]

    def say(self, number: int, kind: int, payload: bytes = b"") -> None:
        """Say it to the machine in its next turn."""
        self._said.append(_HEADER.pack(number, kind, len(payload)) + payload)

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """The machine has its turns as long as anyone is within."""
        self._waiting += 1
        self._wanted.set()
        if self.lost is None and (self._driver is None or self._driver.done()):
            self._driver = asyncio.ensure_future(self._drive())
        try:
            yield
        finally:
            self._waiting -= 1
            if not self._waiting:
                self._wanted.clear()

    async def take_one(self) -> None:
        """Let the machine have one turn and no more: who looks at it then does so after the same turn each time."""
        if self.lost:
            return
        with self.waiting():
            await self._taken.wait()

    def ask(self, words: Sequence[str], within_s: float) -> str | None:
        """What the command writes, once it has ended well: for callers that cannot await it, while no other caller
        does.

        None: it ended otherwise, or the machine has ended, or takes too long.
        """
        if self._waiting or not self._halted.is_set():
            return None
        process = self.start(words, None, None, None)
        try:
            while self._repeated and process.returncode is None:
                self._repeat()
            if process.returncode is not None:
                return process.said.decode(errors="replace") if process.returncode == 0 else None
            with socket.socket(socket.AF_UNIX) as monitor:
                monitor.settimeout(within_s)
                monitor.connect(str(self._directory / BLOCKING_MONITOR))
                mailbox = self._shared()
                with monitor.makefile("rw") as line:
                    _say(line, "qmp_capabilities")
                    while process.returncode is None:
                        self._begin(mailbox)
                        _say(line, "cont")
                        while json.loads(line.readline()).get("event") != "STOP":
                            pass
                        if not self._hear(mailbox):
                            return None
        except (OSError, ValueError, _LostError):
            return None
        return process.said.decode(errors="replace") if process.returncode == 0 else None

    async def silence(self) -> LostMachine | None:
        """Why the machine is lost, if it is: one that is in its turn gets a last chance to end it."""
        if self.lost is None and not self._halted.is_set():
            with self.waiting():
                try:
                    async with asyncio.timeout(_LAST_CHANCE_S):
                        await self._halted.wait()
                except TimeoutError:
                    self.lost = LostMachine("its turn does not end: its kernel or a silent program hangs")
        return self.lost

    async def _drive(self) -> None:
        """Note that the machine has ended or is lost, and with it every process that was on it."""
        client = QMPClient("latlab")
        try:
            await self._reach(client)
            await self._take_turns(client, self._shared())
        except _LostError as error:
            self.lost = self.lost or error.lost
        except (ConnectError, QMPError, EOFError, OSError):
            pass
        finally:
            self._turns = self._ended = 0
            self._halted.set()
            self._is_taken()
            if self._mailbox is not None:
                self._mailbox.close()
                self._mailbox = None
            for process in self._processes.values():
                process.ended(-signal.SIGKILL)
            self._processes.clear()
            self._said.clear()
            # A QEMU that is lost may not even read what it is sent.
            with contextlib.suppress(QMPError, EOFError, OSError, TimeoutError):
                async with asyncio.timeout(_HANG_UP_S):
                    await client.disconnect()

    async def _reach(self, client: QMPClient) -> None:
        """Connect to the machine's monitor, and stop the machine. OSError: it does not answer."""
        await client.connect(str(self._directory / MONITOR))
        if (status := await _status(client)) != HALTED:
            raise _LostError(
                LostMachine(f"it should be stopped between two turns, but QEMU reports that it is {status}")
            )
        # Those of turns that have ended before are not reported again.
        self._turns = self._ended = 0

    def _shared(self) -> mmap.mmap:
        """The memory shared with the machine."""
        if self._mailbox is None:
            with (self._directory / MAILBOX).open("r+b") as file:
                self._mailbox = mmap.mmap(file.fileno(), MAILBOX_BYTES)
        return self._mailbox

    async def _take_turns(self, client: QMPClient, mailbox: mmap.mmap) -> None:
        with client.listener(("STOP",)) as stops:
            while True:
                await _unless_gone(client, self._wanted.wait())
                for _ in range(_PASSES):
                    await asyncio.sleep(0)
                if self._waiting and self._repeated:
                    self._repeat()
                elif self._waiting:
                    lost = never_ends(self._directory / PID, lambda: _word(mailbox, _WATCHED_TAI_NS))
                    await _unless_gone(client, self._turn(client, mailbox, stops), lost)

    async def _turn(self, client: QMPClient, mailbox: mmap.mmap, stops: EventListener) -> None:
        """Give the machine its turn. _LostError: it stopped elsewhere than at the end of it."""
        unheard = not self._halted.is_set()
        if not unheard:
            await self._make_fine(client)
            self._begin(mailbox)
            await client.execute("cont")
        # Those of turns that were taken otherwise are reported here, too.
        while self._ended < self._turns:
            await stops.get()
            self._ended += 1
        if not self._hear(mailbox):
            raise _LostError(
                LostMachine(f"it stopped during its turn: QEMU reports that it is {await _status(client)}")
            )

    def _repeat(self) -> None:
        """Pass on what it said in its next turn. _LostError: it heard something else then."""
        turn = self._repeated.popleft()
        if self._batch() != turn.heard:
            self.differs = True
            raise _LostError(LostMachine("the bytes it received differ from those sent"))
        self._told(turn)

    async def _make_fine(self, client: QMPClient) -> None:
        """Add or remove the timer that makes CPUs change places, while the machine is stopped."""
        if self.fine_us and not self._is_fine:
            await client.execute("netdev_add", {"type": "hubport", "id": FINE_NET, "hubid": 0})
            timer = {"qom-type": "filter-buffer", "id": FINE, "netdev": FINE_NET, "interval": self.fine_us}
            await client.execute("object-add", timer)
        elif self._is_fine and not self.fine_us:
            await client.execute("object-del", {"id": FINE})
            await client.execute("netdev_del", {"id": FINE_NET})
        self._is_fine = self.fine_us > 0

    def _begin(self, mailbox: mmap.mmap) -> None:
        """Send the machine the pending requests, and resume it."""
        self._tell(mailbox)
        # It says when it halts; whatever else stops it says nothing.
        struct.pack_into("=q", mailbox, _HALTED_TAI_NS, 0)
        struct.pack_into("=q", mailbox, _STARVED_LENGTH, 0)
        self._turns += 1
        self._halted.clear()

    def _tell(self, mailbox: mmap.mmap) -> None:
        self._heard = self._batch()
        mailbox[_IN_AT : _IN_AT + len(self._heard)] = self._heard
        struct.pack_into("=Q", mailbox, _IN_LENGTH, len(self._heard))

    def _batch(self) -> bytes:
        """What it hears in one turn of what was said; the rest is left for the next."""
        batch = bytearray()
        while self._said and len(batch) + len(self._said[0]) + _HEADER.size <= _AREA:
            batch += self._said.pop(0)
        if self._said:
            batch += _HEADER.pack(0, _MORE, 0)
        return bytes(batch)

    def _hear(self, mailbox: mmap.mmap) -> bool:
        """Whether the machine has ended its turn; what it said is with whom it concerns then.

        _LostError: it gave its turn up, and says why.
        """
        if length := min(_word(mailbox, _STARVED_LENGTH), _IN_AT - _STARVED_AT):
            raise _LostError(starved(self.name, mailbox[_STARVED_AT : _STARVED_AT + length]))
        tai_ns = _word(mailbox, _HALTED_TAI_NS)
        if not tai_ns:
            return False
        (length,) = struct.unpack_from("=Q", mailbox, _OUT_LENGTH)
        turn = Turn(self._heard, tai_ns, mailbox[_OUT_AT : _OUT_AT + min(length, _AREA)])
        if self.keeping:
            self.kept.append(turn)
        self._told(turn)
        return True

    def _told(self, turn: Turn) -> None:
        """Pass on what the machine said to the processes that it concerns."""
        self.tai_ns = turn.halted_tai_ns
        self._halted.set()
        self._is_taken()
        at, end = 0, len(turn.said)
        while at + _HEADER.size <= end:
            number, kind, size = _HEADER.unpack_from(turn.said, at)
            at += _HEADER.size
            if process := self._processes.get(number):
                process.heard(kind, turn.said[at : at + size])
                if kind == _EXIT:
                    del self._processes[number]
            at += size

    def _is_taken(self) -> None:
        self._taken.set()
        self._taken = asyncio.Event()


def _word(mailbox: mmap.mmap, at: int) -> int:
    """The number there."""
    (number,) = struct.unpack_from("=q", mailbox, at)
    return int(number)


def _say(line: TextIO, command: str) -> None:
    """Send QEMU the command."""
    line.write(json.dumps({"execute": command}) + "\n")
    line.flush()


async def _status(client: QMPClient) -> str:
    """The machine's state, as QEMU calls it."""
    answer: Mapping[str, Any] = await client.execute("query-status")  # type: ignore[assignment]
    return str(answer["status"])


async def _unless_gone(
    client: QMPClient, awaited: Coroutine[Any, Any, object], lost: Coroutine[Any, Any, LostMachine] | None = None
) -> None:
    """Wait until that has come. EOFError: the machine ends first. _LostError: `lost` reports it, with why."""
    coming, gone = asyncio.ensure_future(awaited), asyncio.ensure_future(client.runstate_changed())
    losing = asyncio.ensure_future(lost) if lost else None
    futures = [future for future in (coming, gone, losing) if future]
    try:
        await asyncio.sleep(0)  # from here on all see what changes
        if client.runstate is Runstate.RUNNING:
            await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
        if coming.done():
            coming.result()
        elif losing and losing.done():
            raise _LostError(losing.result())
        else:
            raise EOFError
    finally:
        for future in futures:
            future.cancel()


# Why a board in virtual time gave up its turn: real-time threads keep its ordinary threads from the CPU.
#
# The board says so itself (docs/reference/agent.md, Turns). What its threads are is known from the names that QEMU and
# the kernel give them.


SMALL = 0.05
"""The part of the time that a thread must have run to be named next to the one that ran longest."""
VCPU = re.compile(r"CPU \d+/")
KINDS = (
    (VCPU, "vcpus", "a vCPU of {}"),
    (re.compile("vhost-"), "vhost", "the vhost thread of {}"),
    (re.compile(""), "emulator", "an emulator thread of {}"),
)
"""How the name of a thread of a virtual machine begins, the tuning that sets how it is scheduled, what it is."""


def starved(board: str, said: bytes) -> LostMachine:
    """The board's own report in words, and what to change."""
    try:
        report = json.loads(said)
        cpus, window_ns, threads = report["cpus"], report["window_ns"], report["threads"]
        held = [one for one in threads if one is threads[0] or one["ran_ns"] >= SMALL * window_ns]
        shares = [
            f"{_thread(one)}, for {100 * one['ran_ns'] / window_ns:.0f} % of {window_ns / SECOND_NS:g} s"
            for one in held
        ]
        which = f"CPU {cpus[0]} is" if len(cpus) == 1 else f"CPUs {', '.join(map(str, cpus))} are"
        why = f"its ordinary threads starve: {which} occupied by {', and by '.join(shares)}"
        return LostMachine(why, _remedy(board, held[0]))
    except (ValueError, LookupError, TypeError):
        return LostMachine(f"its ordinary threads starve: {said.decode(errors='replace')}")


def _thread(thread: Facts) -> str:
    """As "CPU 0/KVM (a vCPU of vm1, thread 269) at SCHED_FIFO 1"."""
    whose = _kind(thread)
    what = f"{whose[1].format(thread['machine'])}, " if whose else ""
    return f"{thread['name']} ({what}thread {thread['tid']}) at {thread['policy']} {thread['priority']}"


def _kind(thread: Facts) -> tuple[str, str] | None:
    """The key of the guest's tuning and what the thread is; None of one that is no virtual machine's."""
    if not thread["machine"]:
        return None
    return next((key, what) for begins, key, what in KINDS if begins.match(thread["name"]))


def _remedy(board: str, thread: Facts) -> str:
    more = f"another CPU (`cpus` of {board}) for it alone"
    if kind := _kind(thread):
        place = f"tuning: guests: {thread['machine']}: {kind[0]}"
        return f"leave out `fifo` in {place}; or {more}, by `cpus` with `fifo`"
    return f"run {thread['name']} as an ordinary thread; or {more}"


# A turn that never ends: of a machine in virtual time whose kernel hangs, or that waits for nothing.
#
# A watch on the machine looks every other second of its own time (docs/reference/agent.md, Turns). As long as it does,
# the machine's kernel is well, and whoever waits for something on it knows how long to. Where the machine's time stands
# still nothing is executed, so its QEMU needs no CPU; where its kernel hangs, QEMU executes it and the watch does not
# look.


SAMPLE_S = 1.0
STILL_S = 60.0
"""How long QEMU must sleep to count as stalled: longer than any work of its own takes."""
HANG_CPU_S = 120.0
"""So much CPU time QEMU may need between two looks of the machine's watch: ten times what two seconds of a busy
machine's time take."""
TURN_S = 600.0
"""So long it may take on this machine's clock, however little of its CPUs QEMU gets."""
SHARE = 0.1
"""The part of the samples in which QEMU may have been awake, and of the time it may have needed: its own timers."""
BUSY_STATES = "RD"
"""Of proc_pid_stat(5): a thread that runs, wants to or waits for a disk."""


@dataclass(frozen=True)
class Activity:
    """What a process does: the CPU time it has needed, in seconds, and whether any thread of it is awake."""

    cpu_s: float
    awake: bool


async def never_ends(pid_file: Path, watched: Callable[[], int]) -> LostMachine:
    """Why the turn that begins now counts as one that never ends, once it does: its end cancels this.

    pid_file: where the machine's QEMU has its process id. Without one only the time that goes by counts.
    watched: the instant of the machine's own time at which its watch looked last.
    """
    loop = asyncio.get_running_loop()
    began = since = loop.time()
    before = first = alive = activity(pid_file)
    look = watched()
    samples = busy = 0
    while True:
        await asyncio.sleep(SAMPLE_S)
        now, seen = loop.time(), activity(pid_file)
        if watched() != look:
            look, began, alive = watched(), now, seen
        if now - began > TURN_S:
            return LostMachine(f"its clock has not advanced for {TURN_S:g} s: its kernel hangs")
        if seen and alive and seen.cpu_s - alive.cpu_s > HANG_CPU_S:
            return LostMachine(
                f"its clock has not advanced while QEMU executed it for {HANG_CPU_S:g} s: its kernel hangs"
            )
        if seen is None or before is None or first is None:
            before = first = alive = seen
            samples, busy, since = 0, 0, now
            continue
        samples += 1
        busy += seen.awake or seen.cpu_s > before.cpu_s
        before = seen
        if now - since > STILL_S:
            if busy <= SHARE * samples and seen.cpu_s - first.cpu_s <= SHARE * (now - since):
                return LostMachine(
                    f"its clock has not advanced for {STILL_S:g} s: it is idle, and no timer will wake it"
                )
            first, samples, busy, since = seen, 0, 0, now


def activity(pid_file: Path) -> Activity | None:
    """What the process does whose id is in that file; None where there is no such process."""
    try:
        process = Path(f"/proc/{int(pid_file.read_text(encoding='utf-8'))}")
        fields = _after_name(process / "stat")
        states = [_after_name(thread / "stat")[0] for thread in (process / "task").iterdir()]
    except (OSError, ValueError, IndexError):
        return None
    # State is the third field of proc_pid_stat(5), utime the 14th, stime the 15th; the second may hold any character.
    ticks = int(fields[11]) + int(fields[12])
    return Activity(ticks / os.sysconf("SC_CLK_TCK"), any(state in BUSY_STATES for state in states))


def _after_name(stat: Path) -> list[str]:
    """The fields from the third on."""
    return stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
