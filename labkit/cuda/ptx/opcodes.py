"""What each PTX instruction is in C++. Values are bits: an instruction says what they mean."""

from collections.abc import Callable, Sequence

_ROUNDING = {"rn", "rz", "rm", "rp", "rna", "approx", "ftz", "sat", "full", "noftz"}
TYPES = {
    "f32": "float", "f64": "double", "pred": "bool",
    "s8": "signed char", "s16": "short", "s32": "int", "s64": "long long",
    **{f"{kind}{bits}": name
       for kind in "bu"
       for bits, name in ((8, "unsigned char"), (16, "unsigned short"), (32, "unsigned"),
                          (64, "unsigned long long"))},
}  # fmt: skip
_UNSIGNED = {"int": "unsigned", "short": "unsigned short", "long long": "unsigned long long"}
_WIDER = {
    "short": "int", "unsigned short": "unsigned", "int": "long long",
    "unsigned": "unsigned long long",
}  # fmt: skip
_MULTIPLIED_HIGH = {"int": "__mulhi", "unsigned": "__umulhi", "unsigned long long": "__umul64hi"}
SPECIAL_REGISTERS = {
    **{f"{ptx}.{axis}": f"{cuda}.{axis}"
       for ptx, cuda in (("tid", "threadIdx"), ("ntid", "blockDim"), ("ctaid", "blockIdx"),
                         ("nctaid", "gridDim"))
       for axis in "xyz"},
    "laneid": "cuemu::ptx::lane()",
    "warpid": "cuemu::ptx::warp()",
    "nwarpid": "cuemu::ptx::warps()",
    "lanemask_eq": "(1u << cuemu::ptx::lane())",
    "lanemask_lt": "((1u << cuemu::ptx::lane()) - 1)",
    "lanemask_le": "((2u << cuemu::ptx::lane()) - 1)",
    "lanemask_gt": "~((2u << cuemu::ptx::lane()) - 1)",
    "lanemask_ge": "~((1u << cuemu::ptx::lane()) - 1)",
    "clock": "(unsigned)clock64()",
    "clock64": "clock64()",
    "globaltimer": "clock64()",
    "smid": "cuemu::ptx::multiprocessor()",
}  # fmt: skip
NAMES = {
    "activemask": "activemask: which lanes are together is the hardware's choice",
    "wgmma": "wgmma", "tcgen05": "tcgen05", "mbarrier": "mbarrier", "bra": "labels and jumps",
}  # fmt: skip
"""How a refusal calls instructions whose opcode says too much or too little."""

_TWO = {
    "add": "a + b", "sub": "a - b", "and": "a & b", "or": "a | b", "xor": "a ^ b",
    "min": "a < b ? a : b", "max": "a < b ? b : a", "div": "a / b", "rem": "a % b",
    "shl": "cuemu::ptx::shifted_left(a, (unsigned)b)",
    "shr": "cuemu::ptx::shifted_right(a, (unsigned)b)",
}  # fmt: skip
_ONE = {
    "not": "~a", "neg": "-a", "abs": "a < 0 ? -a : a", "mov": "a", "popc": "__popcll(a)",
    "clz": "cuemu::ptx::leading_zeros(a)", "brev": "cuemu::ptx::reversed(a)",
    "sqrt": "sqrt(a)", "rsqrt": "1 / sqrt(a)", "rcp": "1 / a", "sin": "sin(a)", "cos": "cos(a)",
    "ex2": "exp2(a)", "lg2": "log2(a)", "tanh": "tanh(a)",
}  # fmt: skip
_COMPARED = {
    "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
    "lo": "<", "ls": "<=", "hi": ">", "hs": ">=", "equ": "==", "neu": "!=",
}  # fmt: skip
_ATOMICS = {
    "add": "atomicAdd", "min": "atomicMin", "max": "atomicMax", "and": "atomicAnd",
    "or": "atomicOr", "xor": "atomicXor", "exch": "atomicExch", "inc": "atomicInc",
    "dec": "atomicDec",
}  # fmt: skip
_SHUFFLES = {"idx": "__shfl_sync", "up": "__shfl_up_sync", "down": "__shfl_down_sync",
             "bfly": "__shfl_xor_sync"}  # fmt: skip
