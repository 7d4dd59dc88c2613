import pytest
import torch

from labkit.core.alias_keys import SLOTS_OF_ALIAS
from labkit.core.dispatch_key import RUNTIME_KEYS, DispatchKey
from labkit.core.dispatch_key_set import DispatchKeySet
from labkit.course.checks import failing_cases, picture_of
from labkit.course.exercise import Hint
from labkit.dispatch import compute_cell, torch_tables
from tests.course.answers import Answers, catches, first_hint

answers = Answers("stale_cells")
FIRST = "remembers the answer of the first random case and returns it for all later cases"
CONSTANT = "returns the literal answer of the example in the statement"
SLOTS = [str(key) for key in RUNTIME_KEYS]
ALIASES = {str(alias): {str(key) for key in keys} for alias, keys in SLOTS_OF_ALIAS.items()}
BACKENDS = SLOTS[1:17]
UNDEFINED_TOO = ("CompositeExplicitAutogradNonFunctional", "CompositeExplicitAutograd",
                 "CompositeImplicitAutograd")  # fmt: skip

# --- every_stale_cell

K = DispatchKey
ON_EVERY_BACKEND = ("Quantized", "Sparse", "SparseCsr")


def backend_of(key):
    """CPU for QuantizedCPU; "" for a key without a backend; None for no backend's key."""
    if key in ("FPGA", "Vulkan", "Metal", "CustomRNGKeyId", "MkldnnCPU"):
        return ""
    for kind in ("", "Quantized", "SparseCsr", "Sparse"):
        if key.startswith(kind) and key.removeprefix(kind) in BACKENDS:
            return key.removeprefix(kind)
    return None


def touched_by(key):
    slots = set(ALIASES.get(key, {key}))
    if key in UNDEFINED_TOO:
        slots.add("Undefined")
    backend = backend_of(key)
    if backend is not None:
        slots.add("AutogradOther" if backend in ("", "HIP", "VE") else f"Autograd{backend}")
    return slots


def canonical(slots, registered, fallbacks):
    kernels = {K[key]: number for number, key in registered.items()}
    global_ones = {K[name]: "fallback" for name in fallbacks}
    return {slot: compute_cell(K[slot], kernels, global_ones).kernel for slot in slots}


def every_stale_cell(program, fallbacks, touched=touched_by):
    registered = {}
    stored = {slot: "fallback" if slot in fallbacks else None for slot in SLOTS}
    for kind, number, *key in program:
        if kind == "impl":
            registered[number] = key[0]
            slots = touched(key[0])
        else:
            slots = touched(registered.pop(number))
        stored |= canonical(slots, registered, fallbacks)
    meant = canonical(SLOTS, registered, fallbacks)
    return {slot: (stored[slot], meant[slot]) for slot in SLOTS if stored[slot] != meant[slot]}


def call_slot(handle, slot, x):
    return handle.redispatch_boxed(torch._C.DispatchKeySet(slot), x)


def none(program, fallbacks):
    return {}


def every_alias_cell(program, fallbacks):
    found = {}
    for kind, number, *key in program:
        if kind == "impl" and key[0] in ALIASES:
            found |= dict.fromkeys(ALIASES[key[0]], (number, "fallback"))
    return found


def from_the_dump(program, fallbacks):
    """What the recomputed table says is taken for what is stored."""
    return every_stale_cell(program, fallbacks, touched=lambda key: SLOTS)


def computed_kernel(handle, slot, x):
    kernel = torch._C._dispatch_get_computed_kernel_for_dispatch_key(handle, slot)
    return kernel.call_boxed(torch._C.DispatchKeySet(slot), x)


def call_the_operator(handle, slot, x):
    return torch._C._dispatch_call_boxed(handle, x)


def returns_nothing(handle, slot, x):
    call_slot(handle, slot, x)


def more_keys(handle, slot, x):
    return handle.redispatch_boxed(torch._C._dispatch_keys(x).add(slot), x)


def takes_the_slot(handle, slot, x):
    return handle.redispatch_boxed(slot, x)


answers.right("every_stale_cell")(every_stale_cell)
answers.right("call_slot")(call_slot)
for why, answer in [
    ("none are stale", none),
    ("all alias cells are stale", every_alias_cell),
    ("reads the dump", from_the_dump),
    (CONSTANT, lambda program, fallbacks: {"AutogradCPU": (0, "fallback")}),
]:
    answers.wrong("every_stale_cell", why)(answer)
