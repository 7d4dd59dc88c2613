"""Right and wrong answers to the exercises of the chapter with an operator in C++ and CUDA."""

import torch

from labkit.course.checks import failing_cases
from tests.course.answers import Answers

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

# --- fake_kernel


@answers.right("fake_kernel")
def fake_kernel(gates, old_cell):
    return old_cell.new_empty(old_cell.shape), old_cell.new_empty(old_cell.shape)


answers.wrong("fake_kernel", "keeps the strides of old_cell")(
    lambda gates, old_cell: (torch.empty_like(old_cell), torch.empty_like(old_cell))
)
answers.wrong("fake_kernel", "as wide as the gates")(
    lambda gates, old_cell: (gates.new_empty(gates.shape), gates.new_empty(gates.shape))
)
answers.wrong("fake_kernel", "always float32")(
    lambda gates, old_cell: (
        torch.empty(old_cell.shape, device="meta"),
        torch.empty(old_cell.shape, device="meta"),
    )
)
answers.wrong("fake_kernel", "one result only")(
    lambda gates, old_cell: (old_cell.new_empty(old_cell.shape),)
)

# --- lltm_backward


def backward(
    slope=lambda x: torch.where(x > 0, 1.0, x.exp()), cell_too=True, h_too=True, order=(0, 1, 2)
):
    def answer(grad_h, grad_cell, gates, old_cell):
        first, second, third = gates.chunk(3, 1)
        i, o = first.sigmoid(), second.sigmoid()
        c = torch.where(third > 0, third, third.exp() - 1)
        t = (old_cell + i * c).tanh()
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
def no_old_cell(*given):
    d_gates, d_cell = backward()(*given)
    return d_gates, torch.zeros_like(d_cell)


@answers.wrong("lltm_backward", "computes in float32")
def in_float(*given):
    return tuple(g.double() for g in backward()(*[x.float() for x in given]))


# --- lltm_cuda_rung

KERNEL = """
extern "C" __global__ void lltm(const float* gates, const float* old_cell, float* h, float* cell,
                                int batch, int width) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= batch * width) return;
    const float* row = gates + i / width * 3 * width + i % width;
    const float in = row[0], out = row[width], x = row[2 * width];
    const float c = old_cell[i] + (x > 0 ? x : expf(x) - 1) / (1 + expf(-in));
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
answers.wrong("lltm_cuda_rung", "unguarded tail")(
    changed(("    if (i >= batch * width) return;\n", ""))
)
answers.wrong("lltm_cuda_rung", "takes the gates for three whole arrays")(
    changed(
        ("gates + i / width * 3 * width + i % width", "gates + i"), ("width]", "width * batch]")
    )
)
answers.wrong("lltm_cuda_rung", "elu without its lower half")(
    changed(("(x > 0 ? x : expf(x) - 1)", "x"))
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
extern "C" __global__ void lltm(const float* gates, const float* old_cell, float* h, float* cell,
                                int batch, int width) {
    const int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= batch) return;
    for (int j = 0; j < width; ++j) {
        const float* row = gates + r * 3 * width + j;
        const int i = r * width + j;
        const float x = row[2 * width];
        cell[i] = old_cell[i] + (x > 0 ? x : expf(x) - 1) / (1 + expf(-row[0]));
        h[i] = tanhf(cell[i]) / (1 + expf(-row[width]));
    }
}
"""
    )
)


def test_rows_that_share_a_warp_need_sectors_of_their_own():
    """Batch 3, width 5: the pieces of three rows begin and end in sectors that are half used."""
    for right in answers.rights["lltm_cuda_rung"]:
        assert not failing_cases(answers.exercises["lltm_cuda_rung"], right, 71115, search=False)


test_answers = answers.tests()
