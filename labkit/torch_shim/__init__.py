"""What PyTorch must be given in C++ to take a device, and who answers its requests in Python.

Importing it names nothing and registers nothing: `Devices()` does, once per process, and what is
registered above it (kernels, a module `torch.lab`) is `labkit.torch_device`'s, or yours.
"""
