"""Why each block was chosen: what was looked at, what was rejected, which rule decided.

Plain data, one dict per decision, for a reader or a widget. Every dict has

    kind    "malloc", "free", "completed" (a pending block became free) or "empty_cache"
    events  [first, end): the trace entries it caused, by their number since recording began
    rule    which rule decided, a key of `RULES`
    why     the same as a sentence with sizes
    steps   what the device was asked for or given back meanwhile: {rule, address, size}

A malloc adds request, rounded, stream, pool, pool_id, chosen, split_at, rest and candidates: the
free and pending blocks of its pool in search order, each {address, size, stream, birth, verdict},
a verdict being a key of `VERDICTS`. The others add address, size and stream of the block.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from labkit.memory.block import FREE, PENDING, AllocParams, Block, BlockPool, Segment
from labkit.memory.history import Action
from labkit.memory.out_of_memory import OutOfMemoryError
from labkit.memory.settings import AllocatorSettings
from labkit.memory.sizes import told_size

RULES = {
    "best_fit": "the first block of its stream that is large enough",
    "new_segment": "nothing cached fits: the device gave a new segment",
    "grown_segment": "nothing cached fits: an expandable segment got more pages",
    "released_first": "the device was full: cached memory went back before it gave more",
    "borrowed": "the device was full: a private pool lent a free block",
    "out_of_memory": "nothing that could be released made room",
    "whole_segment": "joined with its free neighbours it is a whole segment again",
    "joined": "joined with its free neighbours",
    "not_joined": "no neighbour is free",
    "pending": "another stream still uses it: free once the events of its streams complete",
    "emptied": "everything that nothing uses went back to the device",
}

VERDICTS = {
    "chosen": "taken",
    "pending": "another stream still works on it",
    "other_stream": "belongs to another stream",
    "too_small": "too small",
    "larger": "fits, but a smaller block fits as well",
    "younger_segment": "as large, but its segment was created later",
    "higher_address": "as large and in the same segment, but at a higher address",
    "grows_more": "fits, but a later block would reach less far into unmapped room",
    "oversize": "never split (max_split_size): kept for larger requests",
    "too_large": "too much would be wasted (max_non_split_rounding)",
    "not_growing": "fits, but expandable segments are switched off",
    "refused": "fits, but the search ended at a block before it that may not be used",
}


@dataclass
class _Open:
    """A decision that is being made. An `empty_cache` has neither params nor settings."""

    entry: dict[str, Any]
    params: AllocParams | None = None
    settings: AllocatorSettings | None = None


class DecisionLog:
    """The decisions of one allocator since `explain()`.

    segments         of the allocator, by address
    events_recorded  asked for the number of trace entries so far
    most_candidates  a malloc lists at most that many around its choice; None: all

    A callback may make a request while another one is served: the inner one is told first.
    """

    def __init__(
        self,
        segments: Mapping[int, Segment],
        events_recorded: Callable[[], int],
        most_candidates: int | None = None,
    ) -> None:
        self.entries: list[dict[str, Any]] = []
        self._segments = segments
        self._events_recorded = events_recorded
        self._most = most_candidates
        self._next_event = events_recorded()
        self._open: list[_Open] = []

    def search(self, params: AllocParams, settings: AllocatorSettings) -> None:
        """A request is about to look for a block."""
        pool = params.pool
        entry = {
            "kind": "malloc",
            "events": [self._next_event, self._next_event],
            "request": params.requested_size,
            "rounded": params.size,
            "stream": params.stream,
            "pool": "small" if pool.is_small else "large",
            "pool_id": pool.id,
            "candidates": self._candidates(pool),
            "steps": [],
        }
        self._open.append(_Open(entry, params, settings))

    def search_again(self, params: AllocParams) -> None:
        """The open request looks once more, at what is free by now."""
        self._open[-1].entry["candidates"] = self._candidates(params.pool)

    def _candidates(self, pool: BlockPool) -> list[dict[str, Any]]:
        pending = [
            block
            for segment in self._segments.values()
            if segment.pool is pool
            for block in segment.blocks()
            if block.state == PENDING
        ]
        in_order = sorted(
            pool.free_blocks() + pending,
            key=lambda block: (
                block.segment.stream,
                block.size,
                block.segment.birth,
                block.address,
            ),
        )
        return [
            {
                "address": block.address,
                "size": block.size,
                "stream": block.segment.stream,
                "birth": block.segment.birth,
                "verdict": "pending" if block.state == PENDING else "",
                "grows": block.segment.expandable is not None,
            }
            for block in in_order
        ]

    def step(self, action: Action | str, address: int, size: int) -> None:
        """The device was asked, or given something back, on the way to the open decision."""
        if self._open:
            self._open[-1].entry["steps"].append({"rule": action, "address": address, "size": size})

    def found(self, block: Block) -> None:
        """The open request is served by `block`, which has its final size."""
        entry, settings = self._take_open()
        rest = block.next
        chosen = next((c for c in entry["candidates"] if c["address"] == block.address), None)
        steps = {step["rule"] for step in entry["steps"]} - {"completed"}
        if chosen is not None and not steps:
            entry["rule"] = "best_fit"
        elif "segment_free" in steps or "segment_unmap" in steps:
            entry["rule"] = "released_first"
        elif "segment_map" in steps:
            entry["rule"] = "grown_segment"
        elif "segment_alloc" in steps:
            entry["rule"] = "new_segment"
        else:
            entry["rule"] = "borrowed"
        served = chosen if entry["rule"] == "best_fit" else None
        whole = served["size"] if served else block.size
        if served is None and rest is not None and rest.state == FREE:
            whole += rest.size
        entry["chosen"] = block.address
        entry["split_at"] = block.address + block.size if whole > block.size else None
        entry["rest"] = whole - block.size
        self._judge(entry, settings, served)
        entry["why"] = _why_malloc(entry)
        self._close(entry)

    def out_of_memory(self, error: OutOfMemoryError) -> None:
        """The open request cannot be served."""
        entry, settings = self._take_open()
        entry |= {"rule": "out_of_memory", "chosen": None, "split_at": None, "rest": 0}
        self._judge(entry, settings, None)
        cached = error.reserved - error.allocated
        entry["why"] = (
            f"{_asked(entry)}; the device has {told_size(error.free)} free for a segment of "
            f"{told_size(error.segment_size)}, and none of the {told_size(cached)} that are "
            "cached could be used or released"
        )
        self._close(entry)

    def freed(self, block: Block, size: int, *, was_pending: bool) -> None:
        """`block` can be used again; it had `size` bytes before it absorbed its neighbours."""
        if self._open and (self._open[-1].settings is not None or self._open[-1].entry["steps"]):
            self.step("completed", block.address, block.size)
            return
        rule = "joined" if block.size > size else "not_joined"
        if rule == "joined" and not block.is_split:
            rule = "whole_segment"
        entry = self._about(block, "completed" if was_pending else "free", rule, size)
        now = told_size(block.size)
        entry["why"] = f"{told_size(size)} came back, {RULES[rule]}: {now} free in one piece"
        self._close(entry)

    def pending(self, block: Block, streams: list[int]) -> None:
        """`block` was given back, and `streams` still use it."""
        entry = self._about(block, "free", "pending", block.size)
        entry["why"] = (
            f"{told_size(block.size)} came back, but stream "
            f"{', '.join(map(str, streams))} may still use it: free once its event completes"
        )
        self._close(entry)

    def emptying(self) -> None:
        """`empty_cache` begins."""
        self._open.append(_Open({"kind": "empty_cache", "events": [0, 0], "steps": []}))

    def emptied(self) -> None:
        """`empty_cache` has run."""
        entry = self._open.pop().entry
        entry["events"] = [self._next_event, self._next_event]
        entry["rule"] = "emptied"
        back = [step for step in entry["steps"] if step["rule"] != "completed"]
        size = told_size(sum(step["size"] for step in back))
        entry["why"] = f"{size} went back to the device in {len(back)} pieces"
        self._close(entry)

    def abandon(self, params: AllocParams | None) -> None:
        """What was open for these params ended with an exception, unless it was told before."""
        if self._open and self._open[-1].params is params:
            self._open.pop()
            self._next_event = self._events_recorded()

    def _about(self, block: Block, kind: str, rule: str, size: int) -> dict[str, Any]:
        return {
            "kind": kind,
            "events": [self._next_event, self._next_event],
            "rule": rule,
            "address": block.address,
            "size": size,
            "stream": block.segment.stream,
            "steps": [],
        }

    def _judge(
        self, entry: dict[str, Any], settings: AllocatorSettings, chosen: dict[str, Any] | None
    ) -> None:
        rounded = entry["rounded"]
        limit, too_large = settings.max_split_size, "oversize"
        if rounded >= limit:
            limit, too_large = rounded + settings.max_non_split_rounding_size, "too_large"
        for candidate in entry["candidates"]:
            if candidate["verdict"] == "pending":
                continue
            size = candidate["size"]
            if candidate is chosen:
                verdict = "chosen"
            elif candidate["stream"] != entry["stream"]:
                verdict = "other_stream"
            elif size < rounded:
                verdict = "too_small"
            elif size >= limit:
                verdict = too_large
            elif candidate["grows"] and not settings.expandable_segments:
                verdict = "not_growing"
            elif chosen is None:
                verdict = "refused"
            else:
                verdict = _against(candidate, chosen)
            candidate["verdict"] = verdict
        if self._most is not None and len(entry["candidates"]) > self._most:
            around = entry["candidates"].index(chosen) if chosen else 0
            first = max(0, min(around - self._most // 2, len(entry["candidates"]) - self._most))
            entry["candidates"] = entry["candidates"][first : first + self._most]

    def _take_open(self) -> tuple[dict[str, Any], AllocatorSettings]:
        decision = self._open.pop()
        assert decision.settings is not None, "a search was begun"
        return decision.entry, decision.settings

    def _close(self, entry: dict[str, Any]) -> None:
        entry["events"][1] = self._next_event = self._events_recorded()
        self.entries.append(entry)


def _against(candidate: dict[str, Any], chosen: dict[str, Any]) -> str:
    """Why a block that fits and may be used lost to the chosen one."""
    if candidate["size"] > chosen["size"]:
        return "larger"
    if candidate["size"] < chosen["size"]:
        return "grows_more"
    if candidate["birth"] != chosen["birth"]:
        return "younger_segment"
    return "higher_address" if candidate["address"] > chosen["address"] else "grows_more"


def _asked(entry: dict[str, Any]) -> str:
    return (
        f"{entry['request']} bytes are rounded to {told_size(entry['rounded'])}, "
        f"{entry['pool']} pool, stream {entry['stream']}"
    )


def _why_malloc(entry: dict[str, Any]) -> str:
    sentence = f"{_asked(entry)}; {RULES[entry['rule']]}"
    rejected = [c for c in entry["candidates"] if c["verdict"] != "chosen"]
    if rejected:
        reasons: dict[str, int] = {}
        for candidate in rejected:
            reasons[candidate["verdict"]] = reasons.get(candidate["verdict"], 0) + 1
        sentence += f"; rejected: {', '.join(f'{n} {VERDICTS[v]}' for v, n in reasons.items())}"
    if entry["split_at"] is not None:
        return f"{sentence}; split, {told_size(entry['rest'])} stay free behind it"
    return f"{sentence}; not split"
