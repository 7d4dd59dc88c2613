import math

import pytest

from labkit.show.heat import MOST_COLUMNS, MOST_ROWS, heat_map


@pytest.mark.parametrize(
    ("shape", "rows", "columns"),
    [
        ((), 1, 1),
        ((3,), 1, 3),
        ((2, 3), 2, 3),
        ((2, 2, 3), 4, 3),
        ((40, 50), 12, 16),
        ((0, 3), 0, 3),
    ],
)
def test_rows_are_those_of_the_last_dimension(shape, rows, columns):
    found = heat_map("g", shape, [1.0] * math.prod(shape))
    assert (found["rows"], found["columns"]) == (rows, columns)
    assert found["numbers"] == [1.0] * (rows * columns)


def test_a_cell_of_a_large_tensor_shows_what_stands_out_of_its_block():
    numbers = [0.0] * 10_000
    numbers[5_555] = -7.0
    found = heat_map("g", (100, 100), numbers)
    assert sorted(found["numbers"])[0] == -7.0
    assert len(found["numbers"]) == MOST_ROWS * MOST_COLUMNS


def test_what_is_no_number_is_a_word_and_is_never_hidden():
    numbers = [1.0] * 10_000
    numbers[77], numbers[9_000] = math.nan, -math.inf
    found = heat_map("g", (100, 100), numbers)["numbers"]
    assert found.count("nan") == 1
    assert found.count("-inf") == 1


def test_complex_numbers_count_with_their_magnitude():
    assert heat_map("g", (2,), [3 + 4j, 0])["numbers"] == [5.0, 0.0]
