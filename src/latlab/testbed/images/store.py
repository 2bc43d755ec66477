"""Images that were built: what is written down about each, its snapshots, and where they are kept.

image.json is replaced at one blow after those files are there, so an image is there whole or not at all. A run keeps
the folders of its images, and a build what it is made of, by a shared lock on each folder (`in_use`): builds and
`clean_images` leave what is locked.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import fcntl
import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from latlab.model.errors import LabError, UsageError, file_remedy
from latlab.model.part import Document
from latlab.testbed.images.emulator import PROGRAM, PROGRAMS
from latlab.testbed.images.kinds import ARM64, BOARD_KIND, GUEST_KIND, ready_made, recipe_version

NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")
LOCK = ".lock"
Found = TypeVar("Found")


def image_directory() -> Path:
    """Where all that can be made again is kept: `$LATLAB_CACHE`, else latlab in `$XDG_CACHE_HOME` or ~/.cache."""
    ours = os.environ.get("LATLAB_CACHE")
    return Path(ours) if ours else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "latlab"


def packages_directory() -> Path:
    """Where fetched packages are kept."""
    return image_directory() / "packages"


def home(name: str) -> Path:
    """The folder of the image of that name. UsageError: no image can have that name."""
    if not NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} cannot be an image's name", remedy="small letters and digits, then also `.`, `_` and `-`"
        )
    return image_directory() / "images" / name


def find_image(name: str) -> Image | None:
    """The image of that name; None if it was not built. UsageError: no image can have that name."""
    return read_description(home(name) / DESCRIPTION)


def list_images() -> list[Image]:
    """All images that were built, by name."""
    found = (read_description(path) for path in sorted(image_directory().glob(f"images/*/{DESCRIPTION}")))
    return [image for image in found if image]


@dataclass(frozen=True)
class Removal:
    """What `clean_images` has removed, and what it has left, as it is in use; both in words."""

    removed: list[str] = field(default_factory=list)
    in_use: list[str] = field(default_factory=list)


def clean_images(names: Iterable[str] = ()) -> Removal:
    """Remove images with their snapshots; without names all of them, and the fetched packages.

    UsageError: there is no image of a name; nothing was removed.
    """
    wanted = list(names)
    for name in wanted:
        if not home(name).exists():
            raise UsageError(f"there is no image {name}", remedy="`latlab image list`")
    folders = [home(name) for name in wanted] or sorted((image_directory() / "images").glob("*/"))
    done = Removal()
    for folder in folders:
        with locked(folder), contextlib.ExitStack() as stack:
            free = [stack.enter_context(_unused(path)) for path in folder.iterdir() if path.is_dir()]
            if not all(free):
                done.in_use.append(f"image {folder.name}: a run or a build uses it")
                continue
            snapshots = len(list(folder.glob("*/snapshots/*")))
            (folder / DESCRIPTION).unlink(missing_ok=True)
            besides = f" with {snapshots} snapshot{'s' if snapshots > 1 else ''}" if snapshots else ""
            done.removed.append(f"image {folder.name}{besides}, {_megabytes_in(folder)}")
            shutil.rmtree(folder)
    if not wanted and packages_directory().exists():
        with _unused(packages_directory()) as unused:
            if unused:
                done.removed.append(f"fetched packages, {_megabytes_in(packages_directory())}")
                shutil.rmtree(packages_directory())
            else:
                done.in_use.append("fetched packages: a build uses them")
    return done


@contextlib.contextmanager
def locked(folder: Path, waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Lock the folder, made if needed, while the context lasts; `waiting` is called if that takes a while.

    LabError: it cannot be written.
    """
    while True:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise LabError(
                f"cannot keep images: {error.strerror}",
                where=str(error.filename or folder),
                remedy=f"{file_remedy(error)}; or set LATLAB_CACHE to another folder".removeprefix("; or "),
            ) from None
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                waiting()
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            if not _is_at(descriptor, folder / LOCK):
                continue  # the process that had it has removed the folder
            yield
            return
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def in_use(find: Callable[[], Found], folders: Callable[[Found], Iterable[Path]]) -> Iterator[Found]:
    """What `find` finds. Its folders are not removed while the context lasts; where one just was, it finds again.

    Nothing is written there: a cache may be read-only.
    """
    with contextlib.ExitStack() as stack:
        while True:
            found = find()
            with contextlib.suppress(FileNotFoundError):
                stack.enter_context(_kept(folders(found)))
                break
        yield found


