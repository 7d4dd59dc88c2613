"""The CUDA C++ text of a reduction: many elements become one, in any layout.

One block, or one thread where there is little to add up, makes each output. Sums of two-byte floats
are kept in float32.

Source   aten/src/ATen/native/cuda/Reduce.cuh
"""

import functools
from typing import NamedTuple

from labkit.core.dtype import DType
from labkit.ops.cuda.elementwise_source import ELEMENTS, HEADERS

MAX_DIMS = 25
THREADS = 128
"""Threads per output, where it has a block of its own."""


class Fold(NamedTuple):
    """How elements are folded: into `total`, one `value` at a time.

    start   what nothing folds to
    merge   the C++ of one step; two totals merge by it too
    finish  the C++ that makes the output of the total and of `count`, how many there were
    """

    start: str
    merge: str
    finish: str = "total"


FOLDS: dict[str, Fold] = {
    "sum": Fold("0", "total + value"),
    "mean": Fold("0", "total + value", "total / Total(count)"),
    "all": Fold("true", "total && value"),
    "any": Fold("false", "total || value"),
    "amax": Fold("first", "total != total || total > value ? total : value"),
    "amin": Fold("first", "total != total || total < value ? total : value"),
}  # fmt: skip


class Call(NamedTuple):
    """What the text of a kernel depends on.

    name    one of `FOLDS`
    source  the element type that is read
    out     the element type that is written
    lanes   threads per output: 1, or THREADS
    """

    name: str
    source: DType
    out: DType
    lanes: int


_TEMPLATE = """\
{includes}using Total = {total};

struct Walk {{  // dimension 0 is the fastest; steps are bytes, of the output and of x
    long long dims;
    long long sizes[{max_dims}];
    long long steps[{max_dims}][2];
}};

struct Place {{
    long long out, x;
}};

__device__ Place place_of(long long rest, const Walk& walk) {{
    Place place = {{0, 0}};
    for (int d = 0; d < walk.dims; ++d) {{
        const long long size = walk.sizes[d], index = d + 1 < walk.dims ? rest % size : rest;
        rest /= size;
        place.out += index * walk.steps[d][0];
        place.x += index * walk.steps[d][1];
    }}
    return place;
}}

__device__ Total load(const {source}* x, long long bytes) {{
    return Total(*(const {source}*)((const char*)x + bytes));
}}

__device__ Total merge(Total total, Total value) {{
    return {merge};
}}

// `kept` walks the outputs, `folded` the elements behind each of them.
extern "C" __global__ void {name}({out}* out, const {source}* x, long long outputs, long long count,
                                  Walk kept, Walk folded) {{
    constexpr int kLanes = {lanes};
    const long long output = (blockIdx.x * (long long)blockDim.x + threadIdx.x) / kLanes;
    if (output >= outputs) return;  // of a whole block, when it has one output
    const Place place = place_of(output, kept);
    const int lane = threadIdx.x % kLanes;
{body}
    if (lane == 0) *({out}*)((char*)out + place.out) = ({out})({finish});
}}
"""

_ONE_THREAD = """\
    const Total first = count ? load(x, place.x) : Total(0);
    Total total = {start};
    for (long long i = 0; i < count; ++i) {{
        total = merge(total, load(x, place.x + place_of(i, folded).x));
    }}"""

_ONE_BLOCK = """\
    const Total first = load(x, place.x);
    Total total = {start};
    for (long long i = lane; i < count; i += kLanes) {{
        total = merge(total, load(x, place.x + place_of(i, folded).x));
    }}
    __shared__ Total part[kLanes];
    part[lane] = total;
    for (int half = kLanes / 2; half > 0; half /= 2) {{
        __syncthreads();
        if (lane < half) part[lane] = merge(part[lane], part[lane + half]);
    }}
    total = part[0];"""


def kernel_name(name: str) -> str:
    """What the kernel of a reduction is called."""
    return f"lab_{name}"


@functools.lru_cache(maxsize=256)
def source(call: Call) -> str:
    """The text of the kernel."""
    fold = FOLDS[call.name]
    body = (_ONE_THREAD if call.lanes == 1 else _ONE_BLOCK).format(start=fold.start)
    return _TEMPLATE.format(
        includes="".join(f"#include <{HEADERS[each]}>\n" for each in HEADERS if each in call),
        total=_total(call), source=ELEMENTS[call.source], out=ELEMENTS[call.out],
        merge=fold.merge, finish=fold.finish, name=kernel_name(call.name), body=body,
        lanes=call.lanes, max_dims=MAX_DIMS,
    )  # fmt: skip


def _total(call: Call) -> str:
    return "float" if call.out in HEADERS else ELEMENTS[call.out]
