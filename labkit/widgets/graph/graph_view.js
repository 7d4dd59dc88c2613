// A directed graph with its steps, side lists and search; the drawing is graph_canvas.js.
const SAID = {
  active: "runs now",
  ready: "has all its gradients",
  done: "has run",
  waiting: "has some gradients, waits for more",
  error: "stops",
};

const SIMPLE_HEIGHTS = [180, 460]; // px: a drawing alone is as high as it needs, within these

function render({ model, el }) {
  const root = lk.root(el, model.get("title") || "graph");
  root.classList.toggle("lk-graph-simple", model.get("simple"));
  const details = lk.h("div", { class: "lk-graph-details", "aria-live": "polite" });
  const lists = lk.h("div", { class: "lk-graph-lists" });
  const legend = lk.h("div", { class: "lk-row lk-graph-legend lk-muted" });
  const search = lk.focusable(
    lk.h("input", { type: "search", placeholder: "search nodes", "aria-label": "search nodes" }),
  );
  const found = lk.h("span", { class: "lk-muted" });
  const now = { marks: new Map(), notes: new Map(), flows: new Map(), lit: new Set(), matches: [] };
  const graph = graphCanvas.make({
    root,
    label: "graph; arrow keys follow edges, plus and minus zoom, 0 fits",
    look: () => ({ ...now, chosen: chosen() }),
    pick: select,
  });
  const { element: canvas, zoom, centre, draw } = graph;
  const fit = (readable) => {
    if (model.get("simple")) graph.grow(...SIMPLE_HEIGHTS);
    graph.fit(readable);
  };
  let level, incoming, outgoing, kinds;

  const frames = model.get("frames"),
    inForce = graphFrames.history(frames);
  const heats = lk.h("div", { class: "lk-graph-heats" });
  const toFrame = (i) => {
    model.set("frame", i);
    model.save_changes();
  };
  const stepper = lk.frameStepper(model, {
    change: (i) => {
      if (frames[i].stop) stepper.stop();
    },
  });
  const walker = stepper && graphFrames.kindWalker(frames, () => stepper.index, toFrame);
  const tools = lk.h(
    "div",
    { class: "lk-row lk-graph-tools" },
    lk.button("−", "zoom out", () => zoom(1 / 1.3)),
    lk.button("+", "zoom in", () => zoom(1.3)),
    lk.button("fit", "fit the whole graph", () => {
      fit();
      draw();
    }),
    search,
    found,
  );
  const foldAll = lk.button("fold", "fold all groups", () => setLevel("folded"));
  const unfoldAll = lk.button("unfold", "unfold all groups", () => setLevel("all"));
  if (model.get("levels").folded) tools.append(foldAll, unfoldAll);
  root.append(
    ...[
      model.get("title") && lk.h("b", {}, model.get("title")),
      stepper && stepper.element,
      walker,
      tools,
      lk.h(
        "div",
        { class: "lk-graph-body" },
        canvas,
        lk.h("div", { class: "lk-graph-side" }, heats, lists, details),
      ),
      legend,
    ].filter(Boolean),
  );

  const chosen = () => graph.place(model.get("selected"));

  function setLevel(name) {
    model.set("level", name);
    model.save_changes();
  }
  function useLevel() {
    const levels = model.get("levels");
    level = levels[model.get("level")] || levels.all;
    incoming = level.nodes.map(() => []);
    outgoing = level.nodes.map(() => []);
    level.edges.forEach(([s, t], i) => {
      outgoing[s].push(i);
      incoming[t].push(i);
    });
    kinds = model.get("kinds");
    graph.use(level, kinds);
    foldAll.setAttribute("aria-pressed", model.get("level") === "folded");
    unfoldAll.setAttribute("aria-pressed", model.get("level") === "all");
    const isBackward = ["operation", "saves tensors", "leaf"].some((kind) => kind in kinds);
    legend.replaceChildren(
      ...Object.entries(kinds).map(([kind, i]) =>
        lk.swatch(lk.palette[i % lk.palette.length], kind),
      ),
      ...(frames.length
        ? Object.entries(graphCanvas.STATE_COLOURS)
            .filter(([name]) => frames.some((f) => Object.values(f.marks).includes(name)))
            .map(([name, colour]) =>
              lk.swatch(colour, model.get("simple") ? SAID[name] : name, "lk-fill"),
            )
        : []),
      ...(model.get("simple") && isBackward && frames.some(({ notes }) => notes)
        ? [lk.swatch("var(--lk-cell)", "no gradient yet", "lk-fill lk-graph-untouched")]
        : []),
    );
    fit(true);
    find();
    describe();
    draw();
  }

  function select(i) {
    model.set("selected", i < 0 ? -1 : level.nodes[i].members[0]);
    model.save_changes();
  }
  const go = (i) => {
    select(i);
    centre(i);
    draw();
  };
  function describe() {
    const i = chosen();
    root.dataset.selected = i < 0 ? "" : level.nodes[i].label;
    if (i < 0)
      return details.replaceChildren(
        lk.h(
          "span",
          { class: "lk-muted" },
          "click a node, or focus the graph and use the arrow keys",
        ),
      );
    const node = level.nodes[i];
    const links = (edges, end, name) =>
      edges.length > 0 &&
      lk.h(
        "div",
        {},
        lk.h("span", { class: "lk-muted" }, name),
        ...edges
          .slice(0, 12)
          .map((e) =>
            lk.button(
              level.nodes[level.edges[e][end]].label +
                (level.edges[e][2] ? ` · ${level.edges[e][2]}` : ""),
              "follow this edge",
              () => go(level.edges[e][end]),
            ),
          ),
        edges.length > 12 ? ` and ${edges.length - 12} more` : null,
      );
    details.replaceChildren(
      lk.h("b", { class: "lk-mono" }, node.label),
      " ",
      lk.h("span", { class: "lk-muted" }, node.kind),
      ...node.badges.map((badge) => lk.h("div", { class: "lk-mono" }, badge)),
      ...Object.entries(node.details).map(([name, text]) =>
        lk.h(
          "div",
          {},
          lk.h("span", { class: "lk-muted" }, `${name}: `),
          lk.h("span", { class: "lk-mono" }, text),
        ),
      ),
      ...[
        links(incoming[i], 0, "from "),
        links(outgoing[i], 1, "to "),
        node.folds &&
          lk.button("unfold this group", "show the nodes of this group", () => {
            model.set("unfolded", [...model.get("unfolded"), node.group]);
            model.save_changes();
            setTimeout(() => {
              if (level.nodes.some((n) => n.folds && n.group === node.group)) setLevel("all");
            }, 1500); // no kernel: all or nothing
          }),
        !node.folds &&
          node.group &&
          model.get("level") === "mixed" &&
          lk.button("fold this group", "hide the nodes of this group", () => {
            model.set(
              "unfolded",
              model.get("unfolded").filter((group) => group !== node.group),
            );
            model.save_changes();
          }),
      ].filter(Boolean),
    );
  }
  function showFrame(i) {
    const frame = frames[i];
    const { marks, notes, flows } = inForce(i);
    const gone = new Set(frame.absent ?? []),
      cut = new Set(frame.absent_edges ?? []);
    Object.assign(now, { marks, notes, flows, lit: new Set(frame.edges ?? []) });
    Object.assign(now, { absent: (node) => gone.has(node), absentEdge: (edge) => cut.has(edge) });
    heats.replaceChildren(...(frame.heats ?? []).map(graphFrames.heat));
    lists.replaceChildren(
      ...Object.entries(frame.lists).map(([name, items]) =>
        lk.h(
          "div",
          {},
          lk.h(
            "span",
            { class: "lk-muted" },
            items.length ? `${name} (${graphFrames.listLength(items)})` : name,
          ),
          items.length
            ? lk.h("ol", { class: "lk-mono" }, ...items.map((item) => lk.h("li", {}, item)))
            : lk.h("span", { class: "lk-muted" }, ": none"),
        ),
      ),
    );
    root.classList.toggle("lk-graph-stopped", Boolean(frame.stop));
    const active = Object.entries(frame.marks).find(
      ([, state]) => state === "active" || state === "error",
    );
    const running = active ? graph.place(+active[0]) : -1;
    if (running >= 0) centre(running);
    draw();
  }
  function find() {
    const words = search.value.trim().toLowerCase();
    now.matches = words
      ? level.nodes.flatMap((node, i) =>
          `${node.label} ${node.badges.join(" ")}`.toLowerCase().includes(words) ? [i] : [],
        )
      : [];
    found.textContent = words ? `${now.matches.length} found` : "";
    draw();
  }

  search.addEventListener("input", find);
  const nextMatch = () =>
    now.matches.length && go(now.matches[(now.matches.indexOf(chosen()) + 1) % now.matches.length]);
  lk.onKeys(search, { Enter: nextMatch });
  const moves = () => {
    const i = chosen();
    const row =
      i < 0
        ? []
        : level.nodes
            .map((n, k) => [n, k])
            .filter(([n]) => n.y === level.nodes[i].y)
            .sort((a, b) => a[0].x - b[0].x)
            .map(([, k]) => k);
    return {
      ArrowDown: () => (i < 0 ? go(0) : outgoing[i].length && go(level.edges[outgoing[i][0]][1])),
      ArrowUp: () => (i < 0 ? go(0) : incoming[i].length && go(level.edges[incoming[i][0]][0])),
      ArrowLeft: () => (i < 0 ? go(0) : go(row[Math.max(0, row.indexOf(i) - 1)])),
      ArrowRight: () => (i < 0 ? go(0) : go(row[Math.min(row.length - 1, row.indexOf(i) + 1)])),
      "+": () => zoom(1.3),
      "=": () => zoom(1.3),
      "-": () => zoom(1 / 1.3),
      0: () => {
        fit();
        draw();
      },
    };
  };
  lk.onKeys(canvas, moves, (move) => {
    if (!level.nodes.length) return false;
    move();
  });
  const changed = {
    levels: useLevel,
    level: useLevel,
    selected: () => {
      describe();
      draw();
    },
    frame: () => {
      if (stepper) {
        stepper.follow();
        showFrame(stepper.index);
      }
    },
  };
  for (const [name, run] of Object.entries(changed)) model.on(`change:${name}`, run);
  const forget = lk.onTheme(draw),
    resized = new ResizeObserver(() => {
      if (!root.dataset.fitted && canvas.clientWidth) {
        root.dataset.fitted = 1;
        fit(true);
      }
      draw();
    });
  resized.observe(canvas);
  useLevel();
  if (stepper) showFrame(stepper.index);
  return () => {
    forget();
    resized.disconnect();
    if (stepper) stepper.stop();
    for (const [name, run] of Object.entries(changed)) model.off(`change:${name}`, run);
  };
}

export default { render };
