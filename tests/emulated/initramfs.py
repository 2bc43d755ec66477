"""What the emulated machine boots: the image for guests, with a first process of the tests' own."""

from __future__ import annotations

import os
from pathlib import Path
from unittest import mock

from latlab.testbed.images import Image, build_image
from latlab.testbed.images.archive import archive, file

MODULES = (
    "virtio_pci",
    "virtio_console",
    "veth",
    "8021q",
    "sch_etf",
    "sch_taprio",
    "sch_fq",
    "sch_netem",
    "sch_ingress",
    "cls_flower",
    "act_gact",
)
"""What the tests need and a plain kernel may not have."""

INIT = Path(__file__).with_name("init.sh")


def built_image(cache: Path, agent: Path) -> Image:
    """The image, built in the folder `cache` unless it is there. LabError: a package cannot be had."""
    with mock.patch.dict(os.environ, LATLAB_CACHE=str(cache)):
        return build_image("debian-cloud", agent=agent)


def write_initramfs(path: Path, image: Image) -> None:
    """Nothing; `path` is the image's initial file system with init.sh as first process, and the list of its modules."""
    modules = "".join(f"{name}\n" for name in MODULES)
    ours = {"init": file(INIT.read_bytes(), executable=True), "modules": file(modules.encode())}
    # The kernel unpacks one archive after the other: the later one counts.
    path.write_bytes(image.initramfs.read_bytes() + archive(ours))
