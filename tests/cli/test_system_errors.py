"""What the system refuses is reported with the remedy of that errno, for any caller."""

from __future__ import annotations

import errno
import io
import os
from pathlib import Path

import polars as pl
import pytest

import latlab.cli
from latlab.model.errors import EXIT_LAB, file_remedy, rejection_remedy, system_error
from latlab.report.charts.sheet import FORMATS

REMEDIES = {
    errno.ENOSPC: "free space, or choose another folder",
    errno.EROFS: "the file system is mounted read-only: choose another folder",
    errno.EMFILE: "raise the limit of open files: `ulimit -n`",
    errno.EISDIR: "there is a folder where a file is expected: remove it, or rename it",
    errno.EIO: "",
}


@pytest.mark.parametrize(("number", "remedy"), REMEDIES.items(), ids=errno.errorcode.get)
def test_a_remedy_belongs_to_its_errno(number: int, remedy: str, tmp_path: Path) -> None:
    assert system_error(OSError(number, os.strerror(number), str(tmp_path))).remedy == remedy


def test_a_folder_that_is_missing_is_to_be_made_and_a_file_is_not(tmp_path: Path) -> None:
    for path, remedy in (("new/lab.yaml", f"make the folder first: mkdir -p {tmp_path}/new"), ("lab.yaml", "")):
        refused = OSError(errno.ENOENT, os.strerror(errno.ENOENT), str(tmp_path / path))
        assert file_remedy(refused) == remedy


@pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM])
def test_a_file_that_is_another_user_s_is_named_with_its_owner(number: int, tmp_path: Path) -> None:
    os.chown(tmp_path, 12345, 12345)
    refused = OSError(number, os.strerror(number), str(tmp_path / "cells" / "result.json"))
    assert file_remedy(refused) == f"{tmp_path} belongs to user 12345: run with sudo"


def test_a_rejection_is_known_by_its_errno_or_by_a_tool_s_words() -> None:
    port = "UDP port 5600 of ecu"
    for number in (errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.EACCES):
        assert rejection_remedy(number, port).startswith(f"a firewall rejects {port}: allow it there")
        assert rejection_remedy(None, port, f"connect: {os.strerror(number)}") == rejection_remedy(number, port)
    assert rejection_remedy(errno.ENOBUFS, port) == rejection_remedy(None, port, "the connection was fine") == ""


def test_a_refusal_that_a_library_reports_in_its_own_words_is_no_fault_of_ours(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full() -> None:
        raise pl.exceptions.ComputeError("parquet: underlying IO error: No space left on device (os error 28)")

    monkeypatch.setattr("latlab.cli.start.app", full)
    monkeypatch.setattr("sys.argv", ["latlab", "list"])
    with pytest.raises(SystemExit) as ended:
        latlab.cli.main()
    assert ended.value.code == EXIT_LAB
    assert capsys.readouterr().err == (
        "latlab: this machine: No space left on device (free space, or choose another folder)\n"
    )


@pytest.mark.parametrize(
    "words",
    [
        "doctor --help",
        "explain",
        "explain preempt-rt",
        "list",
        "plan first",
        "gates tsn-bridges",
        "validate first --json",
    ],
)
def test_standard_output_that_takes_no_more_is_named_and_nothing_else(
    words: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["latlab", *words.split()])
    error = io.StringIO()
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        monkeypatch.setattr("sys.stdout", full)
        monkeypatch.setattr("sys.stderr", error)
        with pytest.raises(SystemExit) as ended:
            latlab.cli.main()
    assert ended.value.code == EXIT_LAB
    assert error.getvalue() == (
        "latlab: standard output: cannot be written: No space left on device (free space, or redirect it elsewhere)\n"
    )


@pytest.mark.parametrize("kind", FORMATS)
def test_a_picture_that_cannot_be_written_is_named(
    kind: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / f"gates.{kind}"
    path.symlink_to("/dev/full")
    assert _refused(["gates", "tsn-bridges", "--picture", str(path)], monkeypatch, capsys) == (
        f"latlab: {path}: No space left on device (free space, or choose another folder)\n"
    )


def test_a_scenario_that_cannot_be_written_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["init", "/dev/full", "--force", "--bridge", "tap"]
    assert _refused(words, monkeypatch, capsys) == (
        "latlab: /dev/full: No space left on device (free space, or choose another folder)\n"
    )


def _refused(words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """What the command line prints on standard error, with the exit code of a machine that refuses."""
    monkeypatch.setattr("sys.argv", ["latlab", *words])
    with pytest.raises(SystemExit) as ended:
        latlab.cli.main()
    assert ended.value.code == EXIT_LAB
    return capsys.readouterr().err
