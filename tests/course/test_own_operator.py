import pytest
import torch

from labkit.core.dispatch_key_set import DispatchKeySet
from labkit.course.exercises._toy_backend import Block, Memory
from tests.course.answers import Answers, first_hint

answers = Answers("own_operator")
CONSTANT = "returns the literal answer of the example in the statement"

# --- toy_backend


def empty_strided(like, size, stride):
    room = 1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True)) if all(size) else 0
    return Block(Memory(like.device, [0.0] * room), size, stride)


def copy_(self, src):
    for here, there in zip(self.places(), src.places(), strict=True):
        self.memory.cells[here] = src.memory.cells[there]
    return self


def add(self, other):
    if self.device != other.device:
        raise RuntimeError(f"add of {self.device} and {other.device}")
    pairs = zip(self.places(), other.places(), strict=True)
    cells = [self.memory.cells[i] + other.memory.cells[j] for i, j in pairs]
    return Block(Memory(self.device, cells), self.sizes, [self.sizes[1], 1])


def t(self):
    return Block(self.memory, self.sizes[::-1], self.strides[::-1], self.offset)


def missing(op, keys, stack):
    raise NotImplementedError(f"{op.name} has no kernel on {stack[0].device}")


def backend(fallback=missing, **other):
    kernels = {"empty_strided": empty_strided, "copy_": copy_, "add": add, "t": t} | other

    def toy_backend(lib, everything):
        for name, kernel in kernels.items():
            lib.impl(name, kernel, "PrivateUse1")
        everything.fallback(fallback, "PrivateUse1")

    return toy_backend


answers.right("toy_backend")(backend())


def on_cpu(self, other):
    result = add(self, other)
    return Block(Memory("cpu", result.memory.cells), result.sizes, result.strides)


def computes_elsewhere(op, keys, stack):
    stack[:] = [op.redispatch(DispatchKeySet("CPU"), *stack)]


def says_nothing(op, keys, stack):
    stack[:] = stack[:1]


def t_copied(self):
    return copy_(
        Block(Memory(self.device, [0.0] * 99), self.sizes[::-1], [self.sizes[0], 1]), t_of(self)
    )


t_of = t


def cell_by_cell(self, src):
    for place in range(min(len(self.memory.cells), len(src.memory.cells))):
        self.memory.cells[place] = src.memory.cells[place]
    return self


def cells_up_to_the_last(like, size, stride):
    count = 1 + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    return Block(Memory(like.device, [0.0] * count), size, stride)


def tells_nothing(self, src):
    copy_(self, src)


def cells_for_elements(like, size, stride):
    return Block(Memory(like.device, [0.0] * (size[0] * size[1])), size, stride)


def add_by_cells(self, other):
    cells = [a + b for a, b in zip(self.memory.cells, other.memory.cells, strict=False)]
    return Block(Memory(add(self, other).device, cells), self.sizes, self.strides)


def only_the_elements(self, src):
    self.memory.cells[:] = [src.memory.cells[place] for place in src.places()]
    return self


def always_row_major(like, size, stride):
    return empty_strided(like, size, [size[1], 1])


def on_lab_0(like, size, stride):
    made = empty_strided(like, size, stride)
    made.memory.device = "lab:0"
    return made


def missing_on_lab_0(op, keys, stack):
    raise NotImplementedError(f"{op.name} has no kernel on lab:0")


def add_in_place(self, other):
    result = add(self, other)
    copy_(self, result)
    return result


def add_or_first(self, other):
    try:
        return add(self, other)
    except Exception:
        return self


