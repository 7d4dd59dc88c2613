import torch

from labkit.core.alias_keys import SLOTS_OF_ALIAS
from labkit.core.dispatch_key import RUNTIME_KEYS, DispatchKey
from labkit.dispatch import compute_cell, torch_tables
from tests.course.answers import Answers, catches

answers = Answers("dispatch_table")
FIRST = "remembers the answer of the first random case and returns it for all later cases"
CONSTANT = "returns the literal answer of the example in the statement"
BANNED = "calls the torch or labkit function it is meant to rebuild (a recording mode bans it)"

# --- key_set_arithmetic

PER_BACKEND = (1, 5, 8, 9, 10, 21)
BACKEND_BITS = (1 << 16) - 1


def word_of(key):
    functionality, backend = key
    return 1 << (15 + functionality) | (0 if backend is None else 1 << backend)


def add(word, key):
    return word | word_of(key)


def union(a, b):
    return a | b


def difference(a, b):
    return a & ~(b & ~BACKEND_BITS)


def remove(word, key):
    return difference(word, word_of(key))


def slot(word):
    functionality = (word >> 16).bit_length()
    index = functionality + 15 * sum(f < functionality for f in PER_BACKEND)
    backend = max((word & BACKEND_BITS).bit_length() - 1, 0)
    return index + (backend if functionality in PER_BACKEND else 0)


def members(word):
    backends = [bit for bit in range(16) if word >> bit & 1]
    found = []
    for functionality in range(1, 47):
        if word >> (15 + functionality) & 1:
            kept = backends if functionality in PER_BACKEND else [None]
            found += [(functionality, backend) for backend in kept]
    return found


RIGHT = {
    "add": add, "remove": remove, "union": union, "difference": difference,
    "slot": slot, "members": members,
}  # fmt: skip
answers.right("key_set_arithmetic")(tuple(RIGHT.values()))


def words(**other):
    return tuple({**RIGHT, **other}.values())


def remove_everything(word, key):
    return word & ~word_of(key)


def difference_everything(a, b):
    return a & ~b


def unexpanded(word):
    found = []
    for functionality in range(1, 47):
        if word >> (15 + functionality) & 1:
            highest = (word & BACKEND_BITS).bit_length() - 1
            found.append((functionality, highest if functionality in PER_BACKEND else None))
    return found


def off_by_one(key):
    return 1 << (16 + key[0]) | (0 if key[1] is None else 1 << key[1])


def undefined_without_backend(word):
    functionality = (word >> 16).bit_length()
    return slot(word) if functionality not in PER_BACKEND or word & BACKEND_BITS else 0


def asks_labkit(word):
    from labkit.core.dispatch_key_set import DispatchKeySet

    return DispatchKeySet.from_raw_repr(word).table_index()


def asks_torch(a, b):
    return (
        torch._C.DispatchKeySet.from_raw_repr(a) - torch._C.DispatchKeySet.from_raw_repr(b)
    ).raw_repr()


for why, answer in [
    ("removal clears backend bits", words(remove=remove_everything)),
    ("removal clears backend bits", words(difference=difference_everything)),
    ("iteration skips per-backend expansion", words(members=unexpanded)),
    (
        "off by one from the bit without Undefined",
        words(add=lambda word, key: word | off_by_one(key)),
    ),
    ("no backend bit means Undefined slot", words(slot=undefined_without_backend)),
    (BANNED, words(slot=asks_labkit)),
    (BANNED, words(difference=asks_torch)),
    (CONSTANT, words(slot=lambda word: 96)),
]:
    answers.wrong("key_set_arithmetic", why)(answer)


@answers.wrong("key_set_arithmetic", FIRST, make=True)
def remembers_the_first_slot():
    seen = []

    def first(word):
        seen.append(slot(word))
        return seen[0]

    return words(slot=first)


# --- fill_the_row

SLOTS = [str(key) for key in RUNTIME_KEYS]
ALIASES = {str(alias): {str(key) for key in keys} for alias, keys in SLOTS_OF_ALIAS.items()}
NO_MAP = ("HIP", "VE", "MTIA")
OTHER = ("FPGA", "Vulkan", "Metal", "CustomRNGKeyId", "MkldnnCPU", "Sparse", "SparseCsr",
         "Quantized")  # fmt: skip
BACKENDS = [slot.removeprefix("Sparse") for slot in SLOTS if slot.startswith("Sparse")][:16]
UNDEFINED_TOO = ("CompositeExplicitAutogradNonFunctional", "CompositeExplicitAutograd",
                 "CompositeImplicitAutograd")  # fmt: skip


def watched(slot, no_map=NO_MAP):
    """The backend keys whose kernels an autograd slot defers to."""
    if slot == "AutogradNestedTensor":
        return {f"NestedTensor{backend}" for backend in BACKENDS}
    if slot == "AutogradOther":
        alone = set(OTHER[:5])
        return alone | {f"{kind}{backend}" for kind in OTHER[5:] for backend in BACKENDS}
    backend = slot.removeprefix("Autograd")
    return {backend} if slot.startswith("Autograd") and backend not in no_map else set()


