"""`%%cuda`: a whole program in a cell."""

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

RACE = """#include <cstdio>
__global__ void count(int* n) {
    *n += 1;
}
int main(int argc, char** argv) {
    int* n;
    cudaMallocManaged(&n, sizeof(int));
    *n = 0;
    count<<<1, 8>>>(n);
    cudaDeviceSynchronize();
    std::printf("%s counted\\n", argc > 1 ? argv[1] : "nothing");
    cudaFree(n);
    return 3;
}
"""


@pytest.fixture
def shell():
    shell = InteractiveShell.instance()
    shell.run_line_magic("load_ext", "labkit")
    yield shell
    InteractiveShell.clear_instance()


def ran(shell, line, cell):
    with capture_output() as captured:
        shell.run_cell_magic("cuda", line, cell)
    return captured


def test_output_findings_and_the_launches_stand_below(shell):
    shown = ran(shell, "--into result sheep", RACE)
    assert shown.stdout.startswith("sheep counted\n")
    assert "cell.cu:3: race: thread (1, 0, 0) reads n[0]" in shown.stdout
    assert "status 3" in shown.stdout
    (view,) = shown.outputs
    assert "count" in view.data["text/plain"]
    assert "findings" in view.data["text/plain"]
    assert shell.user_ns["result"].findings[0].line == 3


def test_unwatched_nothing_is_drawn(shell):
    shown = ran(shell, "--fast", RACE)
    assert shown.stdout.startswith("nothing counted\n")
    assert not shown.outputs


@pytest.mark.parametrize(
    ("line", "cell", "message"),
    [
        ("", "__global__ void k() {}", "this one has no main(), only k"),
        ("", "int main() { return x; }", "cell.cu:1:21: error: 'x' was not declared"),
        ("--wrong", "int main() {}", "unrecognized arguments: --wrong"),
    ],
)
def test_what_cannot_run_is_told_without_a_traceback(shell, line, cell, message):
    shown = ran(shell, line, cell)
    assert message in shown.stderr
    assert "Traceback" not in shown.stderr + shown.stdout
