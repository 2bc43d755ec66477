"""RUN: the agents' processes, one cell, the whole matrix."""
