"""What the emulator makes of public CUDA programs, as they are: `public_programs.json` lists them.

    python benchmarks/public_programs.py FOLDER [--only 'rodinia/*'] [--trace] [--json OUT]

FOLDER holds one checkout a suite, named as the suite and at the commit the list names. Each program
is run by `labkit run` in a copy of its folder, and is one of

    passed         it ended with status 0 and printed nothing that the list says it must not, or
                   it printed the line (`until`) that says that it has checked its results, and was
                   interrupted there, before it measures how fast it is (one with `smaller`
                   sizes does that, too)
    waived         it says itself that this device cannot run it
    refused        the emulator named what it does not do
    not_compiled   a compiler's error, which is the emulator's fault
    failed         another status, a signal, a line it must not print, or a launch that broke off
    too_long       more processor time than --cpu, its compilers' included
    skipped        for the reason in the list

The list says what is expected, where it has been seen, and which findings (`defects`, patterns)
have been read and are right; another verdict or finding is marked with `!`. A program that takes
no sizes runs with `smaller` ones, patterns and what is written instead; `each` holds the arguments
of several runs, a row each.

With --files, every .cu file of the suites is compiled by itself and nothing runs: `compiled`,
`refused` and `not_compiled`, and `elsewhere` for a file that includes what neither the suite nor
NVIDIA's toolkit brings, so that no compiler accepts it as it is.
"""

import argparse
import fnmatch
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from datetime import date
from pathlib import Path

from labkit.cuda.errors import CompileError, UnsupportedFeatureError
from labkit.cuda.programs.builds import Program

LIST = Path(__file__).with_suffix(".json")
SOURCES = (".cu", ".cpp")
QUIET_S = 120.0
"""So long without using the processor, and a program waits for ever."""
TICKS = os.sysconf("SC_CLK_TCK")


BROKEN_OFF = {"fault", "misaligned", "assert", "trap", "abort", "arithmetic", "stack", "died",
              "deadlock", "timeout"}  # fmt: skip
"""Findings behind which a launch has not done its work, whatever the program goes on to say."""


def programs():
    """Every run of every program of the list, with what its suite says for all."""
    for suite, told in json.loads(LIST.read_text(encoding="utf-8")).items():
        for program in told["programs"]:
            folder = program["folder"]
            one = {**told, "suite": suite, "name": folder.rpartition("/")[2], **program}
            for given in program.get("each", ()):
                yield one | {"name": f"{one['name']} {given}", "arguments": given.split()}
            if "each" not in program:
                yield one


def shrunk(program, folder):
    """The sizes that files of its folder hold are the list's smaller ones."""
    for file in folder.rglob("*"):
        if file.suffix not in (*SOURCES, ".cuh", ".h"):
            continue
        text = file.read_text(encoding="utf-8", errors="surrogateescape")
        for pattern, instead in program["smaller"].items():
            text = re.sub(pattern, instead, text)
        file.write_text(text, encoding="utf-8", errors="surrogateescape")


def command(program, root, folder, found, trace):
    """`labkit run` with the program's files, which lie in a folder."""
    names = program.get("sources")
    files = (
        [folder / name for name in names]
        if names
        else sorted(f for f in folder.iterdir() if f.suffix in SOURCES)
    )
    options = [f"-I{root / place}" for place in (*program.get("include", []), program["folder"])]
    options += [*program.get("options", []), "--json", str(found)] + ["--trace"] * trace
    given = ["--", *program.get("arguments", [])]
    return [sys.executable, "-m", "labkit", "run", *options, *map(str, files), *given]


def processor_s(pid):
    """Seconds of processor time of a process and of all it has started."""
    parents, times = {}, {}
    for place in Path("/proc").iterdir():
        if not place.name.isdigit():
            continue
        try:
            fields = (place / "stat").read_text().rpartition(") ")[2].split()
        except OSError:
            continue
        parents[int(place.name)] = int(fields[1])
        times[int(place.name)] = sum(map(int, fields[11:15])) / TICKS
    family = {pid}
    while more := {p for p, parent in parents.items() if parent in family} - family:
        family |= more
    return sum(times.get(one, 0.0) for one in family), family


