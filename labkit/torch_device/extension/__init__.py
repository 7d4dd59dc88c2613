"""A `.cu` extension written for PyTorch, on labkit's device: the same files that nvcc takes.

    import labkit.torch_device
    from labkit.torch_device import extension

    extension.load("lltm.cu")               # registers with TORCH_LIBRARY, launches with <<<>>>
    torch.ops.lltm.forward(x.to("lab"), …)

Host code runs in this process, over PyTorch's own tensors; kernels run where the device is.
"""

from labkit.torch_device.extension.loading import Extension, load

__all__ = ["Extension", "load"]