for why, answer in [
    ("calls the crashing boxed entry on a stale cell", computed_kernel),
    ("calls the operator as usual", call_the_operator),
    ("calls the operator as usual", lambda handle, slot, x: handle.call_boxed(x)),
    ("catches every exception and returns a default", catches(computed_kernel)),
    ("returns nothing", returns_nothing),
    ("keeps the tensor's keys in the set", more_keys),
    ("takes the slot for a set", takes_the_slot),
]:
    answers.wrong("call_slot", why)(answer)


# --- refreshed, stale_cells

DENSE = ["CPU", "CUDA", "Meta"]
AUTOGRAD = [f"Autograd{backend}" for backend in DENSE]
SEVEN = ["Undefined", *DENSE, *AUTOGRAD]
EXPLICIT, IMPLICIT = "CompositeExplicitAutograd", "CompositeImplicitAutograd"
FILLS = {"Autograd": AUTOGRAD, EXPLICIT: DENSE, IMPLICIT: DENSE + AUTOGRAD}


@answers.right("refreshed")
def refreshed(key):
    slots = set(FILLS.get(key, [key]))
    if key.startswith("Composite"):
        slots.add("Undefined")
    if key in DENSE:
        slots.add(f"Autograd{key}")
    return slots


for why, answer in [
    ("forgets Undefined", lambda key: refreshed(key) - {"Undefined"}),
    ("refreshes Undefined for Autograd, too", lambda key: refreshed(key) | (
        {"Undefined"} if key in FILLS else set())),
    ("forgets the autograd slot of a backend", lambda key: (
        {key} if key in DENSE else refreshed(key))),
    ("refreshes the autograd slots for the explicit key, too", lambda key: refreshed(key) | (
        set(AUTOGRAD) if key == EXPLICIT else set())),
    ("a list is returned", lambda key: sorted(refreshed(key))),
    ("looks every key up among the aliases", lambda key: {*FILLS[key], *refreshed(key)}),
]:  # fmt: skip
    answers.wrong("refreshed", why)(answer)


def meant(slot, kernels):
    own = slot.removeprefix("Autograd")
    autograd = slot != own
    if slot in kernels:
        return kernels[slot]
    if EXPLICIT in kernels and not autograd:
        return kernels[EXPLICIT]
    if IMPLICIT in kernels and not (autograd and (own in kernels or EXPLICIT in kernels)):
        return kernels[IMPLICIT]
    if "Autograd" in kernels and autograd:
        return kernels["Autograd"]
    return "fallback" if autograd else None


def stale_with(after_removal=refreshed, newest=lambda registered: registered, stale=True,
               told=lambda stored, now: stored != now, filled=True):  # fmt: skip
    def stale_cells(program):
        registered, stored = {}, {slot: meant(slot, {}) if filled else None for slot in SEVEN}

        def kernels():
            return {key: number for number, key in newest(registered).items()}

        for kind, number, *key in program:
            if kind == "impl":
                registered[number] = key[0]
                slots = refreshed(key[0])
            else:
                slots = after_removal(registered.pop(number))
            stored |= {slot: meant(slot, kernels()) for slot in slots}
        now = {slot: meant(slot, kernels()) for slot in SEVEN}
        return {s: (stored[s], now[s]) for s in SEVEN if stale and told(stored[s], now[s])}

    return stale_cells


every_slot = stale_with(told=lambda stored, now: True)


def meant_first(program):
    return {slot: pair[::-1] for slot, pair in stale_with()(program).items()}


older_counts = stale_with(newest=lambda registered: dict(reversed(registered.items())))
answers.right("stale_cells")(stale_with())
for why, answer in [
    ("none are stale", stale_with(stale=False)),
    ("a removal refreshes every slot", stale_with(after_removal=lambda key: SEVEN)),
    ("a removal refreshes nothing", stale_with(after_removal=lambda key: [])),
    ("every slot that an alias fills is stale", every_slot),
    ("names every slot", every_slot),
    ("tells what is meant first", meant_first),
    ("asks what is meant twice", stale_with(told=lambda stored, now: now != now)),
    ("an older kernel at the key is forgotten", older_counts),
    ("begins with empty cells", stale_with(filled=False)),
]:
    answers.wrong("stale_cells", why)(answer)


def test_cells_that_begin_empty_are_told_so():
    hint = first_hint(answers.exercises["stale_cells"], stale_with(filled=False))
    assert "each stored cell begins" in hint


