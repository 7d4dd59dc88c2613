"""`out=` of products, joins and indexing: shape, strides, version, warnings and refusals."""

import pytest
import torch

import labkit as lab


def operands(m):
    a = m.arange(6).to(m.float32).reshape(2, 3)
    index = m.tensor([[0, 1, 1]])
    return a, index


CALLS = {
    "mm": lambda m, out: m.mm(operands(m)[0], operands(m)[0].t(), out=out),
    "matmul": lambda m, out: m.matmul(operands(m)[0], operands(m)[0].t(), out=out),
    "addmm": lambda m, out: m.addmm(
        m.ones(2, 2), operands(m)[0], operands(m)[0].t(), beta=2, out=out
    ),
    "cat": lambda m, out: m.cat([operands(m)[0], operands(m)[0]], 1, out=out),
    "stack": lambda m, out: m.stack([operands(m)[0], operands(m)[0]], 1, out=out),
    "gather": lambda m, out: m.gather(operands(m)[0], 0, operands(m)[1], out=out),
    "index_select": lambda m, out: m.index_select(operands(m)[0], 1, m.tensor([2, 0]), out=out),
    "masked_select": lambda m, out: m.masked_select(operands(m)[0], operands(m)[0] > 1, out=out),
    "softmax": lambda m, out: m.softmax(operands(m)[0], 1, out=out),
}


def attempt(m, name, out):
    try:
        result = CALLS[name](m, out)
    except Exception as error:
        return type(error)
    assert result is out
    flat = [round(number, 5) for number in out.reshape(-1).tolist()]
    return tuple(out.shape), out.stride(), out._version, flat


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
@pytest.mark.parametrize("name", CALLS)
def test_out_is_written_as_torch_writes_it(name, dtype):
    for shape in ((0,), (2, 2), (3, 2)):
        both = [attempt(m, name, m.empty(shape, dtype=getattr(m, dtype))) for m in (lab, torch)]
        assert both[0] == both[1], (name, dtype, shape)


@pytest.mark.filterwarnings("ignore")
def test_out_keeps_its_strides_when_the_shape_fits():
    for m in (lab, torch):
        out = m.empty(2, 2).t()
        CALLS["mm"](m, out)
        assert out.stride() == (1, 2)


def test_a_gradient_through_out_is_refused():
    for m in (lab, torch):
        a = m.ones(2, 2).requires_grad_()
        with pytest.raises(RuntimeError, match="out="):
            m.mm(a, a, out=m.empty(2, 2))
