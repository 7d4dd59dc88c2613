"""Run a random program on the live torch.cuda allocator and save its snapshot.

usage: live_program.py SEED OUT.pickle     with PYTORCH_CUDA_ALLOC_CONF in the environment
"""

import pickle
import random
import sys
from pathlib import Path

import torch

HELD_CYCLES = 20_000_000  # about 10 ms on a GPU of today: long enough to be caught pending


def main(seed, path):
    chooser = random.Random(seed)
    torch.cuda.init()
    streams = [torch.cuda.default_stream(), torch.cuda.Stream(), torch.cuda.Stream()]
    torch.cuda._sleep(1000)  # whatever the first launch allocates is allocated now
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(0.02)
    torch.cuda.memory._record_memory_history("all", context=None)
    live = []
    for _ in range(1500):
        action = chooser.random()
        if action < 0.5:
            size = int(2 ** chooser.uniform(0, 29))
            with torch.cuda.stream(chooser.choice(streams)):
                try:
                    live.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
                except torch.OutOfMemoryError:
                    del live[::2]
        elif action < 0.9 and live:
            live.pop(chooser.randrange(len(live)))
        elif action < 0.95 and live:
            stream = chooser.choice(streams)
            with torch.cuda.stream(stream):
                torch.cuda._sleep(HELD_CYCLES)
            chooser.choice(live).record_stream(stream)
        elif action < 0.97:
            torch.cuda.empty_cache()
        else:
            torch.cuda.synchronize()
    snapshot = torch.cuda.memory._snapshot()
    snapshot["total"] = torch.cuda.mem_get_info()[1]
    Path(path).write_bytes(pickle.dumps(snapshot))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
