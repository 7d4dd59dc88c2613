import torch

from labkit.course.exercises import ecosystem
from labkit.course.exercises._recorded_calls import READS
from tests.course.answers import FIRST, Answers, first_hint

answers = Answers("ecosystem")


# --- checked_replay


@answers.right("checked_replay")
def checked_replay(tape, old, out, new):
    now = {id(old): new}
    for call, args, result in tape:
        got = call(*[now.get(id(one), one) for one in args])
        if torch.is_tensor(result):
            now[id(result)] = got
        elif got != result:
            raise ValueError(f"{call.__name__} gave {result}, and now {got}")
    return now[id(out)]


@answers.wrong("checked_replay", "never checks")
def replay(tape, old, out, new):
    now = {id(old): new}
    for call, args, result in tape:
        now[id(result)] = call(*[now.get(id(one), one) for one in args])
    return now[id(out)]


def replay_refusing(refused):
    def answer(tape, old, out, new):
        now = {id(old): new}
        for call, args, result in tape:
            got = call(*[now.get(id(one), one) for one in args])
            if torch.is_tensor(result):
                now[id(result)] = got
            elif refused(call, result, got):
                raise ValueError
        return now[id(out)]

    return answer


answers.wrong("checked_replay", "checks decisions alone")(
    replay_refusing(lambda call, was, is_now: call.__name__ == "__bool__" and was != is_now)
)
answers.wrong("checked_replay", "compares only whether it is true")(
    replay_refusing(lambda call, was, is_now: bool(was) != bool(is_now))
)


@answers.wrong("checked_replay", "refuses every other size")
def same_size(tape, old, out, new):
    if old.shape != new.shape:
        raise ValueError
    return checked_replay(tape, old, out, new)


@answers.wrong("checked_replay", "refuses other numbers")
def same_numbers(tape, old, out, new):
    if old.shape == new.shape and not old.equal(new):
        raise ValueError
    return checked_replay(tape, old, out, new)


@answers.wrong("checked_replay", "gives back what was recorded")
def recorded(tape, old, out, new):
    checked_replay(tape, old, out, new)
    return out


answers.wrong("checked_replay", "ignores text")(
    replay_refusing(lambda call, was, is_now: not isinstance(was, str) and was != is_now)
)
answers.wrong("checked_replay", "ignores lists")(
    replay_refusing(lambda call, was, is_now: not isinstance(was, list) and was != is_now)
)
answers.wrong("checked_replay", "compares numbers roughly")(
    replay_refusing(
        lambda call, was, is_now: (
            abs(was - is_now) > 0.4 if isinstance(was, float) else was != is_now
        )
    )
)


@answers.wrong("checked_replay", "returns what the last call gave")
def last_tensor(tape, old, out, new):
    checked_replay(tape, old, out, new)
    made = [result for _, _, result in tape if torch.is_tensor(result)]
    return checked_replay(tape, old, made[-1] if made else out, new)


@answers.wrong("checked_replay", "changes the tape")
def emptied(tape, old, out, new):
    got = checked_replay(tape, old, out, new)
    tape.clear()
    return got


@answers.wrong("checked_replay", "changes the tape")
def longer(tape, old, out, new):
    got = checked_replay([*tape], old, out, new)
    tape.append(tape[0])
    return got


@answers.wrong("checked_replay", "knows only the last result")
def one_by_one(tape, old, out, new):
    got = new
    for call, args, result in tape:
        now = call(got, *args[1:])
        if torch.is_tensor(result):
            got = now
        elif now != result:
            raise ValueError
    return got


@answers.wrong("checked_replay", FIRST, make=True)
def remembers():
    known = []

    def answer(tape, old, out, new):
        known.append(checked_replay(tape, old, out, new))
        return known[0]

    return answer


# --- needs_numbers


@answers.right("needs_numbers")
def needs_numbers(f, x):
    try:
        f(x.to("meta"))
    except RuntimeError:
        return True
    return False


@answers.wrong("needs_numbers", "takes another shape")
def of_three(f, x):
    return needs_numbers(f, torch.ones(3))


@answers.wrong("needs_numbers", "takes another dtype")
def always_single(f, x):
    return needs_numbers(f, torch.ones(x.shape))


@answers.wrong("needs_numbers", "takes another dtype")
def always_double(f, x):
    return needs_numbers(f, x.double())


@answers.wrong("needs_numbers", "flattens x")
def flattened(f, x):
    return needs_numbers(f, x.flatten())


@answers.wrong("needs_numbers", "says that no function needs them")
def never(f, x):
    return False


@answers.wrong("needs_numbers", "looks for reads alone: an operator may need numbers too")
def reads_alone(f, x):
    from labkit.course.exercises._recorded_calls import Recorder

    with Recorder() as recorder:
        f(x)
    return any(call.__name__ in READS for call, *_ in recorder.tape)


@answers.wrong("needs_numbers", "asks x itself")
def with_numbers(f, x):
    try:
        f(x)
    except RuntimeError:
        return True
    return False


# --- pieces


@answers.right("pieces")
def pieces(names):
    found = [[]]
    for name in names:
        if name in READS:
            found.append([])
        else:
            found[-1].append(name)
    return [piece for piece in found if piece]


@answers.wrong("pieces", "keeps empty pieces")
def with_empty(names):
    found = [[]]
    for name in names:
        found.append([]) if name in READS else found[-1].append(name)
    return found


