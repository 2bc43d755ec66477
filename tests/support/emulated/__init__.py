"""A machine with another kernel, emulated, and hosts in it."""