for why, answer in [
    ("silently computes on CPU", backend(add=on_cpu)),
    ("silently computes on CPU", backend(fallback=computes_elsewhere)),
    ("fallback hides wrong results", backend(fallback=says_nothing)),
    ("views copied", backend(t=t_copied)),
    ("strides lost in copies", backend(copy_=cell_by_cell)),
    ("strides lost in copies", backend(empty_strided=always_row_major)),
    ("strides lost in copies", backend(copy_=only_the_elements)),
    ("copy_ returns nothing", backend(copy_=tells_nothing)),
    ("as many cells as elements", backend(empty_strided=cells_for_elements)),
    ("has cells without elements", backend(empty_strided=cells_up_to_the_last)),
    ("strides lost in the sum", backend(add=add_by_cells)),
    (
        "is right on the default stream or device and wrong on another one",
        backend(empty_strided=on_lab_0),
    ),
    (
        "is right on the default stream or device and wrong on another one",
        backend(fallback=missing_on_lab_0),
    ),
    ("returns the right value but changes one of its inputs", backend(add=add_in_place)),
    ("catches every exception and returns a default", backend(add=add_or_first)),
]:
    answers.wrong("toy_backend", why)(answer)

# --- custom_operator


def compute(x, target, bound):
    bound.copy_(bound / 2 + target / 2)
    return torch.clamp(x, -bound, bound)


def fake(x, target, bound):
    return torch.empty_like(x)


def to_target(grad, x, bound):
    return (grad * x.sign() * (x.abs() > bound)).sum() / 2


def operator(written="(a!)", kernel=compute, shape=fake, through_bound=to_target):
    def clip_operator(lib):
        lib.define(f"clip(Tensor x, Tensor target, Tensor{written} bound) -> Tensor")
        op = getattr(torch.ops, lib.ns).clip.default
        lib.impl("clip", kernel, "CompositeExplicitAutograd")
        if shape:
            torch.library.register_fake(f"{lib.ns}::clip", shape, lib=lib)

        class Clip(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, target, bound):
                with torch._C._AutoDispatchBelowAutograd():
                    y = op(x, target, bound)
                ctx.save_for_backward(x, bound.clone())
                return y

            @staticmethod
            def backward(ctx, grad):
                x, bound = ctx.saved_tensors
                inside = x.abs() <= bound
                return grad * inside, through_bound(grad, x, bound), None

        lib.impl("clip", lambda *arguments: Clip.apply(*arguments), "Autograd")

    return clip_operator


answers.right("custom_operator")(operator())


def bound_must_be_known(x, target, bound):
    limit = (bound / 2 + target / 2).item()
    return torch.clamp(x, -limit, limit)


def always_cpu(x, target, bound):
    y = torch.zeros(x.shape, dtype=x.dtype, device="cpu")
    if x.device.type == "cpu":
        y.copy_(compute(x, target, bound))
    return y


def adds_first(x, target, bound):
    bound.copy_((bound + target) / 2)
    return torch.clamp(x, -bound, bound)


def float32_only(x, target, bound):
    return compute(x, target, bound).float()


def the_example(x, target, bound):
    compute(x, target, bound)
    return torch.tensor([0.75, -0.5], dtype=x.dtype)


def flat(x, target, bound):
    return compute(x.view(-1), target, bound).view(x.shape)


for why, answer in [
    ("mutation undeclared", operator(written="")),
    ("gradient ignores the bound's path", operator(through_bound=lambda *_: None)),
    ("fake kernel runs real code", operator(shape=bound_must_be_known)),
    (
        "registered at a composite key with a hard-coded device",
        operator(kernel=always_cpu, shape=None),
    ),
    (
        "is right in float32 and overflows, truncates or returns the wrong dtype elsewhere",
        operator(kernel=float32_only),
    ),
    (
        "is right in float32 and overflows, truncates or returns the wrong dtype elsewhere",
        operator(kernel=adds_first),
    ),
    (CONSTANT, operator(kernel=the_example)),
    ("is right only for square, even or contiguous shapes", operator(kernel=flat)),
]:
    answers.wrong("custom_operator", why)(answer)

# --- fake_pairs, transposed

