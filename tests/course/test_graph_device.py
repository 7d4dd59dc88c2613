"""Programs of streams as graphs, against what a capture of the same streams writes down."""

from labkit import cuda
from labkit.course.exercises import _graph_device as device
from labkit.course.exercises.cuda_graphs import explicit_graph


def test_a_right_graph_is_what_a_capture_gives():
    """The edges by hand and the captured ones put the same nodes in the same order."""
    for number in range(12):
        case = explicit_graph.make(5, number, 6)
        (program,) = case.inputs
        driver = device.Device.fresh()
        streams = {number: cuda.Stream(driver=driver) for number in (1, 2, 3)}
        origin, marks = cuda.Stream(driver=driver), {}
        with cuda.capture(origin) as captured:
            for stream in streams.values():
                stream.wait_stream(origin)
            for kind, stream, *rest in device.given(program):
                if kind == "launch":
                    rest[0](1, 1, rest[1], stream=streams[stream])
                elif kind == "record":
                    marks[rest[0]] = streams[stream].record_event()
                elif rest[0] in marks:
                    streams[stream].wait_event(marks[rest[0]])
            for stream in streams.values():
                origin.wait_stream(stream)
        by_hand = explicit_graph.right(case)[device.ORDERS]
        assert device.orders([node.after for node in captured.nodes]) == by_hand
