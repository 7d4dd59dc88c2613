"""The dispatcher in JupyterLab: step, change the context, toggle bits, walk the table, reopen."""

from pathlib import Path
from random import Random

from labkit.core.dispatch_key import RUNTIME_KEYS
from labkit.core.dispatch_key_set import keyset
from labkit.show.dispatch import KEYS

WIDGETS = Path(__file__).parents[2] / "labkit" / "widgets"
CELLS = [
    """import torch
from labkit.show.dispatch import dispatch, dispatch_table
x = torch.ones(3, requires_grad=True)
w = dispatch("aten::add.Tensor", x, x, contexts=["plain", "inference_mode", "vmap"])
w""",
    """t = dispatch_table("aten::add.Tensor", "AutogradCPU")
t""",
]


def test_dispatch_view(lab):
    lab.open(CELLS)
    call, table = lab.widget(0), lab.widget(1)
    lab.wait_drawn(call)
    lab.command_mode()
    call.locator("input[type=range]").focus()
    lab.press(*["ArrowRight"] * 6)
    lab.wait_until("w.frame", 6)
    assert not call.get_by_text("wins: AutogradCPU, slot 96").is_visible()  # simple at first
    call.locator("summary", has_text="the bits").focus()
    lab.press("Enter")
    call.get_by_text("wins: AutogradCPU, slot 96").wait_for()
    lab.screenshot("dispatch_view_winner", of=call)
    call.get_by_role("button", name="the call: inference mode").click()
    call.get_by_text("wins: CPU, slot 1").wait_for()
    assert call.locator(".lk-flip").count() > 0
    lab.screenshot("dispatch_view_inference", of=call)
    call.get_by_role("tab", name="page: what if").click()
    call.get_by_role("button", name="show every bit").click()
    call.get_by_label("Tracer in + included").click()
    lab.wait_for("() => document.querySelectorAll('.lk')[0].dataset.slot === 'Tracer'")
    lab.press("ArrowRight", "Space")
    lab.wait_for("() => document.querySelectorAll('.lk')[0].dataset.slot === 'CPU'")
    lab.screenshot("dispatch_view_what_if", of=call)
    call.get_by_role("button", name="show every bit").click()
    call.get_by_label("BackendSelect in + included").click()
    call.get_by_label("BackendSelect in + included").click()  # a bit switched off keeps its row

    table.scroll_into_view_if_needed()
    table.locator("[data-slot='96']").click()
    table.get_by_text("step 7 decides").wait_for()
    lab.screenshot("dispatch_table", of=table)
    lab.press("ArrowUp")
    lab.wait_until("t.table['cells'][t.cell]['slot']", "AutogradNestedTensor")
    table.get_by_label("search all operators").fill("relu")
    table.get_by_role("button", name="show the table of aten::relu", exact=True).click()
    lab.wait_until("repr(t)[:26]", "DispatchView(aten::relu: 1")
    lab.use_theme("JupyterLab Dark")
    lab.screenshot("dispatch_table_dark", of=table)
    lab.save()
    lab.reopen()
    call = lab.widget(0)
    lab.wait_drawn(call)
    call.get_by_role("tab", name="page: the call").click()
    call.get_by_role("button", name="the call: vmap").click()
    call.get_by_role("button", name="step forward").click()
    lab.screenshot("dispatch_view_reopened_dark", of=call)


def test_bits_in_the_browser_follow_the_dispatchers_arithmetic(lab):
    """BigInt words against labkit's key sets: removal, winner and slot of 400 random pairs."""
    source = (WIDGETS / "dispatch/dispatch_bits.js").read_text(encoding="utf-8")
    random = Random(7)
    pairs = [
        [random.getrandbits(62) & random.getrandbits(62) >> random.randrange(62) for _ in range(2)]
        for _ in range(400)
    ]
    answers = lab.page.evaluate(
        f"""([names, slots, pairs]) => {{
            {source}
            const bits = dispatchBits(names);
            return pairs.map(([one, other]) => {{
                const left = bits.minus(BigInt(one), BigInt(other));
                return [left.toString(), bits.slotOf(left), bits.names(left, slots)];
            }});
        }}""",
        [
            KEYS,
            [key.name for key in RUNTIME_KEYS],
            [[str(word) for word in pair] for pair in pairs],
        ],
    )
    for (one, other), (left, slot, names) in zip(pairs, answers, strict=True):
        keys = keyset(one) - keyset(other)
        assert (int(left), slot) == (keys.raw, keys.table_index())
        assert names == [key.name for key in keys]


def test_a_small_view_draws_its_slots_alone_and_one_word_to_toggle(lab):
    slots = ["CPU", "CUDA", "AutogradCPU", "AutogradCUDA"]
    lab.open(
        ["from labkit import show", f"t = show.dispatch_table('aten::relu', slots={slots})\nt"]
    )
    table = lab.widget()
    lab.wait_drawn(table)
    assert table.locator(".lk-slot").count() == 4
    assert table.get_by_label("search all operators").count() == 0
    table.get_by_label("page: what if").click()
    table.get_by_label("backend CUDA in arguments").click()
    lab.wait_for("() => document.querySelectorAll('.lk')[0].dataset.slot === 'AutogradCUDA'")
    assert table.locator(".lk-outcome").inner_text() == "the call goes to AutogradCUDA"
    assert table.locator("[data-toggle]").count() == 4, "two features and two backends"
    rows = table.locator(".lk-matrix th[scope=row]").all_inner_texts()
    assert rows == ["AutogradFunctionality", "Dense", "backend CUDA", "backend CPU"]
    table.get_by_label("AutogradFunctionality in arguments").click()
    goes = table.locator(".lk-outcome").inner_text()
    assert goes == "the call goes to CUDA: no kernel there, an error"
    table.get_by_text("AutogradFunctionality", exact=True).click()
    lab.wait_for("() => document.querySelectorAll('.lk')[0].dataset.slot === 'AutogradCUDA'")
    assert "key in the set" in table.locator(".lk-bit-legend").inner_text()
    lab.screenshot("dispatch_table_small", of=table)


def test_a_simple_view_ticks_the_slots_with_a_kernel_and_says_no_more(lab):
    slots = ["CPU", "SparseCPU"]
    lab.open(
        [
            "from labkit import show",
            f"t = show.dispatch_table('aten::trace', 'SparseCPU', {slots}, simple=True)\nt",
        ]
    )
    table = lab.widget()
    lab.wait_drawn(table)
    assert table.locator(".lk-slot").all_inner_texts() == ["", "✓"], "Sparse above Dense"
    assert table.locator(".lk-chosen").get_attribute("title").startswith("SparseCPU")
    assert table.get_by_role("tab").count() == table.locator(".lk-rule-list").count() == 0
    assert "137" not in table.inner_text()
