"""What the emulated machine boots: Debian's own kernel, and an initial file system of a few programs.

Packages are fetched and unpacked, never installed. Kernel modules are put into loading order here, and the archive is
written here, so neither kmod nor cpio is needed.
"""

from __future__ import annotations

import lzma
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

KERNEL = "linux-image-cloud-amd64"
BUSYBOX = "busybox-static"
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
"""What a plain kernel may lack and the tests need; what they depend on is found."""

INIT = Path(__file__).with_name("init.sh")
DIRECTORIES = ("dev", "proc", "sys", "run", "tmp")
PROGRAMS = ("ip", "tc")


def unpacked(cache: Path) -> Path:
    """The directory in `cache` with the kernel's and busybox's packages unpacked; fetched the first time.

    AssertionError: apt does not know the packages, or cannot fetch them.
    """
    depends = _printed("apt-cache", "show", "--no-all-versions", KERNEL)
    kernel = re.search(r"^Depends: (linux-image-\S+)", depends, re.MULTILINE)
    assert kernel, f"{KERNEL} names no kernel: {depends}"
    root = cache / kernel[1]
    if not root.exists():
        with tempfile.TemporaryDirectory(dir=cache) as scratch:
            _printed("apt-get", "download", "-q", kernel[1], BUSYBOX, cwd=scratch)
            for package in Path(scratch).glob("*.deb"):
                _printed("dpkg", "-x", str(package), f"{scratch}/root")
            os.replace(f"{scratch}/root", root)
    return root


def kernel_image(root: Path) -> Path:
    """The kernel in an unpacked directory."""
    return next((root / "boot").glob("vmlinuz-*"))


def write_initramfs(path: Path, root: Path, agent: Path) -> None:
    """Nothing; `path` is an initial file system: busybox, ip, tc, the agent, and the modules."""
    files = {"init": INIT.read_bytes(), "bin/busybox": (root / "bin/busybox").read_bytes()}
    files["bin/latlab-agent"] = agent.read_bytes()
    for name in PROGRAMS:
        program = shutil.which(name)
        assert program, f"{name} is not installed: apt-get install iproute2"
        files[f"usr/sbin/{name}"] = Path(program).read_bytes()
        for library in _libraries(program):
            files[library.lstrip("/")] = Path(library).read_bytes()
    modules = list(_with_dependencies(root))
    for module in modules:
        files[f"lib/{module.stem}"] = _module(module)
    files["modules"] = "".join(f"/lib/{module.stem}\n" for module in modules).encode()
    path.write_bytes(_archive(files))


def _with_dependencies(root: Path) -> Iterator[Path]:
    """The files of MODULES and of what they depend on, each after its own dependencies."""
    known = {path.name.split(".ko")[0].replace("-", "_"): path for path in root.glob("lib/modules/**/*.ko*")}
    done: set[str] = set()

    def load(name: str) -> Iterator[Path]:
        if name in done:
            return
        done.add(name)
        path = known[name]
        found = re.search(rb"\0depends=([^\0]*)", _module(path))
        for dependency in filter(None, found[1].decode().split(",") if found else []):
            yield from load(dependency.replace("-", "_"))
        yield path

    for name in MODULES:
        yield from load(name)


def _module(path: Path) -> bytes:
    data = path.read_bytes()
    return lzma.decompress(data) if path.suffix == ".xz" else data


def _libraries(program: str) -> list[str]:
    """Paths of the shared libraries the program is linked with, its loader among them."""
    return re.findall(r"(?:=>\s+|^\s+)(/\S+) \(0x", _printed("ldd", program), re.MULTILINE)


def _archive(files: dict[str, bytes]) -> bytes:
    """The files as a cpio archive, format newc (kernel: Documentation/driver-api/early-userspace/buffer-format.rst)."""
    parents = {str(parent) for name in files for parent in Path(name).parents} - {"."}
    entries: list[tuple[str, int, bytes]] = [(name, 0o40755, b"") for name in sorted(parents | set(DIRECTORIES))]
    entries += [(name, 0o100755, data) for name, data in files.items()]
    return b"".join(_entries([*entries, ("TRAILER!!!", 0, b"")]))


def _entries(entries: Iterable[tuple[str, int, bytes]]) -> Iterator[bytes]:
    for number, (name, mode, data) in enumerate(entries, start=1):
        fields = [number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0]
        yield _padded(b"070701" + b"".join(b"%08x" % field for field in fields) + name.encode() + b"\0")
        yield _padded(data)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


def _printed(*argv: str, cwd: str | None = None) -> str:
    done = subprocess.run(argv, check=False, capture_output=True, text=True, cwd=cwd)
    assert done.returncode == 0, f"{' '.join(argv)}: {done.stderr.strip()} (apt-get update makes package lists new)"
    return done.stdout
