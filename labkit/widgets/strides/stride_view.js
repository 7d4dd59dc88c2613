// Views over storages: each storage a strip of addressed cells, each view a grid over them.
// Everything is computed here from sizes, strides and offset, so it moves without Python too.
function render({ model, el }) {
  const root = lk.root(el, "storage cells and the tensors over them");
  const scene = strideScene(model);
  const simple = model.get("simple");
  root.classList.toggle("sv-simple", simple);
  const editing = new Set(); // views whose editor is open
  let structure = null,
    strips = [],
    cards = [],
    stepper = null,
    stale = true;

  const put = (changes) => {
    for (const [name, value] of Object.entries(changes)) model.set(name, value);
    model.save_changes();
  };
  const point = (view, index) => {
    scene.hover = { view, index };
    paint();
  };
  const leave = () => {
    if (scene.hover) {
      scene.hover = null;
      paint();
    }
  };
  function select(view, index) {
    scene.hover = null;
    scene.cursors[view] = index;
    put({ selected: { view, index } });
  }

  // ---- the elements of the page --------------------------------------------------------------
  // Built anew only when storages, views or dimensions come and go: inputs keep their focus.
  function build() {
    const key = JSON.stringify([
      model.get("note"),
      model.get("storages"),
      scene.steps().map(({ text }) => text),
      scene.views.map(({ original, sizes, n }) => [original.name, sizes.length, editing.has(n)]),
    ]);
    if (key === structure) return;
    structure = key;
    const focused = root.contains(document.activeElement)
      ? document.activeElement.dataset.key
      : null;
    stepper?.stop();
    stepper = scene.steps().length ? buildStepper() : null;
    strips = model.get("storages").map(buildStrip);
    cards = scene.views.map(buildCard);
    const elements = (list) => list.map(({ element }) => element);
    const note = model.get("note");
    root.replaceChildren(
      ...(note ? [lk.h("div", { class: "sv-note" }, note)] : []),
      ...elements([...(stepper ? [stepper] : []), ...strips]),
      lk.h("div", { class: "sv-cards" }, elements(cards)),
      simple ? strideWords.simpleLegend() : strideWords.legend(),
    );
    if (focused) root.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
  }

  function buildStepper() {
    const change = (frame) => {
      const chosen = scene.steps()[frame].select;
      if (chosen) scene.cursors[chosen.view] = chosen.index;
      put({ frame, ...(chosen ? { selected: chosen } : {}) });
    };
    const text = (i) => lk.h("code", {}, scene.steps()[i].text ?? "");
    return lk.stepper({ count: scene.steps().length, index: scene.frame(), text, change });
  }

  function buildStrip(storage, n) {
    const title = lk.h("div");
    const label = `cells of storage ${storage.name}; arrow keys move along the cells in use`;
    const canvas = lk.focusable(
      lk.h("canvas", { "data-key": `strip ${n}`, role: "application", "aria-label": label }),
    );
    const map = lk.h("canvas", { class: "sv-map", title: "the whole storage: click to go there" });
    const element = lk.h("div", { class: "sv-storage" }, title, canvas, map);
    const strip = { n, storage, title, canvas, map, element, from: 0 };
    // The selected view's element in a cell, else that of the first view that has one there.
    const owner = (cell) => {
      const now = model.get("selected").view;
      const users = scene.views.filter((view) => view.storage === n && scene.shown(view.n));
      users.sort((a, b) => (b.n === now) - (a.n === now));
      for (const view of cell === null ? [] : users) {
        const [index] = affine.indicesAt(view, scene.elementAt(view, cell), 1);
        if (index) return [view.n, index];
      }
      return null;
    };
    const scroll = (to) => {
      strip.from = to;
      strip.scrolled = true;
      paint();
    };
    canvas.addEventListener("pointermove", (event) => {
      const found = owner(strideStrip.cellUnder(strip, event));
      if (found) point(...found);
      else leave();
    });
    canvas.addEventListener("pointerleave", leave);
    canvas.addEventListener("click", (event) => {
      const found = owner(strideStrip.cellUnder(strip, event));
      if (found) select(...found);
    });
    lk.onWheel(
      canvas,
      (event) => scroll(strip.from + Math.sign(event.deltaY) * strip.look.per),
      () => strip.look.count < strip.look.all,
    );
    const steps = () => {
      const { per } = strip.look;
      return { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -per, ArrowDown: per };
    };
    lk.onKeys(canvas, steps, (by) => {
      const here = scene.lights().find(({ view }) => view.storage === n);
      let cell = here ? scene.cellOf(here.view, here.at) : -by;
      for (let tries = 0; tries < 2000; tries++) {
        // over cells that no view uses
        const found = owner((cell += by));
        if (found) return select(...found);
      }
    });
    map.addEventListener("click", (event) =>
      scroll(Math.floor((lk.spot(event).x / map.clientWidth) * strip.look.total)),
    );
    return strip;
  }

  function buildCard({ n, sizes }) {
    const toggle = () => {
      const others = model.get("hidden").filter((other) => other !== n);
      put({ hidden: check.checked ? others : [...others, n] });
    };
    const check = lk.focusable(
      lk.h("input", {
        type: "checkbox",
        "data-key": `show ${n}`,
        on: { change: toggle },
      }),
    );
    const open = () => {
      if (!editing.delete(n)) {
        editing.add(n);
        select(n, scene.cursors[n]);
      }
      refresh();
    };
    const edit = lk.button("edit", "", open, {
      "data-key": `edit ${n}`,
      "aria-pressed": editing.has(n),
    });
    const copy = lk.copyButton("copy", "copy sizes, strides and offset as text", () =>
      strideWords.plain(scene, scene.views[n]),
    );
    const planes =
      sizes.length > 2 && !simple
        ? strideControls.planes(n, sizes.length, {
            axes: (axes) => put({ axes: { ...model.get("axes"), [n]: axes } }),
            fix: (dim, index) => select(n, scene.cursors[n].with(dim, index)),
          })
        : null;
    const editor = editing.has(n)
      ? strideControls.editor(n, sizes.length, {
          edit: (layout) => put({ edited: { ...model.get("edited"), [n]: layout } }),
          reset: () => {
            const { [n]: own, ...others } = model.get("edited");
            put({ edited: others });
          },
        })
      : null;
    const title = lk.h("b", { class: "lk-mono sv-name" });
    const meta = lk.h("div", { class: "sv-meta lk-mono" });
    const tags = lk.h("div", { class: "sv-tags" });
    const canvas = buildGrid(n);
    const formula = lk.h("div", { class: "sv-formula lk-mono", "aria-live": "polite" });
    const head = lk.h(
      "div",
      { class: "lk-row sv-head" },
      lk.h("label", { class: "lk-row" }, check, title),
      lk.h("span", { class: "sv-space" }),
      edit,
      copy,
    );
    const parts = simple
      ? [title, canvas, formula]
      : [head, meta, tags, planes?.element, canvas, formula, editor?.element];
    const element = lk.h(
      "div",
      { class: "sv-card", style: `--sv-colour:${scene.colour(n)}` },
      parts,
    );
    return { n, check, edit, title, meta, tags, canvas, formula, planes, editor, element };
  }

  function buildGrid(n) {
    const canvas = lk.focusable(lk.h("canvas", { "data-key": `grid ${n}`, role: "application" }));
    const under = (event) => {
      const card = cards[n],
        { rows, cols, fact } = scene.views[n];
      const place = card.look && fact.numel ? strideGrid.placeUnder(card, event) : null;
      if (!place) return null;
      const index = [...scene.cursors[n]];
      if (rows !== null) index[rows] = place[0];
      if (cols !== null) index[cols] = place[1];
      return index;
    };
    canvas.addEventListener("pointermove", (event) => {
      const index = under(event);
      if (index) point(n, index);
      else leave();
    });
    canvas.addEventListener("pointerleave", leave);
    canvas.addEventListener("click", (event) => {
      const index = under(event);
      if (index) select(n, index);
    });
    canvas.addEventListener("focus", () => {
      if (model.get("selected").view !== n) select(n, scene.cursors[n]);
    });
    const moves = () => {
      const { rows, cols } = scene.views[n];
      return {
        ArrowLeft: [cols, -1],
        ArrowRight: [cols, 1],
        ArrowUp: [rows, -1],
        ArrowDown: [rows, 1],
        Home: [cols, -Infinity],
        End: [cols, Infinity],
        PageUp: [rows, -16],
        PageDown: [rows, 16],
      };
    };
    lk.onKeys(canvas, moves, ([dim, by]) => {
      const { sizes, fact } = scene.views[n];
      if (dim === null || fact.numel === 0) return;
      const to = Math.max(0, Math.min(sizes[dim] - 1, scene.cursors[n][dim] + by));
      select(n, scene.cursors[n].with(dim, to));
    });
    return canvas;
  }

  // ---- drawing -------------------------------------------------------------------------------
  function describeStrip({ n, title, element, storage }) {
    const users = scene.views.filter((view) => view.storage === n && scene.alive(view.n));
    element.style.display = users.length || !scene.steps().length ? "" : "none";
    const uses = scene.step().use_counts?.[n] ?? storage.use_count;
    const cells = scene.cellsOf(storage);
    const whose = strips.length > 1 ? users.map(({ names }) => names.join(" = ")) : [];
    title.replaceChildren(
      ...(simple ? strideWords.inRow(cells, whose) : strideWords.storage(storage, cells, uses)),
    );
  }

  // Which plane of it the grid draws, where no boxes say so.
  function shownPart({ n, sizes, rows, cols }) {
    if (!simple || sizes.length < 3) return "";
    const at = scene.hover?.view === n ? scene.hover.index : scene.cursors[n];
    return `[${at.map((i, dim) => (dim === rows || dim === cols ? ":" : i)).join(", ")}]`;
  }

  function describe(card, lights) {
    const view = scene.views[card.n],
      light = lights.find((other) => other.view === view);
    card.element.style.display = scene.alive(card.n) ? "" : "none";
    card.element.classList.toggle("sv-off", !scene.shown(card.n));
    card.element.classList.toggle("sv-now", lights[0]?.view === view);
    card.check.checked = scene.shown(card.n);
    card.title.textContent =
      view.names.join(" = ") + shownPart(view) + (view.changed ? " (edited)" : "");
    lk.call(card.edit, `edit sizes, strides and offset of ${view.name}`);
    card.check.setAttribute("aria-label", `show ${view.name}`);
    card.meta.textContent = strideWords.layout(
      view,
      scene.step().versions?.[card.n] ?? view.version,
    );
    card.canvas.setAttribute(
      "aria-label",
      `${view.name}, sizes ${view.sizes.join(" by ") || "none"}; arrow keys move`,
    );
    card.tags.replaceChildren(
      ...strideWords.judged(scene.marksOf(view)),
      ...strideWords.tags(view),
    );
    card.formula.replaceChildren(
      ...(light ? strideWords[simple ? "place" : "worked"](scene, view, light) : []),
      ...strideWords.warnings(view),
    );
    card.planes?.show(view, scene.cursors[card.n]);
    card.editor?.show(view);
  }

  function paint() {
    stale = !root.clientWidth; // hidden, or not on the page yet: the observer calls again
    if (stale) return;
    const lights = scene.lights();
    let painted = 0;
    scene.width = root.clientWidth - 30;
    scene.looks = lk.theme(root); // known only once on the page, and the theme may have changed
    for (const strip of strips) {
      describeStrip(strip);
      painted += strideStrip.paint(scene, strip, lights);
    }
    for (const card of cards) {
      describe(card, lights);
      const cursor = scene.hover?.view === card.n ? scene.hover.index : scene.cursors[card.n];
      if (scene.shown(card.n)) painted += strideGrid.paint(scene, card, lights, cursor);
    }
    if (stepper && stepper.index !== scene.frame()) stepper.set(scene.frame());
    const outside = scene.views.some(({ n, fact }) => scene.shown(n) && fact.outside);
    Object.assign(root.dataset, {
      frame: scene.frame(),
      painted,
      view: lights[0]?.view.n ?? "",
      index: lights[0]?.index.join(",") ?? "",
      address: lights.map(({ at }) => at).join(" "),
      state: outside ? "outside" : "inside",
    });
    lk.drew(root);
  }
  function refresh() {
    scene.read();
    build();
    paint();
  }
  function reload() {
    scene.load();
    build();
    paint();
  }

  const data = "change:storages change:views change:schema change:values change:texts change:steps";
  const choices =
    "change:selected change:edited change:hidden change:axes change:frame change:linked " +
    "change:marks change:note";
  model.on(data, reload);
  model.on(choices, refresh);
  const forget = lk.onTheme(paint);
  const resized = new ResizeObserver(() => {
    if (stale || root.clientWidth - 30 !== scene.width) paint();
  });
  reload();
  resized.observe(root);
  return () => {
    model.off(data, reload);
    model.off(choices, refresh);
    forget();
    resized.disconnect();
    stepper?.stop();
  };
}
export default { render };