def limited(words, folder, output, limit_s, until):
    """(status or None, seconds of processor time) of a command that is ended at its limit.

    until   what it prints when it has checked its results: it is interrupted then, status 130
    """
    process = subprocess.Popen(
        words, cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
    )
    used, moved = 0.0, time.monotonic()
    while process.poll() is None:
        now, family = processor_s(process.pid)
        if now > used + 0.01:
            used, moved = max(used, now), time.monotonic()
        printed = Path(output.name).read_text(encoding="utf-8", errors="replace")
        if until and re.search(until, printed):
            process.send_signal(signal.SIGINT)
            until = None
        if used > limit_s or time.monotonic() - moved > QUIET_S:
            for one in family:
                try:
                    os.kill(one, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            process.wait()
            return None, used
        time.sleep(0.1)
    return process.returncode, used


def known(program, finding):
    """Has somebody read this finding, and found it right?"""
    return any(re.search(pattern, finding) for pattern in program.get("defects", ()))


def told_apart(program, text, found):
    """(verdict, why) of a program that ended."""
    refusal = re.search(r"the emulator does not run [^.\n]*|the emulator has no \w+", text)
    if not found:
        error = re.search(r"^.*(?:error:|undefined reference).*$", text, re.MULTILINE)
        if refusal:
            return "refused", refusal[0]
        return "not_compiled", error[0] if error else text[-200:]
    if found["status"] == program.get("waived_status"):
        return "waived", last_line(text)
    never = program.get("never")
    line = re.search(f"^.*{never}.*$", text, re.MULTILINE) if never else None
    for one in found["findings"]:
        about = f"{one['file']}:{one['line']} {one['kind']}"
        if one["kind"] in BROKEN_OFF and not known(program, about):
            return "failed", about
    done = re.search(program["until"], text) if "until" in program else found["status"] == 0
    if done and not line:
        return "passed", ""
    if refusal:
        return "refused", refusal[0]
    return "failed", f"status {found['status']}: {line[0] if line else last_line(text)}"


def last_line(text):
    """Of what the program printed itself."""
    own = re.split(r"\n\n\S+: \d+ launch", text)[0].strip()
    return own.rpartition("\n")[2][-200:]


def examine(program, checkouts, trace, limit_s, outputs):
    """The program's row of the results."""
    name = f"{program['suite']}/{program['name']}"
    row = {"name": name, "verdict": "skipped", "watched": trace, "limit_s": limit_s, "findings": []}
    root = (checkouts / program["suite"]).resolve()
    folder = root / program["folder"]
    if "skip" in program or not folder.is_dir():
        return row | {"why": program.get("skip", f"{folder} is not there")}
    # Compiled once for all runs of a program: its shrunk files lie where they lay the last time.
    here = Path(tempfile.gettempdir(), "labkit-public-programs", *name.partition(" ")[0].split("/"))
    shutil.rmtree(here, ignore_errors=True)
    shutil.copytree(folder, here, symlinks=True, ignore=shutil.ignore_patterns(".git"))
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch, "out")
        found = Path(scratch, "found.json")
        if "smaller" in program:
            shrunk(program, here)
            folder = here
        with out.open("wb") as output:
            words = command(program, root, folder, found, trace)
            until = None if "smaller" in program else program.get("until")
            status, used = limited(words, here, output, limit_s, until)
        text = out.read_text(encoding="utf-8", errors="replace")
        told = json.loads(found.read_text(encoding="utf-8")) if found.exists() else {}
    if outputs:
        (outputs / f"{row['name'].replace('/', '.')}.txt").write_text(text, encoding="utf-8")
    verdict, why = told_apart(program, text, told)
    if status is None:
        verdict, why = "too_long", f"ended after {used:.0f} s of processor time"
    kept = [f"{one['file']}:{one['line']} {one['kind']}: {one['message']}" for one in
            told.get("findings", [])]  # fmt: skip
    kept = [one.replace(f"{root}/", "").replace(f"{here}/", "") for one in kept]
    return row | {"verdict": verdict, "why": why, "cpu_s": round(used, 1), "findings": kept}


ELSEWHERE = re.compile(
    r"(GLES|GLFW/|EGL/|X11/|GL/gl|GL/free|GLUT/|cuda_gl_interop|cuda_egl|cudaEGL|cuda_vulkan|vulkan/|"
    r"d3d|D3D|DirectX|dxgi|drm_fourcc|nvsci|nvmedia|cudla|mpi\.h|nccl|cudnn|c10/|ATen/|torch/).*"
)
INCLUDED = re.compile(r"^[ \t]*#[ \t]*include[ \t]*[<\"]([^>\"\n]+)", re.MULTILINE)
"""Headers that come with neither a suite nor the toolkit."""