@contextlib.contextmanager
def _kept(folders: Iterable[Path]) -> Iterator[None]:
    """Hold a shared lock (flock(2)) on each folder. FileNotFoundError: one is not there any more."""
    with contextlib.ExitStack() as stack:
        for folder in folders:
            try:
                descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            except PermissionError:
                continue  # what is in it may be read all the same
            stack.callback(os.close, descriptor)
            # Some file systems have no locks.
            with contextlib.suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_SH)
            if not _is_at(descriptor, folder):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(folder))
        yield


@contextlib.contextmanager
def _unused(folder: Path) -> Iterator[bool]:
    """Whether nobody keeps the folder. If so, nobody does while the context lasts: who asks for it waits."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        unused = True
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            unused = False
        except OSError:
            pass  # without locks nobody can keep it
        yield unused
    finally:
        os.close(descriptor)


def remove_superseded(folder: Path) -> None:
    """Remove from an image's folder all but the image: older ones, and what a build cut short left.

    An older one that a run uses is left to the next build.
    """
    image = read_description(folder / DESCRIPTION)
    kept = {DESCRIPTION, LOCK, folder_name(image.digest) if image else ""}
    for path in folder.iterdir():
        if path.name not in kept:
            with _unused(path) as unused:
                if unused:
                    shutil.rmtree(path)


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    ours = os.fstat(descriptor)
    return (ours.st_dev, ours.st_ino) == (there.st_dev, there.st_ino)


def _megabytes_in(folder: Path) -> str:
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return f"{size / 1e6:.0f} MB"


# Whether there is room to build an image, and what is said when there is not.


FULL = (errno.ENOSPC, errno.EDQUOT)


@contextlib.contextmanager
def room(folder: Path, needed: int) -> Iterator[None]:
    """While the context lasts something is made in the folder. LabError: there is no room, at first or after a while.

    needed: bytes it takes at most, about.
    """
    if shutil.disk_usage(folder).free < needed:
        raise _no_room(folder, needed)
    try:
        yield
    except OSError as error:
        if error.errno in FULL:
            raise _no_room(folder, needed) from None
        raise


def _no_room(folder: Path, needed: int) -> LabError:
    free = shutil.disk_usage(folder).free
    return LabError(
        f"not enough space: building it takes about {_megabytes(needed)}, and {_megabytes(free)} are free",
        where=str(folder),
        remedy="free space there, or set LATLAB_CACHE to another folder",
    )


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.0f} MB"


# An image that was built, and what is written down about it.


FORMAT = "latlab.image/1"
DESCRIPTION = "image.json"
KERNEL = "kernel"
INITRAMFS = "initramfs"
BASE = "base"
NESTED_INITRAMFS = "initramfs-nested"
NESTED_BASE = "base-nested"
EMULATOR = "qemu"


@dataclass(frozen=True)
class Image:
    """What a guest boots, or a board.

    append: the kernel's command line, to which more may be added. digest: of all that went in, in hexadecimal; so are
    agent (the agent's binary), recipe (how images are made) and base (all but agent and nested image). packages: name →
    version. built: when, UTC, ISO 8601. size: bytes of the kernel and the initial file systems. extra: packages that
    were asked for by name. kind: `guest`, or `board`: a machine with a complete test bed. lacking: module it is
    without → what that takes away. nested_image: digest of the guest image that is in a board's. emulator: the version
    of the QEMU that comes with it and runs it, empty where this machine's does. architecture: Debian's name of it;
    empty in an image that was built before images had one: the machine's that built it. emulator_from: the release that
    its QEMU was asked for of, empty where none was.
    """

    name: str
    kernel: Path
    initramfs: Path
    append: str
    flavour: str
    kernel_version: str
    digest: str
    packages: Mapping[str, str]
    built: str
    size: int
    extra: tuple[str, ...] = ()
    agent: str = ""
    recipe: str = ""
    base: str = ""
    kind: str = GUEST_KIND
    lacking: Mapping[str, str] = field(default_factory=dict)
    nested_image: str = ""
    emulator: str = ""
    architecture: str = ""
    emulator_from: str = ""

    @property
    def is_built(self) -> bool:
        """Whether there is such an image; one that stands in a plan for it has no digest."""
        return bool(self.digest)

    def build_command(self, *more: str) -> str:
        """The command that builds it again, with these Debian packages besides."""
        own = ready_made(self.name) is None
        of_arm = own and self.architecture == ARM64
        words = [
            f"latlab image build {self.name}",
            *(["--board"] if own and self.kind == BOARD_KIND else []),
            *([f"--flavour {self.flavour}"] if own else []),
            *(["--arch arm64"] if of_arm else []),
            *([f"--emulator-from {self.emulator_from}"] if self.emulator_from else []),
            *(f"--package {package}" for package in (*self.extra, *more)),
        ]
        return " ".join(words)

    @property
    def nested_initramfs(self) -> Path | None:
        """A board's other initial file system, in which there is QEMU and a guest image besides. None: no board."""
        return self.folder / NESTED_INITRAMFS if self.kind == BOARD_KIND else None

    @property
    def emulator_program(self) -> Path | None:
        """The QEMU that comes with it. None: this machine's runs it."""
        return self.folder / EMULATOR / PROGRAMS.get(self.architecture, PROGRAM) if self.emulator else None

    @property
    def folder(self) -> Path:
        """Where its files are, and nothing else."""
        return self.initramfs.parent

    def is_up_to_date(self, agent: Path) -> bool:
        """Whether that agent is in it, and it would be made in the same way today. OSError: no such agent."""
        return (self.agent, self.recipe) == (file_digest(agent), recipe_version(self.kind))

    def as_dict(self) -> Document:
        """All of it as JSON has it."""
        files = {"kernel": self.kernel, "initramfs": self.initramfs, "nested_initramfs": self.nested_initramfs}
        return dataclasses.asdict(self) | {name: str(path) if path else None for name, path in files.items()}


def write_description(image: Image, path: Path) -> None:
    """Describe the image in that file."""
    document = {"format": FORMAT} | image.as_dict()
    # Where its files are follows from where this file is.
    for place in ("kernel", "initramfs", "nested_initramfs"):
        del document[place]
    path.write_text(json.dumps(document, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def read_description(path: Path) -> Image | None:
    """The image described in that file; None where there is none, one of another format, or its files are not whole."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(document, dict) or document.pop("format", None) != FORMAT:
            return None
        folder = path.parent / folder_name(document["digest"])
        document["extra"] = tuple(document["extra"])
        image = Image(kernel=folder / KERNEL, initramfs=folder / INITRAMFS, **document)
        return image if size_of(folder, image.kind) == image.size else None
    except (FileNotFoundError, ValueError):
        return None


def size_of(folder: Path, kind: str) -> int:
    """Bytes of the kernel and the initial file systems in an image's folder. FileNotFoundError: one is missing."""
    parts = (KERNEL, INITRAMFS, NESTED_INITRAMFS) if kind == BOARD_KIND else (KERNEL, INITRAMFS)
    return sum((folder / part).stat().st_size for part in parts)


def folder_name(digest: str) -> str:
    """The name of the folder of the image with that digest."""
    return digest[:16]


def file_digest(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest_of(document: Document) -> str:
    """SHA-256 of a JSON document, in hexadecimal: the same for the same document."""
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


# Snapshots of guests that have booted an image: where they are, and how many are kept. They go with their image.


SNAPSHOT_NAME = re.compile(r"[0-9a-f]{16}")
PART = re.compile(r"\.[0-9a-f]{16}\.([0-9]+)")
BEGINNING, END = b"QEVM", b"]}"
"""QEMU's migration stream (docs/devel/migration in QEMU) begins with a magic number and ends with a description of what
is in it, in JSON."""
KEEP = 8
"""The last used snapshots of an image that are kept; each is about as large as what its guest uses of its memory."""


def snapshot_path(image: Image, key: str) -> Path:
    """Where the snapshot of that image and key is, whether it is there or not.

    key: all that the guest was started with, such as QEMU's version and command line, and what was done in it since.
    """
    return image.folder / "snapshots" / hashlib.sha256(key.encode()).hexdigest()[:16]


def is_whole(path: Path) -> bool:
    """Whether a snapshot is there, with its beginning and its end: no file that was cut short or not wholly written.

    Whether this QEMU takes it shows when it is loaded.
    """
    try:
        with path.open("rb") as file:
            beginning = file.read(len(BEGINNING))
            file.seek(-len(END), os.SEEK_END)
            return (beginning, file.read()) == (BEGINNING, END)
    except OSError:
        return False


def part_path(path: Path) -> Path:
    """Where this process writes a snapshot that, once it is whole, is renamed to `path`."""
    return path.with_name(f".{path.name}.{os.getpid()}")


def mark_used(path: Path) -> None:
    """Count the snapshot as the newest from now on."""
    with contextlib.suppress(OSError):
        os.utime(path)


def keep_newest(folder: Path, keep: int = KEEP) -> None:
    """Leave in that folder of snapshots the `keep` last made or used, and no parts of one whose writer has died."""
    whole = []
    for path in folder.iterdir():
        # What else is in the folder is not ours.
        if SNAPSHOT_NAME.fullmatch(path.name):
            whole.append(path)
        elif (part := PART.fullmatch(path.name)) and not Path(f"/proc/{part[1]}").exists():
            path.unlink(missing_ok=True)
    whole.sort(key=lambda path: path.stat().st_mtime_ns)
    for path in whole[:-keep]:
        path.unlink(missing_ok=True)
