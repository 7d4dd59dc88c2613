"""Whole CUDA programs without a GPU: `main()` and its kernels, as they would be given to nvcc.

`launches` rewrites the one thing that is not C++; `builds` compiles a program three times, as nvcc
has passes; `program` starts it and answers its calls of the runtime API (`calls_*`) with labkit's
device; `result` is what was found. `host/` is the program's end of the wire.
"""
