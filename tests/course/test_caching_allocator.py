"""Right and wrong answers to the exercises of the caching allocator."""

from collections import Counter, defaultdict

from tests.course.answers import Answers

answers = Answers("caching_allocator")
FIRST = "remembers the answer of the first random case and returns it for all later cases"
CONSTANT = "returns the literal answer of the example in the statement"
SLOW = (
    "is right on small cases and exceeds the size limit on large ones (quadratic, recursive or "
    "waiting for ever)"
)
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


def splits(block, size):
    rest = block.size - size
    return rest >= 512 if block.pool == "small" else rest > MIB


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


def splits_always(block, size):
    return block.size - size >= 512


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
    ("splits leaving less than 1 MiB in the large pool", (choose, splits_always, merge)),
    ("merges across a segment border", (choose, splits, across)),
    ("merges a pending block", (choose, splits, with_pending)),
    (SLOW, (recursive, splits, merge)),
    (SLOW, (quadratic, splits, merge)),
]:
    answers.wrong("best_fit", why)(answer)


@answers.wrong("best_fit", FIRST, make=True)
def remembers_the_first_choice():
    kept = []

    def first(*request):
        kept.append(choose(*request))
        return kept[0]

    return first, splits, merge


# --- cause_and_cure

GROWING = "expandable_segments:True"


@answers.right("cause_and_cure")
def cause_and_cure(total):
    count = total // (40 * MIB)
    rest = total - count * 40 * MIB
    program = [("malloc", f"w{i}", 40 * MIB) for i in range(count)]
    program += [("free", f"w{i}") for i in range(count)]
    program += [("malloc", f"k{i}", 21 * MIB) for i in range(count)]
    return [*program, ("malloc", "last", rest + 20 * MIB)], GROWING


@answers.wrong("cause_and_cure", "asks for more than is left")
def too_much(total):
    program, cure = cause_and_cure(total)
    return [*program[:-1], ("malloc", "last", total)], cure


@answers.wrong("cause_and_cure", "frees nothing")
def frees_nothing(total):
    count = total // (40 * MIB)
    program = [("malloc", f"w{i}", 40 * MIB) for i in range(count)]
    return [*program, ("malloc", "last", 60 * MIB)], GROWING


@answers.wrong("cause_and_cure", "a cure that changes nothing")
def no_cure(total):
    return cause_and_cure(total)[0], "garbage_collection_threshold:0.8"


@answers.wrong("cause_and_cure", "a cure that changes nothing")
def fraction(total):
    return cause_and_cure(total)[0], "per_process_memory_fraction:1.0"


@answers.wrong("cause_and_cure", "pins every page, so that nothing cures it")
def pinned(total):
    count = total // (20 * MIB)
    names = [(f"a{i}", f"p{i}", f"b{i}") for i in range(count)]
    sizes = (8 * MIB, 4 * MIB, 8 * MIB)
    program = [("malloc", n, s) for group in names for n, s in zip(group, sizes, strict=True)]
    program += [("free", n) for a, _, b in names for n in (a, b)]
    return [*program, ("malloc", "last", 40 * MIB)], GROWING


@answers.wrong("cause_and_cure", "the same program for every device")
def one_program(total):
    return cause_and_cure(400 * MIB)


