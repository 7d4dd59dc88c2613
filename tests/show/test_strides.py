"""show.strides reads memory as it is: what shares bytes shares a strip, at true addresses."""

import random

import numpy as np
import pytest
import torch

import labkit
from labkit import show
from labkit.core import tensor_impl
from labkit.core.dtype import dtype
from labkit.show.strides import broadcast_shape, expanded_strides
from labkit.widgets.base import unpack_columns
from labkit.widgets.strides.affine import address


def values_through(widget, place):
    """The view's elements, read from the widget's data by its own addresses."""
    view = widget.views[place]
    column = unpack_columns(widget.schema, widget.values)[f"{view['storage']}:{view['dtype']}"]
    base = view["base"] // view["itemsize"]
    found = [
        column[base + address(index, view["strides"], view["offset"])]
        for index in np.ndindex(*view["sizes"])
    ]
    return np.array(found).reshape(view["sizes"])


def test_a_simple_picture_is_of_the_same_views():
    tensor = torch.arange(6).view(2, 3)
    plain, simple = show.strides(tensor), show.strides(tensor, simple=True)
    assert simple.simple and not plain.simple
    assert (values_through(simple, 0) == values_through(plain, 0)).all()
    assert show.strides(tensor, torch.ones(3), aligned=True, simple=True).simple
    assert show.strides(program="x = torch.ones(3)", simple=True).simple


