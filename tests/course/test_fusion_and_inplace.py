"""Right answers pass, wrong ones fail: readers, folded weights, one kernel, memory used again."""

import torch

from labkit.course.exercises._never_right import CHANGES
from tests.course.answers import FIRST, Answers, first_hint

answers = Answers("fusion_and_inplace")


@answers.right("only_reader")
def readers(reads, value, reader):
    return [name for name, inputs in reads.items() if value in inputs] == [reader]


@answers.wrong("only_reader", "asks only whether the reader reads it")
def reads_it(reads, value, reader):
    return value in reads[reader]


@answers.wrong("only_reader", "forgets the result")
def no_result(reads, value, reader):
    found = [name for name, inputs in reads.items() if value in inputs and name != "result"]
    return found == [reader]


@answers.wrong("only_reader", "counts a value that is read twice as two readers")
def counts_reads(reads, value, reader):
    return reads[reader].count(value) == 1 == sum(one.count(value) for one in reads.values())


@answers.wrong("only_reader", "asks whether anybody reads it once")
def one_reader(reads, value, reader):
    return sum(value in inputs for inputs in reads.values()) == 1


@answers.right("last_read")
def last(steps, value):
    found = None
    for name, inputs in steps:
        if value in inputs:
            found = name
    return found


@answers.wrong("last_read", "returns the first reader")
def first_reader(steps, value):
    return next((name for name, inputs in steps if value in inputs), None)


@answers.wrong("last_read", "returns the last step")
def last_step(steps, value):
    return steps[-1][0]


@answers.wrong("last_read", "raises when nobody reads it")
def raises(steps, value):
    return [name for name, inputs in steps if value in inputs][-1]


def place(name):
    return "0" if name.startswith("s") else "i"


def body(steps, write="end", turned=False, load="once", place=place):
    lines, known = [], set()
    for made, operator, *inputs in steps:
        for name in dict.fromkeys(inputs):
            if name not in known:
                lines.append(f"const float {name} = p_{name}[{place(name)}];")
                known.add(name)
        a, b = reversed(inputs) if turned else inputs
        lines.append(f"const float {made} = {a} {operator} {b};")
        if load == "once":
            known.add(made)
        if write == "each":
            lines.append(f"p_out[i] = {made};")
    return lines if write == "each" else [*lines, f"p_out[i] = {made};"]


answers.right("pointwise_codegen")(lambda steps: body(steps))
answers.right("pointwise_codegen")(lambda steps: [line.replace(" = ", "=") for line in body(steps)])
answers.wrong("pointwise_codegen", "writes every step")(lambda steps: body(steps, write="each"))
answers.wrong("pointwise_codegen", "changes the two inputs round")(
    lambda steps: body(steps, turned=True)
)
answers.wrong("pointwise_codegen", "loads what an earlier step made")(
    lambda steps: body(steps, load="always")
)


answers.wrong("pointwise_codegen", "takes a single number for an array")(
    lambda steps: body(steps, place=lambda name: "i")
)
answers.wrong("pointwise_codegen", "takes every input for a single number")(
    lambda steps: body(steps, place=lambda name: "0")
)


@answers.wrong("pointwise_codegen", "spreads a single number over an array first")
def spreads(steps):
    single = dict.fromkeys(one for step in steps for one in step[2:] if one.startswith("s"))
    arrays = [f"p_{name}[i] = p_{name}[0];" for name in single]
    return [*arrays, *body(steps, place=lambda name: "i")]


@answers.wrong("pointwise_codegen", "breaks at 32 inputs")
def few_inputs(steps):
    inputs = {name for _, _, *read in steps for name in read} - {step[0] for step in steps}
    if len(inputs) >= 32:
        return ["p_out[i] = 0;"]
    return body(steps)


@answers.wrong("pointwise_codegen", "writes the first step")
def writes_first(steps):
    return [*body(steps)[:-1], f"p_out[i] = {steps[0][0]};"]


@answers.wrong("pointwise_codegen", "reads an input once per use")
def reads_each_use(steps):
    made = {step[0] for step in steps}
    lines = []
    for name, operator, *inputs in steps:
        a, b = (one if one in made else f"p_{one}[{place(one)}]" for one in inputs)
        lines.append(f"const float {name} = {a} {operator} {b};")
    return [*lines, f"p_out[i] = {name};"]


RANK = ["int", "float", "double"]


def the_larger(types):
    return max(types, key=RANK.index)


def promoted(kinds, single):
    """The type of a step on inputs of these kinds; single says which are single numbers."""
    arrays = [kind for kind, one in zip(kinds, single, strict=True) if not one]
    return arrays[0] if len(arrays) == 1 and arrays[0] != "int" else the_larger(kinds)


