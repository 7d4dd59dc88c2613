"""Right and wrong answers to the exercises of the caching allocator."""

from labkit.course.exercise import Case
from labkit.course.exercises._never_right import TOO_SLOW
from tests.course.answers import Answers

answers = Answers("caching_allocator")
FIRST = "remembers the answer of the first random case and returns it for all later cases"
CONSTANT = "returns the literal answer of the example in the statement"
MIB = 1 << 20

# --- round_and_pool


def divisions_of(text):
    if "[" not in text:
        return [int(text)] * 16
    classes, first, last = [0] * 16, True, 0
    for entry in text.strip("[]").split(","):
        start, number = entry.split(":")
        if start == ">":
            classes[last + 1 :] = [int(number)] * (15 - last)
            continue
        last = int(start).bit_length() - 1
        if first:
            classes[:last] = [int(number)] * last
            first = False
        classes[last] = int(number)
    return classes


def options_of(settings):
    options, key, depth, word = {}, "", 0, ""
    for letter in settings + ",":
        depth += (letter == "[") - (letter == "]")
        if letter == ":" and not key:
            key, word = word, ""
        elif letter == "," and depth == 0:
            options[key], key, word = word, "", ""
        else:
            word += letter
    return options


def rounded(size, divisions):
    steps = divisions[min(max(size.bit_length() - 21, 0), 15)]
    if steps > 1 and size > 512 * steps:
        step = (1 << (size.bit_length() - 1)) // steps
        return -(-size // step) * step
    return -(-size // 512) * 512


def pool_and_segment(block, large=20):
    if block <= MIB:
        return block, "small", 2 * MIB
    if block < 10 * MIB:
        return block, "large", large * MIB
    return block, "large", -(-block // (2 * MIB)) * 2 * MIB


def parsed(settings):
    options = options_of(settings)
    divisions = divisions_of(options.get("roundup_power2_divisions", "0"))
    return divisions, int(options.get("large_segment_size_mb", 20))


@answers.right("round_and_pool")
def round_and_pool(size, settings):
    divisions, large = parsed(settings)
    return pool_and_segment(rounded(size, divisions), large)


@answers.wrong("round_and_pool", "rounds to powers of two")
def powers_of_two(size, settings):
    return pool_and_segment(max(512, 1 << (size - 1).bit_length()), parsed(settings)[1])


@answers.wrong("round_and_pool", "1 MiB in the large pool")
def one_mib_is_large(size, settings):
    block, pool, segment = round_and_pool(size, settings)
    return (block, "large", parsed(settings)[1] * MIB) if block == MIB else (block, pool, segment)


@answers.wrong("round_and_pool", "1 MiB in the large pool")
def asks_before_rounding(size, settings):
    block, _, segment = round_and_pool(size, settings)
    return block, "small" if size < MIB else "large", segment


@answers.wrong("round_and_pool", "ignores divisions")
def ignores_divisions(size, settings):
    return pool_and_segment(-(-size // 512) * 512, parsed(settings)[1])


@answers.wrong("round_and_pool", "interpolates sizes between listed classes")
def interpolates(size, settings):
    divisions, large = parsed(settings)
    filled, last = [], divisions[0]
    for number in divisions:
        last = number or last
        filled.append(last)
    return pool_and_segment(rounded(size, filled), large)


@answers.wrong("round_and_pool", "10 MiB treated as shared")
def ten_is_shared(size, settings):
    block, pool, segment = round_and_pool(size, settings)
    return block, pool, parsed(settings)[1] * MIB if block == 10 * MIB else segment


@answers.wrong("round_and_pool", "off by one at exact multiples of 512")
def off_by_one(size, settings):
    divisions, large = parsed(settings)
    block = rounded(size, divisions)
    return pool_and_segment(block + 512 if block == size else block, large)


@answers.wrong("round_and_pool", FIRST, make=True)
def remembers_the_first_size():
    kept = []
    return lambda size, settings: kept[0] if kept else kept.append(round_and_pool(size, settings))


@answers.wrong("round_and_pool", CONSTANT)
def the_example(size, settings):
    return 512, "small", 2 * MIB


# --- splits


@answers.right("splits")
def splits(block, size):
    rest = block.size - size
    return rest >= 512 if block.pool == "small" else rest > MIB


@answers.wrong("splits", "cuts whatever the rest")
def cuts_always(block, size):
    return block.size - size >= 512


@answers.wrong("splits", "cuts where nothing is left")
def cuts_nothing_off(block, size):
    return splits(block, size) or block.size == size


@answers.wrong("splits", "never cuts")
def cuts_never(block, size):
    return False


@answers.wrong("splits", "cuts off exactly 1 MiB in the large pool")
def cuts_one_mib(block, size):
    return block.size - size >= (512 if block.pool == "small" else MIB)


@answers.wrong("splits", "keeps 512 bytes in the small pool")
def keeps_512(block, size):
    return block.size - size > (512 if block.pool == "small" else MIB)


@answers.wrong("splits", "has the limit of the large pool for both")
def one_limit(block, size):
    return block.size - size > MIB


# --- choose


def free_ones(blocks, size, pool):
    return [b for b in blocks if b.state == "free" and b.pool == pool and b.size >= size]


def smallest_of(blocks):
    return min(blocks, key=lambda b: b.size, default=None)


@answers.right("choose")
def smallest(blocks, size, pool):
    return smallest_of(free_ones(blocks, size, pool))


@answers.wrong("choose", "takes the first that is large enough")
def first_free(blocks, size, pool):
    return next(iter(free_ones(blocks, size, pool)), None)


@answers.wrong("choose", "takes the largest")
def largest(blocks, size, pool):
    return max(free_ones(blocks, size, pool), key=lambda b: b.size, default=None)


@answers.wrong("choose", "takes a live block")
def takes_live(blocks, size, pool):
    return smallest_of([b for b in blocks if b.pool == pool and b.size >= size])


@answers.wrong("choose", "looks in the other pool, too")
def any_pool(blocks, size, pool):
    return smallest_of([b for b in blocks if b.state == "free" and b.size >= size])


@answers.wrong("choose", "refuses a block of exactly the size")
def strictly_larger(blocks, size, pool):
    return smallest_of(free_ones(blocks, size + 1, pool))


@answers.wrong("choose", "fails where nothing fits")
def no_default(blocks, size, pool):
    return min(free_ones(blocks, size, pool), key=lambda b: b.size)


# --- best_fit


def fitting(blocks, size, pool, stream):
    return [
        b
        for b in blocks
        if b.state == "free" and b.pool == pool and b.stream == stream and b.size >= size
    ]


def choose(blocks, size, pool, stream):
    found = fitting(blocks, size, pool, stream)
    return min(found, key=lambda b: (b.size, b.birth, b.address), default=None)


def joins(block, other):
    return other.state == "free" and other.birth == block.birth


def merge(blocks, block, joins=joins):
    at = blocks.index(block)
    first = at - 1 if at and joins(block, blocks[at - 1]) else at
    end = at + 2 if at + 1 < len(blocks) and joins(block, blocks[at + 1]) else at + 1
    size = sum(b.size for b in blocks[first:end])
    blocks[first:end] = [blocks[first]._replace(size=size, state="free", birth=block.birth)]
    return blocks


answers.right("best_fit")((choose, splits, merge))


def first_fit(blocks, size, pool, stream):
    return next(iter(fitting(blocks, size, pool, stream)), None)


def any_stream(blocks, size, pool, stream):
    found = [b for s in (0, 7) for b in fitting(blocks, size, pool, s)]
    return min(found, key=lambda b: (b.size, b.birth, b.address), default=None)


def by_address(blocks, size, pool, stream):
    return min(fitting(blocks, size, pool, stream), key=lambda b: (b.size, b.address), default=None)


def across(blocks, block):
    return merge(blocks, block, lambda a, b: b.state == "free" and b[3:5] == a[3:5])


def with_pending(blocks, block):
    return merge(blocks, block, lambda a, b: b.state != "live" and b.birth == a.birth)


def recursive(blocks, size, pool, stream):
    def walk(rest):
        if not rest:
            return None
        best, found = walk(rest[1:]), fitting(rest[:1], size, pool, stream)
        return choose([b for b in [*found, best] if b is not None], size, pool, stream)

    return walk(blocks)


def quadratic(blocks, size, pool, stream):
    for block in blocks:
        better = [b for b in blocks if choose([b, block], size, pool, stream) == b != block]
        if not better and fitting([block], size, pool, stream):
            return block
    return None


for why, answer in [
    ("first fit", (first_fit, splits, merge)),
    ("ignores stream", (any_stream, splits, merge)),
    ("ties by address only", (by_address, splits, merge)),
    ("splits leaving less than 1 MiB in the large pool", (choose, cuts_always, merge)),
    ("merges across a segment border", (choose, splits, across)),
    ("merges a pending block", (choose, splits, with_pending)),
    (TOO_SLOW, (recursive, splits, merge)),
    (TOO_SLOW, (quadratic, splits, merge)),
]:
    answers.wrong("best_fit", why)(answer)


@answers.wrong("best_fit", FIRST, make=True)
def remembers_the_first_choice():
    kept = []

    def first(*request):
        kept.append(choose(*request))
        return kept[0]

    return first, splits, merge


test_answers = answers.tests()


def test_the_map_opens_at_the_first_address_that_differs():
    program = [
        ("malloc", "a", 512, 0),
        ("free", "a"),
        ("malloc", "b", 512, 7),
        ("malloc", "c", 1, 0),
    ]
    exercise = answers.exercises["best_fit"]
    case = Case((program,))
    right = exercise.right(case)
    shared = exercise.drive((any_stream, splits, merge), program)
    drawn = exercise.picture(case, shared, right)
    assert right[0] == shared[0] and right[1] != shared[1]
    assert drawn.frame == 6
    assert exercise.picture(case, right, right) is None