_SCOPES = {"cta": 0, "gpu": 1, "gl": 1, "sys": 2}
_IGNORED = {"L1", "L2", "prefetch", "prefetchu", "applypriority", "discard", "nanosleep", "pmevent"}


def calls(parts: Sequence[str], values: Sequence[str]) -> str | None:
    """One instruction as a C++ expression statement; None: the emulator does not run it.

    parts    of the opcode
    values   its operands in C++; a list in braces is one, with commas
    """
    name = parts[0]
    write = _WRITERS.get(name)
    if write is not None:
        return write(parts[1:], values)
    if name in _TWO and len(values) == 3:
        return _computed(parts, values, _TWO[name])
    if name in _ONE and len(values) == 2:
        return _computed(parts, values, _ONE[name])
    return None


def _type(parts: Sequence[str]) -> str | None:
    return TYPES.get(parts[-1]) if parts else None


def _computed(parts: Sequence[str], values: Sequence[str], formula: str) -> str | None:
    """`destination = formula` in the opcode's type, wrapping round as PTX does."""
    kind = _type(parts)
    if kind is None or any("," in value for value in values):
        return None
    if set(parts[1:-1]) - _ROUNDING - {"wide", "lo", "hi", "to", "relu", "NaN"}:
        return None
    if parts[0] in ("add", "sub", "neg", "mul", "mad"):
        kind = _UNSIGNED.get(kind, kind)
    if kind == "bool":  # the operators of bits promote
        formula = formula.replace("~a", "!a")
    names = ("a", "b", "c")
    given = "; ".join(
        f"const {kind} {name} = cuemu::ptx::as<{kind}>({value})"
        for name, value in zip(names, values[1:], strict=False)
    )
    if "sat" in parts and kind == "float":
        formula = f"__saturatef({formula})"
    result = "unsigned" if parts[0] in ("popc", "clz") else kind
    return _kept(values[0], f"({{ {given}; ({result})({formula}); }})")


def _kept(place: str, value: str) -> str:
    return f"cuemu::ptx::put({place}, {value})"


def _multiplied(parts: Sequence[str], values: Sequence[str], plus: str = "") -> str | None:
    kind = _type(parts)
    if kind is None:
        return None
    if kind in ("float", "double"):
        return _computed(["mul", *parts], values, "a * b" + plus)
    if "wide" in parts and kind in _WIDER:
        wide, (a, b) = _WIDER[kind], values[1:3]
        unsigned = _UNSIGNED.get(wide, wide)
        product = f"({unsigned})(({wide})cuemu::ptx::as<{kind}>({a}) * cuemu::ptx::as<{kind}>({b}))"
        sum_ = f" + cuemu::ptx::as<{unsigned}>({values[3]})" if plus else ""
        return _kept(values[0], f"({unsigned})({product}{sum_})")
    if "hi" in parts and kind in _MULTIPLIED_HIGH:
        return _computed(["mul", *parts], values, f"{_MULTIPLIED_HIGH[kind]}(a, b)" + plus)
    if "lo" in parts:
        return _computed(["mul", *parts], values, "a * b" + plus)
    return None


def _mad(parts: Sequence[str], values: Sequence[str]) -> str | None:
    if _type(parts) in ("float", "double"):
        return _computed(["fma", *parts], values, "fma(a, b, c)")
    return _multiplied(parts, values, " + c")


def _moved(parts: Sequence[str], values: Sequence[str]) -> str | None:
    """`mov`, which also packs a list into one register and unpacks it."""
    if "," in values[0]:
        return f"cuemu::ptx::unpack({values[1]}, {values[0]})"
    if "," in values[1]:
        return f"cuemu::ptx::put({values[0]}, cuemu::ptx::pack({values[1]}))"
    return _computed(["mov", *parts], values, "a")


