"""Settings from a YAML file, typed: what is misspelt, of the wrong kind or out of range is refused.

A section is a frozen dataclass; a field is a bool, int, float, str or Literal, or another section.
`setting(4, at_least=1)` is a field with a default and a smallest value.
"""

import dataclasses
import difflib
import types
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import yaml

Section = TypeVar("Section")


class ConfigError(ValueError):
    """A setting is not as it must be; the message names it, what it is and what is allowed."""


def setting(default: Any, *, at_least: float | None = None) -> Any:
    """A field with this default, and no smaller value than `at_least`."""
    return dataclasses.field(default=default, metadata={"at_least": at_least})


def load(path: str | Path, section: type[Section]) -> Section:
    """The settings of a file; what it does not name has its default.

    Raises   ConfigError   the file is not YAML, or a setting is refused
             OSError       it cannot be read
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
        given = yaml.load(text, _UniqueKeys)  # a SafeLoader
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text: {error.reason}") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{path} is not YAML: {error}") from None
    try:
        return parse({} if given is None else given, section)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def parse(given: Any, section: type[Section], name: str = "") -> Section:
    """The section that these plain values describe.

    Raises   ConfigError   a setting is refused
    """
    if not isinstance(given, Mapping):
        raise ConfigError(f"{name or 'the file'} holds settings by name, got {given!r}")
    kinds = get_type_hints(section)
    fields = {field.name: field for field in dataclasses.fields(section)}  # type: ignore[arg-type]
    values = {}
    for key, value in given.items():
        full = f"{name}.{key}" if name else str(key)
        if key not in fields:
            raise ConfigError(f"{full} is no setting; {_nearest(str(key), list(fields))}")
        values[key] = _value(value, kinds[key], fields[key].metadata.get("at_least"), full)
    return section(**values)


def dump(section: Any) -> str:
    """The YAML text that `load` reads as this section."""
    text: str = yaml.safe_dump(dataclasses.asdict(section), sort_keys=False)
    return text


def _nearest(key: str, names: list[str]) -> str:
    close = difflib.get_close_matches(key, names, n=1)
    return f"did you mean {close[0]}?" if close else f"there are {', '.join(names)}"


def _value(value: Any, kind: Any, at_least: float | None, name: str) -> Any:
    if dataclasses.is_dataclass(kind):
        return parse(value, kind, name)  # type: ignore[arg-type]
    if get_origin(kind) is Literal:
        if value not in get_args(kind) or isinstance(value, bool):
            allowed = ", ".join(map(str, get_args(kind)))
            raise ConfigError(f"{name} is one of {allowed}, got {value!r}")
        return value
    if isinstance(kind, types.UnionType):
        if value is None and type(None) in get_args(kind):
            return None
        kind = next(each for each in get_args(kind) if each is not type(None))
    if kind is float and type(value) is int:
        value = float(value)
    if type(value) is not kind:
        raise ConfigError(f"{name} is of type {kind.__name__}, got {value!r}")
    if at_least is not None and not value >= at_least:
        raise ConfigError(f"{name} is at least {at_least}, got {value!r}")
    return value


class _UniqueKeys(yaml.SafeLoader):
    """YAML in which a key that stands twice is an error, not the last one."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.YAMLError(
                    f"{key} stands twice in the section of line {node.start_mark.line + 1}"
                )
        return super().construct_mapping(node, deep)
