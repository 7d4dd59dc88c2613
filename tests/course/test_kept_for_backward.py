import gc

import pytest
import torch

from labkit.course.exercise import Case
from labkit.course.exercises import _small_models, find
from tests.course.answers import Answers, first_hint

answers = Answers("kept_for_backward")
ELSEWHERE = "is right in float32 and overflows, truncates or returns the wrong dtype elsewhere"
FIRST = "remembers the answer of the first random case and returns it for all later cases"


def storage(x):
    return x.untyped_storage().data_ptr()


def whole(tensor):
    return tensor.untyped_storage().nbytes()


# --- beside


def beside_if(is_owned, size=whole, key=storage):
    """The sizes of the tensors that own does not hold, each key once."""

    def answer(tensors, own):
        kept = [t for t in tensors if not any(is_owned(t, mine) for mine in own)]
        return sum({key(t): size(t) for t in kept}.values())

    return answer


def reads_one(t, mine):
    return storage(t) == storage(mine)


nothing_owned = beside_if(lambda t, mine: False)


def all_of_own_taken_away(tensors, own):
    return nothing_owned(tensors, []) - nothing_owned(own, [])


answers.right("beside")(beside_if(reads_one))
for why, answer in [
    ("counts what own holds", nothing_owned),
    ("takes away all of own", all_of_own_taken_away),
    ("leaves out the very tensors of own alone", beside_if(lambda t, mine: t is mine)),
    (
        "leaves out tensors at the same address alone",
        beside_if(lambda t, mine: t.data_ptr() == mine.data_ptr()),
    ),
    ("counts a storage once per tensor", beside_if(reads_one, key=id)),
    ("counts a storage once per tensor", beside_if(reads_one, key=lambda t: t.data_ptr())),
    ("counts what a view shows", beside_if(reads_one, size=lambda t: t.nbytes)),
]:
    answers.wrong("beside", why)(answer)

# --- saved_bytes

kept_alive = []


def count(model, x, *, size=None, own=True, once=True, keep=False, hold=True, given=True):
    owned = {storage(t) for t in (*model.parameters(), *model.buffers())} if own else set()
    owned |= set() if given else {storage(x)}
    found = []

    def pack(tensor):
        if storage(tensor) not in owned:
            found.append((storage(tensor), size(tensor) if size else whole(tensor)))
        if keep:
            kept_alive[:] = [*kept_alive[-50:], tensor.detach()]
        return tensor.detach() if hold else None

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        held = model(x)
    del held
    return sum(dict(found).values()) if once else sum(n for _, n in found)


def with_options(**options):
    return lambda model, x: count(model, x, **options)


