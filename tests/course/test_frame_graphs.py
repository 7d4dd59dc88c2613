"""Right and wrong answers to the exercises on graphs in a job."""

from tests.course.answers import Answers

answers = Answers("frame_graphs")

# --- frame_time


@answers.right("frame_time")
def frame_time(asks, kernels):
    host = device = 0
    for kernel in kernels:
        host += asks
        device = max(host, device) + kernel
    return device


@answers.right("frame_time")
def floats(asks, kernels):
    return float(frame_time(asks, kernels))


for why, wrong in {
    "whole µs only": lambda asks, kernels: int(frame_time(asks, kernels)),
    "an ask takes time": lambda asks, kernels: frame_time(asks or 1, kernels),
    "stops after thirteen kernels": lambda asks, kernels: frame_time(asks, kernels[:13]),
    "one after the other": lambda asks, kernels: sum(asks + kernel for kernel in kernels),
    "the kernels and one ask": lambda asks, kernels: asks + sum(kernels),
    "the asks and the last kernel": lambda asks, kernels: len(kernels) * asks + sum(kernels[-1:]),
    "the longer of the two sums": lambda asks, kernels: max(len(kernels) * asks, sum(kernels)),
}.items():
    answers.wrong("frame_time", why)(wrong)

# --- smallest_batch


def gains(asks, kernels, batch):
    longer = [batch * kernel for kernel in kernels]
    return frame_time(asks, longer) > asks + sum(longer)


@answers.right("smallest_batch")
def smallest_batch(asks, kernels):
    batch = 1
    while gains(asks, kernels, batch):
        batch += 1
    return batch


@answers.wrong("smallest_batch", "doubles the batch")
def doubles(asks, kernels):
    batch = 1
    while gains(asks, kernels, batch):
        batch *= 2
    return batch


@answers.wrong("smallest_batch", "compares the sums only")
def sums(asks, kernels):
    batch = 1
    while batch * sum(kernels) < len(kernels) * asks:
        batch += 1
    return batch


for why, wrong in {
    "asks for the shortest kernel to cover an ask": lambda asks, kernels: -(-asks // min(kernels)),
    "one too many": lambda asks, kernels: smallest_batch(asks, kernels) + 1,
    "looks at the first kernel": lambda asks, kernels: -(-asks // kernels[0]),
}.items():
    answers.wrong("smallest_batch", why)(wrong)

# --- graph_benchmark


def clocks(log, asks, replay, overlap=True, waits=True, ends="both", starts_at_waits=False):
    """The end of a job; `asks` is None for graphs. The switches each take one thing out of it."""
    host = device = 0
    before = ""
    for kind, microseconds in log:
        if kind == "kernel":
            new = before != "kernel"
            host += asks if asks is not None else replay * new
            device = max(host, device) + microseconds
            if not overlap:
                host = device
        elif kind == "host":
            host += microseconds
        elif starts_at_waits:
            device = host
        elif waits:
            host = max(host, device)
        before = kind
    return {"both": max(host, device), "host": host, "device": device}[ends]


def both(log, asks, replay, **switches):
    return clocks(log, asks, replay, **switches), clocks(log, None, replay, **switches)


@answers.right("graph_benchmark")
def graph_benchmark(log, asks, replay):
    return both(log, asks, replay)


@answers.right("graph_benchmark")
def two_floats(log, asks, replay):
    one, other = both(log, asks, replay)
    return float(one), float(other)


@answers.wrong("graph_benchmark", "a host row of 0 ends no run")
def no_empty_rows(log, asks, replay):
    rows = [row for row in log if row != ("host", 0)]
    return both(rows, asks, replay)


@answers.wrong("graph_benchmark", "constant 20 percent")
def constant_gain(log, asks, replay):
    eager = clocks(log, asks, replay)
    return eager, round(eager / 1.2)


@answers.wrong("graph_benchmark", "counts synchronisation")
def no_waits(log, asks, replay):
    return clocks(log, asks, replay), clocks(log, None, replay, waits=False)


@answers.wrong("graph_benchmark", "ignores how many launches there are")
def asks_once(log, asks, replay):
    return clocks(log, None, asks), clocks(log, None, replay)


@answers.wrong("graph_benchmark", "one graph for the whole log")
def one_graph(log, asks, replay):
    kernels = [row for row in log if row[0] == "kernel"]
    others = [row for row in log if row[0] != "kernel"]
    return clocks(log, asks, replay), clocks(kernels + others, None, replay)


for why, switches in {
    "ignores overlap of launch and execution": {"overlap": False},
    "ends with the host": {"ends": "host"},
    "ends with the device": {"ends": "device"},
    "waits that reset the clocks": {"starts_at_waits": True},
}.items():
    answers.wrong("graph_benchmark", why)(
        lambda log, asks, replay, switches=switches: both(log, asks, replay, **switches)
    )
answers.wrong("graph_benchmark", "one graph per kernel")(
    lambda log, asks, replay: (clocks(log, asks, replay), clocks(log, replay, replay))
)
answers.wrong("graph_benchmark", "returns the literal answer of the example in the statement")(
    lambda log, asks, replay: (24, 17)
)

test_answers = answers.tests()
