"""Imports point only to lines above, late and type-only imports included."""

import ast
import functools
import sys
from pathlib import Path

import pytest

LABKIT = Path(__file__).parents[1] / "labkit"
LAYERS = [
    "core", "cuda", "memory", "dispatch", "ops", "autograd", "_tensor", "amp", "nn", "optim",
    "graphed", "graph", "vision", "torch_shim", "torch_device", "pipeline", "show", "conformance",
    "course", "workshop", "bench", "doctor", "cli", "__main__",
]  # fmt: skip
STANDALONE = {"widgets", "launcher"}  # import no layer: one draws plain data, one runs before torch
MODULES = sorted(path for path in LABKIT.rglob("*.py") if path != LABKIT / "__init__.py")


def layer_of(module):
    return module.relative_to(LABKIT).with_suffix("").parts[0]


@functools.cache
def import_statements(module):
    """Those of a whole file; several tests ask."""
    nodes = ast.walk(ast.parse(module.read_text(encoding="utf-8")))
    return [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]


def layers_imported_by(module):
    found = set()
    for node in import_statements(module):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        found |= {name.split(".")[1] for name in names if name.startswith("labkit.")}
    return found


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(LABKIT)))
def test_imports_point_down(module):
    layer = layer_of(module)
    if layer in STANDALONE:
        allowed = {layer}
    else:
        allowed = set(LAYERS[: LAYERS.index(layer) + 1]) | (
            STANDALONE if layer in {"show", "course", "workshop", "doctor", "cli"} else set()
        )
    assert layers_imported_by(module) <= allowed


def name_of(module):
    parts = module.relative_to(LABKIT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_within(layer):
    """Module -> the modules of the layer it imports, late and type-only imports included."""
    modules = {name_of(module): module for module in MODULES if layer_of(module) == layer}
    found = {}
    for name, module in modules.items():
        imported = set()
        for node in import_statements(module):
            if isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names}
            elif node.module:
                full = {f"{node.module}.{alias.name}" for alias in node.names}
                imported |= {each if each in modules else node.module for each in full}
        found[name] = imported & modules.keys() - {name}
    return found


def in_circles(imports):
    """The modules that are left when those at either end of all chains are taken away."""
    left = set(imports)
    while True:
        importing = {name for name in left if imports[name] & left}
        kept = {name for name in importing if any(name in imports[other] for other in importing)}
        if kept == left:
            return left
        left = kept


@pytest.mark.parametrize("layer", sorted({layer_of(module) for module in MODULES}))
def test_no_imports_go_in_circles_inside_a_layer(layer):
    assert not in_circles(imports_within(layer))


def test_a_circle_is_found():
    assert in_circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == {"b", "c"}
    assert in_circles({"a": {"b"}, "b": set()}) == set()


def top_level_packages_imported_by(module):
    found = set()
    for node in import_statements(module):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif node.module:
            found.add(node.module.split(".")[0])
    return found


def test_the_launcher_needs_nothing_installed():
    """Except packaging, which it asks for only to judge an environment that has it."""
    imported = set()
    for module in LABKIT.joinpath("launcher").glob("*.py"):
        imported |= top_level_packages_imported_by(module)
    assert imported - sys.stdlib_module_names <= {"labkit", "packaging"}


def test_cupy_is_imported_by_its_own_driver_only():
    importers = {
        module.relative_to(LABKIT).as_posix()
        for module in MODULES
        if "cupy" in top_level_packages_imported_by(module)
    }
    assert all(name.startswith("cuda/cupy/") for name in importers)
