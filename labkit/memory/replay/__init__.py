"""Recorded histories made again: exactly, or under other settings."""
