"""Engines: keyed by all that counts, checked before they are trusted, and never in the way."""

import copy
from pathlib import Path

import pytest
import torch
from torch import nn

from labkit.core import host_compiler
from labkit.pipeline import engines
from labkit.pipeline.engines import EngineCache, EngineMissing, agrees, exported, key_of, program
from labkit.pipeline.enhancer import Enhancer

torch.manual_seed(0)
FRAME = torch.rand(1, 3, 6, 8)


def network():
    torch.manual_seed(1)
    return Enhancer(2).eval()


class Builder:
    """An engine that counts how often it is built; `change` is what it makes of the result."""

    def __init__(self, change=lambda y: y, refuses=None):
        self.change, self.refuses, self.calls = change, refuses, 0
        self.__name__ = "fake"

    def __call__(self, model, sample):
        self.calls += 1
        if self.refuses:
            raise self.refuses
        frozen = copy.deepcopy(model)
        return lambda x: self.change(frozen(x))


def test_what_counts_changes_the_key_and_nothing_else_does():
    model = nn.Sequential(nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3), nn.ReLU()).eval()
    key = key_of(model, FRAME)
    assert key == key_of(copy.deepcopy(model), torch.zeros_like(FRAME))
    others = [key, key_of(model, FRAME[..., :4]), key_of(copy.deepcopy(model).double(),
                                                         FRAME.double())]  # fmt: skip
    for change in (
        lambda one: one[0].weight.data.mul_(1.001),
        lambda one: one[1].running_mean.add_(1),
        lambda one: one.__setitem__(2, nn.GELU()),
        lambda one: one.train(),
        lambda one: one[0].bias.data.copy_(one[0].bias.data.flip(0)),
        lambda one: one[1].register_buffer("more", torch.ones(1), persistent=False),
    ):
        other = copy.deepcopy(model)
        change(other)
        others.append(key_of(other, FRAME))
    assert len(set(others)) == len(others)


def test_a_key_tells_the_version_and_the_machine(monkeypatch):
    keys = {key_of(network(), FRAME)}
    monkeypatch.setattr(torch, "__version__", "99")
    keys.add(key_of(network(), FRAME))
    monkeypatch.setattr(engines, "_machine", lambda device: "another")
    keys.add(key_of(network(), FRAME))
    assert len(keys) == 3


def test_an_engine_is_built_once_for_the_same_content():
    fake, model = Builder(), network()
    cache = EngineCache((fake,), 1e-6)
    for same in (model, model, copy.deepcopy(model)):
        assert cache.compile_for(same, FRAME).name == "fake"
    assert fake.calls == 1
    model.body[0].weight.data.mul_(2)
    with torch.no_grad():
        torch.testing.assert_close(cache.compile_for(model, FRAME)(FRAME), model(FRAME))
    assert fake.calls == 2


def test_missing_failing_and_inaccurate_engines_leave_the_model():
    missing = Builder(refuses=EngineMissing("not installed"))
    failing = Builder(refuses=RuntimeError("no kernel for this"))
    wrong = [Builder(lambda y: y + 0.1), Builder(lambda y: y * torch.nan),
             Builder(lambda y: y[:, :, :1]), Builder(lambda y: y.double()),
             Builder(lambda y: None)]  # fmt: skip
    cache, model = EngineCache((missing, failing, *wrong), 1e-3), network()
    for _ in range(2):
        found = cache.compile_for(model, FRAME)
        assert (found.name, found.run, len(found.notes)) == ("eager", model, 7)
    assert missing.calls == wrong[0].calls == 1
    assert found.notes[:2] == ("fake: not installed", "fake: no kernel for this")


def test_the_kept_fallback_is_the_callers_model():
    cache, model = EngineCache((), 0.0), network()
    twin = copy.deepcopy(model)
    cache.compile_for(model, FRAME)
    model.body[0].weight.data.zero_()
    assert cache.compile_for(twin, FRAME).run is twin


def test_errors_of_the_model_and_mistakes_in_a_builder_come_out():
    with pytest.raises(RuntimeError, match="channels"):
        EngineCache((), 0.0).compile_for(network(), FRAME[:, :2])
    with pytest.raises(NameError, match="typo"):
        EngineCache((Builder(refuses=NameError("typo")),), 0.0).compile_for(network(), FRAME)


