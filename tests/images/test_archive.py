"""An initial file system is the same bytes for the same entries, and in an order the kernel can unpack."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from latlab.testbed.images.archive import DIRECTORY, archive, file, link
from latlab.testbed.images.store import DESCRIPTION, INITRAMFS, KERNEL, Image, home
from latlab.testbed.images.with_guests import image_archive
from support.images.cpio import read

ENTRIES = {
    "usr/bin/b": file(b"b", executable=True),
    "usr/bin/a": link("b"),
    "etc/x": file(b"four"),
    "tmp": DIRECTORY,
}


def test_the_order_of_the_entries_makes_no_difference() -> None:
    assert archive(ENTRIES) == archive(dict(reversed(ENTRIES.items())))


def test_a_directory_comes_before_what_is_in_it_and_is_made_if_nobody_named_it() -> None:
    names = [found.name for found in read(archive(ENTRIES))]
    assert names == ["etc", "etc/x", "tmp", "usr", "usr/bin", "usr/bin/a", "usr/bin/b"]


def test_nothing_tells_when_and_by_whom_it_was_made() -> None:
    found = list(read(archive(ENTRIES)))
    assert {(one.uid, one.gid, one.mtime) for one in found} == {(0, 0, 0)}
    assert [one.inode for one in found] == list(range(1, len(found) + 1))


def test_files_links_and_directories_are_what_they_were() -> None:
    found = {one.name: one for one in read(archive(ENTRIES))}
    assert (found["usr/bin/b"].mode, found["usr/bin/b"].data) == (stat.S_IFREG | 0o755, b"b")
    assert (found["etc/x"].mode, found["etc/x"].data) == (stat.S_IFREG | 0o644, b"four")
    assert (found["usr/bin/a"].mode, found["usr/bin/a"].data) == (stat.S_IFLNK | 0o777, b"b")
    assert found["usr"].mode == stat.S_IFDIR | 0o755


def test_archives_may_follow_one_another() -> None:
    both = archive({"a": file(b"1")}) + archive({"a": file(b"2")})
    assert [one.data for one in read(both)] == [b"1", b"2"]


def test_a_nested_image_has_the_same_bytes_whenever_it_was_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LATLAB_CACHE", str(tmp_path))
    made = []
    for built in ("2026-01-01T00:00:00+00:00", "2026-12-31T23:59:59+00:00"):
        folder = home("nested")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / DESCRIPTION).write_text(json.dumps({"name": "nested", "built": built}))
        for name in (KERNEL, INITRAMFS):
            (folder / name).write_bytes(name.encode())
        image = Image("nested", folder / KERNEL, folder / INITRAMFS, "", "rt", "6.1", "digest", {}, built, 0)
        made.append(image_archive(image))
    assert made[0] == made[1]
    assert b'"name": "nested"' in made[0]