def compiled(suite, told, checkouts):
    """A row of the results for each .cu file of a suite."""
    root = (checkouts / suite).resolve()
    folders = {p["folder"]: p for p in told["programs"]}
    for file in sorted(root.rglob("*.cu")):
        folder = str(file.parent.relative_to(root))
        own = folders.get(folder, {})
        places = [*told.get("include", []), *own.get("include", []), folder, f"{folder}/../inc"]
        options = [f"-I{root / place}" for place in places] + told.get("options", [])
        row = {"name": str(file.relative_to(checkouts.resolve())), "findings": [], "why": ""}
        before = sum(os.times()[:4])
        program = Program((file,), tuple(options))
        try:
            program.check()
            verdict = "compiled"
        except UnsupportedFeatureError as error:
            verdict, row["why"] = "refused", str(error)
        except CompileError as error:
            lines = [one for one in str(error).splitlines() if "error:" in one]
            verdict, row["why"] = "not_compiled", lines[0] if lines else str(error)[:200]
        if verdict != "compiled":
            needed = {name for one in program.files for name in INCLUDED.findall(one.text)}
            foreign = sorted(name for name in needed if ELSEWHERE.fullmatch(name))
            if foreign:
                verdict, row["why"] = "elsewhere", f"includes {', '.join(foreign)}"
        row["why"] = row["why"].replace(f"{root}/", "").replace(f"{checkouts.resolve()}/", "")
        yield row | {"verdict": verdict, "cpu_s": round(sum(os.times()[:4]) - before, 1)}


def summary(rows, good):
    """How many of each verdict, in words."""
    counts = Counter(row["verdict"] for row in rows)
    others = [f"{count} {verdict}" for verdict, count in counts.items() if verdict != good]
    return ", ".join([f"{counts[good]} of {len(rows)} {good}", *others])


def written(rows, out):
    """The rows are in a file, with the day they were measured."""
    told = {"measured": f"{date.today()}", "rows": rows}
    out.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


def main():
    """One line a program, then how many of each verdict."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="holds one checkout a suite")
    parser.add_argument("--only", default="*", help="programs whose suite/name match")
    parser.add_argument("--trace", action="store_true", help="watch each kernel's first launch")
    parser.add_argument("--cpu", type=float, default=120.0, help="seconds of processor time each")
    parser.add_argument("--json", type=Path, help="write the results there")
    parser.add_argument("--outputs", type=Path, help="keep what each program printed in there")
    parser.add_argument("--files", action="store_true", help="compile each .cu file, run nothing")
    arguments = parser.parse_args()
    signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # the programs', too, in a shell's background
    if arguments.files:
        rows = []
        for suite, told in json.loads(LIST.read_text(encoding="utf-8")).items():
            if not told.get("files") or not fnmatch.fnmatch(suite, arguments.only):
                continue
            for row in compiled(suite, told, arguments.folder):
                rows.append(row)
                if row["verdict"] != "compiled":
                    print(f"{row['verdict']:13} {row['name']}\n    {row['why'][:180]}", flush=True)
        print(summary(rows, "compiled"))
        if arguments.json:
            written(rows, arguments.json)
        return
    if arguments.outputs:
        arguments.outputs.mkdir(parents=True, exist_ok=True)
    rows = []
    for program in programs():
        if not fnmatch.fnmatch(f"{program['suite']}/{program['name']}", arguments.only):
            continue
        rows.append(
            examine(program, arguments.folder, arguments.trace, arguments.cpu, arguments.outputs)
        )
        row = rows[-1]
        seconds = f"{row.get('cpu_s', 0):6.1f} s"
        mark = "!" if row["verdict"] != program.get("expected", row["verdict"]) else " "
        print(
            f"{mark} {row['name']:43} {row['verdict']:13} {seconds}  {row['why'][:110]}", flush=True
        )
        for finding in row["findings"]:
            print(f"{' ' if known(program, finding) else '!'}   {finding[:160]}", flush=True)
    print(summary(rows, "passed"))
    if arguments.json:
        written(rows, arguments.json)


if __name__ == "__main__":
    main()
