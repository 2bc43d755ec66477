"""Guests: our own, those of others, and what becomes of them when a lab is killed."""
