"""Autograd, compared with the installed PyTorch."""
