// The memory map: timeline, segments and blocks, one trace entry at a time, forward and back.
const stores = new WeakMap();  // model -> the traces built from it, shared by its views

function storeOf(model) {
  if (stores.has(model)) return stores.get(model);
  const store = { traces: [], complete: false, progress: "", changed: new Set(), answers: new Set(), chunks: [] };
  stores.set(model, store);
  const tell = () => store.changed.forEach((run) => run());
  const read = (meta, view) => {
    const began = performance.now();
    const columns = lk.columns(meta.schema, view);
    store.traces = meta.traces.map((part, i) => {
      const prefix = `${i}.`;
      const own = Object.entries(columns).filter(([name]) => name.startsWith(prefix));
      return memory.build(Object.fromEntries(own.map(([name, values]) => [name.slice(prefix.length), values])), part);
    });
    store.buildMs = performance.now() - began;
    tell();
  };
  const reload = () => {
    const meta = model.get("meta");
    if (!meta.schema) return;
    store.complete = !meta.held;
    read(meta, model.get("data"));
    if (!meta.held) return;
    store.progress = `asking the kernel for ${megabytes(meta.held)}`;
    tell();
    // A static page and a stopped kernel cannot answer; the reduced trace stays and says so.
    setTimeout(() => { if (!store.heard) { store.progress = "no-kernel"; tell(); } }, 3000);
    send(model, { kind: "need" });
  };
  model.on("change:data", reload);
  model.on("msg:custom", (message, buffers) => {
    if (message.kind === "chunk") {
      store.heard = true;
      if (message.index === 0) { store.chunks = []; store.began = performance.now(); }
      store.chunks[message.index] = buffers[0];
      const got = store.chunks.reduce((sum, chunk) => sum + chunk.byteLength, 0);
      store.progress = `loading ${megabytes(got)} of ${megabytes(message.total)}`;
      tell();
      if (message.index + 1 < message.count) return;
      const whole = new Uint8Array(message.total);
      let at = 0;
      for (const chunk of store.chunks) { whole.set(new Uint8Array(chunk.buffer, chunk.byteOffset, chunk.byteLength), at); at += chunk.byteLength; }
      store.chunks = []; store.progress = ""; store.complete = true;
      read(message.meta, new DataView(whole.buffer));
    } else if (message.kind === "what_if") store.answers.forEach((run) => run(message));
  });
  reload();
  return store;
}
function send(model, message) { try { model.send(message); } catch { /* a static page has no kernel */ } }
const megabytes = (bytes) => `${(bytes / 1e6).toFixed(1)} MB`;

