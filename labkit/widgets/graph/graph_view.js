// A directed graph on a canvas: places come from Python, this only draws, pans, zooms and walks.
const NODE_WIDTH = 132, LAYER_HEIGHT = 62, BOX_WIDTH = 124, BOX_HEIGHT = 30, READABLE = 0.46, OVERVIEW = 0.2;
const STATE_COLOURS = { active: "#E69F00", ready: "#56B4E9", done: "#009E73", waiting: "#8C8C00", error: "#D55E00" };
const SAID = { active: "runs now", ready: "has all its gradients", done: "has run", waiting: "waits for a gradient", error: "stops" };

function render({ model, el }) {
  const root = lk.root(el, model.get("title") || "graph");
  root.classList.toggle("lk-graph-simple", model.get("simple"));
  const canvas = lk.focusable(lk.h("canvas", { class: "lk-graph-canvas", role: "img",
    "aria-label": "graph; arrow keys follow edges, plus and minus zoom, 0 fits" }));
  const details = lk.h("div", { class: "lk-graph-details", "aria-live": "polite" });
  const lists = lk.h("div", { class: "lk-graph-lists" });
  const legend = lk.h("div", { class: "lk-row lk-graph-legend lk-muted" });
  const search = lk.focusable(lk.h("input", { type: "search", placeholder: "search nodes", "aria-label": "search nodes" }));
  const found = lk.h("span", { class: "lk-muted" });
  let level, incoming, outgoing, drawnAs, kinds, scale = 1, panX = 0, panY = 0, marks = new Map(), notes = new Map(), flows = new Map(), lit = new Set(), matches = [], pending = 0;

  const frames = model.get("frames"), inForce = graphFrames.history(frames);
  const heats = lk.h("div", { class: "lk-graph-heats" });
  const toFrame = (i) => { model.set("frame", i); model.save_changes(); };
  const stepper = frames.length > 0 && lk.stepper({
    count: frames.length, index: Math.min(model.get("frame"), frames.length - 1), text: (i) => frames[i].text,
    change: (i) => { toFrame(i); if (frames[i].stop) stepper.stop(); },
  });
  const walker = stepper && graphFrames.kindWalker(frames, () => stepper.index, toFrame);
  const tools = lk.h("div", { class: "lk-row lk-graph-tools" },
    lk.button("−", "zoom out", () => zoom(1 / 1.3)), lk.button("+", "zoom in", () => zoom(1.3)),
    lk.button("fit", "fit the whole graph", () => { fit(); draw(); }), search, found);
  const foldAll = lk.button("fold", "fold all groups", () => setLevel("folded"));
  const unfoldAll = lk.button("unfold", "unfold all groups", () => setLevel("all"));
  if (model.get("levels").folded) tools.append(foldAll, unfoldAll);
  root.append(...[model.get("title") && lk.h("b", {}, model.get("title")), stepper && stepper.element, walker, tools,
    lk.h("div", { class: "lk-graph-body" }, canvas, lk.h("div", { class: "lk-graph-side" }, heats, lists, details)), legend].filter(Boolean));

  const at = (x, y) => [x * NODE_WIDTH * scale + panX, y * LAYER_HEIGHT * scale + panY];
  const size = () => [canvas.clientWidth || 640, canvas.clientHeight || 360];
  const chosen = () => drawnAs.get(model.get("selected")) ?? -1;

  function setLevel(name) { model.set("level", name); model.save_changes(); }
  function useLevel() {
    const levels = model.get("levels");
    level = levels[model.get("level")] || levels.all;
    incoming = level.nodes.map(() => []); outgoing = level.nodes.map(() => []);
    level.edges.forEach(([s, t], i) => { outgoing[s].push(i); incoming[t].push(i); });
    drawnAs = new Map(level.nodes.flatMap((node, i) => node.members.map((member) => [member, i])));
    kinds = model.get("kinds");
    foldAll.setAttribute("aria-pressed", model.get("level") === "folded");
    unfoldAll.setAttribute("aria-pressed", model.get("level") === "all");
    legend.replaceChildren(...Object.entries(kinds).map(([kind, i]) => lk.h("span", {}, lk.h("span", { class: "lk-swatch",
      style: `background:${lk.palette[i % lk.palette.length]}` }), ` ${kind}`)),
      ...(frames.length ? Object.entries(STATE_COLOURS).filter(([name]) => frames.some((f) => Object.values(f.marks).includes(name)))
        .map(([name, colour]) => lk.h("span", {}, lk.h("span", { class: "lk-swatch lk-fill", style: `background:${colour}` }), ` ${model.get("simple") ? SAID[name] : name}`)) : []));
    fit(true); find(); describe(); draw();
  }

  // The whole graph; with `readable`, rather its top at a size one can read.
  function fit(readable = false) {
    if (!level.nodes.length) return;
    const [width, height] = size(), limits = [Infinity, -Infinity, Infinity, -Infinity];
    const bends = level.edges.flatMap(([, , , route]) => route.map(([x, y]) => ({ x, y })));
    for (const { x, y } of [...level.nodes, ...bends]) {
      limits[0] = Math.min(limits[0], x); limits[1] = Math.max(limits[1], x);
      limits[2] = Math.min(limits[2], y); limits[3] = Math.max(limits[3], y);
    }
    const [x0, x1, y0, y1] = limits, wide = (x1 - x0 + 1.2) * NODE_WIDTH, tall = (y1 - y0 + 1) * LAYER_HEIGHT;
    scale = Math.max(readable ? READABLE : 0, Math.min(1.1, width / wide, height / tall));
    const reach = width / (2 * scale * NODE_WIDTH) - 0.6;  // a wider drawing fills the canvas around its first node
    const middle = scale * wide <= width ? (x0 + x1) / 2 : Math.max(x0 + reach, Math.min(x1 - reach, level.nodes[0].x));
    panX = width / 2 - middle * NODE_WIDTH * scale;
    panY = scale * tall <= height ? (height - (y0 + y1) * LAYER_HEIGHT * scale) / 2 : LAYER_HEIGHT * scale * (0.6 - y0);
  }
  function zoom(by, x = size()[0] / 2, y = size()[1] / 2) {
    const to = Math.max(0.005, Math.min(3, scale * by));
    panX = x - (x - panX) * (to / scale); panY = y - (y - panY) * (to / scale); scale = to; draw();
  }
  const draw = () => { if (!pending) pending = requestAnimationFrame(() => { pending = 0; paint(); }); };

  function paint() {
    const [width, height] = size(), ratio = window.devicePixelRatio || 1;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio); canvas.height = Math.round(height * ratio);
    }
    const g = canvas.getContext("2d"), colours = lk.theme(root), now = chosen();
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.clearRect(0, 0, width, height);
    if (scale < OVERVIEW) return overview(g, colours);
    const seen = (node) => { const [x, y] = at(node.x, node.y); return x > -90 && x < width + 90 && y > -60 && y < height + 60; };
    const half = (BOX_HEIGHT / 2) * Math.min(1, scale), pills = [];
    for (const [s, t, label, route, members, aside] of level.edges) {
      const a = level.nodes[s], b = level.nodes[t];
      if (!seen(a) && !seen(b) && !route.some(([x, y]) => seen({ x, y }))) continue;
      const [ax, ay] = at(a.x + aside, a.y), [bx, by] = at(b.x + aside, b.y), used = lit.size && members.some((m) => lit.has(m)), near = used || s === now || t === now;
      const bends = route.map(([x, y]) => at(x + aside, y)), leaves = (bends[0]?.[1] ?? by) >= ay ? 1 : -1, enters = by >= (bends.at(-1)?.[1] ?? ay) ? 1 : -1;
      const came = flows.get(members.find((m) => flows.has(m)));
      g.strokeStyle = used ? STATE_COLOURS.active : near ? colours.accent : colours.muted;
      g.globalAlpha = near || came ? 1 : 0.65; g.lineWidth = used ? 3.5 : near || came ? 2 : 1;
      g.beginPath(); g.moveTo(ax, ay + leaves * half);
      let px = ax, py = ay + leaves * half;
      for (const [x, y] of [...bends, [bx, by - enters * half]]) {
        const my = (py + y) / 2; g.bezierCurveTo(px, my, x, my, x, y); [px, py] = [x, y];
      }
      g.stroke();
      if (scale > 0.25) {
        const head = 4 * Math.min(1, scale) + 1;
        g.beginPath(); g.moveTo(bx, by - enters * half); g.lineTo(bx - head, by - enters * (half + 1.7 * head));
        g.lineTo(bx + head, by - enters * (half + 1.7 * head)); g.fillStyle = g.strokeStyle; g.fill();
      }
      g.globalAlpha = 1;
      if (came && scale > (used ? 0.3 : 0.7)) {
        const [cx, cy] = bends[0] ?? [bx, by - enters * half];
        pills.push([came, aside < 0 ? -1 : 1, (ax + cx) / 2, 0.64 * (ay + leaves * half) + 0.36 * cy, used]);
      }
      if (label && scale > 0.6) {
        g.fillStyle = colours.muted; g.font = `10px ${colours.mono}`; g.textAlign = "left";
        g.fillText(label, (ax + bx) / 2 + 4, (ay + by) / 2 + 3);
      }
    }
    g.textAlign = "center"; g.textBaseline = "middle";
    level.nodes.forEach((node, i) => {
      if (!seen(node)) return;
      const [x, y] = at(node.x, node.y), w = BOX_WIDTH * scale, hgt = BOX_HEIGHT * Math.min(1.2, scale);
      const states = node.members.map((m) => marks.get(m)).filter(Boolean);
      const state = states.find((s) => s === "error") || states.find((s) => s === "active") || states[0];
      g.beginPath(); g.roundRect(x - w / 2, y - hgt / 2, w, hgt, 5 * scale);
      g.fillStyle = colours.cell; g.fill();
      if (state) { g.globalAlpha = 0.38; g.fillStyle = STATE_COLOURS[state]; g.fill(); g.globalAlpha = 1; }
      g.lineWidth = i === now ? 3 : node.folds ? 2 : 1.5;
      g.strokeStyle = i === now ? colours.accent : node.kind ? lk.palette[kinds[node.kind] % lk.palette.length] : colours.line;
      g.setLineDash(node.folds ? [4, 3] : []); g.stroke(); g.setLineDash([]);
      if (matches.includes(i)) { g.strokeStyle = colours.alert; g.lineWidth = 2; g.strokeRect(x - w / 2 - 3, y - hgt / 2 - 3, w + 6, hgt + 6); }
      const note = node.members.length === 1 && notes.get(node.members[0]);
      if (note && scale > 0.45) {
        g.font = `${Math.max(8, 9.5 * Math.min(1.2, scale))}px ${colours.mono}`; g.fillStyle = colours.ink; g.textAlign = "right";
        g.fillText(note, x + w / 2, y - hgt / 2 - 5); g.textAlign = "center";
      }
      if (scale < 0.32) return;
      const badge = node.badges.join(", "), fit = (text, px) => { const room = Math.floor(BOX_WIDTH * scale / (px * 0.62)); return text.length > room ? text.slice(0, Math.max(1, room - 1)) + "…" : text; };
      const px = Math.max(7, 11 * Math.min(1.2, scale));
      g.fillStyle = colours.ink; g.font = `${px}px ${colours.mono}`;
      g.fillText(fit(node.label, px), x, badge && scale > 0.55 ? y - 5 * scale : y);
      if (badge && scale > 0.55) { g.fillStyle = badge.includes("✗") ? colours.alert : colours.muted; g.font = `${px * 0.82}px ${colours.mono}`; g.fillText(fit(badge, px * 0.82), x, y + 7 * scale); }
    });
    for (const one of pills) pill(g, colours, ...one);
    lk.drew(root);
  }

  // What came along an edge, beside it: thick while it is on its way.
  function pill(g, colours, text, side, x, y, used) {
    const px = Math.max(8.5, 10.5 * Math.min(1.2, scale));
    g.font = `${used ? "bold " : ""}${px}px ${colours.mono}`;
    const wide = g.measureText(text).width + 8, left = side < 0 ? x - wide - 3 : x + 3;
    g.fillStyle = colours.paper; g.strokeStyle = used ? STATE_COLOURS.active : colours.line; g.lineWidth = used ? 2 : 1;
    g.beginPath(); g.roundRect(left, y - px * 0.75, wide, px * 1.5, px * 0.75); g.fill(); g.stroke();
    g.fillStyle = colours.ink; g.textAlign = "left"; g.textBaseline = "middle"; g.fillText(text, left + 4, y);
  }

  // A graph too small to read: boxes without words. Edges and plain boxes are kept as a picture, so that a step
  // draws only what has a state.
  let base = null;
  function overview(g, colours) {
    const [width, height] = size(), now = chosen(), boxes = new Map();
    const [bw, bh] = [Math.max(1, BOX_WIDTH * scale), Math.max(1, BOX_HEIGHT * scale)];
    const box = (colour, i, grow = 0) => {
      const [x, y] = at(level.nodes[i].x, level.nodes[i].y);
      if (x < -bw || x > width + bw || y < -bh || y > height + bh) return;
      if (!boxes.has(colour)) boxes.set(colour, []);
      boxes.get(colour).push([x - bw / 2 - grow, y - bh / 2 - grow, bw + 2 * grow, bh + 2 * grow]);
    };
    const fill = (pen) => { for (const [colour, all] of boxes) { pen.fillStyle = colour; for (const one of all) pen.fillRect(...one); } boxes.clear(); };
    const key = [scale, panX, panY, width, height, canvas.width, colours.muted].join();
    if (base?.level !== level || base.key !== key) {
      base = { level, key, canvas: lk.h("canvas", { width: canvas.width, height: canvas.height }) };
      const pen = base.canvas.getContext("2d"), ratio = canvas.width / width;
      pen.setTransform(ratio, 0, 0, ratio, 0, 0);
      pen.beginPath();
      for (const [s, t, , route] of level.edges) {
        const a = level.nodes[s], b = level.nodes[t];
        pen.moveTo(...at(a.x, a.y)); for (const [x, y] of route) pen.lineTo(...at(x, y)); pen.lineTo(...at(b.x, b.y));
      }
      pen.strokeStyle = colours.muted; pen.globalAlpha = 0.5; pen.stroke(); pen.globalAlpha = 1;
      level.nodes.forEach((node, i) => box(node.kind ? lk.palette[kinds[node.kind] % lk.palette.length] : colours.muted, i));
      fill(pen);
    }
    g.drawImage(base.canvas, 0, 0, width, height);
    const marked = [...marks].filter(([member]) => drawnAs.has(member)), urgent = ([, state]) => state === "active" || state === "error";
    for (const [member, state] of marked.filter((one) => !urgent(one))) box(STATE_COLOURS[state], drawnAs.get(member));
    for (const [member, state] of marked.filter(urgent)) box(STATE_COLOURS[state], drawnAs.get(member), 2);
    for (const i of matches) box(colours.alert, i, 2);
    if (now >= 0) box(colours.accent, now, 2);
    fill(g);
    lk.drew(root);
  }

  function select(i) {
    model.set("selected", i < 0 ? -1 : level.nodes[i].members[0]); model.save_changes();
  }
  function centre(i) {
    const [width, height] = size(), [x, y] = at(level.nodes[i].x, level.nodes[i].y);
    if (x < 70 || x > width - 70) panX += width / 2 - x;
    if (y < 30 || y > height - 30) panY += height / 2 - y;
  }
  const go = (i) => { select(i); centre(i); draw(); };
  function describe() {
    const i = chosen();
    root.dataset.selected = i < 0 ? "" : level.nodes[i].label;
    if (i < 0) return details.replaceChildren(lk.h("span", { class: "lk-muted" }, "click a node, or focus the graph and use the arrow keys"));
    const node = level.nodes[i];
    const links = (edges, end, name) => edges.length > 0 && lk.h("div", {}, lk.h("span", { class: "lk-muted" }, name),
      ...edges.slice(0, 12).map((e) => lk.button(level.nodes[level.edges[e][end]].label + (level.edges[e][2] ? ` · ${level.edges[e][2]}` : ""), "follow this edge", () => go(level.edges[e][end]))),
      edges.length > 12 ? ` and ${edges.length - 12} more` : null);
    details.replaceChildren(lk.h("b", { class: "lk-mono" }, node.label), " ", lk.h("span", { class: "lk-muted" }, node.kind),
      ...node.badges.map((badge) => lk.h("div", { class: "lk-mono" }, badge)),
      ...Object.entries(node.details).map(([name, text]) => lk.h("div", {}, lk.h("span", { class: "lk-muted" }, `${name}: `), lk.h("span", { class: "lk-mono" }, text))),
      ...[links(incoming[i], 0, "from "), links(outgoing[i], 1, "to "),
        node.folds && lk.button("unfold this group", "show the nodes of this group", () => {
          model.set("unfolded", [...model.get("unfolded"), node.group]); model.save_changes();
          setTimeout(() => { if (level.nodes.some((n) => n.folds && n.group === node.group)) setLevel("all"); }, 1500);  // no kernel: all or nothing
        }),
        !node.folds && node.group && model.get("level") === "mixed" && lk.button("fold this group", "hide the nodes of this group", () => {
          model.set("unfolded", model.get("unfolded").filter((group) => group !== node.group)); model.save_changes();
        })].filter(Boolean));
  }
  function showFrame(i) {
    const frame = frames[i];
    ({ marks, notes, flows } = inForce(i));
    lit = new Set(frame.edges ?? []);
    heats.replaceChildren(...(frame.heats ?? []).map(graphFrames.heat));
    lists.replaceChildren(...Object.entries(frame.lists).map(([name, items]) => lk.h("div", {},
      lk.h("span", { class: "lk-muted" }, items.length ? `${name} (${graphFrames.listLength(items)})` : name), items.length ? lk.h("ol", { class: "lk-mono" }, ...items.map((item) => lk.h("li", {}, item)))
        : lk.h("span", { class: "lk-muted" }, ": none"))));
    root.classList.toggle("lk-graph-stopped", Boolean(frame.stop));
    const active = Object.entries(frame.marks).find(([, state]) => state === "active" || state === "error");
    if (active && drawnAs.has(+active[0])) centre(drawnAs.get(+active[0]));
    draw();
  }
  function find() {
    const words = search.value.trim().toLowerCase();
    matches = words ? level.nodes.flatMap((node, i) => (`${node.label} ${node.badges.join(" ")}`.toLowerCase().includes(words) ? [i] : [])) : [];
    found.textContent = words ? `${matches.length} found` : "";
    draw();
  }

  search.addEventListener("input", find);
  search.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && matches.length) go(matches[(matches.indexOf(chosen()) + 1) % matches.length]);
  });
  canvas.addEventListener("keydown", (event) => {
    const i = chosen();
    const row = i < 0 ? [] : level.nodes.map((n, k) => [n, k]).filter(([n]) => n.y === level.nodes[i].y).sort((a, b) => a[0].x - b[0].x).map(([, k]) => k);
    const moves = {
      ArrowDown: () => i < 0 ? go(0) : outgoing[i].length && go(level.edges[outgoing[i][0]][1]),
      ArrowUp: () => i < 0 ? go(0) : incoming[i].length && go(level.edges[incoming[i][0]][0]),
      ArrowLeft: () => i < 0 ? go(0) : go(row[Math.max(0, row.indexOf(i) - 1)]),
      ArrowRight: () => i < 0 ? go(0) : go(row[Math.min(row.length - 1, row.indexOf(i) + 1)]),
      "+": () => zoom(1.3), "=": () => zoom(1.3), "-": () => zoom(1 / 1.3), 0: () => { fit(); draw(); },
    };
    if (moves[event.key] && level.nodes.length) { moves[event.key](); event.preventDefault(); }
  });
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && document.activeElement !== canvas) return;  // the page scrolls until the graph has the focus
    event.preventDefault(); zoom(Math.exp(-event.deltaY / 400), event.offsetX, event.offsetY);
  }, { passive: false });
  let drag = null;
  canvas.addEventListener("pointerdown", (event) => { drag = { x: event.offsetX, y: event.offsetY, moved: false }; canvas.setPointerCapture(event.pointerId); });
  canvas.addEventListener("pointermove", (event) => {
    if (!drag) return;
    const dx = event.offsetX - drag.x, dy = event.offsetY - drag.y;
    if (!drag.moved && Math.hypot(dx, dy) < 4) return;
    drag.moved = true; panX += dx; panY += dy; drag.x = event.offsetX; drag.y = event.offsetY; draw();
  });
  canvas.addEventListener("pointerup", (event) => {
    if (drag && !drag.moved) {
      select(level.nodes.findIndex((node) => { const [x, y] = at(node.x, node.y); return Math.abs(event.offsetX - x) <= (BOX_WIDTH / 2) * scale + 1 && Math.abs(event.offsetY - y) <= Math.max(4, (BOX_HEIGHT / 2) * scale); }));
    }
    drag = null;
  });

  const changed = { levels: useLevel, level: useLevel, selected: () => { describe(); draw(); },
    frame: () => { if (stepper) { const i = Math.min(model.get("frame"), frames.length - 1); stepper.set(i); showFrame(i); } } };
  for (const [name, run] of Object.entries(changed)) model.on(`change:${name}`, run);
  const forget = lk.onTheme(draw), resized = new ResizeObserver(() => { if (!root.dataset.fitted && canvas.clientWidth) { root.dataset.fitted = 1; fit(true); } draw(); });
  resized.observe(canvas);
  useLevel();
  if (stepper) showFrame(stepper.index);
  return () => { forget(); resized.disconnect(); if (stepper) stepper.stop(); for (const [name, run] of Object.entries(changed)) model.off(`change:${name}`, run); };
}

export default { render };
