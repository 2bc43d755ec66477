"""The kernel of a package, as an emulated machine starts it soonest.

A bzImage unpacks itself in the guest, which takes seconds in emulation. It is unpacked here instead where the
compression is one that is known: vmlinux starts at the entry point its PVH note names.
"""

from __future__ import annotations

import lzma
import struct
import zlib
from collections.abc import Callable, Mapping

from latlab.testbed.images import lz4, zstd

MAGIC = b"HdrS"
SECTOR = 512
SIZE_AT_END = 4
ELF = b"\x7fELF"

UNPACKERS: Mapping[bytes, Callable[[bytes], bytes]] = {
    b"\x1f\x8b": lambda payload: zlib.decompressobj(wbits=zlib.MAX_WBITS | 16).decompress(payload),
    b"\xfd7zXZ\0": lambda payload: lzma.LZMADecompressor(lzma.FORMAT_XZ).decompress(payload),
    lz4.MAGIC: lambda payload: lz4.unpack(payload[:-SIZE_AT_END]),
    zstd.MAGIC: zstd.unpack,
    b"\x5d\0\0": lambda payload: lzma.LZMADecompressor(lzma.FORMAT_ALONE).decompress(payload),
}
"""How a payload that begins so is unpacked; what follows it is not looked at."""


def startable(image: bytes) -> bytes:
    """The vmlinux in a bzImage, where its compression is known; else the image as it is.

    The header: Documentation/arch/x86/boot.rst of the kernel, fields setup_sects, payload_offset, payload_length.
    """
    if image[0x202:0x206] == MAGIC:
        sectors = image[0x1F1] or 4
        offset, length = struct.unpack_from("<II", image, 0x248)
        start = (sectors + 1) * SECTOR + offset
        payload = image[start : start + length]
        for beginning, unpack in UNPACKERS.items():
            if payload.startswith(beginning) and (kernel := unpack(payload)).startswith(ELF):
                return kernel
    return image