@answers.wrong("pieces", "forgets the last piece")
def without_last(names):
    return pieces(names)[:-1]


@answers.wrong("pieces", "keeps the read in its piece")
def with_read(names):
    found = [[]]
    for name in names:
        found[-1].append(name)
        if name in READS:
            found.append([])
    return [piece for piece in found if piece]


@answers.wrong("pieces", "knows only some of READS")
def only_bool(names):
    names = [name for name in names if name == "__bool__" or name not in READS]
    return pieces(names)


@answers.wrong("pieces", "cuts at names that look like reads")
def every_dunder(names):
    return pieces(["item" if name.startswith("__") else name for name in names])


@answers.wrong("pieces", "cuts at names that look like reads")
def parts_of_names(names):
    return pieces(["item" if any(name in one for one in READS) else name for name in names])


@answers.wrong("pieces", "cuts at names that look like reads")
def names_with_reads(names):
    return pieces(["item" if any(one in name for one in READS) else name for name in names])


@answers.wrong("pieces", "cuts once only")
def once(names):
    place = next((at for at, name in enumerate(names) if name in READS), len(names))
    rest = [name for name in names[place:] if name not in READS]
    return [piece for piece in (names[:place], rest) if piece]


# --- explain_the_break


def pick(x):
    return x * 2 if x.sum() > 0 else x - 10


def limit(x, most):
    norm = float(x.norm())
    return x * (most / norm) if norm > most else x


def log(x, seen):
    y = x * 2
    seen.append(float(y.sum()))
    return y + 1


def first(x, most):
    found = [place for place, number in enumerate(x.tolist()) if number > most]
    return found[0] if found else len(x)


ORIGINALS = pick, limit, log, first


def one_pick(x):
    return torch.where(x.sum() > 0, x * 2, x - 10)


def one_limit(x, most):
    return x * (most / x.norm()).clamp(max=1)


def one_log(x, seen):
    y = x * 2
    seen.append(y.sum())
    return y + 1


def one_first(x, most):
    return ((x > most).cumsum(0) == 0).sum()


RIGHT = one_pick, one_limit, one_log, one_first
answers.right("explain_the_break")(RIGHT)


def limit_by_where(x, most):
    norm = x.norm()
    return torch.where(norm > most, x * most / norm, x)


def first_by_argmax(x, most):
    above = x > most
    return torch.where(above.any(), above.int().argmax(), len(x))


def pick_by_factor(x):
    up = (x.sum() > 0).float()
    return up * x * 2 + (1 - up) * (x - 10)


answers.right("explain_the_break")((pick_by_factor, limit_by_where, one_log, first_by_argmax))


def wrong(why, **changed):
    found = dict(zip(ecosystem.NAMES, RIGHT, strict=True)) | changed
    answers.wrong("explain_the_break", why)(tuple(found.values()))


wrong("decides after all is computed", pick=lambda x: (x - 10, x * 2)[bool(x.sum() > 0)])
wrong("removes the side effect", log=lambda x, seen: x * 2 + 1)
wrong("special-cases the sample input", pick=lambda x: x * 2 if x.shape[0] != 2 else x - 10)
wrong("disables capture", pick=torch.compiler.disable(pick))
wrong("disables capture", limit=torch._dynamo.disable(limit, recursive=False))
wrong(
    "makes a NaN of a norm of 0",
    limit=lambda x, m: x * torch.where(x.norm() > m, 1, 1) * m / x.norm(),
)
wrong("returns the literal answer of the example in the statement", first=lambda x, most: 1)


@torch.compiler.disable
def elsewhere(x):
    return pick(x)


wrong("moves work outside the function", pick=lambda x: elsewhere(x))


@torch.library.custom_op("labkit_hidden::pick", mutates_args=())
def hidden(x: torch.Tensor) -> torch.Tensor:
    return pick(x)


hidden.register_fake(torch.empty_like)
wrong("moves work outside the function", pick=lambda x: torch.ops.labkit_hidden.pick(x))
wrong("moves work outside the function", pick=lambda x: hidden(x))


def log_in_place(x, seen):
    y = x.mul_(2)
    seen.append(y.sum())
    return y + 1


wrong("writes into x", log=log_in_place)
wrong("takes a number for above that is equal", first=lambda x, m: ((x >= m).cumsum(0) == 0).sum())
wrong("knows five places", first=lambda x, m: torch.where(x > m, torch.arange(len(x)), 5).min())
wrong("decides at another sum", pick=lambda x: torch.where(x.sum() > 0.5, x * 2, x - 10))
wrong("forgets that no number may be above", first=lambda x, m: (x > m).int().argmax())


def catches(x):
    try:
        return pick(x)
    except Exception:
        return x * 2


wrong("catches every exception and returns a default", pick=catches)


test_answers = answers.tests()


def test_a_hint_says_what_the_failing_case_shows():
    exercise = ecosystem.explain_the_break
    assert "torch.where" in first_hint(exercise, (pick, *RIGHT[1:]))
    assert "Nothing" in first_hint(exercise, (*RIGHT[:3], lambda x, most: 1))


def test_the_line_that_cuts_is_named():
    seen = ecosystem.in_one_program(ORIGINALS, ("first",), [[1.0]], 1.5)
    line = "found = [place for place, number in enumerate(x.tolist()) if number > most]"
    assert seen["first"]["programs"] == f"cut at: {line}"