def _converted(parts: Sequence[str], values: Sequence[str]) -> str | None:
    if len(parts) < 2:
        return None
    to, source = parts[-2:]
    rounding = next((part for part in parts[:-2] if part in ("rni", "rzi", "rmi", "rpi")), "")
    if to in ("f16x2", "bf16x2") and source == "f32" and len(values) == 3:
        half = "half" if to == "f16x2" else "bfloat16"
        return _kept(values[0], f"cuemu::ptx::two_{half}s({values[1]}, {values[2]})")
    if (to, source) in (("f16", "f32"), ("bf16", "f32")):
        return _kept(values[0], f"cuemu::ptx::to_{to}(cuemu::ptx::as<float>({values[1]}))")
    if (to, source) in (("f32", "f16"), ("f32", "bf16")):
        given = f"cuemu::ptx::as<unsigned short>({values[1]})"
        return _kept(values[0], f"cuemu::ptx::from_{source}({given})")
    if (to, source) == ("tf32", "f32"):
        return _kept(values[0], f"cuemu::ptx::to_tf32(cuemu::ptx::as<float>({values[1]}))")
    if to not in TYPES or source not in TYPES:
        return None
    given = f"cuemu::ptx::as<{TYPES[source]}>({values[1]})"
    if source in ("f32", "f64") and to not in ("f32", "f64"):
        if not rounding:
            return None
        given = f"cuemu::ptx::rounded_{rounding}({given})"
        return _kept(values[0], f"cuemu::ptx::clamped<{TYPES[to]}>({given})")
    return _kept(values[0], f"({TYPES[to]})({given})")


def _is_shared(parts: Sequence[str]) -> bool:
    return any(part == "shared" or part.startswith("shared::") for part in parts)


def _pointed(parts: Sequence[str], address: str) -> str:
    """The address of an access as a pointer."""
    if _is_shared(parts):
        return f"cuemu::ptx::in_shared({address})"
    return f"cuemu::ptx::generic({address})"


def _vector(parts: Sequence[str]) -> int:
    return next((int(part[1:]) for part in parts if part in ("v2", "v4", "v8")), 1)


def _loaded(parts: Sequence[str], values: Sequence[str]) -> str | None:
    kind, count, pointer = _type(parts), _vector(parts), _pointed(parts, values[1])
    if kind is None or count > 4:
        return None
    if {"acquire", "relaxed", "mmio"} & set(parts):
        order = "true" if "acquire" in parts else "false"
        loaded = f"cuemu::ptx::load_atomic<{_UNSIGNED.get(kind, kind)}, {order}>({pointer})"
        return _kept(values[0], loaded)
    kept = "volatile_" if "volatile" in parts else ""
    if count == 1:
        return _kept(values[0], f"cuemu::ptx::{kept}load<{kind}>({pointer})")
    return f"cuemu::ptx::load_vector<{kind}, {count}>({pointer}, {values[0]})"


def _stored(parts: Sequence[str], values: Sequence[str]) -> str | None:
    kind, count, pointer = _type(parts), _vector(parts), _pointed(parts, values[0])
    if kind is None or count > 4:
        return None
    if {"release", "relaxed", "mmio"} & set(parts):
        order = "true" if "release" in parts else "false"
        types = f"{_UNSIGNED.get(kind, kind)}, {order}"
        return f"cuemu::ptx::store_atomic<{types}>({pointer}, {values[1]})"
    kept = "volatile_" if "volatile" in parts else ""
    if count == 1:
        return f"cuemu::ptx::{kept}store<{kind}>({pointer}, {values[1]})"
    return f"cuemu::ptx::store_vector<{kind}, {count}>({pointer}, {values[1]})"


def _atomic(parts: Sequence[str], values: Sequence[str]) -> str | None:
    """`atom`, whose first operand gets what was there, and `red`."""
    kind = _type(parts)
    operation = next((part for part in parts if part in _ATOMICS or part == "cas"), "")
    if kind is None or not operation or _vector(parts) > 1:
        return None
    kind = {"long long": "unsigned long long"}.get(kind, kind) if operation != "min" else kind
    place = _pointed(parts, values[0])
    given = ", ".join(f"cuemu::ptx::as<{kind}>({value})" for value in values[1:])
    function = _ATOMICS.get(operation, "atomicCAS")
    call = f"{function}(({kind}*)({place}), {given})"
    before = "cuemu_fence(1), " if {"release", "acq_rel"} & set(parts) else ""
    return before + call


