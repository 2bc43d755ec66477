"""A container image, built by buildah of a base that is an archive here: no registry of images is asked."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

BUILT_S = 1200
BASE = "localhost/base"
IMAGE = "localhost/latlab"
CONTAINER = "one"
LIKE_PRIVILEGED = """
import ctypes, os, sys
assert ctypes.CDLL(None).umount(b"/proc/sys") == 0
os.execvp(sys.argv[1], sys.argv[1:])
"""
"""Runs a command with /proc/sys as `podman run --privileged` leaves it: buildah always mounts it read-only."""


class ImageBuilder:
    """buildah with images of its own. It needs no service, no container runtime, and no file system but the folder's.

    storage: the folder of its images.
    """

    def __init__(self, storage: Path) -> None:
        assert shutil.which("buildah"), "buildah is missing: `tools/require test` installs it"
        folders = ("--root", str(storage / "root"), "--runroot", str(storage / "run"))
        self._buildah = ("buildah", *folders, "--storage-driver", "vfs")

    def build(self, base: Path, folder: Path) -> None:
        """Build the image by the folder's recipe. base: the archive of the distribution that it starts from."""
        self._must("from", "--name", "base", "scratch")
        self._must("add", "base", str(base), "/")
        self._must("commit", "--rm", "base", BASE)
        tag = ("--build-arg", f"BASE={BASE}", "--tag", IMAGE)
        self._must("build", "--isolation", "chroot", *tag, str(folder))
        self._must("from", "--pull-never", "--name", CONTAINER, IMAGE)

    def configured(self, what: str) -> str:
        """What the image has for this, such as `Entrypoint`."""
        return self._must("inspect", "--format", f"{{{{.OCIv1.Config.{what}}}}}", CONTAINER).stdout.strip()

    def run(
        self, *command: str, options: Sequence[str] = (), privileged: bool = False
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in the one container of the image, and return what came of it."""
        before = ("python3", "-c", LIKE_PRIVILEGED) if privileged else ()
        return self._run("run", "--isolation", "chroot", *options, CONTAINER, "--", *before, *command)

    def _must(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        done = self._run(*arguments)
        assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
        return done

    def _run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        argv = (*self._buildah, *arguments)
        return subprocess.run(argv, check=False, capture_output=True, text=True, timeout=BUILT_S)
