"""Who gets memory from the allocator: storages, CuPy's arrays, PyTorch's tensors; and files."""
