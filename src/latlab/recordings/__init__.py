"""The files of a run: its folder, the agents' recordings, and the packet table joined from them."""
