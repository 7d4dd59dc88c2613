"""environment.yml asks conda for what pyproject.toml asks pip for; read by conda's own parser."""

import importlib.metadata
import json
import re
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version as PipVersion

from labkit.launcher.installer import TORCH

rattler = pytest.importorskip("rattler", reason="py-rattler, conda's parser, is not installed")
MatchSpec, Version, VersionSpec = rattler.MatchSpec, rattler.Version, rattler.VersionSpec
ROOT = Path(__file__).parents[1]
PYPROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
ENVIRONMENT = (ROOT / "environment.yml").read_text(encoding="utf-8")
GPU_ENVIRONMENT = ENVIRONMENT.replace("- pytorch-cpu", "- pytorch-gpu").replace(
    "# - cupy", "- cupy"
)
CONDA_NAMES = {"torch": "pytorch-cpu", "matplotlib": "matplotlib-base", "cupy-cuda13x": "cupy"}
CONDA_ONLY = {"python", "pip", "cxx-compiler"}
PINNED = {"pytorch-cpu", "pytorch-gpu"}  # to the version lab.py pins, inside pyproject's range


def pip_ranges(pyproject, extras):
    """Name in conda -> SpecifierSet."""
    project = tomllib.loads(pyproject)["project"]
    lines = project["dependencies"] + [
        line for extra in extras for line in project["optional-dependencies"][extra]
    ]
    required = [Requirement(line) for line in lines]
    ranges = {
        CONDA_NAMES.get(needed.name.lower(), needed.name.lower()): needed.specifier
        for needed in required
    }
    return ranges | {"python": SpecifierSet(project["requires-python"])}


def conda_ranges(environment):
    """Name in conda -> VersionSpec or, from the pip section, SpecifierSet; None is any version."""
    ranges = {}
    for entry in yaml.safe_load(environment)["dependencies"]:
        if isinstance(entry, dict):
            required = [Requirement(line) for line in entry["pip"] if line != "-e ."]
            ranges |= {needed.name.lower(): needed.specifier for needed in required}
        else:
            spec = MatchSpec(entry, strict=True)
            version = VersionSpec(spec.version) if spec.version else None
            ranges[spec.name.normalized] = version
    return ranges


def probes(*ranges):
    """Versions on, just below and just above every bound that either side names."""
    found = {"0.0.1", "9999"}
    for bound in re.findall(r"\d+(?:\.\d+)*", " ".join(map(str, ranges))):
        *head, last = map(int, bound.split("."))
        for parts in (
            [*head, last],
            [*head, last, 1],
            [*head, last + 1],
            [*head, max(last - 1, 0)],
        ):
            found.add(".".join(map(str, parts)))
    return sorted(found)


def admits(range_, version):
    if range_ is None:
        return True
    if isinstance(range_, SpecifierSet):
        return range_.contains(version, prereleases=True)
    return range_.matches(Version(version))


def drift(pyproject, environment, extras=("test", "video")):
    """Every disagreement between the two files, one line each."""
    wanted, offered = pip_ranges(pyproject, extras), conda_ranges(environment)
    if "pytorch-gpu" in offered:
        wanted["pytorch-gpu"] = wanted.pop("pytorch-cpu")
    lines = [f"{name}: only in pyproject.toml" for name in wanted.keys() - offered.keys()]
    lines += [
        f"{name}: only in environment.yml" for name in offered.keys() - wanted.keys() - CONDA_ONLY
    ]
    for name in wanted.keys() & offered.keys():
        versions = probes(wanted[name], offered[name])
        if name in PINNED:
            pin = TORCH.partition("==")[2]
            admitted = {PipVersion(v) for v in [*versions, pin] if admits(offered[name], v)}
            if admitted != {PipVersion(pin)} or not admits(wanted[name], pin):
                lines.append(f"{name}: {offered[name]} is not lab.py's {TORCH}")
            continue
        apart = [v for v in versions if admits(wanted[name], v) != admits(offered[name], v)]
        if apart:
            lines.append(f"{name}: {wanted[name]} or {offered[name]} differ on {', '.join(apart)}")
    return sorted(lines)


def test_both_files_ask_for_the_same():
    assert drift(PYPROJECT, ENVIRONMENT) == []


