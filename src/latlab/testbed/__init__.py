"""Test beds: made of what a scenario asks for, put up, watched and taken down again.

`makers` turns a scenario into hosts, steps and services; `apply` carries these out, and undoes them.
"""