def _fetched(parts: Sequence[str], values: Sequence[str]) -> str | None:
    call = _atomic(parts, values[1:])
    return None if call is None else _kept(values[0], f"({call})")


def _compared(parts: Sequence[str], values: Sequence[str]) -> str | None:
    kind = _type(parts)
    if kind is None or len(values) != 3 or "," in values[0] or parts[0] not in _COMPARED:
        return None
    a, b = (f"cuemu::ptx::as<{kind}>({value})" for value in values[1:])
    return _kept(values[0], f"({a} {_COMPARED[parts[0]]} {b})")


def _chosen(parts: Sequence[str], values: Sequence[str]) -> str | None:
    kind = _type(parts)
    if kind is None:
        return None
    a, b = (f"cuemu::ptx::as<{kind}>({value})" for value in values[1:3])
    return _kept(values[0], f"({values[3]} ? {a} : {b})")


def _function(name: str, count: int) -> Callable[[Sequence[str], Sequence[str]], str | None]:
    """Of 32-bit registers: the first gets what a function makes of the others."""

    def write(parts: Sequence[str], values: Sequence[str]) -> str | None:
        if len(values) != count + 1 or (_type(parts) or "unsigned") not in ("unsigned", "int"):
            return None
        kind = _type(parts) or "unsigned"
        given = ", ".join(f"cuemu::ptx::as<{kind}>({value})" for value in values[1:])
        return _kept(values[0], f"{name}({given})")

    return write


def _address_cast(parts: Sequence[str], values: Sequence[str]) -> str | None:
    if _is_shared(parts) and "to" in parts:
        return _kept(values[0], f"cuemu::ptx::shared_address({values[1]})")
    return _kept(values[0], _pointed(parts, values[1]))


def _copied(parts: Sequence[str], values: Sequence[str]) -> str | None:
    """cp.async: asked for here, made at the wait."""
    if parts[:2] == ["async", "commit_group"]:
        return "cuemu_copy_commit()"
    if parts[:2] == ["async", "wait_group"]:
        return f"cuemu_block_copy_wait({values[0]}, 0)"
    if parts[:2] == ["async", "wait_all"]:
        return "cuemu_block_copy_wait(0, 1)"
    if parts[:1] != ["async"] or "bulk" in parts or "mbarrier" in parts or len(values) < 3:
        return None
    to, source = f"cuemu::ptx::in_shared({values[0]})", f"cuemu::ptx::generic({values[1]})"
    read = values[3] if len(values) > 3 else values[2]
    return f"cuemu_copy({to}, {source}, {values[2]}, {values[2]} - ({read}))"


def _byte_distances(parts: Sequence[str], values: Sequence[str]) -> str | None:
    """Four distances of unsigned bytes, added to a number."""
    if parts != ["u32", "u32", "u32", "add"]:
        return None
    target, a, b, total = values
    return _kept(target, f"__vsadu4({a}, {b}) + {total}")


def _barrier(parts: Sequence[str], values: Sequence[str]) -> str | None:
    if parts[:2] == ["warp", "sync"]:
        return f"__syncwarp({values[0]})"
    if "sync" in parts and list(values) == ["0"]:
        return "__syncthreads()"
    return None  # some of the threads, at a barrier of their own


def _fence(parts: Sequence[str], values: Sequence[str]) -> str | None:
    if "proxy" in parts or "mbarrier_init" in parts:
        return None
    return f"cuemu_fence({next((_SCOPES[part] for part in parts if part in _SCOPES), 1)})"


def _voted(parts: Sequence[str], values: Sequence[str]) -> str | None:
    votes = {"all": "__all_sync", "any": "__any_sync", "ballot": "__ballot_sync"}
    kind = next((part for part in parts if part in votes), None)
    if kind is None or "sync" not in parts:
        return None
    return _kept(values[0], f"{votes[kind]}({values[2]}, {values[1]})")


def _shuffled(parts: Sequence[str], values: Sequence[str]) -> str | None:
    if parts[:1] != ["sync"] or "," in values[0] or len(values) != 5:
        return None
    width = f"32 - (int)(({values[3]}) >> 8 & 31)"
    value = f"cuemu::ptx::as<unsigned>({values[1]})"
    moved = f"{_SHUFFLES[parts[1]]}({values[4]}, {value}, {values[2]}, {width})"
    return _kept(values[0], moved)


