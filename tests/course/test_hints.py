"""A hint about one mistake is given to somebody: some planned wrong answer makes that mistake."""

import dataclasses
import importlib

import pytest

from labkit.course.checking.stages import stage_exercises
from labkit.course.checks import failing_cases
from tests.course.answers import SEEDS, USE_UP_THEIR_TIME

MODULES = (
    "broadcasting", "caching_allocator", "host_allocators", "indexing", "introduction",
    "kept_for_backward", "memory", "overwritten_batch", "profiling_inplace_allocators",
    "run_that_died", "setup", "strides_views_transfers", "tensors",
)  # fmt: skip


def planned(module):
    """The planned answers of one module's exercises."""
    return importlib.import_module(f"tests.course.test_{module}").answers


def failures(exercise, wrongs):
    """The first failing case of each wrong answer, as hints see it; on all cases first of all."""
    for stage, part in reversed(stage_exercises(exercise)):
        for _, make in wrongs:
            for evidence in failing_cases(part, make(), SEEDS[0], search=False):
                yield dataclasses.replace(evidence, stage=stage)


@pytest.mark.parametrize(
    ("module", "name"),
    [(module, name) for module in MODULES for name in planned(module).exercises],
)
def test_every_hint_with_a_condition_fits_a_planned_wrong_answer(module, name):
    answers = planned(module)
    exercise = answers.exercises[name]
    hints = [exercise.hint(index) for index in range(len(exercise.hints))]
    unused = [hint for hint in hints if hint.when is not None or hint.stage]
    wrongs = [wrong for wrong in answers.wrongs[name] if not wrong[0].startswith(USE_UP_THEIR_TIME)]
    found = failures(exercise, wrongs)
    while unused and (evidence := next(found, None)):
        unused = [hint for hint in unused if not hint.fits(evidence)]
    assert [hint.text for hint in unused] == []
