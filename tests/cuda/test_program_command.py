"""`labkit run` and `labkit trace` with a whole program."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from labkit.cli import main

PROGRAMS = Path(__file__).with_name("programs")
RACE = PROGRAMS / "defect_race.cu"


def line_of(path, words):
    return next(n for n, line in enumerate(path.read_text().splitlines(), 1) if words in line)


def test_its_output_is_its_own_and_its_status_is_kept(capfd):
    status = main(["run", *(str(PROGRAMS / f"several_{x}.cu") for x in "ab"), "6", "words", "here"])
    out, err = capfd.readouterr()
    assert status == 7
    assert out.splitlines()[-1] == "from a kernel: 144"
    assert err.strip() == ""


def test_findings_come_after_it_as_text_json_and_sarif(capfd, tmp_path):
    told, code = tmp_path / "told.json", tmp_path / "told.sarif"
    status = main(["trace", str(RACE), "--json", str(told), "--sarif", str(code)])
    out, err = capfd.readouterr()
    line = line_of(RACE, "finds race")
    assert (status, out) == (1, "done\n")
    assert f"{RACE}:{line}: race: " in err
    assert "[launch 1, count]" in err
    (finding,) = json.loads(told.read_text())["findings"]
    assert (finding["kind"], finding["line"], finding["launch"]) == ("race", line, 1)
    (result,) = json.loads(code.read_text())["runs"][0]["results"]
    place = result["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": str(RACE)}, "region": {"startLine": line}}
    assert "suppressions" not in result


def test_a_suppression_needs_its_line_and_a_reason(capfd, tmp_path):
    known, code = tmp_path / "known.txt", tmp_path / "told.sarif"
    line = line_of(RACE, "finds race")
    known.write_text(f"# shown in class\ndefect_race.cu:{line} race the class finds it\n")
    assert main(["trace", str(RACE), "--suppress", str(known), "--sarif", str(code)]) == 0
    assert "0 findings, 1 suppressed" in capfd.readouterr().err
    (result,) = json.loads(code.read_text())["runs"][0]["results"]
    assert result["suppressions"][0]["justification"] == "the class finds it"
    known.write_text(f"defect_race.cu:{line + 1} race another line\n")
    assert main(["trace", str(RACE), "--suppress", str(known)]) == 1
    assert "this suppression covers no finding" in capfd.readouterr().err
    known.write_text(f"defect_race.cu:{line} race\n")
    assert main(["trace", str(RACE), "--suppress", str(known)]) == 2
    assert "FILE:LINE KIND REASON" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("int main() { return twice(3); }", "prog.cu:1:21: error: 'twice' was not declared"),
        ("int main() { extern int far(); return far(); }", "undefined reference to `far()'"),
        (
            "__global__ void k() {\n  k<<<1, 1>>>();\n}\nint main() {}",
            "prog.cu:2: the emulator does",
        ),
        (
            '__global__ void k(int* x) {\n  asm("brkpt;");\n}\nint main() {}',
            "prog.cu:2: the emulator does not run inline PTX",
        ),
    ],
)
def test_what_cannot_be_built_says_why(capfd, tmp_path, monkeypatch, code, message):
    monkeypatch.chdir(tmp_path)
    Path("prog.cu").write_text(code)
    assert main(["run", "prog.cu"]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert message in err


def test_no_file_is_told(capfd):
    assert main(["run"]) == 2
    assert main(["run", "missing.cu"]) == 2
    assert "missing.cu cannot be read" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (
            "#include <thrust/set_operations.h>\n",
            "prog.cu:1: the emulator does not run this part of t",
        ),
        (
            "#include <cufft.h>\nauto f = cufftXtFree;\n",
            "prog.cu:2: the emulator does not run this part of cuF",
        ),
        ("#include <cuda/atomic>\n", "prog.cu:1: the emulator does not run this part of libcu++"),
        ("\nCUmodule module;\n", "prog.cu:2: the emulator does not run the driver API (CUmodule)"),
        (
            "\nvoid f() { cudaExternalMemory_t memory; }",
            "prog.cu:2: the emulator does not run cudaExternalMemory_t",
        ),
    ],
)
def test_what_the_emulator_has_not_is_refused_by_name(capfd, tmp_path, monkeypatch, code, message):
    monkeypatch.chdir(tmp_path)
    Path("prog.cu").write_text(code + "\nint main() {}\n")
    assert main(["run", "prog.cu"]) == 2
    assert message in capfd.readouterr().err


def test_checked_files_are_compiled_for_host_and_device_and_need_no_main(capfd, tmp_path):
    kernel, wrong = tmp_path / "kernel.cu", tmp_path / "wrong.cu"
    kernel.write_text("__global__ void k(int* x) {\n#ifdef __CUDA_ARCH__\n  BODY\n#endif\n}\n")
    assert main(["run", "--check", "-DBODY=*x=1;", str(kernel)]) == 0
    assert main(["run", "--check", "-DBODY=*y=1;", str(kernel)]) == 2
    assert "'y' was not declared" in capfd.readouterr().err
    wrong.write_text("int main() { return cudaNothingOfTheKind(); }\n")
    assert main(["run", "--check", str(wrong)]) == 2
    assert "wrong.cu:1: the emulator does not run cudaNothingOfTheKind" in capfd.readouterr().err


def test_an_interrupted_program_still_tells_what_was_found(tmp_path):
    path = tmp_path / "endless.cu"
    path.write_text(
        RACE.read_text().replace(
            'std::printf("done\\n");', 'std::puts("waiting"), std::fflush(stdout);\n for (;;);'
        )
    )
    run = subprocess.Popen(
        [sys.executable, "-m", "labkit", "trace", str(path)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    with run:
        while "waiting" not in (line := run.stdout.readline()) and line:
            pass
        run.send_signal(signal.SIGINT)
        told = run.stderr.read()
        status = run.wait()
    assert status == 130
    assert "race: " in told
    assert "interrupted" in told
