"""A lab that leaves board2's clock at 1970, as of a board without a battery: `early_lab.py latlab ARGUMENT…`."""

from __future__ import annotations

import sys

from latlab.cli import main
from latlab.testbed.machines import board

LEFT = 'case $1 in */board2) time=90;; *) time=$(date +%s);; esac; exec "$0" in "$1" date -u -s "@$time"'

if __name__ == "__main__":
    board.SET_CLOCK = LEFT
    sys.argv = sys.argv[1:]
    main()
