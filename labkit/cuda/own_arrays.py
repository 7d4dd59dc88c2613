"""Where a text subscripts the arrays that its functions declare for themselves.

The compiler counts the subscripts of every array of known size. What lies in shared memory or is
the device's is watched by address, and there a row may be read past its end into the next; a
function's own array is watched by nothing else, so the worker is told which subscripts are of one.
"""

import re
from collections.abc import Iterator, Mapping

from labkit.cuda.source import blanked, closing

_ALIGNED = re.compile(r"(?:alignas|__align__)\s*\([^()]*\)")
_DIRECTIVE = re.compile(r"^[ \t]*#.*$", re.MULTILINE)
_SUBSCRIPTED = re.compile(r"(?<![\w.])(?<!->)([A-Za-z_]\w*)\s*\[")
_WORDS = r"(?:[A-Za-z_][\w:]*(?:<[^;<>]*>)?\**\s+)+\**"
_DECLARED = re.compile(rf"\s*(?!(?:return|else|do|case|default|goto)\b){_WORDS}(?:[^=()]*,\s*\**)?")
_PARAMETER = re.compile(rf"\s*{_WORDS}")
_WATCHED = re.compile(r"__(?:shared|device|constant|managed)__")


def subscripts(code: str) -> Iterator[tuple[str, int, int]]:
    """(array, line, column) of each place by which a compiler may name such a subscript.

    clang means the array's first letter; g++ the last bracket, in an instance of a template the
    first. Left out: members, and whatever shares its name with a parameter, a reference or an array
    in shared memory or of the device, which it may be.
    """
    text = blanked(code)
    own: dict[str, bool] = {}
    for match in _SUBSCRIPTED.finditer(text):
        name, at = match[1], match.end() - 1
        if name not in own:
            own[name] = _is_own(name, text)
        places = [match.start()]
        while own[name] and text[at : at + 1] == "[":
            end = closing(text, at, "[]")
            places += [at, end]
            at = end + len(text[end:]) - len(text[end + 1 :].lstrip())
        for place in places if own[name] else ():
            line_start = text.rfind("\n", 0, place)
            yield name, text.count("\n", 0, place) + 1, place - line_start


def told(texts: Mapping[str, str]) -> str:
    """C++ that tells the worker of them, to stand behind a source as it is compiled.

    texts   by the name that the compiler reports them by
    """
    lines = []
    for number, (name, code) in enumerate(texts.items()):
        places = ", ".join(f'{{"{array}", {line}, {at}}}' for array, line, at in subscripts(code))
        if places:
            lines.append(
                f"static const CuemuSubscript cuemu_own_{number}[] = {{{places}}};\n"
                f"static const int cuemu_told_{number} = "
                f'(cuemu_own_arrays("{name}", cuemu_own_{number}, '
                f"sizeof(cuemu_own_{number}) / sizeof(CuemuSubscript)), 0);"
            )
    return "\n".join(['\n#line 1 "labkit: arrays of functions\' own"', *lines]) if lines else ""


def _is_own(name: str, text: str) -> bool:
    """Whether an array of the name is declared in a function's body, and nowhere else."""
    if re.search(rf"[*&]\s*{name}\s*(?:\)\s*\[|=(?!=))", text):
        return False
    text = _ALIGNED.sub("", _DIRECTIVE.sub("", text))
    declared = False
    for match in re.finditer(rf"\b{name}\s*\[", text):
        start = max(text.rfind(end, 0, match.start()) for end in ";{}") + 1
        statement = text[start : match.start()]
        inside = statement.count("(") > statement.count(")")
        if _WATCHED.search(statement) and not inside:
            return False
        if inside and _PARAMETER.fullmatch(re.split(r"[(,]", statement)[-1]):
            return False
        declared = declared or _DECLARED.fullmatch(statement) is not None
    return declared