def cell_of(slot, kernels, fallbacks, *, no_map=NO_MAP, asks_rule_4=True, ambiguity=True):
    def fills(alias):
        extra = slot == "Undefined" and alias in UNDEFINED_TOO
        return alias in kernels and (slot in ALIASES[alias] or extra)

    if slot in kernels:
        return kernels[slot], "kernel"
    for alias in ("CompositeExplicitAutogradNonFunctional", "CompositeExplicitAutograd"):
        if fills(alias):
            return kernels[alias], "default backend kernel"
    if fills("CompositeImplicitAutogradNestedTensor"):
        return kernels["CompositeImplicitAutogradNestedTensor"], "nested kernel"
    has_own = watched(slot, no_map) & kernels.keys()
    if fills("CompositeImplicitAutograd"):
        if slot == "AutogradOther" and has_own and ambiguity:
            return ("ambiguous_autogradother", False), "ambiguous autogradother"
        if not asks_rule_4 or not (has_own or "CompositeExplicitAutograd" in kernels):
            return kernels["CompositeImplicitAutograd"], "math kernel"
    if fills("Autograd"):
        return kernels["Autograd"], "autograd kernel"
    if fills("FuncTorchBatchedDecomposition"):
        return kernels["FuncTorchBatchedDecomposition"], "batched kernel"
    return (fallbacks[slot], "backend fallback") if slot in fallbacks else None


def printed(kernel, reason):
    name, skips = kernel
    return f"{'fallthrough ' if skips else ''}{name} [{reason}]"


def row(registrations, fallbacks, prints=printed, **changed):
    kernels = {key: (kernel, skips) for key, kernel, skips in registrations}
    cells = {slot: cell_of(slot, kernels, fallbacks, **changed) for slot in SLOTS}
    return {slot: prints(*cell) for slot, cell in cells.items() if cell}


@answers.right("fill_the_row")
def fill_the_row(registrations, fallbacks):
    return row(registrations, fallbacks)


@answers.wrong("fill_the_row", "newest registration wins across keys")
def newest_across_keys(registrations, fallbacks):
    filled = row(registrations, fallbacks)
    for key, kernel, skips in registrations:
        for slot in {key} & set(SLOTS) or ALIASES.get(key, set()):
            filled[slot] = printed((kernel, skips), filled.get(slot, " [kernel]").split(" [")[-1])
            filled[slot] = filled[slot].rstrip("]") + "]"
    return filled


@answers.wrong("fill_the_row", "composite implicit even with a backend kernel")
def never_asks_rule_4(registrations, fallbacks):
    return row(registrations, fallbacks, asks_rule_4=False)


@answers.wrong("fill_the_row", "forgets the three missing backends of the autograd map")
def every_backend_mapped(registrations, fallbacks):
    return row(registrations, fallbacks, no_map=())


@answers.wrong("fill_the_row", "prints fallthrough as a kernel")
def without_fallthrough(registrations, fallbacks):
    return row(registrations, fallbacks, lambda kernel, reason: f"{kernel[0]} [{reason}]")


@answers.wrong("fill_the_row", "AutogradOther ambiguity ignored")
def without_ambiguity(registrations, fallbacks):
    return row(registrations, fallbacks, ambiguity=False)


# --- stale_cells

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


def refreshed(key):
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


def stale_cells(program, fallbacks, touched=refreshed):
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


answers.right("stale_cells")((stale_cells, call_slot))


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
    return stale_cells(program, fallbacks, touched=lambda key: SLOTS)


def computed_kernel(handle, slot, x):
    kernel = torch._C._dispatch_get_computed_kernel_for_dispatch_key(handle, slot)
    return kernel.call_boxed(torch._C.DispatchKeySet(slot), x)


def call_the_operator(handle, slot, x):
    return torch._C._dispatch_call_boxed(handle, x)


for why, pair in [
    ("none are stale", (none, call_slot)),
    ("all alias cells are stale", (every_alias_cell, call_slot)),
    ("reads the dump", (from_the_dump, call_slot)),
    ("calls the crashing boxed entry on a stale cell", (stale_cells, computed_kernel)),
    ("calls the crashing boxed entry on a stale cell", (stale_cells, call_the_operator)),
    (CONSTANT, (lambda program, fallbacks: {"AutogradCPU": (0, "fallback")}, call_slot)),
    ("catches every exception and returns a default", (stale_cells, catches(computed_kernel))),
]:
    answers.wrong("stale_cells", why)(pair)


@answers.wrong("stale_cells", FIRST, make=True)
def remembers_the_first_prediction():
    seen = []

    def first(program, fallbacks):
        seen.append(stale_cells(program, fallbacks))
        return seen[0]

    return first, call_slot


def test_the_examples_of_the_statements_are_right():
    assert slot(1 | 1 << 16 | 1 << 36) == 96 == SLOTS.index("AutogradCPU")
    assert fill_the_row([("CPU", "k", False)], {}) == {"CPU": "k [kernel]"}
    program = [("impl", 0, "CompositeImplicitAutograd"), ("impl", 1, "CompositeExplicitAutograd")]
    fallbacks = [str(slot) for slot in torch_tables.global_fallbacks()]
    assert stale_cells(program, fallbacks)["AutogradCPU"] == (0, "fallback")


test_answers = answers.tests()
