"""Threads: how much they can gain, how many there should be, and a pool that keeps the order."""

from typing import Any

from labkit.course.exercise import Case, Exercise, Hint, Raised, Rng, Stage, Wrong
from labkit.course.exercises._limits import PLAIN_PYTHON, TORCH_AND_LABKIT
from labkit.course.exercises._never_right import FIRST
from labkit.course.exercises._watched_workers import drive, nothing

NOTEBOOK = "5_optimization/3_cpu"

# --- best_gain


def _best_gain(python: int, free: int, threads: int) -> float:
    return min(threads, (python + free) / python)


def _judge_gain(case: Case, got: Any) -> Any:
    right = _best_gain(*case.inputs)
    number = isinstance(got, int | float) and not isinstance(got, bool)
    return None if number and abs(got - right) <= 1e-9 * right else Wrong("the gain", right)


def _a_frame(rng: Rng, size: int, few: bool = False) -> tuple[int, int, int]:
    python, free = rng.randint(1, 3 + size), rng.randint(0, 4 + 4 * size)
    most = max(1, (python + free) // python) if few else 4 + 2 * size
    return python, free, rng.randint(1, most)


best_gain = Exercise(
    id="cpu.best_gain",
    case=_a_frame,
    expected=_best_gain,
    judge=_judge_gain,
    rung="warm-up",
    minutes=4,
    cases=80,
    stages=(Stage("few threads", case=lambda rng, size: _a_frame(rng, size, True)),
            Stage("any number")),
    rules=PLAIN_PYTHON,
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint("So many times as fast, with {input}? Each frame's Python part is done by one thread "
             "at a time.", stage="any number", when=lambda e: e.value > e.right),
        Hint("There are fewer threads than that.", when=lambda e: e.value > e.inputs[2]),
        Hint("One thread needs python + free ms for a frame, not free alone.",
             when=lambda e: e.value == min(e.inputs[2], e.inputs[1] / e.inputs[0])),
        Hint("The result need not be a whole number.", when=lambda e: e.value == int(e.right)),
        "One thread needs python + free ms for each frame. Many threads need python ms at least.",
        "And the threads cannot be more times as fast than there are threads.",
    ),
    must_fail=("as many as threads", "forgets the threads", "free over python", "whole numbers",
               "the wrong way round", FIRST),
)  # fmt: skip

# --- workers_for


workers_for = Exercise(
    id="cpu.workers_for",
    case=lambda rng, size: (rng.randint(1, 2 + 4 * size), rng.randint(1, 2 + size)),
    expected=lambda cores, each: max(1, cores // each),
    rung="warm-up",
    minutes=2,
    cases=60,
    stages=(Stage("one thread each", case=lambda rng, size: (rng.randint(1, 2 + 4 * size), 1)),
            Stage("any")),
    rules=PLAIN_PYTHON,
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint("Somebody has to do the work: one worker at least.", when=lambda e: e.right == 1),
        Hint("These workers would compute with more threads than there are cores.",
             when=lambda e: e.value > e.right),
        "Each worker computes with `each` threads: how often does that go into the cores?",
    ),
    must_fail=("as many as cores", "no worker at all", "rounds up", "the difference", FIRST),
)  # fmt: skip

# --- thread_pipeline


def _judge(case: Case, got: Any) -> Any:
    if isinstance(got, Raised):
        return "thread_pipeline(setup, frames, workers, ahead) yields the prepared frames"
    count, workers, ahead, _, breaks, takes, _ = case.inputs
    whole, ended = list(range(count)), "in order"
    if breaks is not None and count:
        whole = [] if breaks == "setup" else whole[:breaks]
        ended = f"Broken: {'setup' if breaks == 'setup' else f'frame {breaks}'}"
    if takes is not None and takes <= len(whole):
        whole, ended = whole[:takes], "the reader left"
    if got["a frame waited for others in vain"]:
        return Wrong(f"while one frame takes long, the other workers go on, {ahead - 1} ahead")
    if got["frames"] != whole:
        return Wrong("every frame before the end, once, in order", whole)
    if got["ended"] != ended:
        return Wrong("how it ends", ended)
    if got["read too far ahead"]:
        return Wrong(f"at most {ahead} frames are read and not yet yielded")
    if got["a tool was used by another thread"] or got["made in the reader's thread"]:
        return Wrong("each worker makes its own tool, and uses no other")
    if got["tools"] > workers:
        return Wrong("each worker makes one tool", f"{workers} tools or fewer")
    if got["at work when the reader had left"]:
        return Wrong("when the reader has left, or an error came out, no thread is left at work")
    if got["threads left"]:
        return Wrong("no thread is left", 0)
    return None


