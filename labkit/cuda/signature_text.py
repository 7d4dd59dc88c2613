"""A kernel's signature read from its source: what a GPU's driver does not tell."""

import re
from collections.abc import Sequence

from labkit.cuda.signature import ParamKind, Signature, SignatureParam
from labkit.cuda.source import KernelText

_SCALARS: dict[str, tuple[ParamKind, int]] = {
    "bool": (ParamKind.BOOL, 1),
    "char": (ParamKind.SIGNED, 1), "signed char": (ParamKind.SIGNED, 1),
    "unsigned char": (ParamKind.UNSIGNED, 1),
    "short": (ParamKind.SIGNED, 2), "unsigned short": (ParamKind.UNSIGNED, 2),
    "int": (ParamKind.SIGNED, 4), "unsigned": (ParamKind.UNSIGNED, 4),
    "unsigned int": (ParamKind.UNSIGNED, 4),
    "long": (ParamKind.SIGNED, 8), "long long": (ParamKind.SIGNED, 8),
    "unsigned long": (ParamKind.UNSIGNED, 8), "unsigned long long": (ParamKind.UNSIGNED, 8),
    "size_t": (ParamKind.UNSIGNED, 8),
    "int8_t": (ParamKind.SIGNED, 1), "uint8_t": (ParamKind.UNSIGNED, 1),
    "int16_t": (ParamKind.SIGNED, 2), "uint16_t": (ParamKind.UNSIGNED, 2),
    "int32_t": (ParamKind.SIGNED, 4), "uint32_t": (ParamKind.UNSIGNED, 4),
    "int64_t": (ParamKind.SIGNED, 8), "uint64_t": (ParamKind.UNSIGNED, 8),
    "float": (ParamKind.FLOAT, 4), "double": (ParamKind.FLOAT, 8),
    "half": (ParamKind.HALF, 2), "__half": (ParamKind.HALF, 2),
    "__nv_bfloat16": (ParamKind.BFLOAT16, 2), "nv_bfloat16": (ParamKind.BFLOAT16, 2),
}  # fmt: skip


def signature_from_text(text: KernelText, name: str, sizes: Sequence[int]) -> Signature:
    """The signature of the instance `name` of a kernel.

    sizes  bytes of each parameter, as the compiled kernel tells them
    """
    written = text.parameters if len(text.parameters) == len(sizes) else ()
    replaced = _template_arguments(text, name)
    params = []
    for position, size in enumerate(sizes):
        if position >= len(written):
            params.append(SignatureParam(f"#{position}", "", size, ParamKind.OTHER))
            continue
        params.append(_param(written[position].name, written[position].type, size, replaced))
    return Signature(tuple(params))


def _template_arguments(text: KernelText, name: str) -> dict[str, str]:
    inside = re.search(r"<(.*)>", name)
    if inside is None:
        return {}
    arguments = [argument.strip() for argument in inside.group(1).split(",")]
    return dict(zip(text.template_names, arguments, strict=False))


def _param(name: str, written: str, size: int, replaced: dict[str, str]) -> SignatureParam:
    words = re.sub(r"\b(__restrict__|restrict|__restrict|volatile)\b", "", written)
    is_const = bool(re.search(r"\bconst\b", words.split("*")[0]))
    base = " ".join(re.sub(r"\bconst\b", "", words.split("*")[0]).split())
    base = replaced.get(base, base)
    kind, known_size = _SCALARS.get(base, (ParamKind.OTHER, 0))
    if "*" in words:
        pointers = words.count("*")
        pointee = (kind, known_size) if pointers == 1 else (ParamKind.OTHER, 8)
        return SignatureParam(name, written, 8, ParamKind.POINTER, *pointee, is_const)
    if known_size != size:
        kind = ParamKind.OTHER
    return SignatureParam(name, written, size, kind)
