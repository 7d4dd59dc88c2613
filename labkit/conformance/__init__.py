"""Mechanical comparison of every rebuilt system with the installed PyTorch."""