answers.right("saved_bytes")(with_options())
for why, options in [
    ("counts numel not bytes", {"size": lambda t: t.numel()}),
    ("counts numel not bytes", {"size": lambda t: t.untyped_storage().nbytes() // t.itemsize}),
    ("counts parameters", {"own": False}),
    ("leaves out x", {"given": False}),
    ("double-counts views", {"once": False}),
    ("double-counts views", {"size": lambda t: t.nbytes}),
    (
        "takes an expanded number for as large as it looks",
        {"size": lambda t: t.nbytes if t.numel() and not any(t.stride()) else whole(t)},
    ),
    ("keeps tensors alive afterwards", {"keep": True}),
    (ELSEWHERE, {"size": lambda t: t.untyped_storage().nbytes() // t.itemsize * 4}),
]:
    answers.wrong("saved_bytes", why)(with_options(**options))


@answers.wrong("saved_bytes", "runs the model twice")
def tries_it_first(model, x):
    if not model(x).requires_grad:
        return 0
    return count(model, x)


@answers.wrong("saved_bytes", "counts parameters")
def skips_leaves_only(model, x):
    """linear saves the transposed weight, which is no leaf."""
    found = {}

    def pack(tensor):
        if not (tensor.is_leaf and tensor.requires_grad):
            found[storage(tensor)] = whole(tensor)
        return tensor.detach()

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        model(x)
    return sum(found.values())


@answers.wrong("saved_bytes", "keeps tensors alive afterwards")
def keeps_the_result(model, x):
    kept_alive[:] = [model(x)]
    return count(model, x)


@answers.wrong("saved_bytes", "keeps tensors alive afterwards")
def packs_the_tensor_itself(model, x):
    own = {storage(t) for t in (*model.parameters(), *model.buffers())}
    found = {}

    def pack(tensor):
        if storage(tensor) not in own:
            found[storage(tensor)] = whole(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        model(x)
    return sum(found.values())


@answers.wrong("saved_bytes", "double-counts views")
def keys_by_tensor(model, x):
    found = {}

    def pack(tensor):
        found[tensor.data_ptr(), tensor.shape, tensor.stride()] = whole(tensor)
        return tensor.detach()

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        held = model(x)
    del held
    for one in (*model.parameters(), *model.buffers()):
        for key in [key for key in found if key[0] == one.data_ptr()]:
            del found[key]
    return sum(found.values())


def walks_graph(model, x, custom):
    own = {storage(t) for t in (*model.parameters(), *model.buffers())}
    result, found, seen = model(x), {}, set()
    nodes = [result.grad_fn] if result.grad_fn is not None else []
    while nodes:
        node = nodes.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        nodes += [parent for parent, _ in node.next_functions]
        saved = [getattr(node, n) for n in dir(node) if n.startswith("_saved_")]
        if custom and hasattr(node, "saved_tensors"):
            saved += list(node.saved_tensors)
        for one in saved:
            if isinstance(one, torch.Tensor) and storage(one) not in own:
                found[storage(one)] = whole(one)
    return sum(found.values())


answers.right("saved_bytes")(lambda model, x: walks_graph(model, x, custom=True))


@answers.wrong("saved_bytes", "misses tensors saved by custom functions")
def attributes_only(model, x):
    return walks_graph(model, x, custom=False)


@answers.wrong("saved_bytes", "misses tensors saved by custom functions")
def outputs_only(model, x):
    """Forward hooks see what steps make, not what they keep."""
    found = {}
    hooks = [
        step.register_forward_hook(lambda m, i, o: found.__setitem__(storage(o), whole(o)))
        for step in model.children()
    ]
    held = model(x)
    for hook in hooks:
        hook.remove()
    del held
    return sum(found.values())


@answers.wrong("saved_bytes", FIRST, make=True)
def remembers_the_first():
    kept = []

    def answer(model, x):
        kept.append(count(model, x))
        return kept[0]

    return answer


def test_a_model_counted_by_hand():
    exercise = find("kept_for_backward.saved_bytes")
    step = type(next(exercise.make(1, 0, 0).inputs[0].children()))
    names = ["linear", "tanh", "linear"]
    model = torch.nn.Sequential(*[step(name, 8, torch.float32) for name in names])
    x = torch.zeros(5, 8)
    # the first linear keeps x, tanh its result, and the second linear that same result again
    assert exercise.expected(model, x)["bytes"] == 2 * 5 * 8 * 4


def test_nothing_is_left_by_the_tests():
    kept_alive.clear()
    gc.collect()


# --- mean_of

answers.right("mean_of")(lambda step, n: sum(step().item() for _ in range(n)) / n)


@answers.right("mean_of")
def without_grad(step, n):
    with torch.no_grad():
        return torch.stack([step() for _ in range(n)]).mean().item()


def a_list_of_losses(step, n):
    losses = [step() for _ in range(n)]
    return sum(losses).item() / n


def a_running_total(step, n):
    total = 0
    for _ in range(n):
        total += step()
    return total.item() / n


def a_tensor(step, n):
    return torch.stack([step().detach() for _ in range(n)]).mean()


for why, answer in [
    ("collects losses with their graphs", a_list_of_losses),
    ("adds up losses with their graphs", a_running_total),
    ("returns a tensor", a_tensor),
    ("returns the sum", lambda step, n: sum(step().item() for _ in range(n))),
]:
    answers.wrong("mean_of", why)(answer)


@answers.wrong("saved_bytes", "gives saved_by a tensor, not a function")
def calls_the_model(model, x):
    return model(x)()


@answers.wrong("saved_bytes", "counts buffers")
def without_buffers(model, x):
    owned = {storage(t) for t in model.parameters()}
    found = {}

    def pack(tensor):
        found[storage(tensor)] = whole(tensor)
        return tensor.detach()

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        held = model(x)
    del held
    return sum(size for at, size in found.items() if at not in owned)


@pytest.mark.parametrize(
    ("name", "answer", "said"),
    [
        ("beside", nothing_owned, "by what own holds"),
        ("beside", beside_if(lambda t, mine: t is mine), "by what own holds"),
        ("beside", beside_if(reads_one, key=id), "Too much"),
        ("beside", beside_if(reads_one, size=lambda t: t.nbytes), "An expanded tensor"),
        ("beside", beside_if(reads_one, size=lambda t: 1), "Too little"),
        ("saved_bytes", lambda model, x: count(model, x, own=False), "holds"),
        ("beside", all_of_own_taken_away, "all that own holds"),
        ("saved_bytes", with_options(given=False), "Too little by x"),
        ("saved_bytes", tries_it_first, "ran more than once"),
        ("saved_bytes", calls_the_model, "lambda: model(x)"),
        ("saved_bytes", without_buffers, "model.buffers() as well"),
        ("mean_of", a_list_of_losses, "Earlier graphs were alive"),
        ("mean_of", a_running_total, "records the addition"),
        ("mean_of", a_tensor, "Return a Python number"),
    ],
)
def test_the_first_hint_is_about_the_mistake(name, answer, said):
    assert said in first_hint(find(f"kept_for_backward.{name}"), answer)


def test_the_failing_case_says_what_each_step_computes():
    exercise = find("kept_for_backward.saved_bytes")
    make = _small_models.Step
    model = torch.nn.Sequential(make("scale", 2, torch.float32), make("tanh", 2, torch.float32))
    said = exercise.show(model, torch.zeros(3, 2))
    assert said == "model: scale = x * a parameter, then tanh = tanh(x); x: (3, 2), float32"


def test_what_is_owned_is_drawn_beside_the_rest():
    exercise = find("kept_for_backward.beside")
    w, x = torch.ones(4), torch.ones(2)
    assert exercise.right(Case(([x, x, w.view(2, 2)], [w]))) == 8
    assert exercise.picture(Case(([x, w.view(2, 2)], [w])), 24, 8) is not None
    assert exercise.show([], [w]).startswith("tensors: none. own: float32[4] over A (16 bytes)")


test_answers = answers.tests()
