"""The broadcast view in Chromium: a step per dimension, to the result or to the failure."""


def test_the_steps_end_at_the_result_or_at_the_failing_dimension(lab):
    lab.open([
        "import torch\nfrom labkit import show",
        "good = show.broadcast(torch.ones(4, 3, 2), (3, 1))\ngood",
        "bad = show.broadcast((3, 4, 5), (3, 5))\nbad",
        "bare = show.broadcast((4, 3, 2), (3, 1), sizes_only=True, at=5)\nbare",
    ])  # fmt: skip
    lab.wait_drawn(lab.widget(2))
    lab.command_mode()
    good, bad = lab.widget(0), lab.widget(1)
    good.locator(".lk-stepper input").focus()
    lab.press("ArrowRight")
    assert good.locator("tr").nth(2).locator("td").nth(2).inner_text() == "1 → 2"
    assert good.locator("tr").last.inner_text().split() == ["result", "2"]
    lab.press("End")
    assert "strides [0, 1, 0]" in good.inner_text()
    good.locator('[data-key="grids"]').focus()
    lab.press("ArrowDown", "ArrowRight", "PageDown")
    lab.wait_until("good.index", [1, 1, 1])
    assert "reads element 9" in good.inner_text()  # 1·6 + 1·2 + 1·1
    assert "reads element 1" in good.inner_text()  # the operand with stride 0 twice
    lab.screenshot("broadcast_view", good)
    lab.execute("bad.frame = 2")
    lab.wait_for("() => document.querySelectorAll('.lk')[1].dataset.verdict === 'clash'")
    assert "must match the size of tensor b (3)" in bad.inner_text()
    assert bad.locator(".bv-clash").count() == 3
    assert bad.locator("thead th").nth(2).inner_text().split() == ["1", "-2"], "from both ends"
    bare = lab.widget(2)
    assert bare.locator("tr").last.inner_text().split() == ["result", "4", "3", "2"]
    assert "stride" not in bare.inner_text() and not bare.locator("svg").is_visible()
