"""The small steps of the dtype chapter: whose error it is, and what a macro makes of its body."""

import re

from labkit.course.exercise import Exercise, Hint, Rng
from labkit.course.exercises._limits import TORCH_AND_LABKIT

PLAIN = ("texts only: no torch, no labkit",)
OPERATORS = ("trace", "tril", "histc", "bincount", "linalg_inv_ex", "bitwise_and.Tensor")
BACKENDS = ("SparseCPU", "MkldnnCPU", "QuantizedCPU", "CUDA")
TAGS = ("Long", "Float", "Half", "Bool", "ComplexFloat", "BFloat16")
OTHERS = (
    "linalg.inv: Expected a floating point or complex tensor as input. Got Long",
    "Sort does not support complex dtypes on CPU",
    "expected m1 and m2 to have the same dtype, but got: float != long int",
    "one_hot is only applicable to index tensor of type LongTensor.",
    "a Tensor with 2 elements cannot be converted to Scalar",
    "convolution_overrideable not implemented. You are likely triggering this with tensor backend "
    "other than CPU/CUDA/MKLDNN",
)
"""What PyTorch says where neither the dispatcher nor a dtype switch refuses."""


def _a_message(rng: Rng, size: int) -> tuple[str]:
    operator = rng.choice(OPERATORS)
    return (
        rng.choice(
            (
                f"Could not run 'aten::{operator}' with arguments from the "
                f"'{rng.choice(BACKENDS)}' backend.",
                f"\"{operator.partition('.')[0]}_cpu\" not implemented for '{rng.choice(TAGS)}'",
                rng.choice(OTHERS),
            )
        ),
    )


def _owner(message: str) -> str:
    if message.startswith("Could not run"):
        return "dispatcher"
    return "kernel" if '" not implemented for ' in message else "other"


owner = Exercise(
    id="dtype_dispatch.owner",
    rung="warm-up",
    case=_a_message,
    expected=_owner,
    rules=PLAIN,
    banned=TORCH_AND_LABKIT,
    cases=60,
    minutes=3,
    hints=(
        Hint(
            "Neither the words of the dispatcher nor those of a kernel stand here: 'other'.",
            when=lambda e: e.right == "other",
        ),
        Hint("It says which backend has no kernel.", when=lambda e: e.right == "dispatcher"),
        Hint("The kernel gives its own name, and the dtype.", when=lambda e: e.right == "kernel"),
        "Look for the words of rule 1 in the message: `in`, or startswith.",
    ),
    must_fail=(
        "knows two owners only",
        "asks whether a dtype is named",
        "asks whether CPU is named",
        "asks for parts of the words",
    ),
)

PIECES = ("num", "Num", "number", "Numbers", "enum", "x", "Vector", "_add", "*", " ", " ", "(", ")")
FILLINGS = (("Float", "float"), ("Double", "double"), ("Long", "int64_t"), ("Bool", "bool"))


def _a_body(rng: Rng, size: int) -> tuple[str, str, str]:
    """A body of words, spaces and glued words, and what fills its hole."""
    words = []
    for _ in range(1 + size):
        word = rng.choice(PIECES)
        if rng.chance(0.4):
            glue = rng.choice(("##", "##", " ## ", "  ##"))
            word = f"{rng.choice(('Num', 'num', 'a'))}{glue}{rng.choice(('Vector', '_add', 'x'))}"
        words.append(word)
    return (" ".join(words), *rng.choice(FILLINGS))


def _filled(body: str, name: str, ctype: str) -> str:
    body = re.sub(r"\bNum\b", name, body)
    body = re.sub(r"\bnum\b", ctype, body)
    return re.sub(r" *## *", "", body)


filled = Exercise(
    id="dtype_dispatch.filled",
    rung="warm-up",
    case=_a_body,
    expected=_filled,
    rules=PLAIN,
    banned=TORCH_AND_LABKIT,
    cases=120,
    minutes=4,
    hints=(
        Hint("`##` glues: it goes, with the spaces around it.", when=lambda e: "##" in e.value),
        Hint(
            "A word that only contains num or Num stays as it is: number, Numbers, enum.",
            when=lambda e: any(
                e.value.count(word) < e.inputs[0].count(word)
                for word in ("number", "Numbers", "enum")
            ),
        ),
        Hint(
            "A glued word still has its hole. Fill Num and num first, and glue afterwards: "
            "`NumVector` is one word, and no hole any more.",
            when=lambda e: re.search(r"\b[Nn]um(Vector|_add|x)", e.value) is not None,
        ),
        Hint(
            "The spaces go only around ##. Elsewhere they stay.",
            when=lambda e: e.value.replace(" ", "") == e.right.replace(" ", ""),
        ),
        r"Whole words first: re.sub(r'\bnum\b', num, body), and the same for Num. Then the glue.",
    ),
    must_fail=(
        "replaces inside words",
        "leaves the glue",
        "leaves the spaces around the glue",
        "takes one space off the glue",
        "glues before it replaces",
        "fills num only",
    ),
)
