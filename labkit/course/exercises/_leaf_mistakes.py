"""What an answer to `leaf_or_not` got wrong: for its hints."""

from typing import Any


def wrong_names(evidence: Any) -> list[tuple[str, tuple[bool, ...], tuple[bool, ...]]]:
    """(name, the answer's facts, the right ones), each as leaf, requires grad, has grad."""
    got = evidence.value if isinstance(evidence.value, dict) else {}
    return [
        (name, tuple(got.get(name, {}).values()), tuple(right.values()))
        for name, right in evidence.right.items()
        if got.get(name) != right
    ]


def has(evidence: Any, wanted: str) -> bool:
    return any(op == wanted for _, op, *_ in evidence.inputs[0])


def records(evidence: Any) -> bool:
    """Whether a value got a history, or requires grad, that should not."""
    return any(
        got[:2] in ((False, True), (False, False)) and right[0]
        for _, got, right in wrong_names(evidence)
    )


def asks_too_much(evidence: Any) -> bool:
    """Whether the first wrong value is no float, and requires grad or has a history."""
    name, got, right = wrong_names(evidence)[0]
    made_by = [op for target, op, *_ in evidence.inputs[0] if target == name][-1]
    return made_by in ("greater", "to") and right[0] and got[:2] != (True, False)


def only_grad_wrong(evidence: Any) -> bool:
    return all(got[:2] == right[:2] for _, got, right in wrong_names(evidence))


def binds_again(evidence: Any) -> bool:
    bound = [target for target, *_ in evidence.inputs[0] if target]
    return len(bound) > len(set(bound))


def grad_too_often(evidence: Any) -> bool:
    return only_grad_wrong(evidence) and not wrong_names(evidence)[0][2][2]
