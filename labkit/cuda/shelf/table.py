"""`kernels/README.md`, written from the headers: `python -m labkit.cuda.shelf.table`."""

from labkit.cuda.shelf import LADDERS
from labkit.cuda.source import KERNELS

README = KERNELS / "README.md"


def table() -> str:
    """The whole text of `kernels/README.md`."""
    lines = [
        "# The kernel shelf",
        "",
        "Written by `python -m labkit.cuda.shelf.table` from the files' headers; a test holds",
        "every counter against a traced launch. Read a ladder in order: each file's header says",
        "what it changes and why that should help. [resources.json](resources.json) records the",
        "registers, shared memory and spills of each kernel on three GPU generations.",
        "",
        "| kernel | idea | counters on its probe |",
        "|---|---|---|",
    ]
    for rungs in LADDERS.values():
        for rung in rungs:
            link = f"[{rung.op}/{rung.path.name}]({rung.op}/{rung.path.name})"
            counters = "<br>".join(str(one).replace("*", "\\*") for one in rung.predictions)
            only = f" (GPU only: {rung.gpu_only})" if rung.gpu_only else ""
            lines.append(f"| {link} | {rung.idea}{only} | {counters} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    README.write_text(table(), encoding="utf-8")
