// Views over storages: each storage a strip of addressed cells, each view a grid over them.
// Everything is computed here from sizes, strides and offset, so it moves without Python too.
function formatted(value, dtype) {
  if (value === undefined) return "";
  if (dtype === "bool") return value ? "T" : "F";
  if (typeof value !== "number" || /^u?int/.test(dtype)) return String(value);
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "nan" : value > 0 ? "inf" : "-inf";
  if (Number.isInteger(value) && Math.abs(value) < 1e5) return `${value}.`;
  const short = value.toPrecision(3);
  return short.includes("e") ? short.replace(/\.?0*e\+?/, "e") : short.replace(/0+$/, "");
}
const clamped = (index, sizes) => sizes.map((size, dim) => Math.max(0, Math.min(size - 1, index[dim] ?? 0)));
const count = (number) => number.toLocaleString("en");

function render({ model, el }) {
  const root = lk.root(el, "storage cells and the tensors over them");
  const facts = new Map();
  const cursors = {};        // view -> index, kept while another view is selected
  const editing = new Set(); // views whose editor is open
  let hover = null, structure = null, strips = [], cards = [], stepper = null, columns = {}, overlay = {}, stale = true;

  // ---- what is shown -------------------------------------------------------------------------
  const steps = () => model.get("steps");
  const frame = () => Math.max(0, Math.min(steps().length - 1, model.get("frame")));
  const step = () => steps()[frame()] ?? {};
  const alive = (n) => step().alive?.includes(n) ?? true;
  const scene = {
    views: [], looks: null, cellWidth: 36, width: 600,
    shown: (n) => alive(n) && !model.get("hidden").includes(n),
    colour: (n) => lk.palette[n % lk.palette.length],
    cellsOf: (storage) => Math.floor(storage.nbytes / storage.unit),
    cellOf: (view, at) => view.first + at * view.k,
    elementAt: (view, cell) => Math.floor((cell - view.first) / view.k),
    textAt(column, at) {
      const values = columns[column] ?? model.get("texts")[column];
      return overlay[column]?.[at] ?? (values ? formatted(values[at], column.split(":")[1]) : "");
    },
    valueOf: (view, at) => (view.base % view.itemsize ? "" : scene.textAt(`${view.storage}:${view.dtype}`, view.base / view.itemsize + at)),
  };
  const put = (changes) => {
    for (const [name, value] of Object.entries(changes)) model.set(name, value);
    model.save_changes();
  };

  function read() {
    const edited = model.get("edited"), axes = model.get("axes"), now = model.get("selected");
    scene.views = model.get("views").map((original, n) => {
      const storage = model.get("storages")[original.storage];
      const view = { ...original, ...edited[n], n, original, changed: Boolean(edited[n]) };
      view.k = view.itemsize / storage.unit;  // cells per element
      view.first = view.base / storage.unit;  // cells before the view's element 0
      const rank = view.sizes.length, [rows, cols] = axes[n] ?? [];
      view.cols = cols < rank ? cols : rank ? rank - 1 : null;
      view.rows = rows < rank && rows !== view.cols ? rows : rank < 2 ? null : view.cols === rank - 1 ? rank - 2 : rank - 1;
      view.fact = factsOf(view, storage);
      cursors[n] = clamped(now.view === n && now.index.length === rank ? now.index : cursors[n] ?? [], view.sizes);
      return view;
    });
    overlay = {};
    for (const { writes } of steps().slice(0, frame() + 1)) {
      for (const [column, at, text] of writes ?? []) (overlay[column] ??= {})[at] = text;
    }
  }
  function factsOf(view, storage) {
    const key = JSON.stringify([view.sizes, view.strides, view.offset, view.k, view.first, storage.nbytes]);
    if (!facts.has(key)) {
      const ends = affine.reach(view), lowest = -Math.floor(view.first / view.k);
      const room = Math.floor((scene.cellsOf(storage) - view.first) / view.k);
      facts.set(key, { ends, lowest, room, numel: affine.numel(view), distinct: affine.distinct(view),
        contiguous: affine.contiguous(view), outside: ends !== null && (ends[0] < lowest || ends[1] >= room) });
    }
    return facts.get(key);
  }
  // The lit elements: one, or one per operand of the same sizes when views are linked.
  function lights() {
    const { views } = scene, chosen = hover ?? model.get("selected");
    const main = views[scene.shown(chosen.view) ? chosen.view : views.findIndex(({ n }) => scene.shown(n))];
    if (!main) return [];
    const index = hover ? hover.index : cursors[main.n], same = JSON.stringify(main.sizes);
    const group = model.get("linked") ? views.filter(({ n, sizes }) => n !== main.n && JSON.stringify(sizes) === same) : [];
    return [main, ...group].filter(({ n, fact }) => scene.shown(n) && fact.numel > 0)
      .map((view) => ({ view, index, at: affine.address(view, index) }));
  }
  const look = (view, index) => { hover = { view, index }; paint(); };
  const leave = () => { hover = null; paint(); };
  function select(view, index) {
    hover = null;
    cursors[view] = index;
    put({ selected: { view, index } });
  }

  // ---- elements of the page: one strip per storage, one card per view ------------------------
  function build() {
    const { views } = scene;
    const key = JSON.stringify([model.get("storages"), steps().map(({ text }) => text),
      views.map((view) => [view.name, view.sizes.length, editing.has(view.n)])]);
    if (key === structure) return;
    structure = key;
    const focused = root.contains(document.activeElement) ? document.activeElement.dataset.key : null;
    stepper?.stop();
    stepper = steps().length ? lk.stepper({
      count: steps().length, index: frame(), text: (i) => lk.h("code", {}, steps()[i].text ?? ""),
      change: (i) => {
        const chosen = steps()[i].select;
        if (chosen) cursors[chosen.view] = chosen.index;
        put({ frame: i, ...(chosen ? { selected: chosen } : {}) });
      } }) : null;
    strips = model.get("storages").map(buildStrip);
    cards = views.map(buildCard);
    const mark = (kind, text, inside = "") => lk.h("span", {}, lk.h("i", { class: `sv-key sv-key-${kind}` }, inside), text);
    root.replaceChildren(...(stepper ? [stepper.element] : []), ...strips.map(({ element }) => element),
      lk.h("div", { class: "sv-cards" }, cards.map(({ element }) => element)),
      lk.h("div", { class: "sv-legend lk-muted" }, mark("lane", "used by this view"), mark("again", "same cell again: stride 0"),
        mark("twice", "times one view uses the cell", "×2"), mark("out", "outside the storage"), lk.h("span", {}, "point at an element, or focus a grid and use the arrow keys")));
    if (focused) root.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
  }

  function buildStrip(storage, n) {
    const title = lk.h("div");
    const canvas = lk.focusable(lk.h("canvas", { "data-key": `strip ${n}`, role: "application",
      "aria-label": `cells of storage ${storage.name}; arrow keys move along the cells in use` }));
    const map = lk.h("canvas", { class: "sv-map", title: "the whole storage: click to go there" });
    const strip = { n, storage, title, canvas, map, from: 0, element: lk.h("div", { class: "sv-storage" }, title, canvas, map) };
    // The selected view's element in a cell, else the first view's that has one there.
    const owner = (cell) => {
      if (cell === null) return null;
      const now = model.get("selected").view;
      const users = scene.views.filter((view) => view.storage === n && scene.shown(view.n)).sort((a, b) => (b.n === now) - (a.n === now));
      for (const view of users) {
        const [index] = affine.indicesAt(view, scene.elementAt(view, cell), 1);
        if (index) return [view.n, index];
      }
      return null;
    };
    const scroll = (to) => { strip.from = to; strip.scrolled = true; paint(); };
    const on = (event, run) => canvas.addEventListener(event, run, { passive: false });
    on("pointermove", (event) => {
      const found = owner(strideCells.cellUnder(strip, event));
      if (found) look(...found); else if (hover) leave();
    });
    on("pointerleave", leave);
    on("click", (event) => {
      const found = owner(strideCells.cellUnder(strip, event));
      if (found) select(...found);
    });
    on("wheel", (event) => {
      if (strip.look.count >= strip.look.all) return;
      event.preventDefault();
      scroll(strip.from + Math.sign(event.deltaY) * strip.look.per);
    });
    on("keydown", (event) => {
      const by = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -strip.look.per, ArrowDown: strip.look.per }[event.key];
      if (!by) return;
      event.preventDefault();
      const here = lights().find(({ view }) => view.storage === n);
      let cell = here ? scene.cellOf(here.view, here.at) : -by;
      for (let tries = 0; tries < 2000; tries++) {  // over cells no view uses
        const found = owner(cell += by);
        if (found) return select(...found);
      }
    });
    map.addEventListener("click", (event) => scroll(Math.floor((event.offsetX / map.clientWidth) * strip.look.total)));
    return strip;
  }

  function buildCard({ n, name, sizes }) {
    const check = lk.focusable(lk.h("input", { type: "checkbox", "data-key": `show ${n}`, "aria-label": `show ${name}`, on: { change: () => {
      const others = model.get("hidden").filter((other) => other !== n);
      put({ hidden: check.checked ? others : [...others, n] });
    } } }));
    const edit = lk.button("edit", `edit sizes, strides and offset of ${name}`, () => {
      if (!editing.delete(n)) editing.add(n);
      refresh();
    }, { "data-key": `edit ${n}`, "aria-pressed": editing.has(n) });
    const canvas = lk.focusable(lk.h("canvas", { "data-key": `grid ${n}`, role: "application" }));
    const [title, meta, tags] = [lk.h("b", { class: "lk-mono sv-name" }), lk.h("div", { class: "sv-meta lk-mono" }), lk.h("div", { class: "sv-tags" })];
    const formula = lk.h("div", { class: "sv-formula lk-mono", "aria-live": "polite" });
    const planes = sizes.length > 2 ? buildPlanes(n, sizes.length) : null, editor = editing.has(n) ? buildEditor(n, sizes.length) : null;
    const head = lk.h("div", { class: "lk-row sv-head" }, lk.h("label", { class: "lk-row" }, check, title), lk.h("span", { class: "sv-space" }), edit,
      lk.copyButton("copy", `copy sizes, strides and offset of ${name} as text`, () => asText(scene.views[n])));
    const element = lk.h("div", { class: "sv-card", style: `--sv-colour:${scene.colour(n)}` }, head, meta, tags, planes?.element, canvas, formula, editor?.element);
    const card = { n, check, title, meta, tags, canvas, formula, planes, editor, element };
    const under = (event) => {
      const place = card.look && scene.views[n].fact.numel ? strideCells.placeUnder(card, event) : null;
      if (!place) return null;
      const index = [...cursors[n]], { rows, cols } = scene.views[n];
      if (rows !== null) index[rows] = place[0];
      if (cols !== null) index[cols] = place[1];
      return index;
    };
    canvas.addEventListener("pointermove", (event) => {
      const index = under(event);
      if (index) look(n, index); else if (hover) leave();
    });
    canvas.addEventListener("pointerleave", leave);
    canvas.addEventListener("click", (event) => {
      const index = under(event);
      if (index) select(n, index);
    });
    canvas.addEventListener("focus", () => { if (model.get("selected").view !== n) select(n, cursors[n]); });
    canvas.addEventListener("keydown", (event) => {
      const { rows, cols, sizes: now, fact } = scene.views[n];
      const [dim, by] = { ArrowLeft: [cols, -1], ArrowRight: [cols, 1], ArrowUp: [rows, -1], ArrowDown: [rows, 1],
        Home: [cols, -Infinity], End: [cols, Infinity], PageUp: [rows, -16], PageDown: [rows, 16] }[event.key] ?? [];
      if (dim === undefined) return;
      event.preventDefault();
      if (dim === null || fact.numel === 0) return;
      const index = [...cursors[n]];
      index[dim] = Math.max(0, Math.min(now[dim] - 1, index[dim] + by));
      select(n, index);
    });
    return card;
  }

  // Which two dimensions lie in the grid; the others stand still at a chosen index.
  function buildPlanes(n, rank) {
    const choice = (label, at) => lk.focusable(lk.h("select", { "aria-label": `${label} dimension`, "data-key": `${label} ${n}`, on: { change: ({ target }) => {
      const axes = [scene.views[n].rows, scene.views[n].cols], chosen = Number(target.value);
      if (axes[1 - at] === chosen) axes[1 - at] = axes[at];
      axes[at] = chosen;
      put({ axes: { ...model.get("axes"), [n]: axes } });
    } } }, Array.from({ length: rank }, (_, dim) => lk.h("option", { value: dim }, `dim ${dim}`))));
    const fixed = Array.from({ length: rank }, (_, dim) => {
      const input = lk.focusable(lk.h("input", { type: "number", min: 0, "aria-label": `index of dim ${dim}`, "data-key": `fix ${n} ${dim}`, on: { input: () => {
        const index = [...cursors[n]];
        index[dim] = Math.trunc(Number(input.value));
        if (input.value !== "" && index[dim] >= 0 && index[dim] < scene.views[n].sizes[dim]) select(n, index);
      } } }));
      return { input, label: lk.h("label", {}, `dim ${dim} = `, input) };
    });
    const rows = choice("down", 0), cols = choice("across", 1);
    return { rows, cols, fixed, element: lk.h("div", { class: "lk-row sv-planes" }, lk.h("label", {}, "down ", rows),
      lk.h("label", {}, "across ", cols), fixed.map(({ label }) => label)) };
  }

  function buildEditor(n, rank) {
    const change = (edit) => {
      const { sizes, strides, offset } = scene.views[n];
      const next = { sizes: [...sizes], strides: [...strides], offset };
      edit(next);
      put({ edited: { ...model.get("edited"), [n]: next } });
    };
    const field = (label, min, get, set) => {
      const take = ({ target }) => {
        const to = target.value === "" ? NaN : Math.trunc(Number(target.value));
        if (Math.abs(to) < 2 ** 40 && (min === null || to >= min)) change((next) => set(next, to));
      };
      const input = (type) => lk.focusable(lk.h("input", { type, min: type === "range" ? 0 : min, "aria-label": label, "data-key": `${label} ${type} ${n}`, on: { input: take } }));
      const slider = input("range"), number = input("number");
      return { label, get, slider, number, row: lk.h("label", { class: "sv-field" }, lk.h("span", {}, label), slider, number) };
    };
    const fields = [...Array.from({ length: rank }, (_, dim) => [
      field(`size ${dim}`, 0, (view) => view.sizes[dim], (next, to) => { next.sizes[dim] = to; }),
      field(`stride ${dim}`, null, (view) => view.strides[dim], (next, to) => { next.strides[dim] = to; }),
    ]).flat(), field("offset", 0, (view) => view.offset, (next, to) => { next.offset = to; })];
    const element = lk.h("div", { class: "sv-editor" }, fields.map(({ row }) => row), lk.h("div", { class: "lk-row" },
      lk.button("+ dim", "add a dimension of size 1 in front", () => change((next) => { next.sizes.unshift(1); next.strides.unshift(0); })),
      lk.button("− dim", "remove the first dimension", () => change((next) => { next.sizes.shift(); next.strides.shift(); })),
      lk.button("reset", "back to the tensor's own layout", () => {
        put({ edited: Object.fromEntries(Object.entries(model.get("edited")).filter(([key]) => key !== String(n))) });
      }, { "data-key": `reset ${n}` })));
    return { element, fields };
  }

  const tuple = (list) => `(${list.join(", ")}${list.length === 1 ? "," : ""})`;
  const asText = (view) => `${view.name}: sizes [${view.sizes.join(", ")}], strides [${view.strides.join(", ")}], ` +
    `storage_offset ${view.offset}, ${view.dtype}, storage ${model.get("storages")[view.storage].name}\n` +
    `torch.as_strided(${view.name}, ${tuple(view.sizes)}, ${tuple(view.strides)}, ${view.offset})`;

  // ---- words: the sum that gives an address, and the facts of a layout ------------------------
  function worked(view, { index, at }) {
    const { fact } = view, inside = at >= fact.lowest && at < fact.room, value = inside ? scene.valueOf(view, at) : "";
    const letters = index.map((_, dim) => ("ijklmn"[dim] ?? `i${dim}`));
    const rows = [
      lk.h("div", {}, lk.h("b", {}, `${view.name}[${index.join(", ")}]`), value ? ` = ${value}` : ""),
      lk.h("div", { class: "lk-muted" }, `offset${letters.map((letter, dim) => ` + ${letter}·stride ${dim}`).join("")}`),
      lk.h("div", {}, `${view.offset}${index.map((i, dim) => ` + ${i}·${view.strides[dim]}`).join("")} = `, lk.h("b", {}, `element ${at}`)),
    ];
    const bytes = `${view.base ? `${view.base} + ` : ""}${at} × ${view.itemsize} bytes = `;
    rows.push(inside ? lk.h("div", {}, bytes, lk.h("b", {}, `byte ${view.base + at * view.itemsize}`))
      : lk.h("div", { class: "lk-alert" }, `outside: the storage holds elements ${fact.lowest} to ${fact.room - 1}`));
    return rows;
  }
  function warnings({ fact, strides, changed }) {
    const say = (text) => lk.h("div", { class: "lk-alert" }, text);
    const list = [];
    if (fact.outside) list.push(say(fact.ends[0] < fact.lowest ? `Elements begin at ${fact.ends[0]}, before the storage does.`
      : `Elements reach ${fact.ends[1]}, the storage ends at ${fact.room - 1}: PyTorch refuses this view.`));
    if (changed && strides.some((stride) => stride < 0)) list.push(say("PyTorch refuses negative strides; NumPy allows them."));
    return list;
  }
  function tagsOf({ fact, sizes, strides }) {
    const tag = (text, alert) => lk.h("span", { class: alert ? "sv-tag sv-tag-alert" : "sv-tag" }, text);
    const zero = strides.map((stride, dim) => (stride === 0 && sizes[dim] > 1 ? dim : -1)).filter((dim) => dim >= 0);
    return [tag(fact.numel === 0 ? "no elements" : fact.contiguous ? "contiguous" : "not contiguous"),
      zero.length ? tag(`stride 0 in dim ${zero.join(", ")}`) : null,
      fact.distinct === null ? tag("overlap not counted: too large") : null,
      fact.distinct !== null && fact.distinct < fact.numel ? tag(`${count(fact.numel)} elements on ${count(fact.distinct)} cells`, !zero.length) : null,
      fact.outside ? tag("outside the storage", true) : null].filter(Boolean);
  }

  function describeStrip({ n, title, element, storage }) {
    const uses = step().use_counts?.[n] ?? storage.use_count;
    element.style.display = scene.views.some((view) => view.storage === n && alive(view.n)) || !steps().length ? "" : "none";
    title.replaceChildren(lk.h("b", {}, `storage ${storage.name}`), lk.h("span", { class: "lk-muted" },
      ` ${count(scene.cellsOf(storage))} × ${storage.dtype} = ${count(storage.nbytes)} bytes${uses ? ` · use count ${uses}` : ""}${storage.note ? ` · ${storage.note}` : ""}`));
  }
  function describe(card, lit) {
    const view = scene.views[card.n], light = lit.find((other) => other.view.n === card.n), version = step().versions?.[card.n] ?? view.version;
    card.element.style.display = alive(card.n) ? "" : "none";
    card.element.classList.toggle("sv-off", !scene.shown(card.n));
    card.element.classList.toggle("sv-now", lit[0]?.view.n === card.n);
    card.check.checked = scene.shown(card.n);
    card.title.textContent = view.name + (view.changed ? " (edited)" : "");
    card.meta.textContent = `sizes [${view.sizes.join(", ")}]  strides [${view.strides.join(", ")}]\n${view.dtype}  offset ${view.offset}` +
      (version === undefined || version === null ? "" : `  version ${version}`);
    card.canvas.setAttribute("aria-label", `${view.name}, sizes ${view.sizes.join(" by ") || "none"}; arrow keys move`);
    card.tags.replaceChildren(...tagsOf(view));
    card.formula.replaceChildren(...(light ? worked(view, light) : []), ...warnings(view));
    const set = (input, value) => { if (input.value === "" ? input !== document.activeElement : Number(input.value) !== value) input.value = value; };
    if (card.planes) {
      card.planes.rows.value = view.rows;
      card.planes.cols.value = view.cols;
      card.planes.fixed.forEach(({ input, label }, dim) => {
        label.style.display = dim === view.rows || dim === view.cols ? "none" : "";
        input.max = Math.max(0, view.sizes[dim] - 1);
        set(input, cursors[card.n][dim]);
      });
    }
    card.editor?.fields.forEach(({ label, get, slider, number }) => {
      const now = get(view), most = label === "offset" ? view.fact.room - 1 : 2 * (get(view.original) ?? 0);
      slider.max = Math.max(8, most, now);
      set(slider, now);
      set(number, now);
    });
  }

  function paint() {
    stale = !root.clientWidth;  // hidden, or not on the page yet: the observer calls again
    if (stale) return;
    const began = performance.now(), lit = lights();
    let painted = 0;
    scene.width = root.clientWidth - 30;
    scene.looks = lk.theme(root);  // known only once on the page, and the theme may have changed
    for (const strip of strips) {
      describeStrip(strip);
      painted += strideCells.paintStrip(scene, strip, lit);
    }
    for (const card of cards) {
      describe(card, lit);
      if (scene.shown(card.n)) painted += strideCells.paintGrid(scene, card, lit, hover?.view === card.n ? hover.index : cursors[card.n]);
    }
    if (stepper && stepper.index !== frame()) stepper.set(frame());
    const outside = scene.views.some(({ n, fact }) => scene.shown(n) && fact.outside);
    Object.assign(root.dataset, { frame: frame(), painted, view: lit[0]?.view.n ?? "", index: lit[0]?.index.join(",") ?? "",
      address: lit.map(({ at }) => at).join(" "), state: outside ? "outside" : "inside", frameMs: (performance.now() - began).toFixed(2) });
    lk.drew(root);
  }
  function refresh() {
    read();
    build();
    paint();
  }
  function reload() {
    const view = model.get("values");
    columns = view?.byteLength ? lk.columns(model.get("schema"), view) : {};
    read();
    let wide = 38;  // px: what the longest value or address needs
    model.get("storages").forEach((storage, n) => {
      const cells = scene.cellsOf(storage);
      wide = Math.max(wide, 6.2 * String(cells).length + 6);
      for (let cell = 0; cell < Math.min(256, cells); cell++) wide = Math.max(wide, 7.6 * scene.textAt(`${n}:${storage.dtype}`, cell).length + 8);
    });
    scene.cellWidth = Math.min(64, Math.ceil(wide));
    build();
    paint();
  }
  const data = "change:storages change:views change:schema change:values change:texts change:steps";
  const choices = "change:selected change:edited change:hidden change:axes change:frame change:linked";
  model.on(data, reload);
  model.on(choices, refresh);
  const forget = lk.onTheme(() => paint());
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
