"""An image that was built, and what is written down about it."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from latlab.model.part import Document
from latlab.testbed.images.emulator import PROGRAM, PROGRAMS
from latlab.testbed.images.kinds import ARM64, BOARD_KIND, GUEST_KIND, ready_made, recipe_version

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
    empty in an image that was built before images had one: the machine's that built it.
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
