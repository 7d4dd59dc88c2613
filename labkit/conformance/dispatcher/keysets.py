"""(b) Key set arithmetic by raw words, alias membership, guards of the thread-local sets."""

import random
from collections.abc import Iterator
from typing import Any

import torch

from labkit.conformance.dispatcher.tables import slots_that_exist
from labkit.conformance.report import Comparison, Size
from labkit.conformance.tally import Tally
from labkit.core.alias_keys import BACKENDS_OF_AUTOGRAD, SLOTS_OF_ALIAS
from labkit.core.dispatch_key import DispatchKey
from labkit.core.dispatch_key_set import DispatchKeySet
from labkit.dispatch import tls
from labkit.dispatch.torch_keys import from_torch, to_torch, torch_key, torch_number

_C: Any = torch._C
_HOW_MANY = {"small": 4_000, "full": 98_000}


def compare(seed: int, size: Size) -> Iterator[Comparison]:
    """Random expressions, every alias against every slot, random nests of guards."""
    rng = random.Random(f"keysets {seed}")
    yield _expressions(rng, _HOW_MANY[size])
    yield _aliases()
    yield _guards(rng, _HOW_MANY[size] // 40)


def _expressions(rng: random.Random, how_many: int) -> Comparison:
    tally = Tally("key set expressions: word, winner, membership, iteration")
    keys = [*slots_that_exist()[1:], DispatchKey.Dense, DispatchKey.AutogradFunctionality]
    mine, real, text = DispatchKeySet(), _C.DispatchKeySet(_C.DispatchKey.Undefined), "{}"
    for _ in range(how_many):
        key = rng.choice(keys)
        operation = rng.choice(("add", "add", "add", "remove", "|", "&", "-", "full_after", "new"))
        few = rng.sample(keys, rng.randrange(1, 5))
        mine_other, real_other = DispatchKeySet(*few), to_torch(DispatchKeySet())
        for one in few:
            real_other = real_other.add(torch_key(one))
        if operation == "add":
            mine, real = mine.add(key), real.add(torch_key(key))
        elif operation == "remove":
            mine, real = mine.remove(key), real.remove(torch_key(key))
        elif operation == "|":
            mine, real = mine | mine_other, real | real_other
        elif operation == "&":
            mine, real = mine & mine_other, real & real_other
        elif operation == "-":
            mine, real = mine - mine_other, real - real_other
        elif operation == "full_after":
            after = key.functionality
            mine = mine & DispatchKeySet.full_after(after)
            real = real & _C._dispatch_keyset_full_after(torch_key(after))
        else:
            mine, real = mine_other, real_other
        text = f"{text[-400:]} {operation} {key if 'd' in operation else few}"
        ours = (
            mine.raw,
            torch_number(mine.highest_priority_type_id()),
            mine.has(key),
            [str(one) for one in mine],
        )
        theirs = (
            from_torch(real).raw,
            int(real.highestPriorityTypeId()),
            real.has(torch_key(key)),
            _names_in(real),
        )
        if not tally.add(ours, theirs, text):
            mine = from_torch(real)
    return tally.result()


def _names_in(real: Any) -> list[str]:
    text: str = _C._dispatch_keyset_to_string(real)
    inside = text.partition("(")[2].rstrip(")")
    return inside.split(", ") if inside else []


def _aliases() -> Comparison:
    tally = Tally("alias sets and the backends of autograd slots, key by key")
    for alias, members in SLOTS_OF_ALIAS.items():
        for slot in slots_that_exist()[1:]:
            real = _C._dispatch_is_included_in_alias(torch_key(slot), torch_key(alias))
            tally.add(slot in members, real, f"{slot} in {alias}")
    for slot in slots_that_exist():
        real = set(from_torch(_C._dispatch_get_backend_keyset_from_autograd(torch_key(slot))))
        tally.add(BACKENDS_OF_AUTOGRAD.get(slot, frozenset()), real, f"backends of {slot}")
    return tally.result()


def _guards(rng: random.Random, how_many: int) -> Comparison:
    tally = Tally("thread-local sets in and after nested guards")
    keys = slots_that_exist()[1:]
    for number in range(how_many):
        plan = []
        for _ in range(rng.randrange(1, 6)):
            some = DispatchKeySet(*rng.sample(keys, rng.randrange(1, 4)))
            one = rng.choice(keys)
            other = DispatchKeySet(*rng.sample(keys, rng.randrange(3)))
            plan.append((rng.choice(("include", "exclude", "force")), one, some, other))
        _enter(plan, tally, f"nest {number}: {plan}")
    return tally.result()


_Plan = list[tuple[str, DispatchKey, DispatchKeySet, DispatchKeySet]]


def _enter(plan: _Plan, tally: Tally, about: str) -> None:
    """Enter the guards one inside the other on both sides; no operator runs in between."""
    if plan:
        kind, key, some, other = plan[0]
        ours: Any
        if kind == "include":
            real = _C._IncludeDispatchKeyGuard(torch_key(key))
            ours = tls.IncludeDispatchKeyGuard(key)
        elif kind == "exclude":
            real = _C._ExcludeDispatchKeyGuard(to_torch(some))
            ours = tls.ExcludeDispatchKeyGuard(some)
        else:
            real = _C._ForceDispatchKeyGuard(to_torch(some), to_torch(other))
            ours = tls.ForceDispatchKeyGuard(some, other)
        with real, ours:
            _enter(plan[1:], tally, about)
    sets = (tls.included().raw, tls.excluded().raw)
    real_sets = (
        from_torch(_C._dispatch_tls_local_include_set()).raw,
        from_torch(_C._dispatch_tls_local_exclude_set()).raw,
    )
    tally.add(sets, real_sets, f"{about}, {len(plan)} guards from the inside")
