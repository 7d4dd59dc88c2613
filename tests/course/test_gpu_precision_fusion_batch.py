"""Right and wrong answers to the exercises on mixed precision, fusion and batches."""

import math
import statistics

import torch
from torch import nn

from tests.course.answers import Answers, first_hint

answers = Answers("gpu_precision_fusion_batch")

# --- bytes_of_step


@answers.right("bytes_of_step")
def bytes_of_step(weights, kept, sixteen):
    return 16 * weights + (2 * (kept + weights) if sixteen else 4 * kept)


@answers.wrong("bytes_of_step", "halves everything")
def halves(weights, kept, sixteen):
    return (16 * weights + 4 * kept) // (2 if sixteen else 1)


@answers.wrong("bytes_of_step", "forgets the copies")
def no_copies(weights, kept, sixteen):
    return 16 * weights + (2 if sixteen else 4) * kept


@answers.wrong("bytes_of_step", "forgets what Adam remembers")
def no_adam(weights, kept, sixteen):
    return 8 * weights + (2 * (kept + weights) if sixteen else 4 * kept)


@answers.wrong("bytes_of_step", "has no 32-bit case")
def always_sixteen(weights, kept, sixteen):
    return 18 * weights + 2 * kept


# --- mixed_step


def made(clear="first", autocast=True, convert=False, step="last"):
    def mixed_step(model, optimizer, x, y):
        if convert:
            model.bfloat16()
            x, y = x.bfloat16(), y.bfloat16()
        if clear == "first":
            optimizer.zero_grad()
        if step == "first":
            optimizer.step()
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        if clear == "late":
            optimizer.zero_grad()
        if step == "last":
            optimizer.step()
        if clear == "last":
            optimizer.zero_grad()

    return mixed_step


@answers.wrong("mixed_step", "goes backward inside of autocast")
def all_inside(model, optimizer, x, y):
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.bfloat16):
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()


answers.right("mixed_step")(made())
answers.wrong("mixed_step", "never clears the gradients")(made(clear="never"))
answers.wrong("mixed_step", "clears them after its step, not before")(made(clear="last"))
answers.wrong("mixed_step", "clears them before the optimizer has used them")(made(clear="late"))
answers.wrong("mixed_step", "computes in 32 bits")(made(autocast=False))
answers.wrong("mixed_step", "turns the weights into 16 bits")(made(convert=True))
answers.wrong("mixed_step", "never steps")(made(step="never"))
answers.wrong("mixed_step", "steps before the gradients are there")(made(step="first"))


def test_each_mistake_of_a_step_gets_its_own_hint():
    exercise = answers.exercises["mixed_step"]
    old = first_hint(exercise, made(clear="last"))
    assert "went backward before you" in old and "seed" not in old
    assert "ends before backward" in first_hint(exercise, all_inside)
    assert "in 32 bits" in first_hint(exercise, made(autocast=False))


# --- traffic


@answers.right("traffic")
def traffic(steps, sizes):
    made, read = {out for out, _ in steps}, {name for _, inputs in steps for name in inputs}
    eager = sum(sizes[name] for out, inputs in steps for name in {out, *inputs})
    return eager, sum(sizes[name] for name in made ^ read)


@answers.wrong("traffic", "two passes for every chain")
def two_passes(steps, sizes):
    return traffic(steps, sizes)[0], sizes["x"] + sizes[steps[-1][0]]


@answers.wrong("traffic", "reads a tensor twice that stands twice in a step")
def every_mention(steps, sizes):
    eager = sum(sizes[name] for out, inputs in steps for name in (out, *inputs))
    return eager, traffic(steps, sizes)[1]


@answers.wrong("traffic", "reads an input again for every step that uses it")
def again(steps, sizes):
    made = {out for out, _ in steps}
    read = [name for _, inputs in steps for name in set(inputs) - made]
    written = made - {name for _, inputs in steps for name in inputs}
    return traffic(steps, sizes)[0], sum(sizes[name] for name in [*read, *written])


@answers.wrong("traffic", "counts every input as large as the film")
def all_large(steps, sizes):
    return traffic(steps, dict.fromkeys(sizes, sizes["x"]))


