import base64
import io

import numpy as np
import pytest
import torch
from matplotlib import image

from labkit import show


def test_bytes_and_numbers_of_either_order_are_the_same_picture():
    frame = np.arange(60, dtype=np.uint8).reshape(4, 5, 3)
    numbers = torch.from_numpy(frame).permute(2, 0, 1)[None] / 255
    html = show.pictures(bytes=frame, numbers=numbers)._repr_html_()
    first, second = (part.split('"')[0] for part in html.split("base64,")[1:])
    for text in (first, second):
        got = image.imread(io.BytesIO(base64.b64decode(text)))[..., :3] * 255
        assert np.abs(got - frame).max() <= 1


def test_a_plane_of_numbers_says_its_largest():
    assert repr(show.pictures(of_by=np.eye(2) * 7)) == "of by: 2 x 2 (largest value 7)"
    assert "largest value -1" in show.pictures(x=-np.eye(2) - 1)._repr_html_()
    assert "of by (largest value 7)" in show.pictures(of_by=np.eye(2) * 7)._repr_html_()


def test_what_is_no_picture_is_refused():
    with pytest.raises(ValueError, match="no picture has shape"):
        show.pictures(x=np.zeros((2, 4, 5, 3)))