def random_view(tensor, generator):
    for _ in range(generator.randrange(4)):
        dims = tensor.dim()
        kind = generator.choice(["t", "slice", "select", "expand", "unfold"])
        dim = generator.randrange(dims) if dims else 0
        size = tensor.size(dim) if dims else 0
        if kind == "t" and dims > 1:
            tensor = tensor.transpose(dim, generator.randrange(dims))
        elif kind == "slice" and dims:
            tensor = tensor.narrow(dim, size // 3, size - size // 3)
        elif kind == "select" and size:
            tensor = tensor.select(dim, generator.randrange(size))
        elif kind == "expand":
            tensor = tensor.unsqueeze(0).expand(2, *tensor.shape)
        elif kind == "unfold" and size > 1:
            tensor = tensor.unfold(dim, 2, 1)
    return tensor


@pytest.mark.parametrize("seed", range(20))
def test_the_addresses_lead_to_the_tensors_own_values(seed):
    generator = random.Random(seed)
    kind = generator.choice([torch.int64, torch.float32, torch.uint8, torch.bfloat16, torch.bool])
    base = torch.arange(120).reshape(2, 3, 4, 5).to(kind)
    views = [random_view(base, generator) for _ in range(4)]
    widget = show.strides(*views, names=["p", "q", "r", "s"])
    assert len(widget.storages) == 1
    for name, view in zip("pqrs", views, strict=True):
        layout = (tuple(view.shape), view.stride(), view.storage_offset())
        assert widget.layout_of(name) == layout
        place = next(n for n in range(len(widget.views)) if name in widget.names_of(n))
        np.testing.assert_array_equal(values_through(widget, place), view.double().numpy())


def test_names_are_the_arguments_as_written():
    x = torch.arange(12).view(3, 4)
    assert [view["name"] for view in show.strides(x, x.t()).views] == ["x", "x.t()"]
    assert [
        view["name"]
        for view in show.strides(
            x[1:],  # "é" before the call's end: columns count bytes
            x.reshape(4, 3),
        ).views
    ] == ["x[1:]", "x.reshape(4, 3)"]
    assert [view["name"] for view in show.strides(*[x, x[:]]).views] == ["a", "b"]
    assert [view["name"] for view in show.strides(x, names=["mine"]).views] == ["mine"]


def test_two_names_of_one_tensor_are_one_card():
    x = torch.arange(6)
    y = x
    widget = show.strides(x, y, x[:])
    assert [widget.names_of(place) for place in range(2)] == [["x", "y"], ["x[:]"]]
    assert widget.layout_of("y") == widget.layout_of("x") == ((6,), (1,), 0)
    assert "x = y" in widget.svg() and "x = y" in repr(widget)
    array = np.arange(3)
    assert len(show.strides(array, array, names=["a", "b"]).views) == 1
    ours = labkit.arange(3)
    assert len(show.strides(ours, ours, names=["a", "b"]).views) == 1


def test_a_tensor_keeps_its_card_while_its_names_come_and_go():
    widget = show.strides(program="a = torch.arange(4)\nb = a\ndel a\na = b[:]\nb = a")
    assert [step["alive"] for step in widget.steps] == [[0], [0], [0], [0, 1], [1]]
    assert [step["names"] for step in widget.steps] == [
        {"0": ["a"]}, {"0": ["a", "b"]}, {"0": ["b"]}, {"0": ["b"], "1": ["a"]}, {"1": ["b", "a"]},
    ]  # fmt: skip
    again = show.strides(program="a = torch.arange(4)\nb = a\na = b[:]").steps
    assert again[2]["names"] == {"1": ["a"], "0": ["b"]}
    assert [widget.open_at(step).names_of(0) for step in (1, 2, 3)] == [["a"], ["a", "b"], ["b"]]


def test_a_wrong_view_is_outlined_beside_the_expected_one():
    x = torch.arange(12.0).view(3, 4)
    yours, expected = x.as_strided((4, 3), (1, 3)), x.t()
    widget = show.strides(yours, expected, compare=True)
    said = "yours[0, 1] reads element 3, expected[0, 1] reads element 4"
    assert widget.note == f"✗ first wrong element: {said}"
    assert [mark["right"] for mark in widget.marks] == [False, True]
    assert widget.selected == {"view": 0, "index": [0, 1]}
    picture = widget.svg()
    assert said in picture and "✗" in picture and "✓" in picture


def test_a_wrong_value_is_outlined_even_where_it_is_written_alike():
    expected = torch.tensor([1.0, 2.0, torch.nan])
    yours = expected.clone()
    assert show.strides(yours, expected, compare=True).note.startswith("✓")
    yours[1] += 1e-5
    assert show.strides(yours, expected, compare=True).marks[0]["index"] == [1]
    assert show.strides(expected, expected, compare=True).note.startswith("✓")
    shapes = show.strides(yours.view(3, 1), expected, names=["a", "b"], compare=True)
    assert shapes.note == "✗ a has sizes [3, 1], expected [3]"


def test_a_program_opens_at_the_step_worth_seeing():
    lines = "a = torch.arange(4)\nb = a[1:]\nb[0] = 9"
    assert show.strides(program=lines).frame == 0
    assert show.strides(program=lines, at=3).frame == show.strides(program=lines, at=-1).frame == 2
    opened = show.strides(program=lines, at="a[1:]")
    assert (opened.frame, opened.selected["view"]) == (1, 1)
    assert "step 2 of 3: b = a[1:]" in opened.svg()


def test_memory_decides_what_shares_a_strip():
    x = torch.arange(6.0)
    array = x.numpy()
    other = torch.from_numpy(array)  # another StorageImpl over the same bytes
    widget = show.strides(x, x.clone(), array[::-1], other, x[2:])
    assert [view["storage"] for view in widget.views] == [0, 1, 0, 0, 0]
    assert "owners share these bytes" in widget.storages[0]["note"]
    assert widget.layout_of(2) == ((6,), (-1,), 5)
    np.testing.assert_array_equal(values_through(widget, 2), array[::-1])


def test_a_dtype_view_splits_the_cells():
    x = torch.tensor([1.0, -2.0])
    widget = show.strides(x, x.view(torch.int16))
    assert widget.storages[0] | {"use_count": 0} == {
        "name": "A", "nbytes": 8, "unit": 2, "dtype": "int16", "use_count": 0, "note": ""
    }  # fmt: skip
    np.testing.assert_array_equal(values_through(widget, 0), x.numpy())
    np.testing.assert_array_equal(values_through(widget, 1), x.view(torch.int16).numpy())


def test_a_numpy_slice_of_a_larger_array_begins_inside_its_memory():
    array = np.arange(10, dtype=np.int32)
    whole = torch.from_numpy(array)
    part = torch.from_numpy(array[3:7])
    widget = show.strides(whole, part)
    assert [view["base"] for view in widget.views] == [0, 12]
    np.testing.assert_array_equal(values_through(widget, 1), [3, 4, 5, 6])


def test_labkit_tensors_are_read_the_same_way():
    impl = tensor_impl.empty((2, 3), dtype("float32"))
    impl.raw(writable=True)[...] = np.arange(6, dtype=np.float32).reshape(2, 3)
    widget = show.strides(impl)
    assert widget.layout_of() == ((2, 3), (3, 1), 0)
    np.testing.assert_array_equal(values_through(widget, 0), [[0, 1, 2], [3, 4, 5]])


def test_a_program_walks_labkit_as_it_walks_torch():
    lines = "a = lab.arange(6)\nb = a.view(2, 3)\nb[0, 1] = 9\ndel a\nc = b.t()\ndel b, c"
    rebuilt = show.strides(program=lines, using={"lab": labkit})
    real = show.strides(program=lines, using={"lab": torch})
    assert rebuilt.steps == real.steps
    assert rebuilt.views == real.views


@pytest.mark.parametrize(
    "tensor",
    [
        torch.tensor(3.5), torch.empty(0), torch.empty(2, 0, 3),
        torch.ones(2, dtype=torch.complex64),
        torch.ones(2, dtype=torch.float8_e4m3fn), torch.nn.Parameter(torch.ones(2)),
        torch.ones(2, dtype=torch.complex64).conj(), torch.ones(1).expand(3, 4),
    ],
    ids=["0-dim", "empty", "empty 3-dim", "complex", "float8", "parameter", "conj", "expand"],
)  # fmt: skip
def test_unusual_tensors_are_drawn(tensor):
    widget = show.strides(tensor)
    assert widget.layout_of() == (tuple(tensor.shape), tensor.stride(), tensor.storage_offset())
    assert "<svg" in widget.svg()


def test_what_has_no_values_says_so():
    assert "no bytes" in show.strides(torch.empty(3, device="meta")).storages[0]["note"]
    large = show.strides(torch.zeros(100_000))
    assert "up to 65,536 cells" in large.storages[0]["note"]
    assert large.values == b""


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: show.strides(), TypeError, "at least one tensor"),
        (lambda: show.strides([1, 2]), TypeError, r"is list \[1, 2\].*torch.tensor"),
        (lambda: show.strides(torch.ones(2), None), TypeError, "argument 2 .*NoneType"),
        (lambda: show.strides(torch.eye(2).to_sparse()), ValueError, "layout torch.sparse_coo"),
        (lambda: show.strides(np.array(["a"], dtype=object)), ValueError, "dtype object"),
        (lambda: show.strides(np.arange(3).astype(">i4")), ValueError, "byte order"),
        (lambda: show.strides(np.array(["a"])), ValueError, "dtype <U1"),
        (lambda: show.strides(torch.ones(2), names=["a", "b"]), ValueError, "2 names .* 1 tensors"),
        (lambda: show.strides(torch.ones(2), torch.ones(3), aligned=True), ValueError, "2 .* 3"),
        (lambda: show.strides(torch.ones(2), program="a = 1"), TypeError, "not both"),
        (lambda: show.strides(program="a = 1"), ValueError, "no tensor"),
        (lambda: show.strides(torch.ones(2), compare=True), ValueError, "expected tensor, got 1"),
        (lambda: show.strides(program="a = torch.ones(2)", at=2), ValueError, "no step 2; .* 1,"),
        (lambda: show.strides(program="a = torch.ones(2)", at="b ="), ValueError, "a = torch.ones"),
        (lambda: show.strides(program=""), ValueError, "no statement"),
        (lambda: show.strides(program="a = torch.ones(6)\na.view(4)"), RuntimeError, "a.view"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_with_its_values(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_a_program_is_walked_with_its_writes_versions_and_lifetimes():
    widget = show.strides(
        program="""
        a = torch.arange(6)
        b = a.view(2, 3)
        b[0, 1] = 9
        c = a.clone()
        del a, b
        """
    )
    steps = widget.steps
    assert [step["text"] for step in steps][2] == "b[0, 1] = 9"
    assert [step["alive"] for step in steps] == [[0], [0, 1], [0, 1], [0, 1, 2], [2]]
    assert [step["writes"] for step in steps] == [[], [], [["0:int64", 1, "9"]], [], []]
    assert [step["versions"].get("0") for step in steps] == [0, 0, 1, 1, None]
    assert [step["use_counts"] for step in steps[:3]] == [{"0": 1}, {"0": 2}, {"0": 2}]
    assert widget.views[2]["storage"] == 1
    column = unpack_columns(widget.schema, widget.values)["0:int64"]
    np.testing.assert_array_equal(column, range(6))  # the first moment; steps write over it


def test_a_program_sees_memory_that_ended_as_another_storage():
    widget = show.strides(
        program="""
        a = torch.full((4,), 1.0)
        del a
        b = torch.full((4,), 2.0)
        """
    )
    assert [step["alive"] for step in widget.steps] == [[0], [], [1]]
    assert [view["storage"] for view in widget.views] == [0, 1]


def test_aligned_operands_are_read_at_the_broadcast_shape():
    a, b = torch.ones(4, 3, 2), torch.arange(3).view(3, 1)
    widget = show.strides(a, b, a + b, aligned=True)
    assert widget.linked
    assert [view["strides"] for view in widget.views] == [[6, 2, 1], [0, 1, 0], [6, 2, 1]]
    assert len(widget.steps) == 24
    assert widget.steps[3]["text"] == "[0, 1, 1]: a at 3, b at 1, a + b at 3"


def test_a_large_loop_is_sampled_and_says_so():
    widget = show.strides(torch.ones(60, 60), torch.ones(60), aligned=True, names=["a", "b"])
    assert len(widget.steps) == 450
    assert "every 8th of 3600" in widget.steps[1]["text"]
    assert widget.steps[1]["select"]["index"] == [0, 8]


def test_the_size_of_a_loop_or_a_view_costs_nothing():
    long = torch.zeros(1).expand(10**9)
    widget = show.strides(long[:, None], long, aligned=True, names=["a", "b"])
    assert len(widget.steps) == 512
    assert "<svg" in show.strides(long.expand(10**9, 10**9)).svg()


@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_of_either_order_show_their_values(order):
    array = np.array([[1, 2, 3], [4, 5, 6]], order=order)
    np.testing.assert_array_equal(values_through(show.strides(array), 0), array)


def test_expanded_strides_are_those_of_expand():
    generator = random.Random(3)
    for _ in range(500):
        shapes = [
            tuple(generator.choice([0, 1, 1, 2, 3]) for _ in range(generator.randrange(4)))
            for _ in range(generator.randrange(1, 4))
        ]
        try:
            shape = tuple(torch.broadcast_shapes(*shapes))
        except RuntimeError:
            with pytest.raises(ValueError, match="do not broadcast"):
                broadcast_shape(shapes)
            continue
        assert broadcast_shape(shapes) == shape
        for sizes in shapes:
            tensor = torch.empty(sizes)
            assert expanded_strides(sizes, tensor.stride(), shape) == tensor.expand(shape).stride()
