"""Kernels, their warps and tiles, and streams, drawn."""
