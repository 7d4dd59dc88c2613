"""The verdict on runs whose reason is known, and on recordings that say less."""

import itertools
import json
import random

import pytest

from labkit import cli
from labkit.cuda.simulated_run import SimulatedRun
from labkit.pipeline.config import load
from labkit.pipeline.profiling.bottleneck import Roof, bottleneck_of, critical_path, with_causes
from labkit.pipeline.profiling.film_job import ROOF, film_job, slow_jobs
from labkit.pipeline.profiling.trace import read_trace, write_trace
from labkit.pipeline.settings import Settings

JOBS = slow_jobs()


@pytest.mark.parametrize("reason", JOBS)
def test_the_reason_is_found(reason):
    found = bottleneck_of(JOBS[reason].spans, Roof(*ROOF))
    assert found.kinds == reason.split(" and ")
    assert sum(found.shares.values()) == pytest.approx(1)


def test_without_roofs_a_kernel_is_a_kernel():
    assert bottleneck_of(JOBS["memory"].spans).kinds == ["kernel"]


@pytest.mark.parametrize("seed", range(20))
def test_the_path_has_no_gap_and_is_as_long_as_the_run(seed):
    rng = random.Random(seed)
    job = film_job(
        *(rng.randint(1, 900) for _ in range(5)), kernels=rng.randint(1, 4), ahead=rng.randint(0, 3)
    )
    path = critical_path(job.spans)
    assert path[0].start == 0
    assert path[-1].end == max(span["end"] for span in job.spans)
    assert all(a.end == b.start for a, b in itertools.pairwise(path))


def test_faster_work_off_the_path_changes_nothing():
    before, after = film_job(read=4000, kernel=3000), film_job(read=4000, kernel=2000)
    saved = before.until("stream") - after.until("stream")
    assert saved == 1000  # the last frame's; the nine before it were off the path


@pytest.mark.parametrize("cause", [0, 1, -1])
def test_who_waits_for_itself_or_for_later_work_is_refused(cause):
    spans = film_job(frames=1).spans
    spans[0]["after"] = [cause]
    with pytest.raises(ValueError, match="span 0"):
        critical_path(spans)


def test_a_run_without_time_is_refused():
    run = SimulatedRun()
    run.do("host", "nothing", 0, "host")
    with pytest.raises(ValueError, match="no"):
        bottleneck_of(run.spans)


def recording():
    """A host that queues two kernels, waits for them, and works."""

    def event(name, category, start, length, tid=1, **about):
        return {"ph": "X", "name": name, "cat": category, "tid": tid, "ts": start, "dur": length,
                "args": about}  # fmt: skip

    return [
        event("step", "user_annotation", 0, 1000),
        event("aten::conv2d", "cpu_op", 10, 30),
        event("cudaLaunchKernel", "cuda_runtime", 20, 10, correlation=1),
        event("cudaLaunchKernel", "cuda_runtime", 40, 10, correlation=2),
        event("conv", "kernel", 35, 365, stream=7, correlation=1),
        event("relu", "kernel", 400, 200, stream=7, correlation=2),
        event("cudaDeviceSynchronize", "cuda_runtime", 60, 545),
        event("aten::add", "cpu_op", 700, 100),
    ]


def test_a_recording_of_a_device_is_followed_through_its_waits(tmp_path):
    (tmp_path / "trace.json").write_text(json.dumps(recording()))
    found = bottleneck_of(with_causes(read_trace(tmp_path / "trace.json")))
    assert found.kinds == ["kernel", "host"]
    assert found.shares["kernel"] == pytest.approx(0.565)
    assert found.busy["stream 7"] == pytest.approx(0.565)


def test_a_loader_holds_all_that_it_calls(tmp_path):
    spans = [
        {
            "lane": "thread 1",
            "name": "enumerate(DataLoader)",
            "kind": "input",
            "start": 0,
            "end": 9,
        },
        {"lane": "thread 1", "name": "aten::stack", "kind": "host", "start": 2, "end": 6},
        {"lane": "thread 1", "name": "aten::mul", "kind": "host", "start": 9, "end": 10},
    ]
    assert bottleneck_of(with_causes(spans)).shares == pytest.approx({"input": 0.9, "host": 0.1})


@pytest.mark.parametrize(("reason", "status"), [("input", 3), ("kernel", 0), ("memory", 0),
                                                ("input and kernel", 3)])  # fmt: skip
def test_the_command_says_it_and_its_status_too(tmp_path, capsys, reason, status):
    write_trace(JOBS[reason].spans, tmp_path / "trace.json")
    roof = ["--roof", "4000", "80000"]
    trace = str(tmp_path / "trace.json")
    assert cli.main(["optimize", trace, "--detect-bottlenecks", *roof]) == status
    said = capsys.readouterr().out
    assert said.startswith(f"bound by: {reason}\n")
    assert ("take turns" in said) == (" and " in reason)


@pytest.mark.parametrize("reason", JOBS)
def test_what_is_proposed_are_settings_that_exist(tmp_path, capsys, reason):
    write_trace(JOBS[reason].spans, tmp_path / "trace.json")
    cli.main(["optimize", str(tmp_path / "trace.json"), "--auto-optimize", "--dry-run"])
    report = json.loads(capsys.readouterr().out)
    lines = [f"{key.replace('.', ': {')}: {json.dumps(change['to'])}}}"
             for key, change in report["changes"].items()]  # fmt: skip
    for line in lines:
        (tmp_path / "config.yaml").write_text(line)
        assert load(tmp_path / "config.yaml", Settings) != Settings()
    if reason == "input":
        assert report["changes"] == {"processing.overlap": {"from": False, "to": True}}
        (tmp_path / "config.yaml").write_text(lines[0])
        cli.main(["optimize", str(tmp_path / "trace.json"), "--auto-optimize", "--dry-run",
                  "--config", str(tmp_path / "config.yaml")])  # fmt: skip
        assert json.loads(capsys.readouterr().out)["changes"] == {}


@pytest.mark.parametrize(
    ("text", "options", "says"),
    [
        (None, ["--detect-bottlenecks"], "No such file"),
        ("{}", ["--detect-bottlenecks"], "not a trace"),
        ("[]", ["--auto-optimize"], "--dry-run"),
        ('[{"ph": "X", "cat": "labkit", "name": "a", "ts": 0, "dur": 1, "args": {"after": [7],'
         ' "lane": "x", "kind": "host"}}]', ["--detect-bottlenecks"], "no recorded run"),
        ('[{"ph": "X", "cat": "kernel", "name": "a", "ts": 0, "dur": 0, "tid": 1}]',
         ["--detect-bottlenecks"], "no recorded run"),
        ('[{"ph": "X", "cat": "kernel", "name": "a", "ts": 0, "dur": 1, "tid": 1}]',
         ["--detect-bottlenecks", "--roof", "0", "1"], "--roof"),
    ],
)  # fmt: skip
def test_the_command_refuses_in_one_line(tmp_path, capsys, text, options, says):
    trace = tmp_path / "trace.json"
    if text is not None:
        trace.write_text(text)
    assert cli.main(["optimize", str(trace), *options]) == 1
    said = capsys.readouterr().err
    assert says in said
    assert said.count("\n") == 1
