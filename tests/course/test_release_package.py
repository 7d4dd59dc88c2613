import inspect
from dataclasses import replace
from pathlib import Path

from labkit.course.checking.stages import stage_exercises
from labkit.course.exercises._never_right import CONSTANT, TOO_SLOW
from labkit.course.exercises.release_package import look_up
from labkit.course.libraries import address_of, holder_of, short
from tests.course.answers import CATCHES, Answers, first_hint

answers = Answers("release_package")

# --- bytes of a folder


@answers.right("by_folder")
def by_folder(files):
    found = {}
    for path, size in files:
        folder = "/".join(path.split("/")[:2])
        found[folder] = found.get(folder, 0) + size
    return found


@answers.wrong("by_folder", "counts files")
def files_of_a_folder(files):
    return by_folder([(path, 1) for path, _ in files])


@answers.wrong("by_folder", "keeps the last file alone")
def last_file(files):
    return {"/".join(path.split("/")[:2]): size for path, size in files}


@answers.wrong("by_folder", "takes the first part alone")
def first_part(files):
    return {key: sum(s for p, s in files if p.startswith(key)) for key in ("torch", "torchgen")}


@answers.wrong("by_folder", "takes every folder apart")
def every_folder(files):
    found = {}
    for path, size in files:
        folder = path.rpartition("/")[0]
        found[folder] = found.get(folder, 0) + size
    return found


# --- who needs whom


@answers.right("direct")
def direct(name, brought):
    later = {far for other in brought[name] for far in brought[other]}
    return sorted(set(brought[name]) - later)


for why, answer in [
    ("returns all that came along", lambda name, brought: brought[name]),
    (
        "looks at the first one alone",
        lambda name, brought: sorted(
            set(brought[name]) - {far for other in brought[name][:1] for far in brought[other]}
        ),
    ),
    (
        "returns the ends, which bring nothing",
        lambda name, brought: sorted(other for other in brought[name] if not brought[other]),
    ),
]:
    answers.wrong("direct", why)(answer)

# --- the loader's order


@answers.right("load_order")
def load_order(name, needs):
    order, seen = [], set()

    def load(one):
        if one in seen:
            return
        seen.add(one)
        if one not in needs:
            raise FileNotFoundError(one)
        for other in needs[one]:
            load(other)
        order.append(one)

    load(name)
    return order


@answers.wrong("load_order", "sorts by name")
def by_name(name, needs):
    return sorted(load_order(name, needs))


@answers.wrong("load_order", "starts with the library itself")
def itself_first(name, needs):
    return load_order(name, needs)[::-1]


@answers.wrong("load_order", "ignores what is needed by what is needed")
def one_step(name, needs):
    if any(other not in needs for other in needs[name]):
        raise FileNotFoundError("libgone")
    return [*needs[name], name]


@answers.wrong("load_order", "loops for ever on a circle")
def without_seen(name, needs):
    if name not in needs:
        raise FileNotFoundError(name)
    order = []
    for other in needs[name]:
        order += [one for one in without_seen(other, needs) if one not in order]
    return [*order, name]


@answers.wrong("load_order", "names a library twice")
def twice(name, needs):
    order = load_order(name, needs)
    return [*order, *needs[name], name] if needs[name] else order


@answers.wrong("load_order", TOO_SLOW)
def every_way(name, needs, above=()):
    if name not in needs:
        raise FileNotFoundError(name)
    order = []
    for other in needs[name]:
        if other not in above:
            order += [one for one in every_way(other, needs, (*above, name)) if one not in order]
    return [*(one for one in order if one != name), name]


@answers.wrong("load_order", "leaves out what is missing")
def without_the_missing(name, needs):
    known = {one: [other for other in others if other in needs] for one, others in needs.items()}
    return load_order(name, known)


@answers.wrong("load_order", CONSTANT)
def the_example(name, needs):
    return ["c", "b", "a"]


def test_many_ways_to_one_library_have_a_hint_of_their_own():
    graph = dict(stage_exercises(answers.exercises["load_order"]))["graph"]
    assert "twice as many" in first_hint(replace(graph, seconds=1.0), every_way)


# --- where a function lives


@answers.right("where")
def where(name):
    function = look_up(name)
    if not hasattr(function, "__code__"):
        return "compiled", short(holder_of(address_of(function)))
    path = Path(inspect.unwrap(function).__code__.co_filename)
    return "python", "/".join(path.parts[-2:])


def is_compiled(name):
    return not hasattr(look_up(name), "__code__")


@answers.wrong("where", "follows no wrapper")
def the_decorator(name):
    if is_compiled(name):
        return where(name)
    return "python", "/".join(Path(look_up(name).__code__.co_filename).parts[-2:])


@answers.wrong("where", "asks for the module it says it is in")
def by_module(name):
    if is_compiled(name):
        return where(name)
    return "python", look_up(name).__module__.replace(".", "/") + ".py"


for why, answer in [
    (
        "guesses from the name",
        lambda name: (
            ("python", "nn/functional.py") if "functional" in name else ("compiled", "torch_python")
        ),
    ),
    (
        "says that all that is compiled is in torch_cpu",
        lambda name: ("compiled", "torch_cpu") if is_compiled(name) else where(name),
    ),
    (
        "says that all that is compiled is in torch_python",
        lambda name: ("compiled", "torch_python") if is_compiled(name) else where(name),
    ),
    ("says that everything is compiled", lambda name: ("compiled", "torch_python")),
]:
    answers.wrong("where", why)(answer)


@answers.wrong("where", "takes the file of the module that the name begins with")
def the_file_of_the_module(name):
    if is_compiled(name):
        return where(name)
    module = look_up(name.rpartition(".")[0])
    return "python", "/".join(Path(inspect.getfile(module)).parts[-2:])


def test_an_alias_lives_where_it_was_written():
    assert "may be an alias" in first_hint(answers.exercises["where"], the_file_of_the_module)


@answers.wrong("where", CATCHES)
def never_raises(name):
    try:
        return "python", look_up(name).__file__
    except Exception:
        return "compiled", "torch_python"


test_answers = answers.tests()
