"""Right and wrong answers to the exercises of the chapter with an operator in C++ and CUDA."""

import math

import pytest
import torch

from labkit.course.checks import failing_cases, outcomes
from tests.course.answers import Answers, first_hint

answers = Answers("cpp_cuda_extension")

# --- gate_places


@answers.right("gate_places")
def gate_places(i, width):
    row, j = divmod(i, width)
    first = row * 3 * width + j
    return first, first + width, first + 2 * width


answers.wrong("gate_places", "takes the gates for three whole arrays")(
    lambda i, width: (i, i + width, i + 2 * width)
)
answers.wrong("gate_places", "puts the three side by side")(
    lambda i, width: (3 * i, 3 * i + 1, 3 * i + 2)
)
answers.wrong("gate_places", "takes a row of gates for width long")(
    lambda i, width: (i, i + width * 1, i + width * 3)
)

# --- registration

REGISTERED = """
TORCH_LIBRARY(lltm, m) {
    m.def("step(Tensor gates, Tensor old) -> (Tensor, Tensor)");  // the schema
}
TORCH_LIBRARY_IMPL(lltm, CPU, m) {
    m.impl("step", &step);
}
"""


def registered(old="", new=""):
    assert old in REGISTERED
    return lambda: REGISTERED.replace(old, new)


answers.right("registration")(registered())
answers.right("registration")(registered("&step", "TORCH_FN(step)"))
answers.right("registration")(registered("(Tensor, Tensor)", "(Tensor h, Tensor cell)"))
answers.right("registration")(registered('"step(', '"lltm::step('))
answers.wrong("registration", "returns one tensor")(registered("(Tensor, Tensor)", "Tensor"))
answers.wrong("registration", "leaves out an argument")(registered(", Tensor old"))
answers.wrong("registration", "registers for another device")(registered("CPU", "CUDA"))
answers.wrong("registration", "registers in another namespace")(registered("IMPL(lltm", "IMPL(my"))
answers.wrong("registration", "defines in another namespace")(registered("RARY(lltm", "RARY(my"))
answers.wrong("registration", "swaps the arguments")(
    registered("Tensor gates, Tensor old", "Tensor old, Tensor gates")
)
answers.wrong("registration", "marks an argument that it does not write to")(
    registered("Tensor old", "Tensor(a!) old")
)
answers.wrong("registration", "defines without a kernel")(registered('m.impl("step", &step);'))
answers.wrong("registration", "spells the name in two ways")(registered('l("step"', 'l("Step"'))
answers.wrong("registration", "leaves the brackets of the results out")(
    registered("(Tensor, Tensor)", "Tensor, Tensor")
)
answers.wrong("registration", "leaves out a semicolon")(registered("&step);", "&step)"))
answers.wrong("registration", "leaves out a semicolon")(registered('");', '")'))


@pytest.mark.parametrize(
    "old, new, told",
    [
        ("(Tensor, Tensor)", "Tensor", "in brackets"),
        ("(Tensor, Tensor)", "Tensor, Tensor", "in brackets"),
        ('m.impl("step", &step);', "", "no function is put in"),
        ("&step);", "&step)", "semicolon"),
        ('");', '")', "semicolon"),
        ("CPU", "CUDA", "kernel's line"),
        ("Tensor old", "old", "a type and a name"),
        ("RARY(lltm", "RARY(my", "both macros"),
        ('f("step', 'f("cell', "name is step"),
        ("Tensor gates, Tensor old", "Tensor old, Tensor gates", "other arguments"),
        ("Tensor old", "Tensor(a!) old", "other arguments"),
    ],
)
def test_a_mistake_of_a_registration_gets_its_own_hint_and_no_other(old, new, told):
    """However often it was tried before: the one hint that may come names the fault."""
    exercise, answer = answers.exercises["registration"], registered(old, new)
    assert told in first_hint(exercise, answer)
    evidence = outcomes(exercise, answer, 7)[0].failures[0]
    fitting = [hint.text for hint in map(exercise.hint, range(8)) if hint.fits(evidence)]
    assert len(fitting) == 1, fitting


# --- fake_kernel


@answers.right("fake_kernel")
def fake_kernel(gates, old):
    return old.new_empty(old.shape), old.new_empty(old.shape)


@answers.right("fake_kernel")
def as_the_cpp_is_written(gates, old):
    before = old.contiguous()  # one with a single row or column is returned as it is
    return torch.empty_like(before), torch.empty_like(before)


answers.wrong("fake_kernel", "keeps the strides of old")(
    lambda gates, old: (torch.empty_like(old), torch.empty_like(old))
)
answers.wrong("fake_kernel", "as wide as the gates")(
    lambda gates, old: (gates.new_empty(gates.shape), gates.new_empty(gates.shape))
)
answers.wrong("fake_kernel", "always float32")(
    lambda gates, old: (
        torch.empty(old.shape, device="meta"),
        torch.empty(old.shape, device="meta"),
    )
)
answers.wrong("fake_kernel", "always on meta")(
    lambda gates, old: tuple(old.new_empty(old.shape, device="meta") for _ in range(2))
)
answers.wrong("fake_kernel", "one result only")(lambda gates, old: (old.new_empty(old.shape),))
answers.wrong("fake_kernel", "gives old back as a result")(
    lambda gates, old: (old.new_empty(old.shape), old.contiguous())
)