def test_a_model_that_decides_by_numbers_stays_itself():
    class Decides(nn.Module):
        def forward(self, x):
            return x * 2 if x.sum() > 0 else x

    found = EngineCache((Builder(),), 1e-6).compile_for(Decides(), FRAME)
    assert (found.name, found.notes[0][:14]) == ("eager", "a capture cann")
    assert torch.equal(found(-FRAME), -FRAME)


def test_a_program_tells_operators_and_numbers_and_no_weights():
    model = nn.Sequential(nn.Linear(2, 2), nn.LeakyReLU(0.25)).eval()
    text = program(model, torch.ones(1, 2))
    assert "aten::addmm" in text
    assert "0.25" in text
    model[0].weight.data.mul_(2)
    assert program(model, torch.zeros(1, 2)) == text
    model[1].negative_slope = 0.5
    assert program(model, torch.zeros(1, 2)) != text


def test_other_inputs_go_to_the_model_and_inputs_stay():
    fake, model = Builder(lambda y: y.zero_()), network()
    compiled = EngineCache((fake,), 10.0).compile_for(model, FRAME)
    with torch.no_grad():
        assert compiled(FRAME).abs().max() == 0
        for other in (FRAME[..., :4], FRAME.repeat(2, 1, 1, 1)):
            assert torch.equal(compiled(other), model(other))
    before = FRAME.clone()
    EngineCache((lambda model, sample: lambda x: x.zero_(),), 0.0).compile_for(model, FRAME)
    assert torch.equal(FRAME, before)


def test_the_exported_engine_keeps_the_weights_it_was_built_with():
    model = network()
    with torch.no_grad():
        right = model(FRAME)
        engine = exported(model, FRAME)
        model.body[0].weight.mul_(2)
        assert agrees(engine(FRAME), right, 1e-6)
        assert not agrees(engine(FRAME), model(FRAME), 1e-6)


def test_engines_that_are_not_here_say_so(monkeypatch):
    def nothing(name):
        raise ImportError(name)

    monkeypatch.setattr(engines.importlib, "import_module", nothing)
    with pytest.raises(EngineMissing, match="torch_tensorrt is not installed"):
        engines.tensorrt(network(), FRAME)
    monkeypatch.setattr(engines.importlib, "import_module", lambda name: None)
    with pytest.raises(EngineMissing, match="have to be on a GPU"):
        engines.tensorrt(network(), FRAME)
    monkeypatch.setattr(host_compiler, "installed", lambda language: [])
    with pytest.raises(EngineMissing, match=r"C\+\+ compiler"):
        engines.aot_inductor(network(), FRAME)


def test_the_compiled_engine_is_given_the_exported_program_once(monkeypatch, tmp_path):
    """Compiling takes half a minute, so a stand-in of the compiler hands the program on."""
    packages = []

    def compile_and_package(program, package_path):
        packages.append(program.module())
        Path(package_path).write_bytes(b"a package")

    monkeypatch.setenv("LABKIT_CACHE", str(tmp_path))
    monkeypatch.setattr(host_compiler, "installed", lambda language: ["c++"])
    monkeypatch.setattr(torch._inductor, "aoti_compile_and_package", compile_and_package)
    monkeypatch.setattr(torch._inductor, "aoti_load_package", lambda path: packages[0])
    model = network()
    for _ in range(2):  # the second one, as another process, finds what is kept
        with torch.no_grad():
            compiled = EngineCache((engines.aot_inductor,), 1e-6).compile_for(model, FRAME)
        assert (compiled.name, compiled.notes, len(packages)) == ("aot_inductor", (), 1)
    model.body[0].weight.data.mul_(2)
    with torch.no_grad():
        engines.aot_inductor(model, FRAME)
    assert len(packages) == 2


@pytest.mark.full
@pytest.mark.skipif(not host_compiler.installed("c++"), reason="no C++ compiler here")
def test_the_compiled_engine_computes_and_is_kept(monkeypatch, tmp_path):
    monkeypatch.setenv("LABKIT_CACHE", str(tmp_path))
    model = network()
    with torch.no_grad():
        first = EngineCache((engines.aot_inductor,), 1e-5).compile_for(model, FRAME)
        monkeypatch.setattr(torch._inductor, "aoti_compile_and_package", None)  # not again
        again = EngineCache((engines.aot_inductor,), 1e-5).compile_for(model, FRAME)
        for compiled in (first, again):
            assert (compiled.name, compiled.notes) == ("aot_inductor", ())
            torch.testing.assert_close(compiled(FRAME), model(FRAME))
