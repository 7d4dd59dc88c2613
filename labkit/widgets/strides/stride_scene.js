// What a stride view shows, worked out from its model: views with their facts, values and lit
// elements.
function formatted(value, dtype) {
  if (value === undefined) return "";
  if (dtype === "bool") return value ? "T" : "F";
  if (typeof value !== "number" || /^u?int/.test(dtype)) return String(value);
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "nan" : value > 0 ? "inf" : "-inf";
  if (Number.isInteger(value) && Math.abs(value) < 1e5) return `${value}.`;
  const short = value.toPrecision(3);
  return short.includes("e") ? short.replace(/\.?0*e\+?/, "e") : short.replace(/0+$/, "");
}

function strideScene(model) {
  const facts = new Map();
  let columns = {},
    overlay = {};
  const scene = {
    views: [],
    cursors: {}, // view -> index, kept while another view is selected
    hover: null, // { view, index } under the pointer, not yet chosen
    looks: null, // the theme's colours
    cellWidth: 38,
    width: 600,
    steps: () => model.get("steps"),
    frame: () => Math.max(0, Math.min(scene.steps().length - 1, model.get("frame"))),
    step: () => scene.steps()[scene.frame()] ?? {},
    alive: (n) => scene.step().alive?.includes(n) ?? true,
    simple: () => model.get("simple"),
    shown: (n) => scene.alive(n) && !model.get("hidden").includes(n),
    colour: (n) => lk.palette[n % lk.palette.length],
    storageOf: (view) => model.get("storages")[view.storage],
    cellsOf: (storage) => Math.floor(storage.nbytes / storage.unit),
    cellOf: (view, at) => view.first + at * view.k,
    elementAt: (view, cell) => Math.floor((cell - view.first) / view.k),
    marksOf: (view) => model.get("marks").filter((mark) => mark.view === view.n),
    textAt(column, at) {
      const values = columns[column] ?? model.get("texts")[column];
      const kept = values ? formatted(values[at], column.split(":")[1]) : "";
      return overlay[column]?.[at] ?? kept;
    },
    valueOf(view, at) {
      if (view.base % view.itemsize) return "";
      return scene.textAt(`${view.storage}:${view.dtype}`, view.base / view.itemsize + at);
    },
    read,
    load,
    lights,
  };

  // Everything that follows from a choice: the views as edited, the step's values.
  function read() {
    const now = model.get("selected");
    scene.views = model.get("views").map((original, n) => {
      const edited = model.get("edited")[n];
      const names = scene.step().names?.[n] ?? original.names ?? [original.name];
      const called = { name: names[0], names, n, original, changed: Boolean(edited) };
      const view = { ...original, ...edited, ...called };
      const storage = scene.storageOf(view);
      view.k = view.itemsize / storage.unit; // cells per element
      view.first = view.base / storage.unit; // cells before the view's element 0
      [view.rows, view.cols] = plane(view.sizes.length, model.get("axes")[n] ?? []);
      view.fact = factsOf(view, storage);
      const moves = now.view === n || model.get("linked"); // linked views show the same plane
      const chosen = moves && now.index.length === view.sizes.length;
      const index = chosen ? now.index : (scene.cursors[n] ?? []);
      scene.cursors[n] = view.sizes.map((size, dim) =>
        Math.max(0, Math.min(size - 1, index[dim] ?? 0)),
      );
      return view;
    });
    overlay = {};
    for (const { writes } of scene.steps().slice(0, scene.frame() + 1)) {
      for (const [column, at, text] of writes ?? []) (overlay[column] ??= {})[at] = text;
    }
  }

  // The two dimensions in the grid: the last two, unless others were chosen.
  function plane(rank, [rows, cols]) {
    const across = cols < rank ? cols : rank ? rank - 1 : null;
    if (rows < rank && rows !== across) return [rows, across];
    if (rank < 2) return [null, across];
    return [across === rank - 1 ? rank - 2 : rank - 1, across];
  }

  function factsOf(view, storage) {
    const { sizes, strides, offset, k, first } = view;
    const key = JSON.stringify([sizes, strides, offset, k, first, storage.nbytes]);
    if (!facts.has(key)) {
      const ends = affine.reach(view);
      const lowest = -Math.floor(first / k); // elements that lie before the view's element 0
      const room = Math.floor((scene.cellsOf(storage) - first) / k);
      facts.set(key, {
        ends,
        lowest,
        room,
        numel: affine.numel(view),
        distinct: affine.distinct(view),
        contiguous: affine.contiguous(view),
        outside: ends !== null && (ends[0] < lowest || ends[1] >= room),
      });
    }
    return facts.get(key);
  }

  // The lit elements: one, or one per operand of the same sizes when views are linked.
  function lights() {
    const chosen = scene.hover ?? model.get("selected");
    const visible = scene.views.filter(({ n }) => scene.shown(n));
    const main = visible.find(({ n }) => n === chosen.view) ?? visible[0];
    if (!main) return [];
    const index = scene.hover ? scene.hover.index : scene.cursors[main.n];
    const same = (view) =>
      view !== main && JSON.stringify(view.sizes) === JSON.stringify(main.sizes);
    const others = model.get("linked") ? visible.filter(same) : [];
    return [main, ...others]
      .filter(({ fact }) => fact.numel > 0)
      .map((view) => ({ view, index, at: affine.address(view, index) }));
  }

  // The values, and cells wide enough for the longest value or address.
  function load() {
    const values = model.get("values");
    columns = values?.byteLength ? lk.columns(model.get("schema"), values) : {};
    read();
    let wide = 38;
    model.get("storages").forEach((storage, n) => {
      const cells = scene.cellsOf(storage);
      wide = Math.max(wide, 6.2 * String(cells).length + 6);
      for (let cell = 0; cell < Math.min(256, cells); cell++) {
        wide = Math.max(wide, 7.6 * scene.textAt(`${n}:${storage.dtype}`, cell).length + 8);
      }
    });
    scene.cellWidth = Math.min(64, Math.ceil(wide));
  }

  return scene;
}
