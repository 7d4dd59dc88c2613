"""A settings string as PyTorch cuts and reads it: tokens, and C's number syntax."""

import re
import sys

SIZE_T_RANGE = 2**64


class Tokens:
    """The string cut at `,` `:` `[` `]`; white space means nothing, not even between words.

    Source   c10/core/AllocatorConfig.h  ConfigTokenizer
    """

    def __init__(self, text: str) -> None:
        self._tokens: list[str] = re.findall(
            r"[,:\[\]]|[^,:\[\]]+", re.sub(r"[ \t\n\v\f\r]", "", text)
        )

    def __len__(self) -> int:
        return len(self._tokens)

    def __getitem__(self, index: int) -> str:
        if index >= len(self._tokens):
            raise RuntimeError(
                f"Index out of bounds in ConfigTokenizer: wanted token {index} of "
                f"{len(self._tokens)}, a value is missing at the end"
            )
        return self._tokens[index]

    def integer(self, index: int) -> int:
        """As C's stoull reads it: decimal digits at the front count, negative numbers wrap."""
        digits = re.match(r"[+-]?\d+", self[index], re.ASCII)
        if digits is None:
            raise ValueError(f"stoull: {self[index]!r} does not start with a decimal number")
        value = int(digits[0])
        if abs(value) >= SIZE_T_RANGE:
            raise IndexError(f"stoull: {self[index]!r} does not fit 64 bits")
        return value % SIZE_T_RANGE

    def real(self, index: int) -> float:
        """As C's stod reads it: a number at the front counts, what follows it does not."""
        return _real(self[index])

    def boolean(self, index: int) -> bool:
        """`True` or `False`, spelt like that."""
        word = self[index]
        if word not in {"True", "False"}:
            raise ValueError(
                f"Expected 'True' or 'False' at index {index} in ConfigTokenizer but got '{word}'"
            )
        return word == "True"

    def skip_value(self, key: int) -> int:
        """Index of the last token of the value of the key at index `key`."""
        value = key + 2
        if self[value] != "[":
            return value
        while value < len(self) and self._tokens[value] != "]":
            value += 1
        if value == len(self):
            raise RuntimeError(
                "Expected closing bracket ']' in ConfigTokenizer but reached end of config"
            )
        return value


def _real(word: str) -> float:
    number = re.match(
        r"[+-]?(?:0x(?:[0-9a-f]+\.?[0-9a-f]*|\.[0-9a-f]+)(?:p[+-]?\d+)?"
        r"|(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|inf(?:inity)?|nan)",
        word,
        re.ASCII | re.IGNORECASE,
    )
    if number is None:
        raise ValueError(f"stod: {word!r} does not start with a number")
    text = number[0].lower()
    value = float.fromhex(text) if "x" in text else float(text)
    mantissa_is_zero = not re.search(r"[1-9a-f]", re.split(r"[ep]", text.replace("0x", ""))[0])
    too_small = abs(value) < sys.float_info.min and not mantissa_is_zero  # zero and subnormal
    if "inf" not in text and (abs(value) == float("inf") or too_small):
        raise IndexError(f"stod: {word!r} does not fit a double")
    return value
