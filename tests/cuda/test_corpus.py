"""Every planted defect is found at its line; correct kernels are left in peace."""

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import labkit.cuda as cuda
from labkit.cuda.emulator import build
from labkit.cuda.emulator.driver import EmulatorDriver

CORPUS = Path(__file__).with_name("corpus")
ORDERS = ["forward", "reverse", 11]
COMPILERS = [
    "g++",
    pytest.param(
        "clang++", marks=pytest.mark.skipif(not shutil.which("clang++"), reason="no clang++ here")
    ),
]


@dataclass(frozen=True)
class Case:
    path: Path
    name: str
    expected: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    args: tuple[str, ...]
    shared: int
    line: int  # the planted one, 0 for none

    def make_args(self):
        generator = np.random.default_rng(0)
        makers = {
            "f": lambda n: generator.random(n, dtype=np.float32),
            "i": lambda n: generator.permutation(n).astype(np.int32),
            "z": lambda n: np.zeros(n, np.int32),
            "b": lambda n: generator.integers(0, 255, n, dtype=np.uint8),
            "h": lambda n: generator.random(n).astype(np.float16),
        }
        return [makers[spec[0]](int(spec[2:])) if ":" in spec else int(spec) for spec in self.args]


def cases():
    for path in sorted(CORPUS.glob("*.cu")):
        text = path.read_text()
        head = re.compile(r"^//: (\w+) (\S+) (\S+)(.*)\n(?:.*\n)??extern.*? (\w+)\(", re.MULTILINE)
        heads = list(head.finditer(text))
        for match, following in zip(heads, [*heads[1:], None], strict=True):
            body = text[: following.start() if following else None]
            bug = body.find("// BUG", match.start())
            words = match[4].split()
            shared = [int(w[7:]) for w in words if w.startswith("shared=")]
            yield Case(
                path, match[5], match[1],
                tuple(map(int, match[2].split("x"))), tuple(map(int, match[3].split("x"))),
                tuple(w for w in words if not w.startswith("shared=")), sum(shared),
                text.count("\n", 0, bug) + 1 if bug >= 0 else 0,
            )  # fmt: skip


CASES = list(cases())
DEFECTS = [case for case in CASES if case.expected != "clean"]
CLEAN = [case for case in CASES if case.expected == "clean"]


@pytest.fixture(scope="module", params=COMPILERS)
def modules(request):
    patch = pytest.MonkeyPatch()
    patch.setenv("CXX", request.param)
    driver = EmulatorDriver(capacity=64 << 20)
    assert build.find_compiler().is_clang == (request.param == "clang++")
    loaded = {path: cuda.RawModule(path=path, driver=driver) for path in {c.path for c in CASES}}
    yield loaded
    driver.worker.stop()
    patch.undo()


def trace(modules, case, order):
    args = case.make_args()
    text = modules[case.path]
    kernel = text.get_function(case.name)
    for i, param in enumerate(kernel.function.signature.params):
        if isinstance(args[i], np.ndarray) and case.args[i].startswith("z"):
            is_float = "float" in param.type and "4" not in param.type
            args[i] = args[i].view(np.float32 if is_float else args[i].dtype)
            args[i] = args[i].view(np.uint32) if "unsigned" in param.type else args[i]
    return kernel(
        case.grid, case.block, args, shared_mem=case.shared, trace=cuda.Trace(), order=order
    )


def test_the_corpus_is_as_large_as_it_says():
    assert len(DEFECTS) >= 80
    assert len(CLEAN) >= 80
    assert all(case.line for case in DEFECTS)
    assert len({case.name for case in CASES}) == len(CASES)
    written = sum(path.read_text().count("\n//: ") for path in CORPUS.glob("*.cu"))
    assert written == len(CASES)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("case", DEFECTS, ids=lambda case: case.name)
def test_a_defect_is_found_at_its_line(modules, case, order):
    report = trace(modules, case, order)
    told = [(f.kind, f.lines) for f in report.findings]
    assert any(kind == case.expected and case.line in lines for kind, lines in told), str(report)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("case", CLEAN, ids=lambda case: case.name)
def test_a_correct_kernel_is_left_in_peace(modules, case, order):
    report = trace(modules, case, order)
    assert report.events > 0
    assert not report.findings, str(report)
