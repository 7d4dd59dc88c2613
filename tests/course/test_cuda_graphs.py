"""Right and wrong answers to the exercises on CUDA graphs."""

import pytest

from labkit import cuda
from labkit.course.exercises import cuda_graphs as module
from labkit.graphed import CUDAGraph, graph
from tests.course.answers import Answers, first_hint

answers = Answers("cuda_graphs")

# --- ready


@answers.right("ready")
def ready(after, done):
    return [n for n, own in enumerate(after) if n not in done and all(i in done for i in own)]


@answers.right("ready")
def ready_by_sets(after, done):
    return sorted(n for n in set(range(len(after))) - done if not set(after[n]) - done)


@answers.wrong("ready", "takes nodes that have run")
def with_done(after, done):
    return [n for n, own in enumerate(after) if done.issuperset(own)]


@answers.wrong("ready", "asks for one of the nodes it waits for")
def any_of(after, done):
    return [n for n, own in enumerate(after) if n not in done and (not own or done & set(own))]


@answers.wrong("ready", "takes the nodes that wait for nobody")
def roots(after, done):
    return [n for n, own in enumerate(after) if n not in done and not own]


@answers.wrong("ready", "looks at the last node it waits for only")
def last_of(after, done):
    return [n for n, own in enumerate(after) if n not in done and set(own[-1:]) <= done]


# --- explicit_graph


class Builder:
    """The right answer, with every step open to a mistake."""

    def __init__(self):
        self.last, self.marks = {}, {}

    def of(self, stream):
        return self.last.get(stream, set())

    def launch(self, graph, stream, kernel, args):
        self.last[stream] = {graph.add_kernel(kernel, 1, 1, args, after=self.named(stream))}

    def named(self, stream):
        return sorted(self.of(stream))

    def record(self, stream, event):
        self.marks[event] = self.of(stream)

    def wait(self, stream, event):
        self.last[stream] = self.of(stream) | self.marks.get(event, set())

    def end(self, graph):
        return graph.instantiate()

    @classmethod
    def answer(cls, graph, program):
        builder = cls()
        for kind, stream, *rest in program:
            if kind == "launch":
                builder.launch(graph, stream, *rest)
            else:
                getattr(builder, kind)(stream, *rest)
        return builder.end(graph)


@answers.right("explicit_graph")
def explicit_graph(graph, program):
    return Builder.answer(graph, program)


@answers.right("explicit_graph")
def with_lists(graph, program):
    last, marks = {}, {}
    for kind, stream, *rest in program:
        mine = last.setdefault(stream, [])
        if kind == "launch":
            kernel, args = rest
            last[stream] = [graph.add_kernel(kernel, 1, 1, args, after=mine)]
        elif kind == "record":
            marks[rest[0]] = list(mine)
        else:
            last[stream] = list(dict.fromkeys(mine + marks.get(rest[0], [])))
    return graph.instantiate()


@answers.wrong("explicit_graph", "links every node to the one before it")
def chain(graph, program):
    for step in program:
        if step[0] == "launch":
            after = [len(graph.nodes) - 1] if graph.nodes else []
            graph.add_kernel(step[2], 1, 1, step[3], after=after)
    return graph.instantiate()


@answers.wrong("explicit_graph", "returns the recipe")
def recipe(graph, program):
    Builder.answer(graph, program)
    return graph


class Twice(Builder):
    def named(self, stream):
        return [*super().named(stream), *super().named(stream)]


class ForgetsItself(Builder):
    def wait(self, stream, event):
        self.last[stream] = self.marks.get(event, self.of(stream))


class Grows(Builder):
    """The event holds the stream's own set, which goes on changing."""

    def launch(self, graph, stream, kernel, args):
        mine = self.last.setdefault(stream, set())
        node = graph.add_kernel(kernel, 1, 1, args, after=self.named(stream))
        mine.clear()
        mine.add(node)

    def record(self, stream, event):
        self.marks[event] = self.last.setdefault(stream, set())


class LaterWaits(Builder):
    """The event holds the stream's own set, and a wait adds to it."""

    def record(self, stream, event):
        self.marks[event] = self.last.setdefault(stream, set())

    def wait(self, stream, event):
        self.last.setdefault(stream, set()).update(self.marks.get(event, ()))


class Unrecorded(Builder):
    def wait(self, stream, event):
        self.last[stream] = self.of(stream) | self.marks[event]


class AddsUp(Builder):
    def record(self, stream, event):
        self.marks[event] = self.marks.get(event, set()) | self.of(stream)


class FirstRecord(Builder):
    def record(self, stream, event):
        self.marks.setdefault(event, self.of(stream))


