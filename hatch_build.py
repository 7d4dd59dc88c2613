"""What a wheel carries besides the package; an editable install reads it from the checkout."""

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

CARRIED = {
    "kernels": "labkit/kernels",
    "tests/memory/fixtures": "labkit/conformance/fixtures",
}
"""Folder of the checkout -> folder in the wheel, where `labkit.core.carried` finds it."""


class CustomBuildHook(BuildHookInterface[Any]):
    """Packs them."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """The folders are in a wheel that is no editable one."""
        if version == "standard":
            build_data["force_include"].update(CARRIED)