def _reduced(parts: Sequence[str], values: Sequence[str]) -> str | None:
    kind = _type(parts)
    if kind is None or len(parts) < 3 or len(values) != 3:
        return None
    given = f"({values[2]}, cuemu::ptx::as<{kind}>({values[1]}))"
    return _kept(values[0], f"__reduce_{parts[1]}_sync{given}")


def _matrix_loaded(parts: Sequence[str], values: Sequence[str]) -> str | None:
    count = next((int(part[1:]) for part in parts if part in ("x1", "x2", "x4")), 0)
    if not count or "m8n8" not in parts or "b16" not in parts:
        return None
    turned = "true" if "trans" in parts else "false"
    pointer = f"cuemu::ptx::in_shared({values[1]})"
    return f"cuemu::ptx::load_matrices<{count}, {turned}>({pointer}, {values[0]})"


_MATRIX_TYPES = {
    "f16": "cuemu::ptx::HalfElement", "bf16": "cuemu::ptx::Bfloat16Element",
    "tf32": "cuemu::ptx::Tf32Element", "s8": "cuemu::ptx::ByteElement",
    "u8": "cuemu::ptx::UnsignedByteElement",
}  # fmt: skip
_SHAPES = {("m16n8k16", 16), ("m16n8k8", 16), ("m16n8k8", 32), ("m16n8k4", 32),
           ("m16n8k32", 8), ("m16n8k16", 8)}  # fmt: skip
_BITS = {"f16": 16, "bf16": 16, "tf32": 32, "s8": 8, "u8": 8}


def _multiplied_matrices(parts: Sequence[str], values: Sequence[str]) -> str | None:
    """mma.sync.aligned.m16n8kK.row.col.D.A.B.C"""
    kinds = [part for part in parts if part in _BITS or part in ("f32", "s32")]
    shape = next((part for part in parts if part.startswith("m16n8k")), "")
    if len(kinds) != 4 or "row" not in parts or "col" not in parts or len(values) != 4:
        return None
    d, a, b, c = kinds
    if a not in _MATRIX_TYPES or b not in _MATRIX_TYPES or (shape, _BITS[a]) not in _SHAPES:
        return None
    wanted = ("s32",) if _BITS[a] == 8 else ("f16", "f32") if a == "f16" else ("f32",)
    if d != c or d not in wanted:
        return None
    sums = {"f32": "float", "s32": "int", "f16": "cuemu::ptx::HalfElement"}[d]
    types = f"{shape[6:]}, {sums}, {_MATRIX_TYPES[a]}, {_MATRIX_TYPES[b]}"
    lists = [f"cuemu::ptx::list({value})" for value in values[1:]]
    return f"cuemu::ptx::multiply<{types}>({', '.join(lists)}, {values[0]})"


def _nothing(parts: Sequence[str], values: Sequence[str]) -> str:
    return "(void)0"


def _trap(parts: Sequence[str], values: Sequence[str]) -> str:
    return "cuemu_trap()"


_WRITERS: dict[str, Callable[[Sequence[str], Sequence[str]], str | None]] = {
    "mov": _moved, "mul": _multiplied, "mad": _mad, "fma": _mad, "cvt": _converted,
    "ld": _loaded, "ldu": _loaded, "st": _stored, "red": _atomic, "atom": _fetched,
    "setp": _compared, "selp": _chosen, "cvta": _address_cast, "cp": _copied,
    "bar": _barrier, "barrier": _barrier, "membar": _fence, "fence": _fence,
    "vote": _voted, "shfl": _shuffled, "redux": _reduced, "ldmatrix": _matrix_loaded,
    "mma": _multiplied_matrices, "trap": _trap,
    "lop3": _function("cuemu::ptx::logic", 4), "prmt": _function("__byte_perm", 3),
    "bfe": _function("cuemu::ptx::field", 3), "bfi": _function("cuemu::ptx::inserted", 4),
    "sad": _function("cuemu::ptx::distance", 3), "vabsdiff4": _byte_distances,
    **dict.fromkeys(_IGNORED, _nothing),
}  # fmt: skip
