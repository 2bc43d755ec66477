"""A kernel that unpacks itself is unpacked beforehand, where it is known how."""

from __future__ import annotations

import gzip
import lzma
import struct

import pytest

from latlab.testbed.images import kernel
from latlab.testbed.images.kernel import startable

VMLINUX = b"\x7fELF" + bytes(range(256)) * 40
SETUP_SECTORS = 3
PAYLOAD_OFFSET = 0x60


def lz4_of_literals(data: bytes) -> bytes:
    """A legacy frame of one block without a match."""
    extra, rest = divmod(len(data) - 15, 255)
    block = b"\xf0" + b"\xff" * extra + bytes([rest]) + data
    return kernel.LZ4_MAGIC + struct.pack("<I", len(block)) + block


def zstd_of_literals(data: bytes) -> bytes:
    """A frame of Zstandard (RFC 8878) with the size of its contents and one block, which is not compressed."""
    header = b"\xa0" + struct.pack("<I", len(data))
    last_raw_block = (len(data) << 3 | 1).to_bytes(3, "little")
    return kernel.ZSTD_MAGIC + header + last_raw_block + data


PAYLOADS = {
    "gzip": gzip.compress(VMLINUX),
    "xz": lzma.compress(VMLINUX, check=lzma.CHECK_CRC32) + struct.pack("<I", len(VMLINUX)),
    "lzma": lzma.compress(VMLINUX, lzma.FORMAT_ALONE) + struct.pack("<I", len(VMLINUX)),
    "zstd": zstd_of_literals(VMLINUX) + struct.pack("<I", len(VMLINUX)),
    "lz4": lz4_of_literals(VMLINUX) + struct.pack("<I", len(VMLINUX)),
}


def bz_image(payload: bytes) -> bytes:
    """A bzImage with that payload, and something after it."""
    start = (SETUP_SECTORS + 1) * 512 + PAYLOAD_OFFSET
    image = bytearray(start) + payload + b"after it"
    image[0x1F1] = SETUP_SECTORS
    image[0x202:0x206] = b"HdrS"
    struct.pack_into("<II", image, 0x248, PAYLOAD_OFFSET, len(payload))
    return bytes(image)


@pytest.mark.parametrize("payload", PAYLOADS.values(), ids=PAYLOADS)
def test_a_payload_of_a_known_compression_is_unpacked(payload: bytes) -> None:
    assert startable(bz_image(payload)) == VMLINUX


IMPOSSIBLE = {
    "no kernel": gzip.compress(b"no ELF file"),
    "an impossible size": zstd_of_literals(VMLINUX) + b"\xff" * 4,
    "a wrong size": zstd_of_literals(VMLINUX) + struct.pack("<I", len(VMLINUX) - 1),
    "cut short": zstd_of_literals(VMLINUX)[:-9] + struct.pack("<I", len(VMLINUX)),
}


@pytest.mark.parametrize("payload", IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_what_cannot_be_unpacked_stays_as_it_is(payload: bytes) -> None:
    assert startable(bz_image(payload)) == bz_image(payload)


def test_an_image_of_another_architecture_stays_as_it_is() -> None:
    assert startable(b"MZ" + bytes(0x400)) == b"MZ" + bytes(0x400)


# Token (literals << 4 | match length - 4), literals, distance; the last sequence has literals only.
BLOCKS = {
    "a copy of what was there": (b"\x42abcd\x04\x00\x10!", b"abcdabcdab!"),
    "a copy that reaches into itself": (b"\x16a\x01\x00\x10b", b"a" + b"a" * 10 + b"b"),
    "a long copy": (b"\x1fa\x01\x00\xff\x02\x10b", b"a" + b"a" * (15 + 255 + 2 + 4) + b"b"),
    "many literals": (b"\xf0\xff\x05" + b"x" * 275, b"x" * 275),
}


@pytest.mark.parametrize(("block", "data"), BLOCKS.values(), ids=BLOCKS)
def test_lz4_blocks_are_unpacked_as_their_format_says(block: bytes, data: bytes) -> None:
    frame = kernel.LZ4_MAGIC + 2 * (struct.pack("<I", len(block)) + block)
    assert kernel.unpack_lz4(frame) == 2 * data


def test_a_frame_cut_short_is_an_error() -> None:
    block = BLOCKS["a copy of what was there"][0]
    with pytest.raises(IndexError):
        kernel.unpack_lz4(kernel.LZ4_MAGIC + struct.pack("<I", len(block)) + block[:-3])
