"""How soon latlab answers, and how much memory that takes: `latlab --help`, and `latlab validate` of a scenario.

    benches/start_up.py [--than CHECKOUT|REVISION] [--rounds 10] [--scenario scenarios/first.yaml]

than: another state of the repository, a folder or what git calls it, such as v0.2.0 or HEAD~3. Each round starts every
command once in either, one after the other, each round beginning with the other one. Seconds until it ends, and of
CPUs: the median and the least; peak memory: the largest, in MiB.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter

# Nothing of latlab or of a library is imported: a program's peak memory is at least that of who started it.

ROOT = Path(__file__).parents[1]
PROGRAM = "import sys; from latlab.cli import main; sys.argv[0] = 'latlab'; sys.exit(main())"


@dataclass(frozen=True)
class Took:
    """What one start took."""

    seconds: float
    cpu_seconds: float
    peak_kib: int


def main() -> None:
    """Print a line for each command and checkout."""
    parser = argparse.ArgumentParser(description="how soon latlab answers, and how much memory that takes")
    parser.add_argument("--than", metavar="CHECKOUT|REVISION", help="another state of the repository, to compare with")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--scenario", type=Path, default=ROOT / "scenarios/first.yaml", help="what is validated")
    arguments = parser.parse_args()
    commands = {"--help": ("--help",), "validate": ("validate", str(arguments.scenario.resolve()))}
    with tempfile.TemporaryDirectory(prefix="latlab-bench-") as scratch:
        checkouts = {"here": ROOT}
        if arguments.than:
            checkouts[arguments.than] = checkout(arguments.than, Path(scratch))
        for name, command in commands.items():
            report(name, measured(command, checkouts, arguments.rounds))


def checkout(than: str, scratch: Path) -> Path:
    """The folder of another state: itself, or the files of a revision in an empty one."""
    if (Path(than) / "src/latlab").is_dir():
        return Path(than).resolve()
    archive = scratch / "src.tar"
    command = ["git", "-C", str(ROOT), "archive", f"--output={archive}", than, "src"]
    packed = subprocess.run(command, capture_output=True, text=True)
    if packed.returncode:
        sys.exit(f"{than} is neither a checkout of latlab nor a revision: {packed.stderr.strip()}")
    subprocess.run(["tar", "--extract", f"--file={archive}", "--directory", str(scratch)], check=True)
    return scratch


def measured(command: Sequence[str], checkouts: Mapping[str, Path], rounds: int) -> dict[str, list[Took]]:
    """Each start of a command, by the name of its checkout; one more at first, which compiles what is imported."""
    found: dict[str, list[Took]] = {name: [] for name in checkouts}
    names = list(checkouts)
    for number in range(rounds + 1):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            took = started(command, checkouts[name])
            if number:
                found[name].append(took)
    return found


def started(command: Sequence[str], folder: Path) -> Took:
    """What a start of latlab from the folder took, until its end."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPATH"] = str(folder / "src")
    began = perf_counter()
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *command], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert program.stdout
    with program.stdout as output:
        said = output.read().decode()
    _, status, usage = os.wait4(program.pid, 0)
    seconds = perf_counter() - began
    program.returncode = os.waitstatus_to_exitcode(status)
    if program.returncode:
        sys.exit(f"latlab {' '.join(command)} in {folder} ended with {program.returncode}:\n{said}")
    return Took(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss)


def report(command: str, found: Mapping[str, Sequence[Took]]) -> None:
    """Print what a command took in each checkout, and what is held against the first."""
    width = max(map(len, found))
    for name, each in found.items():
        seconds, cpu = [one.seconds for one in each], [one.cpu_seconds for one in each]
        figures = (
            f"{median(seconds):6.3f} s (least {min(seconds):6.3f})  CPU {median(cpu):6.3f} s (least {min(cpu):6.3f})"
        )
        print(f"{command:9} {name:{width}}  {figures}  peak {max(one.peak_kib for one in each) / 1024:6.1f} MiB")
    here, *others = found.values()
    for other in others:
        ratio = median(one.seconds / than.seconds for one, than in zip(here, other, strict=True))
        more = (max(one.peak_kib for one in here) - max(one.peak_kib for one in other)) / 1024
        print(f"{command:9} {'here':{width}}  takes {ratio:.2f} times as long, and {more:+.1f} MiB")


if __name__ == "__main__":
    main()
