"""What a scripted learner does in a workshop: every section, in order, with answers of its kind."""

import contextlib
import time
from dataclasses import dataclass, field

import psutil

from labkit.course.chapters.editions import tasks
from labkit.course.notebook_form import ROOT, read_notebook
from labkit.workshop.grading.marks import worth
from labkit.workshop.sections import HEADING

CRASH = "import os\nos._exit(3)"
MIB = 1 << 20


def kind_of(number):
    """A third of the seats answers wrongly, and in a tenth an answer kills the kernel."""
    if number % 10 == 1:
        return "crash"
    return "wrong" if number % 3 == 0 else "right"


@dataclass
class Seat:
    """One learner of the room, and what was measured of its work."""

    name: str
    kind: str
    figures: dict = field(default_factory=dict)
    crashed: list = field(default_factory=list)
    refused: list = field(default_factory=list)

    def answer(self, task, place):
        """What this learner writes into the stub of the place-th exercise of a chapter."""
        if self.kind == "crash" and place == 0:
            return CRASH
        if self.kind == "wrong":
            return task.stub["source"].replace("raise NotImplementedError", "return None", 1)
        return task.solution_code

    def points(self, stops):
        """Exercise -> the points that these answers are worth."""
        got = {}
        for stop in stops:
            for place, (_, names) in enumerate(asked(stop)):
                wrong = self.kind == "wrong" or (self.kind == "crash" and place == 0)
                got |= {name: 0 if wrong else worth(name) for name in names}
        return got

    async def attend(self, room, stops):
        """Log in, and do every stop; a correct answer that a check refuses is noted."""
        learner = room.learner(self.name)
        begun = time.monotonic()
        await learner.log_in()
        await learner.spawn()
        for stop in stops:
            await self._do(learner, stop, begun)
            await learner.close()

    async def _do(self, learner, stop, begun):
        notebook = await learner.open(stop.chapter)
        written = {
            task.stub["id"]: self.answer(task, place) for place, (task, _) in enumerate(asked(stop))
        }
        for cell in notebook["cells"]:
            cell["source"] = written.get(cell["id"], cell["source"])
        content = {"type": "notebook", "format": "json", "content": notebook}
        await learner.api(f"contents/notebooks/{stop.chapter}.ipynb", "PUT", content)
        done = [cell for cell in _cells(notebook, stop) if cell["source"].strip()]
        while done and await self._ran(learner, done, stop, written, begun):
            done = [cell for cell in done if cell["source"] != CRASH]
            await learner.close()
            await learner.open(stop.chapter)
        held = self.held(learner)
        if sum(held.values()) >= self.figures.get("MiB", 0):
            self.figures |= {"MiB": sum(held.values()), "held by": held}

    async def _ran(self, learner, cells, stop, written, begun):
        """Run the cells; True when the kernel died of an answer."""
        above = None
        for cell in cells:
            above = cell["id"] if cell["id"] in written else above
            try:
                said, status = await learner.run(cell["source"], cell["id"])
            except ConnectionError:
                self.crashed.append(stop.chapter)
                return True
            if "first picture, s" not in self.figures and _drawn(said):
                self.figures["first picture, s"] = round(time.monotonic() - begun, 1)
                self.figures["first picture, CPU s"] = round(self.cpu(learner), 2)
                self.figures["first picture, MiB"] = sum(self.held(learner).values())
            right = above and written[above] != CRASH and self.kind != "wrong"
            if right and "check" in cell["metadata"].get("tags", []) and status != "ok":
                self.refused.append((stop.chapter, cell["source"]))
            above = None if "check" in cell["metadata"].get("tags", []) else above
        return False

    def processes(self, learner):
        """Those of the learner: as root starts it, a user of the machine of their own."""
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.uids().real == learner.user:
                    yield process

    def held(self, learner):
        """Private memory in MiB of each process: the server, its kernel, what they started."""
        found = {}
        for process in self.processes(learner):
            with contextlib.suppress(psutil.Error):
                said = f"{process.pid} of {process.ppid()}: {' '.join(process.cmdline())}"
                found[said] = process.memory_full_info().uss / MIB
        return found

    def cpu(self, learner):
        """Processor seconds of the server and its kernel."""
        total = 0.0
        for process in self.processes(learner):
            with contextlib.suppress(psutil.Error):
                total += sum(process.cpu_times()[:2])
        return total


def asked(stop):
    """(task, its exercises that count) of a stop, in the order of the chapter."""
    notebook = read_notebook(ROOT / "notebooks" / f"{stop.chapter}.ipynb")
    found = [
        (task, [name for name in task.ids if name in stop.exercises]) for task in tasks(notebook)
    ]
    return [(task, names) for task, names in found if names]


def _cells(notebook, stop):
    """The code cells of the sections that are done."""
    names = {section.name for section in stop.done}
    inside = "" in names
    for cell in notebook["cells"][1:]:
        if cell["cell_type"] == "code":
            if inside:
                yield cell
        elif heading := HEADING.search(cell["source"]):
            inside = heading[1] in names


def _drawn(said):
    return any(kind == "display_data" and "model_id" in str(content) for kind, content in said)