@answers.wrong("fake_kernel", "computes the results")
def computes(gates, old):
    largest = old.abs().max().item()
    return tuple(old.new_empty(old.shape) + largest for _ in range(2))


answers.wrong("fake_kernel", "knows one batch only")(
    lambda gates, old: (old.new_empty(2, old.shape[1]), old.new_empty(2, old.shape[1]))
)
answers.wrong("fake_kernel", "is right only for square, even or contiguous shapes")(
    lambda gates, old: (old.new_empty(old.shape[::-1]), old.new_empty(old.shape[::-1]))
)


@answers.wrong("fake_kernel", "the same tensor twice")
def twice_the_same(gates, old):
    one = old.new_empty(old.shape)
    return one, one


def test_results_in_the_same_memory_get_a_hint_of_their_own():
    assert "same memory" in first_hint(answers.exercises["fake_kernel"], twice_the_same)


# --- lltm_backward


def backward(
    slope=lambda x: torch.where(x > 0, 1.0, x.exp()), cell_too=True, h_too=True, order=(0, 1, 2)
):
    def answer(grad_h, grad_cell, gates, old):
        first, second, third = gates.chunk(3, 1)
        i, o = first.sigmoid(), second.sigmoid()
        c = torch.where(third > 0, third, third.exp() - 1)
        t = (old + i * c).tanh()
        d_cell = grad_cell * cell_too + grad_h * o * (1 - t * t) * h_too
        parts = d_cell * c * i * (1 - i), grad_h * t * o * (1 - o), d_cell * i * slope(third)
        return torch.cat([parts[k] for k in order], 1), d_cell

    return answer


answers.right("lltm_backward")(backward())
answers.wrong("lltm_backward", "leaves grad_cell out")(backward(cell_too=False))
answers.wrong("lltm_backward", "leaves out what comes from h")(backward(h_too=False))
answers.wrong("lltm_backward", "gives elu the slope 1 everywhere")(backward(torch.ones_like))
answers.wrong("lltm_backward", "mixes up two gates")(backward(order=(1, 0, 2)))


@answers.wrong("lltm_backward", "forgets the gradient through the old cell state")
def no_old(*given):
    d_gates, d_cell = backward()(*given)
    return d_gates, torch.zeros_like(d_cell)


@answers.wrong("lltm_backward", "calls autograd")
def by_autograd(grad_h, grad_cell, gates, old):
    leaves = gates.detach().requires_grad_(), old.detach().requires_grad_()
    with torch.enable_grad():
        a, b, x = leaves[0].chunk(3, 1)
        cell = leaves[1] + a.sigmoid() * torch.nn.functional.elu(x)
        torch.autograd.backward((cell.tanh() * b.sigmoid(), cell), (grad_h, grad_cell))
    return tuple(leaf.grad for leaf in leaves)


@answers.wrong("lltm_backward", "takes the first row for all")
def first_row(*given):
    return backward()(*[each[:1].expand_as(each) for each in given])


@answers.wrong("lltm_backward", "drops a batch of 1")
def squeezed(*given):
    return tuple(g.squeeze(0) if len(g) == 1 else g for g in backward()(*given))


@answers.wrong("lltm_backward", "computes in float32")
def in_float(*given):
    return tuple(g.double() for g in backward()(*[x.float() for x in given]))


@answers.wrong("lltm_backward", "is right only for a batch as large as its width")
def square_only(*given):
    d_gates, d_cell = backward()(*given)
    return d_gates, d_cell if d_cell.shape[0] == d_cell.shape[1] else d_cell.flip(1)


@answers.wrong("lltm_backward", "returns NaN where it computed nothing")
def not_written(*given):
    d_gates, d_cell = backward()(*given)
    return d_gates, torch.full_like(d_cell, math.nan)


def writes_into_grad_cell(grad_h, grad_cell, gates, old):
    right = backward()(grad_h, grad_cell, gates, old)
    grad_cell += 1
    return right


def test_one_wrong_part_never_gets_the_hint_about_the_sum():
    """Whatever was shown before: the hints that may come are about that part, or general."""
    exercise = answers.exercises["lltm_backward"]
    for stage in outcomes(exercise, backward(torch.ones_like), 7):
        for evidence in stage.failures[:1]:
            fitting = [hint.text for hint in map(exercise.hint, range(9)) if hint.fits(evidence)]
            assert [text[:11] for text in fitting] == ["Only part x"]


# --- lltm_cuda_rung

KERNEL = """
extern "C" __global__ void lltm(const float* gates, const float* old, float* h, float* cell,
                                int batch, int width) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= batch * width) return;
    const float* row = gates + i / width * 3 * width + i % width;
    const float in = row[0], out = row[width], x = row[2 * width];
    const float c = old[i] + (x > 0 ? x : expf(x) - 1) / (1 + expf(-in));
    cell[i] = c;
    h[i] = tanhf(c) / (1 + expf(-out));
}
"""