def _a_film(rng: Rng, size: int, ends: bool = True) -> tuple[Any, ...]:
    workers = rng.randint(2, 3)
    ahead, count = workers + rng.randint(1, 3), rng.randint(0, 3 + 3 * size)
    slow = rng.randrange(count) if count and rng.chance(0.7) else None
    breaks = takes = None
    if ends and count and rng.chance(0.4):
        breaks = "setup" if rng.chance(0.3) else rng.randrange(count)
    if ends and count and rng.chance(0.4):
        takes = rng.randint(1, count)
    return count, workers, ahead, slow, breaks, takes, False


def _told(count: int, workers: int, ahead: int, slow: Any, breaks: Any, takes: Any,
          looks: bool) -> str:  # fmt: skip
    text = f"{count} frames, {workers} workers, ahead {ahead}"
    text += f"; frame {nothing(count)} is None" if count else ""
    text += f"; frame {slow} takes long" if slow is not None else ""
    if breaks is not None:
        text += "; setup raises" if breaks == "setup" else f"; frame {breaks} raises"
    return text + (f"; the reader leaves behind {takes} frames" if takes is not None else "")


thread_pipeline = Exercise(
    id="cpu.thread_pipeline",
    case=_a_film,
    judge=_judge,
    drive=drive,
    show=_told,
    minutes=15,
    cases=24,
    waits=4,
    stages=(
        Stage("in order", case=lambda rng, size: _a_film(rng, size, False), cases=8),
        Stage("few frames at a time", cases=3, case=lambda rng, size: (
            60, 2, 3 + size // 3, None, None, None, True)),
        Stage("errors", cases=8, case=lambda rng, size: (
            9 + size, 2, 4, None, "setup" if size % 3 == 1 else rng.randrange(9), None, False)),
        Stage("the reader leaves", cases=6, case=lambda rng, size: (
            30, 2, 4, None, None, rng.randint(1, 8), False)),
        Stage("together"),
    ),
    rules=("no torch, no labkit",),
    banned=TORCH_AND_LABKIT,
    processes=True,
    apart=True,
    hints=(
        Hint("pool.map, or a list of all futures, reads the film to its end at once; and a `for` "
             "over `frames` that yields before it hands in has read one too many. Hand in `ahead` "
             "frames; then one more for each that was yielded.",
             when=lambda e: "read and not yet" in e.property),
        Hint("An error in `initializer` breaks the pool, and is only written to the log. Let a "
             "worker make its tool when its first frame comes.",
             when=lambda e: "BrokenThreadPool" in e.got),
        Hint("An error was lost: it stays in its future until somebody asks for result().",
             when=lambda e: e.inputs[4] is not None and "how it ends" in e.property),
        Hint("The frames end before the one that is None: {input}. A frame may be anything.",
             when=lambda e: "every frame" in e.property
             and len(e.value["frames"]) == nothing(e.inputs[0])),
        Hint("{input}: frames went missing, or came in another order. Keep the futures in a deque, "
             "and take out the oldest one.", when=lambda e: "every frame" in e.property),
        Hint("A frame that takes long keeps the others from being handed in: do not wait for a "
             "whole group of frames.", when=lambda e: "takes long" in e.property),
        Hint("Only the threads of one pool of `workers` take frames. Each asks an attribute of "
             "`threading.local()` whether it has a tool already.",
             when=lambda e: "tool" in e.property),
        Hint("`with ThreadPoolExecutor(workers) as pool:` waits for its threads when it is left, "
             "also by an error or by close().", when=lambda e: "thread is left" in e.property),
        "Let the workers call a function of your own, which makes the tool when there is none.",
        "`deque` holds futures in the order of the frames; popleft().result() gives the oldest.",
    ),
    must_fail=(
        "submits all at once",
        "loses exceptions",
        "unordered",
        "deadlocks when the consumer stops early",
        "leaves its threads",
        "one group after another",
        "one worker",
        "a tool for each frame",
        "one tool for all",
        "the tools are made by the reader",
        "an initializer's error is lost",
        "a pool for each group",
        "a pool in each worker",
        "the reader does the work",
        "loses the tail",
        "one too many is read",
        "never shuts its pool down",
        "a frame None ends the stream",
    ),
)  # fmt: skip

EXERCISES = (best_gain, workers_for, thread_pipeline)