class LastLaunch(Builder):
    """The event is the last node that its stream launched; what it waited for is not in it."""

    def __init__(self):
        super().__init__()
        self.launched = {}

    def launch(self, graph, stream, kernel, args):
        super().launch(graph, stream, kernel, args)
        self.launched[stream] = self.last[stream]

    def record(self, stream, event):
        self.marks[event] = self.launched.get(stream, set())


class NoEvents(Builder):
    def wait(self, stream, event):
        pass


for why, builder in (
    ("names a node twice", Twice),
    ("forgets its own stream after a wait", ForgetsItself),
    ("lets an event grow with its stream", Grows),
    ("lets a later wait into an event", LaterWaits),
    ("adds a second record to the first", AddsUp),
    ("keeps an event's first record", FirstRecord),
    ("lets an event stand for the last launch alone", LastLaunch),
    ("forgets the events", NoEvents),
):
    answers.wrong("explicit_graph", why)(builder.answer)


@answers.wrong("explicit_graph", "builds the nodes from the last to the first")
def backwards(graph, program):
    return Builder.answer(graph, program[::-1])


# --- refill


@answers.right("refill")
def refill(static, new):
    if static.shape != new.shape or static.dtype != new.dtype:
        raise ValueError(f"{new.shape} {new.dtype} into {static.shape} {static.dtype}")
    return static.copy_(new)


@answers.right("refill")
def refill_by_index(static, new):
    if (static.shape, static.dtype) != (new.shape, new.dtype):
        raise ValueError("another graph")
    static[...] = new
    return static


@answers.wrong("refill", "returns the new tensor")
def the_new_one(static, new):
    refill(static, new)
    return new


@answers.wrong("refill", "lets copy_ broadcast")
def broadcasts(static, new):
    return static.copy_(new)


@answers.wrong("refill", "looks at the first size only")
def first_size(static, new):
    if static.shape[0] != new.shape[0] or static.dtype != new.dtype:
        raise ValueError
    return static.copy_(new)


@answers.wrong("refill", "looks at the number of elements")
def elements(static, new):
    if static.numel() != new.numel() or static.dtype != new.dtype:
        raise ValueError
    return static.copy_(new.reshape(static.shape))


@answers.wrong("refill", "ignores the element type")
def any_type(static, new):
    if static.shape != new.shape:
        raise ValueError
    return static.copy_(new)


@answers.wrong("refill", "raises another error")
def type_error(static, new):
    if (static.shape, static.dtype) != (new.shape, new.dtype):
        raise TypeError(f"{new.shape} is not {static.shape}")
    return static.copy_(new)


@answers.wrong("refill", "wants equal strides")
def same_strides(static, new):
    if static.stride() != new.stride():
        raise ValueError
    return refill(static, new)


@answers.wrong("refill", "copies the storage")
def storage_copied(static, new):
    if (static.shape, static.dtype) != (new.shape, new.dtype):
        raise ValueError
    static.untyped_storage().copy_(new.untyped_storage())
    return static


# --- graphed_callable


class Graphed:
    def __init__(self, function):
        self.function, self.graphs = function, {}

    def __call__(self, x):
        key = self.key(x)
        if key not in self.graphs:
            self.graphs[key] = self.captured(x)
        static, captured, y = self.graphs[key]
        static.copy_(x)
        captured.replay()
        return y.clone()

    def key(self, x):
        return tuple(x.shape), x.dtype

    def captured(self, x):
        static, captured = x.clone(), CUDAGraph()
        self.function(static)
        with graph(captured):
            y = self.function(static)
        return static, captured, y


answers.right("graphed_callable")(Graphed)


@answers.right("graphed_callable")
class ByHand(Graphed):
    def captured(self, x):
        static, captured, stream = x.clone(), CUDAGraph(), cuda.Stream()
        self.function(static)
        with stream:
            captured.capture_begin()
            try:
                y = self.function(static)
            finally:
                captured.capture_end()
        return static, captured, y


@answers.wrong("graphed_callable", "forgets to copy inputs")
class NoCopy(Graphed):
    def __call__(self, x):
        key = self.key(x)
        if key not in self.graphs:
            self.graphs[key] = self.captured(x)
        _, captured, y = self.graphs[key]
        captured.replay()
        return y.clone()


@answers.wrong("graphed_callable", "returns the static output")
class Static(Graphed):
    def __call__(self, x):
        super().__call__(x)
        return self.graphs[self.key(x)][2]


@answers.wrong("graphed_callable", "replays on the default stream")
class OnDefault(Graphed):
    def __call__(self, x):
        key = self.key(x)
        if key not in self.graphs:
            self.graphs[key] = self.captured(x)
        static, captured, y = self.graphs[key]
        static.copy_(x)
        with cuda.default_stream():
            captured.replay()
        return y.clone()


@answers.wrong("graphed_callable", "captures per call")
class PerCall(Graphed):
    def __call__(self, x):
        self.graphs.clear()
        return super().__call__(x)