def changed(*changes):
    text = KERNEL
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return lambda: text


answers.right("lltm_cuda_rung")(changed())
answers.right("lltm_cuda_rung")(changed(("(x > 0 ? x", "(row[2 * width] > 0 ? x")))
answers.wrong("lltm_cuda_rung", "unguarded tail")(
    changed(("    if (i >= batch * width) return;\n", ""))
)
answers.wrong("lltm_cuda_rung", "takes the gates for three whole arrays")(
    changed(
        ("gates + i / width * 3 * width + i % width", "gates + i"), ("width]", "width * batch]")
    )
)
answers.wrong("lltm_cuda_rung", "correct only in forward thread order")(
    changed(
        (
            "    h[i] = tanhf(c) / (1 + expf(-out));",
            """    const int p = i - 1;  // the thread before left its cell there
    if (i > 0) h[p] = tanhf(cell[p]) / (1 + expf(-gates[p + (p / width * 2 + 1) * width]));
    if (i == batch * width - 1) h[i] = tanhf(c) / (1 + expf(-out));""",
        ),
    )
)
answers.wrong("lltm_cuda_rung", "leaves a part of h unwritten")(
    changed(("    h[i] = tanhf", "    if (i % 7 != 3) h[i] = tanhf"))
)
answers.wrong("lltm_cuda_rung", "elu without its lower half")(
    changed(("(x > 0 ? x : expf(x) - 1)", "x"))
)
answers.wrong("lltm_cuda_rung", "h from the old cell")(changed(("tanhf(c)", "tanhf(old[i])")))
answers.wrong("lltm_cuda_rung", "h and cell swapped")(
    changed(("float* h, float* cell", "float* cell, float* h"))
)
answers.wrong("lltm_cuda_rung", "reads gates four times")(
    changed(
        ("const float* row", "const volatile float* row"), ("(x > 0 ? x", "(row[2 * width] > 0 ? x")
    )
)
answers.wrong("lltm_cuda_rung", "block size baked to the test width")(
    changed(("blockIdx.x * blockDim.x", "blockIdx.x * 32"))
)
answers.wrong("lltm_cuda_rung", "one thread per row")(
    lambda: (
        """
extern "C" __global__ void lltm(const float* gates, const float* old, float* h, float* cell,
                                int batch, int width) {
    const int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= batch) return;
    for (int j = 0; j < width; ++j) {
        const float* row = gates + r * 3 * width + j;
        const int i = r * width + j;
        const float x = row[2 * width];
        cell[i] = old[i] + (x > 0 ? x : expf(x) - 1) / (1 + expf(-row[0]));
        h[i] = tanhf(cell[i]) / (1 + expf(-row[width]));
    }
}
"""
    )
)


def test_each_mistake_of_a_kernel_gets_its_own_hint():
    exercise = answers.exercises["lltm_cuda_rung"]
    twice = changed(
        ("const float* row", "const volatile float* row"), ("(x > 0 ? x", "(row[2 * width] > 0 ? x")
    )
    assert "from memory more than once" in first_hint(exercise, twice)
    in_each_block = changed(("blockIdx.x * blockDim.x + ", ""))
    assert "begins at 0 again" in first_hint(exercise, in_each_block)
    assert "did not run" in first_hint(exercise, lambda: "hello")
    assert "outside the arrays" in first_hint(
        exercise, changed(("    if (i >= batch * width) return;\n", ""))
    )
    forgets_rows = changed(("i / width * 3 * width + i % width", "i"))
    assert "Where does row 1 begin" in first_hint(exercise, forgets_rows)
    assert "h is not" in first_hint(exercise, changed(("tanhf(c)", "tanhf(old[i])")))
    swapped = changed(("float* h, float* cell", "float* cell, float* h"))
    assert "each other's numbers" in first_hint(exercise, swapped)
    assert "1 / (1 + expf(-a))" in first_hint(exercise, changed(("expf(-in)", "expf(in)")))
    assert "no std::" in first_hint(exercise, changed(("expf(x) - 1", "std::expm1(x)")))
    assert "where it does not compile" in first_hint(exercise, changed(("expf(x)", "exq(x)")))


def test_each_mistake_of_a_gradient_gets_its_own_hint():
    exercise = answers.exercises["lltm_backward"]
    assert "part x" in first_hint(exercise, backward(torch.ones_like))
    assert "Only d_old" in first_hint(exercise, no_old)
    assert "wrote into" in first_hint(exercise, writes_into_grad_cell)
    assert "grad_h is 0" in first_hint(exercise, backward(lambda x: 2.0, order=(1, 0, 2)))
    assert "Return two tensors" in first_hint(exercise, lambda *given: (None, None))


def test_rows_that_share_a_warp_need_sectors_of_their_own():
    """Batch 3, width 5: the pieces of three rows begin and end in sectors that are half used."""
    for right in answers.rights["lltm_cuda_rung"]:
        assert not failing_cases(answers.exercises["lltm_cuda_rung"], right, 71115, search=False)


test_answers = answers.tests()
