"""Element-wise operators with a kernel, or a schema, that `pointwise` does not give them."""

from labkit.ops.pointwise.pointwise import OPERATORS, Loop
from labkit.ops.registration import DEVICES, kernel

KEYS = ("CPU", *DEVICES)


def register(name: str, function: Loop) -> Loop:
    """The function is the operator's kernel on the host and on devices, in place of the old one."""
    for key in KEYS:
        kernel(name, key)(function)
    return function


def in_place(schema: str, name: str) -> None:
    """The operator of that name, writing into its first tensor, under a schema of its own.

    For those whose overloads in place are not named like the functional ones.
    """
    defined = schema.partition("(")[0]
    for key in KEYS:
        operator = schema if key == KEYS[0] else defined
        kernel(operator, key, variants="method")(OPERATORS[name].in_place)