@answers.wrong("traffic", "writes what lies between the steps")
def writes_all(steps, sizes):
    made, read = {out for out, _ in steps}, {name for _, inputs in steps for name in inputs}
    return traffic(steps, sizes)[0], sum(sizes[name] for name in made | (read - made))


@answers.wrong("traffic", "counts arithmetic")
def arithmetic(steps, sizes):
    eager = sum(len(inputs) * sizes[out] for out, inputs in steps)
    return eager, traffic(steps, sizes)[1]


@answers.wrong("traffic", "writes the last result only")
def last_only(steps, sizes):
    made, read = {out for out, _ in steps}, {name for _, inputs in steps for name in inputs}
    return traffic(steps, sizes)[0], sum(sizes[n] for n in read - made) + sizes[steps[-1][0]]


# --- batch_search


def fits(run, batch, training, error=torch.OutOfMemoryError):
    try:
        if training:
            run(batch).backward()
        else:
            run(batch)
    except error:
        return False
    return True


def search(run, training, fits=fits):
    good, bad = 0, None
    while bad is None:
        batch = max(1, 2 * good)
        if fits(run, batch, training):
            good = batch
        else:
            bad = batch
    while bad - good > 1:
        batch = (good + bad) // 2
        good, bad = (batch, bad) if fits(run, batch, training) else (good, batch)
    return good or None


@answers.right("batch_search")
def batch_search(run, training):
    return search(run, training)


@answers.wrong("batch_search", "stops at 128")
def stops_at_128(run, training):
    low, high, best = 1, 128, None
    while low <= high:
        middle = (low + high) // 2
        if fits(run, middle, training):
            best, low = middle, middle + 1
        else:
            high = middle - 1
    return best


@answers.wrong("batch_search", "catches every RuntimeError")
def any_runtime_error(run, training):
    return search(run, training, lambda *trial: fits(*trial, RuntimeError))


@answers.wrong("batch_search", "forward only when training is asked")
def forward_only(run, training):
    return search(run, False)


@answers.wrong("batch_search", "backward when nothing is trained")
def always_trains(run, training):
    return search(run, True)


@answers.wrong("batch_search", "keeps the error of a failed step")
def keeps_the_error(run, training):
    errors = []

    def trial(run, batch, training):
        try:
            result = run(batch)
            if training:
                result.backward()
        except torch.OutOfMemoryError as error:
            errors.append(error)
            return False
        return True

    return search(run, training, trial)


@answers.wrong("batch_search", "holds the result of the trial before")
def holds(run, training):
    kept = [None]

    def trial(run, batch, training):
        try:
            kept[0] = run(batch)
            if training:
                kept[0].backward()
        except torch.OutOfMemoryError:
            return False
        return True

    return search(run, training, trial)


@answers.wrong("batch_search", "answers 1 when nothing fits")
def at_least_one(run, training):
    return search(run, training) or 1


@answers.wrong("batch_search", "only doubles")
def doubles(run, training):
    batch = 0
    while fits(run, max(1, 2 * batch), training):
        batch = max(1, 2 * batch)
    return batch or None


@answers.wrong("batch_search", "tries one after the other")
def one_by_one(run, training):
    batch = 0
    while fits(run, batch + 1, training):
        batch += 1
    return batch or None


@answers.wrong("batch_search", "catches every exception and returns a default")
def catches(run, training):
    try:
        return search(run, training)
    except Exception:
        return None


@answers.wrong(
    "batch_search",
    "remembers the answer of the first random case and returns it for all later cases",
    make=True,
)
def remembers_the_first():
    kept = []

    def batch_search(run, training):
        if not kept:
            kept.append(search(run, training))
        return kept[0]

    return batch_search


def test_each_mistake_of_a_search_gets_its_own_hint():
    exercise = answers.exercises["batch_search"]
    assert "Which class" in first_hint(exercise, any_runtime_error)
    assert "None" in first_hint(exercise, at_least_one)
    assert "Too many trials" in first_hint(exercise, one_by_one)
    assert "still held by a name" in first_hint(exercise, holds)
    assert "whole step" in first_hint(exercise, forward_only)
    assert "whole step" in first_hint(exercise, always_trains)
    assert "step that failed" in first_hint(exercise, keeps_the_error)


