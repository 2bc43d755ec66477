"""`echo.py ADDRESS BYTES` sends UDP packets there until one comes back, and prints `came back` then."""

from __future__ import annotations

import socket
import sys

TRIES = 100

way = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
way.settimeout(0.1)
sent = bytes(range(256)) * (int(sys.argv[2]) // 256)
for _ in range(TRIES):
    way.sendto(sent, (sys.argv[1], 5555))
    try:
        assert way.recv(65536) == sent
    except TimeoutError:
        continue
    print("came back")
    break
