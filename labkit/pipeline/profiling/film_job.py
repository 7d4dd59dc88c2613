"""Film jobs on a simulated clock, each slow for a reason that is known."""

from labkit.cuda.simulated_run import SimulatedRun

ROOF = 4_000_000, 80_000_000
"""Bytes and operations per µs of the simulated device."""


def film_job(
    frames: int = 10,
    read: float = 500,
    prepare: float = 300,
    upload: float = 400,
    kernel: float = 800,
    kernels: int = 1,
    ahead: int = 2,
    queueing: float = 20,
    size_bytes: int = 0,
    operations: int = 0,
) -> SimulatedRun:
    """A loader reads frames, the host prepares and queues them, a bus copies, a stream computes.

    read, prepare, upload, kernel, queueing   µs of each piece
    kernels      of each frame
    ahead        frames that loader and host may be in front of the stream; 0 takes turns
    size_bytes, operations   of each kernel
    """
    run, done = SimulatedRun(), list[int]()
    for number in range(frames):
        behind = done[number - ahead - 1 : number - ahead] if number > ahead else []
        run.wait("loader", behind)
        frame = run.do("loader", f"read {number}", read, "input")
        run.wait("host", [frame, *behind])
        run.do("host", f"prepare {number}", prepare, "host")
        queued = run.do("host", "queue upload", queueing, "host")
        before = [run.do("bus", f"upload {number}", upload, "copy", [queued])]
        for _ in range(kernels):
            queued = run.do("host", "queue kernel", queueing, "host")
            before = [
                run.do("stream", f"network {number}", kernel, "kernel", [queued, *before],
                       bytes=size_bytes, operations=operations)
            ]  # fmt: skip
        done += before
    run.wait("host", done[-1:])
    return run


def slow_jobs() -> dict[str, SimulatedRun]:
    """Why it is slow -> a job that is slow for this reason."""
    return {
        "input": film_job(read=4000),
        "host": film_job(kernels=150, kernel=10),
        "copy": film_job(upload=4000),
        "kernel": film_job(kernel=4000, size_bytes=10**9, operations=3 * 10**11),
        "memory": film_job(kernel=4000, size_bytes=16 * 10**9, operations=10**10),
        "input and kernel": film_job(read=3000, kernel=3000, ahead=0),
    }