@answers.wrong("cause_and_cure", "an operation per 512 bytes")
def too_long(total):
    program = [("malloc", i, MIB) for i in range(total // MIB)]
    return [*program, *[("free", i) for i in range(0, total // MIB, 2)]] * 4, GROWING


# --- why_oom


def small_or_large(size):
    return "small" if -(-size // 512) * 512 <= MIB else "large"


def runs_of(blocks, idle):
    """The longest stretch of neighbours in these states."""
    longest = now = 0
    for block in blocks:
        now = now + block["size"] if block["state"] in idle else 0
        longest = max(longest, now)
    return longest


def is_default(segment):
    return tuple(segment["segment_pool_id"]) == (0, 0)


IDLE = ("inactive", "active_pending_free")


@answers.right("why_oom")
def why_oom(snapshot, size, stream, free):
    wanted = -(-size // 512) * 512
    segments = snapshot["segments"]
    growing = snapshot["allocator_settings"]["expandable_segments"]
    own = [s for s in segments if is_default(s) and s["segment_type"] == small_or_large(size)]
    for segment in own:
        if segment["stream"] == stream and runs_of(segment["blocks"], IDLE) >= wanted:
            return "pending", "synchronize"
    for segment in own:
        if runs_of(segment["blocks"], IDLE[:1]) >= wanted:
            return "stream", f"stream {segment['stream']}"
    whole = sum(s["total_size"] for s in segments if s["allocated_size"] == 0)
    private = [s for s in segments if not is_default(s) and s["allocated_size"] == 0]
    needed = wanted if growing or wanted < 10 * MIB else -(-wanted // (2 * MIB)) * 2 * MIB
    if private and free + whole >= max(needed, 2 * MIB):
        return "pool", "release_pool"
    idle = free + sum(s["total_size"] - s["allocated_size"] for s in segments if is_default(s))
    if idle < wanted:
        return "capacity", "less memory"
    return "fragmentation", "less memory" if growing else GROWING


@answers.wrong("why_oom", "always fragmentation")
def always_fragmentation(*case):
    return "fragmentation", GROWING


@answers.wrong("why_oom", "always lower the batch")
def always_less(*case):
    return why_oom(*case)[0], "less memory"


@answers.wrong("why_oom", "suggests a flag already on")
def always_the_flag(*case):
    cause, remedy = why_oom(*case)
    return cause, GROWING if cause == "fragmentation" else remedy


@answers.wrong("why_oom", "counts pending blocks as free")
def pending_is_free(snapshot, size, stream, free):
    for segment in snapshot["segments"]:
        for block in segment["blocks"]:
            if block["state"] == "active_pending_free":
                block = {**block, "state": "inactive"}
    cause, remedy = why_oom(snapshot, size, stream, free)
    return ("fragmentation", GROWING) if cause == "pending" else (cause, remedy)


@answers.wrong("why_oom", CONSTANT)
def pending_always(*case):
    return "pending", "synchronize"


# --- find_the_leak


def line_of(frames):
    return next((f["line"] for f in frames if f["filename"] == "train.py"), None)


def alive(entries, line=line_of):
    held = {}
    for entry in entries:
        if entry["action"] == "alloc":
            held[entry["addr"]] = line(entry["frames"])
        elif entry["action"] == "free_completed":
            held.pop(entry["addr"], None)
    return Counter(held.values())


@answers.right("find_the_leak")
def find_the_leak(snapshot):
    entries = snapshot["device_traces"][0]
    half, end = alive(entries[: len(entries) // 2]), alive(entries)
    grown = {line: end[line] - half[line] for line in end}
    line, more = max(grown.items(), key=lambda pair: pair[1])
    return line if more >= 3 and end[line] > 3 else None


def bytes_by_line(snapshot):
    total = defaultdict(int)
    for segment in snapshot["segments"]:
        for block in segment["blocks"]:
            if block["state"] != "inactive":
                total[line_of(block["frames"])] += block["size"]
    return total


@answers.wrong("find_the_leak", "names the line with the most live bytes")
def most_bytes(snapshot):
    total = bytes_by_line(snapshot)
    return max(total, key=total.get)


@answers.wrong("find_the_leak", "names the line with the most allocations")
def most_allocations(snapshot):
    entries = snapshot["device_traces"][0]
    lines = Counter(line_of(e["frames"]) for e in entries if e["action"] == "alloc")
    return lines.most_common(1)[0][0]


@answers.wrong("find_the_leak", "names the library's frame")
def innermost(snapshot):
    entries = snapshot["device_traces"][0]
    half, end = (alive(e, lambda f: f[0]["line"]) for e in (entries[: len(entries) // 2], entries))
    grown = {line: end[line] - half[line] for line in end}
    line, more = max(grown.items(), key=lambda pair: pair[1])
    return line if more >= 3 else None


@answers.wrong("find_the_leak", "flags the optimizer state")
def grows_at_all(snapshot):
    entries = snapshot["device_traces"][0]
    early, end = alive(entries[: len(entries) // 20]), alive(entries)
    line, more = max(((n, end[n] - early[n]) for n in end), key=lambda pair: pair[1])
    return line if more >= 3 else None


@answers.wrong("find_the_leak", "never says None")
def never_none(snapshot):
    entries = snapshot["device_traces"][0]
    half, end = alive(entries[: len(entries) // 2]), alive(entries)
    return max(end, key=lambda line: end[line] - half[line])


test_answers = answers.tests()
