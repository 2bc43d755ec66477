"""Stands for a guest: `guest_on_a_tap.py TAP` takes frames from the tap and sends UDP packets back to their sender.

It changes no checksum: a packet whose checksum was left to the hardware goes back with the same wrong one.
"""

from __future__ import annotations

import fcntl
import os
import struct
import sys

TUNSETIFF = 0x400454CA
IFF_TAP_NO_PI_VNET_HDR = 0x0002 | 0x1000 | 0x4000
VNET_HDR = 10
UDP_OVER_IPV4 = 14 + 20 + 8


def answer(frame: bytes) -> bytes | None:
    """The packet on its path back; None for anything but UDP over IPv4."""
    if len(frame) < UDP_OVER_IPV4 or frame[12:14] != b"\x08\x00" or frame[23] != 17:
        return None
    addresses, ports = frame[30:34] + frame[26:30], frame[36:38] + frame[34:36]
    return frame[6:12] + frame[:6] + frame[12:26] + addresses + ports + frame[38:]


def main() -> None:
    tap = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH22x", sys.argv[1].encode(), IFF_TAP_NO_PI_VNET_HDR))
    print("plugged in", flush=True)
    while True:
        if back := answer(os.read(tap, 65536)[VNET_HDR:]):
            os.write(tap, bytes(VNET_HDR) + back)


main()