@answers.wrong("graphed_callable", "keys by first dimension only")
class FirstDimension(Graphed):
    def key(self, x):
        return x.shape[0]


@answers.wrong("graphed_callable", "keys by the number of elements")
class Elements(Graphed):
    def key(self, x):
        return x.numel(), x.dtype


@answers.wrong("graphed_callable", "warms up for the first shape only")
class WarmOnce(Graphed):
    def captured(self, x):
        static, captured = x.clone(), CUDAGraph()
        if not self.graphs:
            self.function(static)
        with graph(captured):
            y = self.function(static)
        return static, captured, y


@answers.wrong("graphed_callable", "captures without a warm-up")
class Cold(Graphed):
    def captured(self, x):
        static, captured = x.clone(), CUDAGraph()
        with graph(captured):
            y = self.function(static)
        return static, captured, y


@answers.wrong("graphed_callable", "uses the caller's tensor as its own")
class Theirs(Graphed):
    def captured(self, x):
        captured = CUDAGraph()
        self.function(x)
        with graph(captured):
            y = self.function(x)
        return x, captured, y


@answers.wrong("graphed_callable", "warms up on the caller's tensor")
class WarmOnTheirs(Graphed):
    def captured(self, x):
        static, captured = x.clone(), CUDAGraph()
        self.function(x)
        with graph(captured):
            y = self.function(static)
        return static, captured, y


@answers.wrong("graphed_callable", "captures without memory of its own")
class NoPool(Graphed):
    def captured(self, x):
        static = x.clone()
        self.function(static)
        with cuda.capture(cuda.Stream()) as captured:
            y = self.function(static)
        return static, captured.instantiate(), y


@answers.wrong("graphed_callable", "keys by shape only")
class ShapeOnly(Graphed):
    def key(self, x):
        return tuple(x.shape)


@answers.wrong("graphed_callable", "keeps a graph whose capture failed")
class KeepsFailed(Graphed):
    def captured(self, x):
        static, captured = x.clone(), CUDAGraph()
        y = self.function(static)
        self.graphs[self.key(x)] = static, captured, y
        with graph(captured):
            y = self.function(static)
        return static, captured, y


@answers.wrong("graphed_callable", "does not end a capture that failed")
class NeverEnds(Graphed):
    def captured(self, x):
        static, captured = x.clone(), CUDAGraph()
        self.function(static)
        with cuda.Stream():
            captured.capture_begin()
            y = self.function(static)
            captured.capture_end()
        return static, captured, y


test_answers = answers.tests()


def test_the_picture_marks_the_node_that_waits_for_nobody():
    exercise = module.explicit_graph
    for case, got in failing_pairs(exercise, NoEvents.answer):
        right = exercise.right(case)
        view = exercise.picture(case, got, right)
        assert "has to wait for" in view.step_texts()[0]
        assert list(view.frames[0]["marks"].values()) == ["error"]
        return
    raise AssertionError("no case failed")


def failing_pairs(exercise, answer):
    for number in range(20):
        case = exercise.make(3, number, 4)
        got = exercise.drive(answer, *case.inputs)
        if got != exercise.right(case):
            yield case, got


@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        ("explicit_graph", recipe, "instantiate"),
        ("explicit_graph", chain, "waits for one that nothing puts before it"),
        ("explicit_graph", LaterWaits.answer, "at the moment of `record`"),
        ("explicit_graph", Unrecorded.answer, "never recorded"),
        ("explicit_graph", AddsUp.answer, "records an event twice"),
        ("explicit_graph", FirstRecord.answer, "as it was last recorded"),
        ("explicit_graph", LastLaunch.answer, "what it waited for, too"),
        ("explicit_graph", ForgetsItself.answer, "its own stream's last node"),
        ("explicit_graph", NoEvents.answer, "its own stream's last node"),
        ("refill", same_strides, "Strides may differ"),
        ("graphed_callable", Elements, "each whole shape"),
        ("graphed_callable", WarmOnce, "before each capture"),
        ("refill", broadcasts, "broadcast"),
        ("refill", the_new_one, "static"),
        ("refill", any_type, "dtype"),
        ("refill", type_error, "has to be a `ValueError`"),
        ("graphed_callable", Cold, "brings a constant"),
        ("graphed_callable", OnDefault, "belongs on the current"),
        ("graphed_callable", Static, "whose memory did you return"),
        ("graphed_callable", NoCopy, "other numbers than the call's"),
        ("graphed_callable", PerCall, "Keep the graph"),
        ("graphed_callable", Theirs, "copy of your own"),
        ("graphed_callable", WarmOnTheirs, "copy of your own"),
        ("graphed_callable", NoPool, "private pool"),
        ("graphed_callable", ShapeOnly, "one `dtype`"),
    ],
)
def test_the_first_hint_fits_the_mistake(name, answer, words):
    assert words in first_hint(getattr(module, name), answer)
