"""Break one rule of the allocator for the length of a test."""

import inspect
import sys
import textwrap
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from labkit.conformance.allocator_settings import compare_recorded
from labkit.memory.replay.recording import compare_program, load_recording

FIXTURES = Path(__file__).parent / "fixtures"


@dataclass(frozen=True)
class Mutation:
    """A rule and how it is broken.

    rule        what holds in the code as it is
    owner       the class or module whose function is changed
    function    its name
    old, new    the text that is replaced; `old` must be there exactly once
    recordings  where the breakage must show, besides the tutorial
    """

    rule: str
    owner: type | ModuleType
    function: str
    old: str
    new: str
    recordings: str = "default"

    @contextmanager
    def applied(self):
        original = self.owner.__dict__[self.function]
        source = textwrap.dedent(inspect.getsource(getattr(original, "fget", original) or original))
        assert source.count(self.old) == 1, f"{self.function} does not hold {self.old!r} once"
        module = inspect.getmodule(self.owner) if isinstance(self.owner, type) else self.owner
        names = {}
        exec(compile(source.replace(self.old, self.new), "<broken>", "exec"), vars(module), names)
        users = [self.owner, *self._importers(original)]
        for user in users:
            setattr(user, self.function, names[self.function])
        try:
            yield
        finally:
            for user in users:
                setattr(user, self.function, original)

    def _importers(self, original):
        """The modules that hold a module's function under its name as well."""
        if isinstance(self.owner, type):
            return []
        return [
            module
            for name, module in list(sys.modules.items())
            if name.startswith("labkit.memory.")
            and module is not self.owner
            and getattr(module, self.function, None) is original
        ]


_loaded = {}


def recording(name):
    if name not in _loaded:
        _loaded[name] = load_recording(FIXTURES / f"{name}.json.gz")
    return _loaded[name]


def first_difference(names):
    """What the recordings say first against the allocator as it is now, or None."""
    for name in names.split():
        data = recording(name)
        if "programs" not in data:
            for comparison in compare_recorded(data):
                if not comparison.passed:
                    return comparison.first_difference
            continue
        for program in data["programs"]:
            try:
                difference = compare_program(data, program).difference
            except (ValueError, KeyError, AssertionError, AttributeError, IndexError) as error:
                return f"{name}: {type(error).__name__}: {error}"
            if difference is not None:
                return difference
    return None
