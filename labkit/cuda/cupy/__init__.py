"""The GPU, through CuPy."""