def typed(steps, types, rule=promoted, spread=False, result=None, load="once", write="end"):
    lines, types, known = [], dict(types), set()
    single = {name for name in types if name.startswith("s")}
    for made, operator, *inputs in steps:
        for name in dict.fromkeys(inputs):
            if name not in known:
                known.add(name)
                lines.append(f"const {types[name]} {name} = p_{name}[{place(name)}];")
        wide = rule([types[name] for name in inputs], [name in single for name in inputs])
        if set(inputs) <= single and not spread:
            single.add(made)
        types[made] = wide
        known.add(made)
        read = (
            f"p_{name}[{place(name)}]" if load == "each" and name[0] in "sx" else name
            for name in inputs
        )
        a, b = (f"({wide}){one}" for one in read)
        lines.append(f"const {wide} {made} = {a} {operator} {b};")
        if write == "each":
            lines.append(f"p_out[i] = {made};")
    end = [] if write == "each" else [f"p_out[i] = {made};"]
    return [*lines, *end], result or types[made]


TYPED = {
    "ignores promotion": lambda *given: typed(*given, rule=lambda kinds, single: "float"),
    "takes the type of the first input": lambda *given: typed(
        *given, rule=lambda kinds, single: kinds[0]
    ),
    "the larger type always wins": lambda *given: typed(
        *given, rule=lambda kinds, single: the_larger(kinds)
    ),
    "a single number never counts": lambda *given: typed(
        *given,
        rule=lambda kinds, single: the_larger(
            [k for k, one in zip(kinds, single, strict=True) if not one] or kinds
        ),
    ),
    "a step on two single numbers makes an array": lambda *given: typed(*given, spread=True),
    "always results in float": lambda *given: typed(*given, result="float"),
    "reads an input once per use": lambda *given: typed(*given, load="each"),
    "writes every step": lambda *given: typed(*given, write="each"),
}
answers.right("typed_codegen")(typed)
for words, wrong in TYPED.items():
    answers.wrong("typed_codegen", words)(wrong)


def folded(w, b, gamma, beta, mean, variance, eps, *,
           epsilon=True, under=True, root=True, taken=True, none=True, column=False,
           early=False):  # fmt: skip
    below = variance + (eps if epsilon and under else 1e-12)
    scale = gamma / (below.sqrt() + (0 if under else eps) if root else below)
    moved = -mean if b is None else b - mean
    if not taken or (b is None and not none):
        moved = torch.zeros_like(mean) if b is None else b
    bias = (moved + beta) * scale if early else moved * scale + beta
    inputs = [k % len(scale) for k in range(w.shape[1])]
    along = scale[inputs][None, :] if column else scale[:, None]
    return w * along[..., None, None], bias


answers.right("folded")(lambda *given: folded(*given))
for words, change in (
    ("ignores epsilon", {"epsilon": False}), ("forgets the mean", {"taken": False}),
    ("forgets the mean of a layer without a bias", {"none": False}),
    ("scales the weights by column", {"column": True}),
    ("adds beta before it scales", {"early": True}), ("forgets the root", {"root": False}),
    ("adds epsilon to the root", {"under": False}),
):  # fmt: skip
    answers.wrong("folded", words)(lambda *given, change=change: folded(*given, **change))


@answers.wrong("folded", CHANGES)
def into_the_weights(w, b, gamma, beta, mean, variance, eps):
    found = folded(w, b, gamma, beta, mean, variance, eps)
    return w.copy_(found[0]), found[1]


@answers.wrong("folded", CHANGES)
def into_the_mean(w, b, gamma, beta, mean, variance, eps):
    found = folded(w, b, gamma, beta, mean, variance, eps)
    mean.zero_()
    return found


@answers.right("folded")
def folded_by_hand(w, b, gamma, beta, mean, variance, eps):
    rows, shifts = [], []
    for k in range(len(w)):
        scale = gamma[k] / (variance[k] + eps) ** 0.5
        rows.append(w[k] * scale)
        shifts.append(((0 if b is None else b[k]) - mean[k]) * scale + beta[k])
    return torch.stack(rows), torch.stack(shifts)


def fold(reads, layers, norms, *, shared=True, train=True, layer_only=True):
    done = {}
    for name, (*numbers, training) in norms.items():
        layer = reads[name][0]
        readers = [one for one, inputs in reads.items() if layer in inputs]
        if (layer in layers or not layer_only) and (not shared or readers == [name])\
                and not (train and training):  # fmt: skip
            done[name] = folded(*layers[layer], *numbers)
    return done


answers.right("fold_norms")(lambda *given: fold(*given))
answers.wrong("fold_norms", "folds shared intermediates")(lambda *given: fold(*given, shared=False))
answers.wrong("fold_norms", "ignores train mode")(lambda *given: fold(*given, train=False))


answers.wrong("fold_norms", "takes all that is read for a layer")(
    lambda *given: fold(*given, layer_only=False)
)


@answers.wrong("fold_norms", "returns the layers' names")
def by_layer(reads, layers, norms):
    return {reads[name][0]: new for name, new in fold(reads, layers, norms).items()}


@answers.wrong("fold_norms", "matches by name order")
def in_a_row(reads, layers, norms):
    names = list(reads)
    moved = {**reads, **{name: [names[names.index(name) - 1]] for name in norms}}
    return fold(moved, layers, norms)


