"""Layers in the vectors of this machine's processor."""