// All panels of the map in `root`; swap() shows only the bars instead, where there is such a view.
function wholeMap({ model, root, store, swap }) {
  const ui = { view: null, pinned: null, colour: "stack", stream: "", pool: "", least: 0, text: "", align: "entry", painted: "" };
  let trace = null, now = null, stepper = null, panes = [], shown = [], categories = null, last = -1;
  let width = 0, stale = false;

  const head = lk.h("div", { class: "lk-mm-head" });
  const notice = lk.h("div", { class: "lk-mm-notice", role: "status" });
  const steps = lk.h("div"), filters = lk.h("div", { class: "lk-row lk-mm-filters" });
  const legend = lk.h("div", { class: "lk-row lk-mm-legend" });
  const maps = lk.h("div"), details = lk.h("div", { class: "lk-mm-details" });
  const panels = memoryPanels({ model, store, go: (k) => go(k), trace: () => trace, state: () => now, other: () => (store.traces[1] ? memory.state(store.traces[1], stepOf(1)) : null) });
  root.append(head, notice, steps, filters, legend, maps, details, panels.element);

  // ---- which lives are shown, and in which colour ---------------------------------------------
  function chooseShown() {
    const wanted = ui.text.trim().toLowerCase();
    const plain = !wanted && !ui.stream && !ui.pool && !ui.least;
    shown = store.traces.map((each) => {
      const { lives, meta } = each, stacks = new Uint8Array(each.columns.stack_starts.length - 1).fill(1);
      if (wanted) stacks.forEach((_, s) => {
        stacks[s] = memory.frames(each, s).some((f) => `${f.file}:${f.line} ${f.name}`.toLowerCase().includes(wanted)) ? 1 : 0;
      });
      const chosen = new Uint8Array(lives.count).fill(plain ? 1 : 0);
      if (!plain) for (let l = 0; l < lives.count; l++) {
        chosen[l] = stacks[lives.stack[l]] && (!ui.stream || meta.streams[lives.stream[l]] === ui.stream)
          && (!ui.pool || String(meta.pools[lives.pool[l]]) === ui.pool) && lives.size[l] >= ui.least ? 1 : 0;
      }
      return chosen;
    });
  }
  function chooseColours() {  // one list of names, so that a name has one colour in both traces
    const names = [], code = new Map(), bytes = [];
    const category = (name) => {
      if (!code.has(name)) { code.set(name, names.length); names.push(name); bytes.push(0); }
      return code.get(name);
    };
    categories = { names, bytes, of: store.traces.map((each) => {
      const { lives, columns, meta } = each;
      const byStack = Array.from({ length: columns.stack_starts.length - 1 }, (_, s) => ownLine(memory.frames(each, s)));
      const name = {
        stack: (l) => byStack[lives.stack[l]],
        stream: (l) => `stream ${meta.streams[lives.stream[l]]}`,
        pool: (l) => poolName(meta.pools[lives.pool[l]]),
        size: (l) => sizeClass(lives.size[l]),
        phase: (l) => (lives.event[l] < 0 ? "before the recording" : meta.notes[columns.note[lives.event[l]]] || "no phase"),
      }[ui.colour];
      const found = new Uint32Array(lives.count);
      for (let l = 0; l < lives.count; l++) bytes[found[l] = category(name(l))] += lives.block[l];
      return found;
    }) };
    // The heaviest names get the colours; all others share the last one, a grey.
    const rank = names.map((_, c) => c).sort((a, b) => bytes[b] - bytes[a]);
    categories.colour = new Uint8Array(names.length).fill(lk.palette.length - 1);
    rank.slice(0, lk.palette.length - 1).forEach((c, place) => { categories.colour[c] = place; });
    categories.heaviest = rank;
    categories.of = categories.of.map((found) => Uint8Array.from(found, (c) => categories.colour[c]));
    // Two shades of each, by the number of the life: neighbours of one colour stay apart.
    ui.palette = lk.palette.flatMap((colour) => [timelines.rgba(colour), timelines.rgba(colour, 215)]);
  }
  const paintOf = (index, life, grey) => (shown[index][life] ? ui.palette[2 * categories.of[index][life] + (life & 1)] : grey);
  const look = (index) => {
    const t = lk.theme(root), dark = isDark(t.paper), dimmed = dark ? "#39414a" : "#d9dee4", { lives } = store.traces[index];
    const colour = (block) => (shown[index][block.life] ? lk.palette[categories.of[index][block.life]] : dimmed);
    return { ...t, colour, dimmed, free: dark ? "#22272e" : "#f1f3f5", rounding: dark ? "rgba(0,0,0,.45)" : "rgba(255,255,255,.6)",
      onColour: (block) => { const c = colour(block); return c === dimmed ? t.ink : DARK_COLOURS.includes(c) ? "#ffffff" : "#111111"; },
      requested: (block) => (block.life < 0 ? block.size : lives.size[block.life]) };
  };

  // ---- one pane per trace: a timeline and a map -------------------------------------------------
  function pane(index) {
    const label = model.get("meta").traces.length > 1 ? model.get("meta").titles?.[index] ?? `trace ${index + 1}` : "";
    const timeline = lk.focusable(lk.h("canvas", { class: "lk-mm-timeline", role: "img", "aria-label": `live bytes over the entries ${label}` }));
    const lens = lk.h("canvas", { class: "lk-mm-lens", role: "img", "aria-label": "the block of this entry and its neighbours" });
    const map = lk.focusable(lk.h("canvas", { class: "lk-mm-map", role: "img", "aria-label": `segments and blocks ${label}` }));
    const element = lk.h("div", { class: "lk-mm-pane" }, label ? lk.h("div", { class: "lk-mm-title" }, label) : null, timeline, index ? null : lens, map);
    return { index, timeline, lens, map, element, image: null, laid: null };
  }
  const stepOf = (index) => {  // the same step in another trace
    if (index === 0) return now.k;
    const other = store.traces[index];
    return ui.align === "request" ? stepAtRequest(other, requestsAt(trace, now.k)) : Math.min(now.k, other.n);
  };

  const roomFor = () => Math.max(200, maps.clientWidth);
  function paintTimeline(p) {
    const own = store.traces[p.index], t = lk.theme(root), width = roomFor(), height = 150;
    const [from, to] = p.index === 0 ? ui.view : [0, own.n];
    const regions = own.meta.regions ?? [];
    const top = Math.max(1, ...reservedIn(own, from, to), own.live[own.peak])
      * 1.04 * (height / (height - timelines.regionsHigh(regions)));
    const key = [width, from, to, ui.colour, ui.stream, ui.pool, ui.least, ui.text, t.paper, own.n].join();
    const scale = window.devicePixelRatio || 1;
    if (p.key !== key) {
      const grey = timelines.rgba(look(p.index).dimmed);
      const colour = (life) => paintOf(p.index, life, grey);
      const image = timelines.paint(own, { from, to, width: Math.round(width * scale), height: Math.round(height * scale), top, colour });
      p.image = Object.assign(document.createElement("canvas"), { width: image.width, height: image.height });
      p.image.getContext("2d").putImageData(image, 0, 0);
      p.key = key;
    }
    const pen = pens.prepare(p.timeline, width, height);
    pen.drawImage(p.image, 0, 0, width, height);
    const x = (k) => ((k - from) / Math.max(1, to - from)) * width, y = (bytes) => height - (bytes / top) * height;
    pen.strokeStyle = t.ink; pen.lineWidth = 1.5; pen.beginPath();
    let level = memory.reservedAt(own, from);
    pen.moveTo(0, y(level));
    own.reserved.at.forEach((k, i) => { if (k > from && k <= to) { pen.lineTo(x(k), y(level)); level = own.reserved.bytes[i]; pen.lineTo(x(k), y(level)); } });
    pen.lineTo(width, y(level)); pen.stroke();
    for (const bytes of ticks(top)) {
      const label = memory.bytes(bytes), at = y(bytes);
      pen.fillStyle = t.line; pen.fillRect(0, Math.round(at), 6, 1);
      pen.globalAlpha = 0.8; pen.fillStyle = t.paper; pen.fillRect(7, at - 6, label.length * 6.2 + 4, 12); pen.globalAlpha = 1;
      pens.words(pen, label, 9, at, { size: 10, fill: t.ink, align: "left" });
    }
    timelines.drawRegions(pen, regions, { x, from, to, width, theme: t });
    let labelled = -Infinity;
    for (const i of Object.keys(own.meta.ooms).map(Number).sort((a, b) => a - b)) {
      const at = x(i + 1);
      pen.fillStyle = t.alert; pen.fillRect(at - 1, 0, 2, height);
      if (at - labelled < 96) continue;  // the lines are enough where they are close
      labelled = at;
      pens.words(pen, "out of memory", at > 100 ? at - 4 : at + 4, 8, { size: 11, fill: t.alert, align: at > 100 ? "right" : "left" });
    }
    const k = stepOf(p.index);
    if (k >= from && k <= to) { pen.fillStyle = t.accent; pen.fillRect(x(k) - 1, 0, 2, height); }
    p.scale = { from, to, width, height, top };
  }
  function drawMap(p) {
    const style = look(p.index);
    const width = roomFor(), state = p.index === 0 ? now : memory.state(store.traces[p.index], stepOf(p.index));
    const own = store.traces[p.index];
    const names = { group: (segments) => {
      const s = segments[0], size = segments.reduce((sum, each) => sum + each.size, 0);
      return `${poolName(own.meta.pools[s.pool])} · stream ${own.meta.streams[s.stream]} · ${s.expandable ? "expandable " : ""}${s.large ? "large" : "small"} · ${segments.length} segment${segments.length === 1 ? "" : "s"}, ${memory.bytes(size)}`;
    } };
    p.laid = memoryBlocks.layout(state, names, width, 9);
    const pen = pens.prepare(p.map, width, p.laid.height);
    memoryBlocks.draw(pen, p.laid, style);
    if (!state.segments.length) pens.words(pen, "no segment is reserved", 0, 15, { size: 12, fill: style.muted, align: "left" });
    if (p.index > 0) return;
    const touched = touchedRange();
    if (touched) memoryBlocks.mark(pen, p.laid, touched, style.accent);
    const pinned = pinnedBlock();
    if (pinned) memoryBlocks.mark(pen, p.laid, pinned, style.alert);
    const focus = pinned ?? touched, segment = focus && now.segments.find((s) => focus.address >= s.address && focus.address < s.end);
    p.lens.style.display = segment ? "block" : "none";
    if (segment) {
      const title = `enlarged: ${pinned ? "the pinned block" : "the block of this entry"} in the segment at ${memory.hex(segment.address)} (${memory.bytes(segment.size)})`;
      memoryBlocks.lens(pens.prepare(p.lens, width, 74), segment, focus, width, 74, { ...style, lensTitle: title, accent: pinned ? style.alert : style.accent });
    }
  }
  function touchedRange() {
    const i = now.k - 1;
    if (i < 0 || trace.meta.actions[trace.columns.action[i]] === "oom") return null;
    const life = trace.lifeOf[i], address = trace.addresses[trace.columns.place[i]];
    return { address, size: life >= 0 ? trace.lives.block[life] : trace.columns.size[i] };
  }
  const pinnedBlock = () => (ui.pinned === null ? null : { address: trace.addresses[trace.lives.place[ui.pinned]], size: trace.lives.block[ui.pinned], life: ui.pinned });

  // ---- moving ------------------------------------------------------------------------------------
  function go(k, save = true) {
    const began = performance.now();
    now = memory.state(trace, Math.max(0, Math.min(trace.n, k)));
    if (now.k < ui.view[0] || now.k > ui.view[1]) zoom(ui.view[1] - ui.view[0], now.k);
    if (stepper.index !== now.k) stepper.set(now.k);
    if (save && model.get("frame") !== now.k) { model.set("frame", now.k); model.save_changes(); }
    panes.forEach((p) => { paintTimeline(p); drawMap(p); });
    describe();
    panels.update();
    Object.assign(root.dataset, { step: now.k, entries: trace.n, reserved: now.totals.reserved, allocated: now.totals.allocated,
      pending: now.totals.pending, live: now.totals.live, stepMs: (performance.now() - began).toFixed(1) });
    lk.drew(root);
  }
  function zoom(width, centre) {
    const wide = Math.max(Math.min(20, trace.n), Math.min(trace.n, Math.round(width)));
    const from = Math.max(0, Math.min(trace.n - wide, Math.round(centre - wide / 2)));
    ui.view = [from, from + wide];
  }
  const zoomBy = (factor, centre = now.k) => { zoom((ui.view[1] - ui.view[0]) * factor, centre); go(now.k); };
  function nextMatch(direction) {
    for (let i = now.k - 1 + direction; i >= 0 && i < trace.n; i += direction) {
      const life = trace.lifeOf[i];
      if (life >= 0 && shown[0][life] && trace.columns.action[i] === trace.code.alloc) return go(i + 1);
    }
    notice.textContent = `no ${direction > 0 ? "later" : "earlier"} alloc matches the filter`;
    return undefined;
  }

  // ---- words --------------------------------------------------------------------------------------
  function entryText(k) {
    if (k === 0) return "before the first entry";
    const i = k - 1, { columns, meta } = trace, action = meta.actions[columns.action[i]], size = memory.bytes(columns.size[i]);
    const phase = meta.notes[columns.note[i]];
    const time = columns.time[i] / 1000;
    const where = `${time ? `${time < 1e4 ? time.toFixed(2) : thousands(Math.round(time))} ms after the first; ` : ""}stream ${meta.streams[columns.stream[i]]}, ${poolName(meta.pools[columns.pool[i]])}${phase ? `, ${phase}` : ""}${regionsAt(trace, i).map((name) => `, in ${name}`).join("")}`;
    if (action === "oom") return `${action}: ${size} wanted, ${memory.bytes(meta.ooms[i])} free on the device; ${where}`;
    return `${action} ${size} at ${memory.hex(trace.addresses[columns.place[i]])}; ${where}`;
  }
  function describe() {
    const i = now.k - 1;
    const parts = [];
    if (i >= 0) {
      const why = trace.meta.decisions?.[i];
      parts.push(lk.h("section", {}, lk.h("h4", {}, "This entry"), lk.h("p", {}, entryText(now.k)),
        why ? whyTable(why, memory) : null, stackList(memory.frames(trace, trace.columns.stack[i]))));
    }
    if (ui.pinned !== null) {
      const l = ui.pinned, { lives } = trace, freed = lives.end[l];
      const asked = lives.size[l], block = lives.block[l];
      const jump = (label, k) => lk.button(label, `go to ${label}`, () => go(k));
      parts.push(lk.h("section", {}, lk.h("h4", {}, "Pinned block ", lk.button("unpin", "unpin the block", () => { ui.pinned = null; go(now.k); })),
        lk.h("p", {}, `${memory.hex(trace.addresses[lives.place[l]])}: ${memory.bytes(asked)} asked for, ${memory.bytes(block)} taken${block > asked ? ` (${memory.bytes(block - asked)} more, by rounding or as a rest too small to split off)` : ""}`),
        lk.h("div", { class: "lk-row" }, lives.event[l] >= 0 ? jump(`born in entry ${thousands(lives.event[l] + 1)}`, lives.event[l] + 1) : lk.h("span", {}, "older than the recording"),
          freed === memory.NEVER ? lk.h("span", {}, lives.asked[l] === memory.NEVER ? "never freed" : "free asked for, still pending") : jump(`freed in entry ${thousands(freed + 1)}`, freed + 1)),
        stackList(memory.frames(trace, lives.stack[l]))));
    }
    details.replaceChildren(...parts);
  }
  function headline() {
    const meta = model.get("meta");
    const facts = [`${thousands(trace.n)} entries`, `peak ${memory.bytes(trace.live[trace.peak])} live after entry ${thousands(trace.peak)}`,
      `${memory.bytes(memory.reservedAt(trace, trace.n))} reserved at the end`];
    head.replaceChildren(lk.h("div", { class: "lk-mm-title" }, meta.title || "memory map"),
      lk.h("div", { class: "lk-muted" }, facts.join(" · "), " ", lk.button("go to the peak", "go to the entry with most live bytes", () => go(trace.peak)),
        swap ? lk.button("only the bars", "hide all panels but the bars", swap) : ""));
    const words = [];
    if (store.progress === "no-kernel") words.push(`This page holds the last ${thousands(trace.n)} of ${thousands(meta.whole)} entries: the whole trace (${megabytes(meta.held)}) is too large to save with the notebook, and no kernel has answered yet. If none is running, run the cell again to see all of it.`);
    else if (store.progress) words.push(`Showing the last ${thousands(trace.n)} of ${thousands(meta.whole)} entries; ${store.progress} …`);
    else if (meta.held) words.push(`All ${thousands(trace.n)} entries are shown. A saved notebook keeps the last ${thousands(meta.traces[0].entries)} of them and the picture.`);
    if (meta.live) words.push(meta.live);
    for (const note of meta.remarks ?? []) words.push(note);
    const wrong = trace.columns.block_place.length ? memory.differences(trace) : 0;
    root.dataset.differences = wrong;
    if (wrong) words.push(`The map rebuilt from the entries differs from the recorded one in ${thousands(wrong)} blocks: the recording began or was cut in between.`);
    notice.replaceChildren(...words.map((text) => lk.h("div", {}, text)));
  }
  function legends() {
    const { heaviest, names } = categories, own = lk.palette.length - 1;
    const swatch = (style, text) => lk.h("span", { class: "lk-mm-key" }, lk.h("i", { style }), text);
    legend.replaceChildren(...heaviest.slice(0, own).map((c, place) => swatch(`background:${lk.palette[place]}`, names[c])),
      heaviest.length > own ? swatch(`background:${lk.palette[own]}`, `${thousands(heaviest.length - own)} others`) : "",
      lk.h("span", { class: "lk-mm-key" }, lk.h("i", { class: "lk-mm-reserved" }), "reserved"),
      swatch("background:repeating-linear-gradient(135deg,var(--lk-ink) 0 2px,transparent 2px 5px)", "pending"), swatch("background:var(--lk-panel)", "free"),
      swatch("background:var(--lk-paper);border-style:dashed", "expandable segment"));
  }

  // ---- controls -----------------------------------------------------------------------------------
  function controls() {
    const { meta } = trace;
    const select = (label, key, options, after) => lk.focusable(lk.h("select", { "aria-label": label, on: { change: (event) => { ui[key] = event.target.value; after(); } } },
      options.map(([value, text]) => lk.h("option", { value, selected: String(ui[key]) === String(value) }, text))));
    const refilter = () => { chooseShown(); legends(); go(now.k); };
    const input = (label, attributes, change) => lk.focusable(lk.h("input", { "aria-label": label, title: label, ...attributes, on: { change } }));
    filters.replaceChildren(
      meta.streams.length > 1 ? select("stream", "stream", [["", "every stream"], ...meta.streams.map((s) => [s, `stream ${s}`])], refilter) : "",
      meta.pools.length > 1 ? select("pool", "pool", [["", "every pool"], ...meta.pools.map((p) => [String(p), poolName(p)])], refilter) : "",
      lk.h("label", {}, "at least ", input("smallest request shown, KiB", { type: "number", min: 0, value: ui.least / 1024 }, (event) => { ui.least = Math.max(0, Number(event.target.value) || 0) * 1024; refilter(); }), " KiB"),
      input("search in stacks", { type: "search", placeholder: "file, line or function", value: ui.text }, (event) => { ui.text = event.target.value; refilter(); }),
      lk.button("‹ match", "earlier alloc that matches", () => nextMatch(-1)), lk.button("match ›", "next alloc that matches", () => nextMatch(1)),
      lk.h("label", {}, "colour by ", select("colour by", "colour", [["stack", "line of code"], ["phase", "phase"], ["size", "size"], ["stream", "stream"], ["pool", "pool"]], () => { chooseColours(); legends(); go(now.k); })),
      lk.button("+", "zoom the timeline in", () => zoomBy(0.5)), lk.button("−", "zoom the timeline out", () => zoomBy(2)),
      lk.button("whole", "show the whole timeline", () => { ui.view = [0, trace.n]; go(now.k); }),
      store.traces.length > 1 ? lk.h("label", {}, "at equal ", select("compare at equal", "align", [["entry", "entry numbers"], ["request", "request numbers"]], () => go(now.k))) : "");
  }
  function listen(p) {
    const entryAt = (event) => { const box = p.timeline.getBoundingClientRect(), { from, to } = p.scale; return Math.round(from + ((event.clientX - box.left) / box.width) * (to - from)); };
    p.timeline.addEventListener("click", (event) => go(entryAt(event)));
    if (p.index > 0) return;
    p.timeline.addEventListener("dblclick", (event) => {
      const box = p.timeline.getBoundingClientRect();
      const life = timelines.lifeAt(trace, now.k, (1 - (event.clientY - box.top) / box.height) * p.scale.top);
      if (life >= 0) { ui.pinned = life; go(now.k); }
    });
    p.timeline.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.shiftKey) return;
      event.preventDefault();
      zoomBy(event.deltaY > 0 || event.deltaX > 0 ? 1.25 : 0.8, entryAt(event));
    }, { passive: false });
    const move = { ArrowLeft: () => now.k - 1, ArrowRight: () => now.k + 1, PageUp: () => now.k - 100, PageDown: () => now.k + 100, Home: () => 0, End: () => trace.n };
    p.timeline.addEventListener("keydown", (event) => {
      if (move[event.key]) go(move[event.key]());
      else if (event.key === "+" || event.key === "=") zoomBy(0.5);
      else if (event.key === "-") zoomBy(2);
      else return;
      event.preventDefault();
    });
    p.map.addEventListener("click", (event) => {
      const box = p.map.getBoundingClientRect(), found = memoryBlocks.at(p.laid, event.clientX - box.left, event.clientY - box.top);
      ui.pinned = found && found.block.life >= 0 ? found.block.life : null;
      go(now.k);
    });
    p.map.addEventListener("mousemove", (event) => {
      const box = p.map.getBoundingClientRect(), found = memoryBlocks.at(p.laid, event.clientX - box.left, event.clientY - box.top);
      p.map.title = found ? blockText(found) : "";
    });
    p.map.addEventListener("keydown", (event) => {
      const direction = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!direction) return;
      const alive = now.segments.flatMap((s) => s.blocks.filter((b) => b.life >= 0));
      const at = alive.findIndex((b) => b.life === ui.pinned);
      const chosen = alive[at < 0 ? 0 : Math.max(0, Math.min(alive.length - 1, at + direction))];
      if (chosen) { ui.pinned = chosen.life; go(now.k); }
      event.preventDefault();
    });
  }
  const blockText = ({ segment, block }) => (block.life < 0 ? `free ${memory.bytes(block.size)} at ${memory.hex(block.address)}`
    : `${block.state} ${memory.bytes(trace.lives.size[block.life])} in a block of ${memory.bytes(block.size)} at ${memory.hex(block.address)}\n${ownLine(memory.frames(trace, trace.lives.stack[block.life]))}`) + `\nsegment of ${memory.bytes(segment.size)} at ${memory.hex(segment.address)}`;

  // ---- building and redrawing ---------------------------------------------------------------------
  function rebuild() {
    if (!store.traces.length) { notice.textContent = "waiting for the trace"; return; }
    if (trace !== store.traces[0]) {
      const began = performance.now(), following = trace === null ? model.get("frame") : now.k === last ? Infinity : now.k;
      trace = store.traces[0];
      const k = Math.min(trace.n, trace.n === model.get("meta").whole || model.get("meta").live ? following : trace.n);
      last = trace.n;
      ui.view = [0, trace.n]; ui.pinned = null;
      now = { k: -1 };
      chooseShown(); chooseColours();
      stepper?.stop();
      stepper = lk.stepper({ count: trace.n + 1, index: k, label: "entry", from: 0, text: (to) => entryText(to), change: (to) => go(to), milliseconds: 400 });
      steps.replaceChildren(stepper.element);
      panes = store.traces.map((_, index) => pane(index));
      maps.replaceChildren(...panes.map((p) => p.element));
      panes.forEach(listen);
      controls(); legends(); headline();
      width = root.clientWidth;  // drawn for it below, and again only when it changes
      go(k, false);
      root.dataset.openMs = (store.buildMs + performance.now() - began).toFixed(1);
      root.dataset.complete = store.complete;
    } else headline();
  }
  const jump = () => { if (trace && model.get("frame") !== now.k) go(model.get("frame"), false); };
  const repaint = () => {
    stale = !root.clientWidth;  // out of the page: it is done when it comes back
    if (trace && now.k >= 0 && !stale) go(now.k, false);
  };
  store.changed.add(rebuild);
  const said = () => { if (trace) headline(); };
  model.on("change:frame", jump);
  model.on("change:meta", said);
  const unwatch = lk.onTheme(repaint);
  const resized = new ResizeObserver(() => { if (root.clientWidth && (stale || root.clientWidth !== width)) { width = root.clientWidth; repaint(); } });
  resized.observe(root);
  rebuild();
  return () => { store.changed.delete(rebuild); model.off("change:frame", jump); model.off("change:meta", said); unwatch(); resized.disconnect(); stepper?.stop(); panels.close(); };
}

function render({ model, el }) {
  const root = lk.root(el, "memory map"), store = storeOf(model), simple = model.get("simple");
  let close = null;
  const open = (view) => {
    close?.();
    root.replaceChildren();
    close = view({ model, root, store, swap: simple ? () => open(view === wholeMap ? simpleMap : wholeMap) : null });
  };
  open(simple ? simpleMap : wholeMap);
  return () => close();
}

export default { render };
