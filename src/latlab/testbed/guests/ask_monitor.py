"""The command that asks a guest's QEMU.

python -m latlab.testbed.guests.ask_monitor snapshot SOCKET FILE
python -m latlab.testbed.guests.ask_monitor threads SOCKET
python -m latlab.testbed.guests.ask_monitor state SOCKET STATE SECONDS
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from latlab.model.errors import LabError
from latlab.testbed.guests.monitor import snapshot, until_state, vcpu_threads


def main(arguments: list[str]) -> int:
    """The exit status; what was asked for has been printed or done."""
    try:
        match arguments:
            case ["snapshot", socket, path]:
                asyncio.run(snapshot(socket, Path(path)))
            case ["threads", socket]:
                for cpu, thread in sorted(asyncio.run(vcpu_threads(socket)).items()):
                    print(cpu, thread)
            case ["state", socket, state, seconds]:
                print(asyncio.run(until_state(socket, state, float(seconds))))
            case _:
                sys.stderr.write((__doc__ or "") + "\n")
                return 2
    except LabError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