# --- amp_benefit


def benefit(runs, keep=lambda run: not run["warm_up"] and not run["tf32"], pairs=True, turn=False):
    fair = [run for run in runs if keep(run)]
    of = {
        name: {run["turn"]: run for run in fair if run["precision"] == name}
        for name in ("float32", "bfloat16")
    }
    both = [(of["float32"][turn], of["bfloat16"][turn]) for turn in of["float32"]]
    if turn:
        both = [(b, a) for a, b in both]
    ratios = sorted(a["seconds"] / b["seconds"] for a, b in both)
    count = len(ratios)
    told = count >= 6 and fair[0]["device"] != "emulator"
    middle = statistics.median(ratios)
    if not pairs:
        middle = sum(a["seconds"] for a, _ in both) / sum(b["seconds"] for _, b in both)
    return {
        "faster": middle if told else None,
        "at least": ratios[1 if count >= 9 else 0] if told else None,
        "bytes": statistics.median(b["kept_bytes"] / a["kept_bytes"] for a, b in both),
        "loss": statistics.median(b["loss"] - a["loss"] for a, b in both),
    }


@answers.right("amp_benefit")
def amp_benefit(runs):
    return benefit(runs)


@answers.wrong("amp_benefit", "takes the warm-up in")
def with_warm_up(runs):
    return benefit(runs, keep=lambda run: not run["tf32"])


@answers.wrong("amp_benefit", "compares with another setting")
def with_tf32(runs):
    return benefit(sorted(runs, key=lambda run: run["tf32"]), keep=lambda run: not run["warm_up"])


@answers.wrong("amp_benefit", "means of all, not pairs")
def means(runs):
    return benefit(runs, pairs=False)


@answers.wrong("amp_benefit", "time from the emulator")
def emulated(runs):
    return benefit([{**run, "device": "cpu"} for run in runs])


@answers.wrong("amp_benefit", "a time from too few pairs")
def few(runs):
    found = benefit(runs)
    if found["faster"] is None and runs[0]["device"] == "cpu":
        found["faster"] = found["at least"] = 1.0
    return found


@answers.wrong("amp_benefit", "gives nan where no time can be told")
def not_a_time(runs):
    found = benefit(runs)
    return {name: math.nan if one is None else one for name, one in found.items()}


@answers.wrong("amp_benefit", "turns the ratio round")
def upside_down(runs):
    return benefit(runs, turn=True)


@answers.wrong("amp_benefit", "one run of each")
def one_run(runs):
    found = benefit(runs)
    of = {run["precision"]: run for run in runs if run["turn"] == 1 and not run["tf32"]}
    if found["faster"] is not None:
        found["faster"] = of["float32"]["seconds"] / of["bfloat16"]["seconds"]
    return found


@answers.wrong("amp_benefit", "memory from parameters only")
def of_the_parameters(runs):
    return benefit([{**run, "kept_bytes": run["parameter_bytes"]} for run in runs])


@answers.wrong("amp_benefit", "memory of the parameters, too")
def with_parameters(runs):
    both = [{**run, "kept_bytes": run["kept_bytes"] + run["parameter_bytes"]} for run in runs]
    return benefit(both)


def difference_of_medians(runs):
    fair = [run for run in runs if not run["warm_up"] and not run["tf32"]]
    losses = {
        name: statistics.median(run["loss"] for run in fair if run["precision"] == name)
        for name in ("float32", "bfloat16")
    }
    return {**benefit(runs), "loss": losses["bfloat16"] - losses["float32"]}


def test_a_loss_that_alone_is_wrong_gets_its_own_hint():
    exercise = answers.exercises["amp_benefit"]
    assert "Only the loss is wrong" in first_hint(exercise, difference_of_medians)
    assert "Pair the runs" in first_hint(exercise, means)
    assert "the parameters stay" in first_hint(exercise, of_the_parameters)


def loss_outside(model, optimizer, x, y):
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.bfloat16):
        result = model(x)
    nn.functional.mse_loss(result, y).backward()
    optimizer.step()


answers.right("mixed_step")(loss_outside)

test_answers = answers.tests()
