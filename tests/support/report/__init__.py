"""Runs made of numbers, and what their report looks like in a browser, a terminal and files."""
