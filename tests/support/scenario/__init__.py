"""Scenarios as changes of a base."""
