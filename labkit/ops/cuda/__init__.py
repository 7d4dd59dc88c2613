"""Operators on device tensors: kernels made from text, and those of `kernels/`.

What has no kernel here goes over the host, counted by `labkit.ops.fallback`.
"""
