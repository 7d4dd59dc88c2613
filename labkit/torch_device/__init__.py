"""The real PyTorch on labkit's device: `import labkit.torch_device`, then `device="lab"`.

    import torch, labkit.torch_device
    model = torch.nn.Linear(4, 2).to("lab")
    model(torch.randn(3, 4, device="lab")).sum().backward()
    torch.lab.memory_allocated(), torch.lab.fallbacks()

Memory is labkit's caching allocator's, kernels are those of `kernels/` and `labkit.ops.cuda`, run
by the emulator or a GPU; host code cannot touch a tensor's memory. What has no kernel is computed
on the host and counted.

One accelerator with autograd is all a process has: from this import on, backward() of torch.cuda
tensors fails in it. And the engine counts devices once: import this before the first backward().

torch.compile(model, backend=torch.lab.compiler) fuses kernels; inductor has no code for the device.
"""

from labkit.torch_device.start import start

lab = start()
