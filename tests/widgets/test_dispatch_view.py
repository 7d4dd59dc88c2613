"""What travels to the page, and what is seen where there is none."""

import json

import pytest

from labkit.widgets.dispatch.dispatch_view import DispatchView

KEYS = {"functionalities": ["Dense", "Python"], "backends": ["CPU", "CUDA"],
        "per_backend": ["Dense"]}  # fmt: skip
SLOTS = ("Undefined", "CPU", "CUDA", "Python")
BIG = (1 << 61) + 1  # a JavaScript number would round it


def table(operator="lab::op", **changes):
    cells = [
        {"slot": slot, "index": i, "kernel": "a.py:1" if slot == "CPU" else "", "reason": "kernel",
         "rule": 1 if slot == "CPU" else 10, "source": "CPU" if slot == "CPU" else None,
         "fallthrough": False, "stored_kernel": None, "stale": None}
        for i, slot in enumerate(SLOTS)
    ]  # fmt: skip
    made = {"operator": operator, "side": "labkit", "schema": f"{operator}(Tensor x) -> Tensor",
            "registrations": [], "cells": cells, "stale": False, "masks": [BIG, 7],
            "rules": {1: "this very key", 10: "missing"},
            "asked": [["this very key"] if slot == "CPU" else ["this very key", "missing"]
                      for slot in SLOTS]}  # fmt: skip
    return made | changes


def call(context="plain", slots=("CPU",), **changes):
    hops = [
        {"operator": "lab::op", "number": i, "via": "call", "assumed": False, "arguments": [],
         "union_bits": BIG, "result_bits": 5, "slot": slot, "slot_index": 1, "kernel": "a.py:1",
         "reason": "kernel", "rule": 1, "source": "CPU", "then": "ends", "then_text": "computes"}
        for i, slot in enumerate(slots)
    ]  # fmt: skip
    steps = [{"kind": "union", "hop": 0, "text": "all", "bits": BIG, "keys": ["CPU"]}]
    run = {"slot": "CPU", "bits": 5, "tensor_bits": [BIG], "depth": 0}
    made = {"context": context, "label": context, "hops": hops, "steps": steps, "recorded": [run],
            "agrees": True, "complete": True, "below": [], "note": "", "raised": None}  # fmt: skip
    return made | changes


def test_words_travel_as_text_so_that_no_bit_is_rounded():
    view = DispatchView(KEYS, table(), [call()])
    assert view.calls[0]["hops"][0]["union_bits"] == str(BIG)
    assert view.calls[0]["steps"][0] == {"kind": "union", "hop": 0, "text": "all",
                                         "bits": str(BIG)}  # fmt: skip
    assert view.calls[0]["recorded"][0]["tensor_bits"] == [str(BIG)]
    assert view.table["masks"] == [str(BIG), "7"]
    json.dumps(view.calls)


def test_the_text_form_names_operator_and_hops_of_the_context_shown():
    view = DispatchView(KEYS, table(), [call(), call("mode", ("Python", "CPU"))])
    assert repr(view) == "DispatchView(lab::op, plain: CPU)"
    view.context = 1
    assert repr(view) == "DispatchView(lab::op, mode: Python -> CPU)"
    assert repr(DispatchView(KEYS, table())) == "DispatchView(lab::op: 4 slots, 1 filled)"
    stale = repr(DispatchView(KEYS, table(stale=True)))
    assert stale == "DispatchView(lab::op: 4 slots, 1 filled; stored table stale)"


def test_the_picture_is_a_table_of_hops():
    picture = DispatchView(KEYS, table(), [call(slots=("Python", "CPU"))]).svg()
    for words in (">Python<", ">CPU<", ">kernel<", ">a.py:1<", "really ran: CPU"):
        assert words in picture
    unrun = DispatchView(KEYS, table(), [call(recorded=None, note="Why.")]).svg()
    assert "not run here: this is a prediction. Why." in unrun
    wrong = DispatchView(KEYS, table(), [call(agrees=False, raised="E: x\ny")]).svg()
    assert "NOT as predicted); raised E: x<" in wrong


def test_without_a_call_the_picture_is_every_slot():
    picture = DispatchView(KEYS, table()).svg()
    assert picture.index(">Python<") < picture.index(">Dense<") < picture.index(">Undefined<")
    assert "this very key" in picture


def test_texts_of_a_table_travel_once():
    view = DispatchView(KEYS, table())
    assert view.table["texts"].count("this very key") == 1
    cell = view.table["cells"][1]
    assert view.table["texts"][cell["kernel"]] == "a.py:1"
    assert [view.table["texts"][i] for i in cell["asked"]] == ["this very key"]


def test_searching_asks_python_and_shows_the_table_found():
    view = DispatchView(KEYS, table(), find=lambda text: [f"lab::{text}"], load=table)
    assert view.searches
    view.query = "other"
    assert view.found == {"query": "other", "names": ["lab::other"]}
    view.cell, view.rule = 2, 1
    view.wanted = "lab::other"
    assert (view.table["operator"], view.cell, view.rule) == ("lab::other", 2, 0)
    assert not DispatchView(KEYS, table()).searches


def test_a_table_that_does_not_fit_its_keys_is_refused():
    short = table(cells=table()["cells"][:3])
    with pytest.raises(ValueError, match="lab::op has 3 cells, but the keys make 4 slots"):
        DispatchView(KEYS, short)