answers.right("fake_pairs")(lambda x: x.new_empty(x.shape[0], x.shape[0]))
answers.right("fake_pairs")(lambda x: torch.zeros(len(x), len(x), dtype=x.dtype, device=x.device))
answers.right("transposed")(t)
for name, why, answer in [
    ("fake_pairs", "always float32", lambda x: torch.empty(len(x), len(x), device=x.device)),
    ("fake_pairs", "always on the CPU", lambda x: torch.empty(len(x), len(x), dtype=x.dtype)),
    ("fake_pairs", "as many numbers as x", torch.empty_like),
    ("fake_pairs", "computes the result", lambda x: x[:, None] - x[None, :]),
    ("fake_pairs", "computes something else", lambda x: torch.outer(x, x)),
    ("fake_pairs", "computes something else", lambda x: x[:, None] + x),
    ("fake_pairs", "hands out a view of x", lambda x: x[:, None].expand(len(x), len(x))),
    ("fake_pairs", "has other strides", lambda x: x.new_empty(len(x), len(x)).t()),
    (
        "transposed",
        "copies the memory",
        lambda b: Block(
            Memory(b.device, list(b.memory.cells)), b.sizes[::-1], b.strides[::-1], b.offset
        ),
    ),
    ("transposed", "forgets the offset", lambda b: Block(b.memory, b.sizes[::-1], b.strides[::-1])),
    (
        "transposed",
        "turns the sizes only",
        lambda b: Block(b.memory, b.sizes[::-1], b.strides, b.offset),
    ),
]:
    answers.wrong(name, why)(answer)


@answers.wrong("transposed", "turns the block itself")
def turned(block):
    block.sizes, block.strides = block.sizes[::-1], block.strides[::-1]
    return block


def test_a_missing_kernel_is_called_missing():
    def registers_the_first_alone(lib, everything):
        lib.impl("empty_strided", empty_strided, "PrivateUse1")

    for seed in (7, 11):
        for wrong in (registers_the_first_alone, without_copy):
            hint = first_hint(answers.exercises["toy_backend"], wrong, seed)
            assert hint.startswith("One of the four kernels is not there yet")


def without_copy(lib, everything):
    for name, kernel in {"empty_strided": empty_strided, "add": add, "t": t}.items():
        lib.impl(name, kernel, "PrivateUse1")
    everything.fallback(missing, "PrivateUse1")


@pytest.mark.parametrize(
    ("name", "wrong", "said"),
    [
        ("toy_backend", backend(copy_=tells_nothing), "copy_ returns self"),
        ("toy_backend", backend(copy_=cell_by_cell), "copy_ reads by"),
        ("toy_backend", backend(copy_=only_the_elements), "copy_ reads by"),
        ("toy_backend", backend(empty_strided=cells_for_elements), "number of cells differ"),
        ("toy_backend", backend(add=add_by_cells), "The sum has strides"),
        ("transposed", turned, "The block itself was turned"),
    ],
)
def test_a_mistake_gets_the_hint_about_it(name, wrong, said):
    for seed in (7, 11):
        assert said in first_hint(answers.exercises[name], wrong, seed)


test_answers = answers.tests()


def test_a_failing_view_is_drawn_beside_the_right_one():
    exercise = answers.exercises["transposed"]
    case = exercise.make(7, 30, 4)
    right = exercise.right(case)
    picture = exercise.picture(case, right | {"offset": right["offset"] + 1}, right)
    assert [grid["name"] for grid in picture.layers] == ["the block", "right", "yours"]


def test_numbers_that_came_back_wrong_are_drawn():
    exercise = answers.exercises["toy_backend"]
    case = next(case for n in range(40) if len((case := exercise.make(7, n, 4)).inputs[3]) > 1)
    right = exercise.right(case)
    wrong = right | {"x, read back": [99.0, *right["x, read back"][1:]]}
    picture = exercise.picture(case, wrong, right)
    assert [grid["name"] for grid in picture.layers] == [
        "x, read back: right",
        "x, read back: yours",
    ]
