# mypy: disallow-untyped-calls=False
"""How the lab's JupyterLab reads notebooks: with no code in their saved widgets but the lab's own.

`python3 lab.py` starts JupyterLab with

    --ServerApp.contents_manager_class=labkit.widgets.contents.LabContentsManager
"""

from typing import Any

from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager

from labkit.widgets.saved_state import drop_notice, keep_own_code


class LabContentsManager(AsyncLargeFileManager):
    """Serves a notebook without foreign widget code; the file itself changes only when saved.

    Every reader of notebooks in the server comes through `get`: JupyterLab, a copy, a conversion.
    A download takes the file as it is.
    """

    async def get(
        self,
        path: str,
        content: bool = True,
        type: str | None = None,  # noqa: A002  (the server's names)
        format: str | None = None,  # noqa: A002
        require_hash: bool = False,
    ) -> dict[str, Any]:
        """What lies at the path; the content of a notebook with a note of what was removed."""
        model: dict[str, Any] = await super().get(path, content, type, format, require_hash)
        if model["type"] == "notebook" and model["content"] is not None:
            removed = keep_own_code(model["content"])
            if removed:
                self.log.warning("%s: %d saved widgets with foreign code removed", path, removed)
        return model

    async def save(self, model: dict[str, Any], path: str = "") -> dict[str, Any]:
        """The model is written, without the note."""
        if model.get("type") == "notebook" and isinstance(model.get("content"), dict):
            drop_notice(model["content"])
        saved: dict[str, Any] = await super().save(model, path)
        return saved
