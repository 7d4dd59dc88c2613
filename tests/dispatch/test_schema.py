import pytest
import torch

from labkit.core.dispatch_key_set import DispatchKeySet
from labkit.dispatch import Dispatcher, Library, SchemaError, parse_schema, torch_tables
from labkit.dispatch.packet import Operators
from tests.dispatch.tiny import Tiny


def test_every_installed_schema_prints_back_equal():
    texts = [torch_tables.schema_text(name) for name in torch_tables.operator_names()]
    texts += [str(schema) for schema in torch._C._jit_get_all_schemas()]
    assert len(texts) > 7000
    assert [text for text in texts if str(parse_schema(text)) != text] == []


@pytest.mark.parametrize(
    "text",
    [
        "x::f(Tensor self, int[2] stride=1, float p=1, *, ScalarType dtype=long, int r=Mean) -> ()",
        'x::f(int[] x=[], str s="a\\nb", str t=\'q"\') -> Tensor',
        "x::f(Dict(str, Tensor[]) d, Future(t) f, t[](a!) l) -> t(*)",
        "x::f(Tensor(a! -> b) x) -> Tensor(b)",
        "x::f(int[3]? x=1, float? y=2) -> (int, (Tensor, Tensor))",
        "x::f(float a=1e10, float b=1e20, float c=1e-5, float d=-0.5) -> ...",
        "x::f(Tensor x, ...) -> (Tensor, ...)",
        "x::f() -> (Tensor)",
    ],
)
def test_written_schemas_print_as_pytorch_prints_them(text):
    assert str(parse_schema(text)) == str(torch._C.parse_schema(text))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x::f(Tensor x", r"'\)'"),
        ("x::f(Tensor) -> Tensor", "an argument name"),
        ("x::f(Tensor x) ->", "a type"),
        ("x::f(Tensor x,) -> ()", "a type"),
        ("x::f(int x=1, Tensor y) -> ()", "'y' has no default"),
        ("x::f(Tensor x=) -> ()", "a default"),
        ("x::f(int[] x=3) -> ()", "a list"),
        ("x::f(Tensor x) -> Tensor;", "a schema token"),
        ("x::f.default(Tensor x) -> Tensor", "default"),
        ("f(Tensor x)", "'->'"),
        ("", "an operator name"),
    ],
)
def test_bad_schemas_are_refused_as_pytorch_refuses_them(text, words):
    with pytest.raises(SchemaError, match=words):
        parse_schema(text)
    with pytest.raises(RuntimeError):
        torch._C.parse_schema(text)


def test_an_error_shows_the_place():
    with pytest.raises(SchemaError) as caught:
        parse_schema("x::f(Tensor x y) -> Tensor")
    lines = str(caught.value).splitlines()
    assert lines[1][lines[2].index("^") :].startswith("y)")


def test_what_is_written_and_what_is_a_view():
    assert parse_schema("x::add_(Tensor(a!) self) -> Tensor(a!)").is_mutable
    assert not parse_schema("x::add_(Tensor(a!) self) -> Tensor(a!)").is_view
    assert parse_schema("x::view(Tensor(a) self) -> Tensor(a)").is_view
    assert not parse_schema("x::add(Tensor self) -> Tensor").is_view


def test_only_four_types_decide_where_a_call_goes():
    text = "x::f(Tensor a, int b, Tensor? c, Tensor[] d, Tensor?[] e, Tensor[]? f) -> ()"
    assert parse_schema(text).dispatch_positions == (0, 2, 3, 4)


SCHEMA = parse_schema("x::f(Tensor a, int n=2, *, float p=0.5, str? s=None) -> Tensor")


def test_a_stack_has_every_value_and_unstacking_drops_the_defaults():
    assert SCHEMA.stack(("t",), {"s": "x"}) == ["t", 2, 0.5, "x"]
    assert SCHEMA.unstack(["t", 2, 0.5, "x"]) == (("t",), {"s": "x"})
    assert SCHEMA.unstack(["t", 3, 0.5, None]) == (("t", 3), {})


@pytest.mark.parametrize(
    ("args", "kwargs", "words"),
    [
        ((), {}, "missing argument 'a'"),
        (("t", 1, 2.0), {}, "takes 2 positional arguments, got 3"),
        (("t",), {"q": 1}, "no argument 'q'"),
        (("t",), {"a": 1}, "got 'a' twice"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(args, kwargs, words):
    with pytest.raises(TypeError, match=words):
        SCHEMA.stack(args, kwargs)


@pytest.fixture
def overloaded():
    dispatcher = Dispatcher()
    with Library("lab", "DEF", dispatcher=dispatcher) as lib:
        for text in (
            "add.Tensor(Tensor a, Tensor b) -> Tensor",
            "add.Scalar(Tensor a, Scalar b, int[2] pad=0) -> Tensor",
            "add.list(Tensor[] xs, bool flag=False) -> Tensor",
        ):
            op = lib.define(text)
            name = op.schema.overload_name
            lib.impl(op, lambda *a, name=name, **k: name, "CompositeImplicitAutograd")
        yield Operators(dispatcher).lab.add


def test_the_first_overload_that_fits_is_called(overloaded):
    x = Tiny([1.0], "CPU")
    assert overloaded.overloads() == ["Tensor", "Scalar", "list"]
    assert overloaded(x, x) == "Tensor"
    assert overloaded(x, 2) == "Scalar"
    assert overloaded(x, 2.5, [1, 2]) == "Scalar"
    assert overloaded([x, x], flag=True) == "list"
    assert overloaded.Scalar(x, 1) == "Scalar"


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ((Tiny([1.0], "CPU"), "two"), "'b' must be Scalar, got 'two' of type str"),
        ((Tiny([1.0], "CPU"), 2, [1.5]), r"'pad' must be int\[2\], got \[1.5\]"),
        (([1, 2],), r"'xs' must be Tensor\[\]"),
        ((None, 1), "'a' must be Tensor, got None"),
    ],
)
def test_when_none_fits_each_says_why(overloaded, args, words):
    with pytest.raises(TypeError, match=words):
        overloaded(*args)


def test_an_overload_that_is_not_there(overloaded):
    with pytest.raises(AttributeError, match="it has Tensor, Scalar, list"):
        _ = overloaded.Complex


def test_a_real_tensor_brings_the_set_pytorch_keeps(overloaded):
    from labkit.dispatch.arguments import key_set_of

    expected = DispatchKeySet("Meta", "ADInplaceOrView", "AutogradMeta")
    assert key_set_of(torch.empty(1, device="meta")) == expected
    assert key_set_of(3) is None


@pytest.mark.parametrize(
    "text",
    ["f(Tensr x) -> Tensor", "f(Tensor x) -> Foo", "f(Optional x) -> int",
     "f(foo.B x) -> int", "f(Tensor[] x, Tnesor[] y) -> int", "f(t x) -> t"],
)  # fmt: skip
def test_an_operator_of_unknown_types_is_refused(text):
    torch_library = torch.library.Library("labkit_unknown_types", "FRAGMENT")
    with pytest.raises(RuntimeError, match="unknown type specifier"):
        torch_library.define(text)
    with pytest.raises(SchemaError, match="a type such as Tensor"):
        Library("x", "FRAGMENT", dispatcher=Dispatcher()).define(text)