def test_the_gpu_variant_is_one_edit_away():
    assert GPU_ENVIRONMENT != ENVIRONMENT
    assert drift(PYPROJECT, GPU_ENVIRONMENT, extras=("test", "video", "gpu")) == []


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("  - nbval >=0.11\n", "", "nbval: only in pyproject.toml"),
        ("  - pip\n", "  - pip\n  - pandas >=2\n", "pandas: only in environment.yml"),
        ("jupyterlab >=4.5,<5", "jupyterlab >=4.5", "jupyterlab: .* differ on 5, 5.1, 6, 9999"),
        ("numpy >=2.0", "numpy >=2.1", "numpy: .* differ on 2.0"),
        ("python >=3.11,<3.14", "python >=3.11,<3.13", "python: .* differ on 3.13"),
        ("playwright >=1.50", "playwright >=1.60", "playwright: .* differ on 1.50"),
        ("types-pyyaml", "types-pyyaml >=6", "types-pyyaml: .* differ on 0.0.1"),
        ("pytorch-cpu ==2.13.0", "pytorch-cpu ==2.12.0", "pytorch-cpu: ==2.12.0 is not"),
        ("pytorch-cpu ==2.13.0", "pytorch-cpu >=2.13.0", "pytorch-cpu: >=2.13.0 is not"),
    ],
)
def test_injected_drift_is_found(before, after, expected):
    assert ENVIRONMENT.count(before) >= 1
    found = drift(PYPROJECT, ENVIRONMENT.replace(before, after))
    assert len(found) == 1
    assert re.match(expected, found[0]), found


def test_drift_injected_into_pyproject_is_found():
    changed = PYPROJECT.replace('"anywidget>=0.10,<0.12"', '"anywidget>=0.11,<0.12"')
    assert drift(changed, ENVIRONMENT) != []


def test_a_spec_conda_cannot_read_is_refused():
    from rattler.exceptions import InvalidMatchSpecError

    with pytest.raises(InvalidMatchSpecError):
        drift(PYPROJECT, ENVIRONMENT.replace("numpy >=2.0", "numpy >=>2.0"))


def test_only_conda_forge_is_asked():
    """`nodefaults` keeps out the channel whose terms ask larger organisations for a licence."""
    assert yaml.safe_load(ENVIRONMENT)["channels"] == ["conda-forge", "nodefaults"]


def test_labkit_itself_is_installed_from_this_folder():
    pip_section = yaml.safe_load(ENVIRONMENT)["dependencies"][-1]["pip"]
    assert "-e ." in pip_section


def test_jupyterlab_reads_the_settings_the_lab_ships():
    """Without saveState, a saved notebook opens as `Error displaying widget: model not found`."""
    from jupyterlab.commands import get_app_dir

    shipped = json.loads((ROOT / "jupyter" / "overrides.json").read_text(encoding="utf-8"))
    effective = Path(get_app_dir()) / "settings" / "overrides.json"
    assert effective.is_relative_to(sys.prefix)
    assert json.loads(effective.read_text(encoding="utf-8")) == shipped
    assert shipped["@jupyter-widgets/jupyterlab-manager:plugin"] == {"saveState": True}


def test_the_settings_name_plugins_and_values_jupyterlab_knows():
    """A misspelt plugin or value would be ignored without a word."""
    from jsonschema import validate

    shipped = json.loads((ROOT / "jupyter" / "overrides.json").read_text(encoding="utf-8"))
    schemas = {
        f"{path.parent.parent.name}/{path.parent.name}:{path.stem}": path
        for path in (Path(sys.prefix) / "share" / "jupyter").rglob("*.json")
        if "schemas" in path.parts
    }
    for plugin, values in shipped.items():
        schema = json.loads(schemas[plugin].read_text(encoding="utf-8"))
        assert values.keys() <= schema["properties"].keys()
        validate(values, schema)


def test_the_installed_labkit_is_this_one():
    address = json.loads(importlib.metadata.distribution("labkit").read_text("direct_url.json"))
    assert address["url"] == ROOT.as_uri()


def test_the_wheel_carries_settings_and_javascript(tmp_path):
    from hatchling.builders.wheel import WheelBuilder

    (wheel,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    names = zipfile.ZipFile(wheel).namelist()
    assert any(name.endswith("share/jupyter/lab/settings/overrides.json") for name in names)
    scripts = {path.relative_to(ROOT).as_posix() for path in (ROOT / "labkit").rglob("*.js")}
    assert scripts <= set(names)
