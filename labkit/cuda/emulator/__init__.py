"""The emulator: CUDA C++ on the host, in a process of its own."""
