"""What holds for every test."""

from __future__ import annotations

import gc
import signal
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from latlab.recordings.run_folder import RunFolder
from latlab.result.store import typed
from support.suite.examples import FEW, MOST
from support.suite.lanes import LANE, LANES, Lane, Sharing, own_cpu
from support.suite.marks import alone_last, mark
from support.suite.times import write_times

pytest_plugins = ["support.netperf"]

# How long an example takes says how busy the machine is, and nothing about the code.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=MOST)
settings.register_profile("fast", settings.get_profile("untimed"), max_examples=FEW)
settings.load_profile("untimed")


def pytest_configure(config: pytest.Config) -> None:
    """Nothing; the tests can be told to end whatever started them, and each process that runs some has its CPU."""
    # Under nohup, say: who ignores a signal hands that on to all that is started.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    if config.option.markexpr == "fast":
        settings.load_profile("fast")
    _typed_results()
    if LANE:
        own_cpu()
        config.pluginmanager.register(Lane())


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test before any is chosen by its marks, and order them."""
    mark(items)
    alone_last(items)


def pytest_collection_finish() -> None:
    """Leave what was imported and collected to no garbage collection: it stays until the end."""
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say which files took longest, too: a file is what a lane takes."""
    write_times(terminalreporter)


def _typed_results() -> None:
    """Have every result that a test makes held against its types. A user's is written whatever is in it."""
    write = RunFolder.write_result

    def checked(folder: RunFolder, document: dict[str, Any]) -> None:
        if "thresholds" in document:  # else a test wrote a part of one by hand
            typed(document)
        write(folder, document)

    RunFolder.write_result = checked  # type: ignore[assignment, method-assign]


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """A lane a CPU, and one for what only computes: while the others wait it has their CPUs."""
    return LANES + 1


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Sharing:
    """Who gets which tests."""
    return Sharing(config, log)
