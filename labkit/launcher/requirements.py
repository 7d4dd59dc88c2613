"""What pyproject.toml asks for, and what the running interpreter lacks of it."""

import json
import tomllib
from collections.abc import Iterable
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse


def declared(root: Path, extras: Iterable[str]) -> list[str]:
    """The requirements of the project and of the named extras, as written in pyproject.toml."""
    with (root / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    lines: list[str] = project["dependencies"]
    return [*lines, *(line for extra in extras for line in project["optional-dependencies"][extra])]


def unmet(root: Path, extras: Iterable[str]) -> list[str]:
    """What this interpreter lacks, one readable line each; empty when it can run the lab.

    Looks at the requirements of the requirements too, so an environment that lost one package
    is found out here and not in the middle of a notebook.
    """
    try:
        from packaging.requirements import Requirement
    except ImportError:
        return ["packaging (and with it everything that needs it)"]
    lacking = [] if is_this_checkout(root) else [f"labkit from {root}"]
    waiting = [(Requirement(line), "") for line in declared(root, extras)]
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        requirement, parent = waiting.pop()
        key = (requirement.name.lower(), frozenset(requirement.extras))
        found = installed(requirement.name)
        if found is None:
            lacking.append(f"{requirement}{parent}: not installed")
        elif not requirement.specifier.contains(found.version, prereleases=True):
            lacking.append(f"{requirement}{parent}: {found.version} is installed")
        elif key not in seen:
            seen.add(key)
            parent = f" (for {requirement.name})"
            waiting += [(needed, parent) for needed in needs(found, requirement)]
    return sorted(set(lacking))


def needs(found: Distribution, requirement: Any) -> list[Any]:
    """The requirements of an installed distribution that apply on this machine."""
    from packaging.requirements import Requirement

    lines = [Requirement(line) for line in found.requires or []]
    return [
        line
        for line in lines
        if line.marker is None
        or any(line.marker.evaluate({"extra": extra}) for extra in ("", *requirement.extras))
    ]


def installed(name: str) -> Distribution | None:
    """The installed distribution of that name, or None."""
    try:
        return distribution(name)
    except PackageNotFoundError:
        return None


def is_this_checkout(root: Path) -> bool:
    """True when labkit is installed editable from this very folder, not from another copy."""
    found = installed("labkit")
    address = found.read_text("direct_url.json") if found else None
    if address is None:
        return False
    return Path(unquote(urlparse(json.loads(address)["url"]).path)).resolve() == root.resolve()