@answers.wrong("fold_norms", CHANGES)
def into_the_layers(reads, layers, norms):
    done = fold(reads, layers, norms)
    for name, new in done.items():
        layers[reads[name][0]] = new
    return done


@answers.wrong("fold_norms", CHANGES)
def into_the_tensors(reads, layers, norms):
    done = fold(reads, layers, norms)
    for name, (weight, _) in done.items():
        layers[reads[name][0]][0].copy_(weight)
    return done


@answers.wrong("fold_norms", CHANGES)
def takes_the_norms_out(reads, layers, norms):
    done = fold(reads, layers, norms)
    for name in done:
        del norms[name]
    return done


@answers.wrong("fold_norms", FIRST, make=True)
def remembers_fold():
    kept = []

    def answer(*given):
        kept.append(fold(*given))
        return kept[0]

    return answer


def in_place(steps, results, sizes, *, views=True, callers=True, size=True, larger=True,
             through=True, returned=True, itself=True):  # fmt: skip
    memory, done = {}, []
    theirs = {name for name, kind, _ in steps if kind == "input"}
    reads = [(place, one) for place, step in enumerate(steps) for one in step[2]]
    if returned:
        reads += [(len(steps), one) for one in results]
    for place, (name, kind, inputs) in enumerate(steps):
        memory[name] = memory[inputs[0]] if kind == "view" and views else name
        if kind != "op":
            continue
        first = inputs[0]
        mine = memory[first]
        needed = [
            one for at, one in reads
            if memory.get(one) == mine and (at > place or (itself and at == place and one != first))
        ]  # fmt: skip
        fits = sizes[name] == sizes[first] or (not larger and sizes[name] < sizes[first])
        if (callers and (mine if through else first) in theirs) or needed or (size and not fits):
            continue
        done.append(name)
    return done


answers.right("reinplace")(lambda *given: in_place(*given))
for words, without in (
    ("ignores views", "views"), ("writes graph inputs", "callers"), ("ignores the size", "size"),
    ("writes over an input that is larger", "larger"),
    ("writes over a view of an input", "through"), ("forgets what is returned", "returned"),
    ("overlooks that the step itself reads another view", "itself"),
):  # fmt: skip
    answers.wrong("reinplace", words)(
        lambda *given, without=without: in_place(*given, **{without: False})
    )


@answers.wrong("reinplace", "single-consumer rule")
def single_consumer(steps, results, sizes):
    def readers(value):
        return sum(value in inputs for _, _, inputs in steps) + (value in results)

    return [name for name, kind, _ in steps if kind == "op" and readers(name) == 1]


test_answers = answers.tests()


def test_the_hint_is_about_what_went_wrong():
    one, many = answers.exercises["folded"], answers.exercises["fold_norms"]
    assert "belong to the caller" in first_hint(many, into_the_layers)
    assert "belong to the caller" in first_hint(one, into_the_weights)
    assert "a norm that trains" in first_hint(many, lambda *g: fold(*g, train=False))
    assert "has another reader" in first_hint(many, lambda *g: fold(*g, shared=False))
    assert "no layer" in first_hint(many, lambda *g: fold(*g, layer_only=False))
    assert "names of norms" in first_hint(many, by_layer)
    for change in ("root", "under"):
        root = first_hint(one, lambda *g, change=change: folded(*g, **{change: False}))
        assert "square root" in root
    assert "A `b` of None" in first_hint(one, lambda *g: folded(*g, none=False))
    assert "the bias is not" in first_hint(one, lambda *g: folded(*g, taken=False))
    assert "counts the output channels" in first_hint(one, lambda *g: folded(*g, column=True))
    body_hint = first_hint(answers.exercises["pointwise_codegen"], reads_each_use)
    assert "read twice" in body_hint
    types = answers.exercises["typed_codegen"]
    assert "A single number beside" in first_hint(types, TYPED["the larger type always wins"])
    assert "Of two arrays" in first_hint(types, TYPED["ignores promotion"])
    assert "Only the last value" in first_hint(types, TYPED["writes every step"])
    itself = first_hint(answers.exercises["reinplace"], lambda *g: in_place(*g, itself=False))
    assert "by another name, too" in itself
    for change, words in (
        ("callers", "belongs to the caller"), ("through", "a view of it"),
        ("size", "another size"), ("larger", "another size"),
    ):  # fmt: skip
        hint = first_hint(
            answers.exercises["reinplace"],
            lambda *g, change=change: in_place(*g, **{change: False}),
        )
        assert words in hint


def test_what_went_wrong_is_drawn():
    for name, wrong in (
        ("fold_norms", lambda *g: fold(*g, shared=False)),
        ("reinplace", lambda *g: in_place(*g, views=False)),
        ("typed_codegen", TYPED["the larger type always wins"]),
    ):
        exercise = answers.exercises[name]
        case = exercise.make(5, exercise.cases - 1, exercise.sizes)
        right = exercise.right(case)
        view = exercise.picture(case, exercise.drive(wrong, *case.inputs) if exercise.drive
                                else wrong(*case.inputs), right)  # fmt: skip
        assert "GraphView" in repr(view)
