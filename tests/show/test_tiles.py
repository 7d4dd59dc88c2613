import numpy as np
import pytest
import torch

from labkit.show.tiles import tiles

T = torch.arange(6).reshape(2, 3)


def marks(view, step=0):
    return view.frames[step]["marks"]["source"]


def test_a_slice_marks_the_cells_it_reads():
    view = tiles(T, {":, 1:": (slice(None), slice(1, None))})
    assert marks(view) == [[0, 1, "0"], [0, 2, "1"], [1, 1, "2"], [1, 2, "3"]]
    assert view.frames[0]["text"] == "[:, 1:] gives shape (2, 2)"


def test_a_cell_read_twice_says_so():
    assert marks(tiles(T, {"[0, 0], 1": ([0, 0], 1)})) == [[0, 1, "0+"]]


def test_results_of_any_rank_are_folded_into_rows():
    view = tiles(T, {"1, 2": (1, 2), "None": None, "mask": T > 3})
    sizes = [(layer["rows"], layer["cols"]) for layer in view.layers]
    assert sizes == [(2, 3), (1, 1), (2, 3), (1, 2)]


def test_numpy_arrays_keep_numpys_rules():
    view = tiles(np.arange(4), {"::-1": slice(None, None, -1)})
    assert marks(view) == [[0, 3, "0"], [0, 2, "1"], [0, 1, "2"], [0, 0, "3"]]


def test_an_index_that_does_not_fit_raises_the_tensors_own_error():
    with pytest.raises(IndexError):
        tiles(T, {"5": 5})
    with pytest.raises(ValueError, match=r"got shape \(1, 1, 1\)"):
        tiles(torch.ones(1, 1, 1))
    with pytest.raises(ValueError, match=r"at most 1048576 cells, got shape \(2000, 2000\)"):
        tiles(torch.empty(2000, 2000))