@answers.wrong("stale_cells", "a removal empties its key")
def forgets_the_others(program):
    where, kernels, stored = {}, {}, {slot: meant(slot, {}) for slot in SEVEN}
    for kind, number, *key in program:
        if kind == "impl":
            where[number] = key[0]
            kernels[key[0]] = number
        else:
            kernels.pop(where[number], None)
        stored |= {slot: meant(slot, kernels) for slot in refreshed(where[number])}
    now = {slot: meant(slot, kernels) for slot in SEVEN}
    return {s: (stored[s], now[s]) for s in SEVEN if stored[s] != now[s]}


# --- boxed_counter

BELOW = DispatchKeySet.full_after("AutogradFunctionality")


def counter_with(
    name=lambda op: op.name,
    keys_of=lambda keys: keys & BELOW,
    put=lambda stack, result: stack.__setitem__(slice(None), [result]),
    calls=True,
    handed_on=lambda stack: stack,
    so_far=lambda counts, name: counts.get(name, 0),
):
    def counter(counts):
        def count(op, keys, stack):
            counts[name(op)] = so_far(counts, name(op)) + 1
            if calls:
                put(stack, op.redispatch(keys_of(keys), *handed_on(stack)))

        return count

    return counter


first_replaced = counter_with(put=lambda stack, result: stack.__setitem__(0, result))
all_below = counter_with(keys_of=lambda keys: BELOW)
the_list = counter_with(handed_on=lambda stack: [stack])
no_zero = counter_with(so_far=lambda counts, name: counts[name])
answers.right("boxed_counter")(counter_with())
for why, answer in [
    ("counts one operator only", counter_with(name=lambda op: "counted::double")),
    ("does not call on", counter_with(calls=False)),
    ("leaves the argument on the stack", counter_with(put=lambda stack, r: stack.append(r))),
    ("calls again with the same keys", counter_with(keys_of=lambda keys: keys)),
    ("leaves a second argument on the stack", first_replaced),
    ("calls on with all keys below autograd", all_below),
    ("hands on the stack as one argument", the_list),
    ("expects every operator in counts", no_zero),
    ("always calls the CPU kernel", counter_with(keys_of=lambda keys: DispatchKeySet("CPU"))),
]:
    answers.wrong("boxed_counter", why)(answer)


def test_the_examples_of_the_tasks_are_right():
    assert refreshed("CUDA") == {"CUDA", "AutogradCUDA"}
    program = [("impl", 0, IMPLICIT), ("impl", 1, EXPLICIT)]
    assert stale_with()(program)["AutogradCPU"] == (0, "fallback")
    fallbacks = [str(slot) for slot in torch_tables.global_fallbacks()]
    assert every_stale_cell(program, fallbacks)["AutogradCPU"] == (0, "fallback")


@pytest.mark.parametrize(
    ("name", "wrong", "said"),
    [
        ("refreshed", lambda key: sorted(refreshed(key)), "A set of slots is wanted"),
        ("call_slot", returns_nothing, "is to be returned"),
        ("call_slot", takes_the_slot, "A redispatch takes a set"),
        ("call_slot", lambda handle, slot, x: call_slot(handle, slot, [x]), "and x, not [x]"),
        ("call_slot", more_keys, "the key of the slot, and no other"),
        ("call_slot", computed_kernel, "A computed kernel"),
        ("stale_cells", every_slot, "Only the stale cells"),
        ("stale_cells", meant_first, "begins with what is stored"),
        ("stale_cells", older_counts, "Two kernels at one key"),
        ("stale_cells", forgets_the_others, "Two kernels at one key"),
        ("stale_cells", stale_with(after_removal=lambda key: []), "refreshes the same slots"),
        ("stale_cells", stale_with(after_removal=lambda key: SEVEN), "refreshes the same slots"),
        ("boxed_counter", first_replaced, "the result and nothing else"),
        ("boxed_counter", all_below, "keeps only its own"),
        ("boxed_counter", the_list, "hands on its values"),
        ("boxed_counter", no_zero, "counts begins empty"),
    ],
)
def test_a_mistake_gets_the_hint_about_it(name, wrong, said):
    exercise = answers.exercises[name]
    evidence = failing_cases(exercise, wrong, 11)[0]
    hints = [hint for hint in exercise.hints if isinstance(hint, Hint)]
    assert said in next(hint.text for hint in hints if hint.fits(evidence))


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("stale_cells", stale_with(stale=False)),
        ("every_stale_cell", none),
    ],
)
def test_a_wrong_answer_is_shown_the_stale_row(name, wrong):
    exercise = answers.exercises[name]
    evidence = failing_cases(exercise, wrong, 11, search=False)[0]
    drawn = picture_of(exercise, evidence)
    assert drawn.table["cells"][drawn.cell]["stale"]


test_answers = answers.tests()
