"""Questions to the machine and to PyTorch's own C++, a few compiled lines each."""
