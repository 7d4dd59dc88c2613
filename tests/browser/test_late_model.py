"""A saved widget is drawn though the page had given up looking for its model."""

CELL = """import torch
from labkit import show
show.strides(torch.arange(6).view(2, 3))"""
HOLD = """
    window.held = [];
    window.later = window.setTimeout;
    window.setTimeout = (call, pause, ...rest) =>
        pause === 100 ? held.push(() => call(...rest)) : later(call, pause, ...rest);
"""
"""The pause between two looks for a model lasts until GIVE_UP, as on a page that is busy."""

RESTORED = """async () => {
    const { rendermime } = jupyterapp.shell.currentWidget.content;
    const view = 'application/vnd.jupyter.widget-view+json';
    const manager = await rendermime.createRenderer(view)._manager.promise;
    if (!manager.restoredStatus) await new Promise(done => manager.restored.connect(() => done()));
}"""
GIVE_UP = """() => {
    const now = Date.now;
    Date.now = () => now() + 3000;
    window.setTimeout = later;
    held.forEach(call => call());
}"""


def test_a_model_that_arrives_after_the_last_look_is_drawn(new_lab):
    with new_lab(locale="en-US") as lab:  # an option: a page that no other test gets
        lab.open([CELL])
        lab.wait_drawn(lab.widget())
        lab.save()
        lab.page.add_init_script(HOLD)
        lab.reopen()
        lab.page.evaluate(RESTORED)
        assert not lab.widget().is_visible()
        lab.page.evaluate(GIVE_UP)
        lab.wait_drawn(lab.widget())
