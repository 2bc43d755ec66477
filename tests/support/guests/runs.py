"""Runs whose guests start from the images that all tests share, and what came of them as tables."""

from __future__ import annotations

import platform
import shutil
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import polars as pl
import pytest
import yaml

import latlab
from latlab.testbed.agent_binary import find_agent
from latlab.testbed.images import build_image
from support.command import Ended, Place, cells_of, read

IMAGE = "debian-cloud"
NEEDED = {"qemu-system-x86_64": "qemu-system-x86", "apt-get": "apt", "dpkg": "dpkg"}
TWO_HOSTS: dict[str, Any] = {
    "hosts": {"sensor": {"kind": "netns"}, "ecu": {"kind": "netns"}},
    "links": [{"ends": ["sensor.eth0", "ecu.eth0"]}],
}
ORDER = ("submit_tai_ns", "tx_sched_tai_ns", "tx_soft_tai_ns", "rx_soft_tai_ns", "rx_user_tai_ns")
WHOLE = (*ORDER, "clock_bound_ns")
"""The timestamps of a packet as they follow each other; the last two are taken on another clock."""


@dataclass(frozen=True)
class GuestRun:
    """A run that is over: what the command said, and its folder."""

    ended: Ended
    folder: Path

    @property
    def cells(self) -> dict[str, Any]:
        """Every cell.json, by `slug/rN`."""
        return cells_of(self.folder)

    @property
    def result(self) -> dict[str, Any]:
        """The result's cells by slug, of a run without repetitions."""
        return {cell["slug"]: cell for cell in read(self.folder / "result.json")["cells"]}

    def packets(self, slug: str, stream: str | None = None) -> pl.DataFrame:
        """The packet table of a cell, or of one stream of it."""
        packets = latlab.load(self.folder).packets(slug)
        return packets if stream is None else packets.filter(pl.col("stream_name") == stream)

    def __str__(self) -> str:
        return f"{self.ended.err}\n{[cell['reason'] for cell in self.cells.values()]}"


@cache
def image_cache(config: pytest.Config) -> Path:
    """The folder of images and snapshots that outlives the tests, with the guests' image in it.

    Asking apt whether that is up to date takes seconds: once is enough.
    """
    if platform.machine() != "x86_64":
        pytest.skip(f"the guests of these tests are x86_64, and this machine is {platform.machine()}")
    missing = sorted(package for tool, package in NEEDED.items() if not shutil.which(tool))
    assert not missing, f"install {' '.join(missing)}: these tests need them"
    folder = config.cache.mkdir("emulated")
    with mock.patch.dict("os.environ", LATLAB_CACHE=str(folder)):
        build_image(IMAGE, agent=find_agent())
    return folder


def write(place: Place, scenario: dict[str, Any]) -> Path:
    """The scenario's file."""
    path = place.folder / f"{scenario['name']}.yaml"
    path.write_text(yaml.safe_dump(scenario, sort_keys=False))
    return path


def guest_run(place: Place, cache: Path, scenario: dict[str, Any]) -> GuestRun:
    """The scenario, run by the command and over."""
    ended = place.latlab("run", write(place, scenario), "--json", LATLAB_CACHE=str(cache))
    assert place.runs.exists(), ended.err
    return GuestRun(ended, place.only_run())


def assert_whole(run: GuestRun, slug: str, names: list[str]) -> None:
    """Nothing; of each stream every packet was sent and received once, in order, with its timestamps in their order."""
    streams = run.result[slug]["streams"]
    assert list(streams) == names
    for name, found in streams.items():
        counts = found["counts"]
        scheduled = counts["scheduled"]
        whole = dict.fromkeys(counts, 0) | dict.fromkeys(("scheduled", "sent", "received"), scheduled)
        assert scheduled > 0 and counts == whole | {"warmup": counts["warmup"]}, (slug, name)
        assert found["clock"] is not None, (slug, name)
        assert_in_order(run.packets(slug, name), f"{slug}: {name}")


def assert_in_order(packets: pl.DataFrame, where: str) -> None:
    """Nothing; every packet has every software timestamp, none before the one it follows, within the clocks' ±."""
    without = {column: packets.filter(pl.col(column).is_null())["sequence"].to_list() for column in WHOLE}
    assert not any(without.values()), (where, without)
    submit, sched, left, arrived, taken = (packets[column] for column in ORDER)
    assert (submit <= sched).all() and (sched <= left).all(), where
    assert (left <= arrived + packets["clock_bound_ns"]).all(), where
    assert (arrived <= taken).all(), where
    assert packets["sequence"].to_list() == packets["arrival"].to_list() == list(range(packets.height)), where


def order_of(run: GuestRun) -> list[tuple[str, int]]:
    """The cells as run.json says they were run: slug and repetition."""
    return [(one["slug"], one["repeat"]) for one in read(run.folder / "run.json")["order"]]
