// The memory map for a first look: the bars, what their colours mean, and a sentence for each step.
const memorySimple = (() => {
  const LEAST = 6; // px: a live block is never drawn narrower, however long its segment is
  const ROWS = 9; // of bars, where no segment is so long that it sets the scale
  const bytes = (count) => memory.bytes(count);

  // Where it is worth standing: {k: entries done, region}. One free is one step, and a snapshot is
  // none; where a named region begins (a call of empty_cache) is one more, which changes nothing.
  function stops(trace) {
    const { lifeOf, code, n } = trace,
      { action } = trace.columns;
    const regions = trace.meta.regions ?? [];
    const beginning = (k) =>
      regions.filter(([, first]) => first === k).map((region) => ({ k, region }));
    const kept = [{ k: 0, region: null }, ...beginning(0)];
    for (let i = 0; i < n; i++) {
      const done = action[i + 1] === code.free_completed && lifeOf[i] === lifeOf[i + 1];
      const isFirstHalf = action[i] === code.free_requested && done;
      const isLook = action[i] === code.snapshot || action[i] === code.workspace_snapshot;
      if (!isFirstHalf && !isLook) kept.push({ k: i + 1, region: null });
      kept.push(...beginning(i + 1));
    }
    return kept;
  }

  const actionAt = (trace, k) => (k ? trace.meta.actions[trace.columns.action[k - 1]] : "");
  const isReturn = (action) => action === "segment_free" || action === "segment_unmap";
  // The bytes a step is about; null where it is about no place.
  function touched(trace, { k, region }) {
    if (k === 0 || region || actionAt(trace, k) === "oom") return null;
    const life = trace.lifeOf[k - 1];
    const size = life >= 0 ? trace.lives.block[life] : trace.columns.size[k - 1];
    return { address: trace.addresses[trace.columns.place[k - 1]], size, life };
  }

  function sentence(trace, { k, region }) {
    if (region) {
      const [name, first, end] = region;
      return end > first ? `${name} begins` : `${name} begins and ends: nothing was changed by it`;
    }
    if (k === 0)
      return trace.lives.older ? "before the first step recorded" : "nothing asked for yet";
    const asked = bytes(trace.columns.size[k - 1]);
    const life = trace.lifeOf[k - 1];
    const block = life < 0 ? asked : bytes(trace.lives.block[life]);
    const says = {
      alloc: () => `${asked} asked for: they get a block of ${block}`,
      free_requested: () =>
        `the block of ${block} is freed, but work in another stream may still use it: it waits`,
      free_completed: () => `the block of ${block} is free again; the allocator keeps it`,
      segment_alloc: () => `the allocator takes a segment of ${asked} from the GPU`,
      segment_free: () => `the segment of ${asked} goes back to the GPU`,
      segment_map: () => `a segment grows by ${asked}, taken from the GPU`,
      segment_unmap: () => `a segment gives ${asked} back to the GPU`,
      oom: () =>
        `out of memory: ${asked} wanted, ${bytes(trace.meta.ooms[k - 1])} left on the GPU, ` +
        `and the longest free piece is ${bytes(memory.state(trace, k).totals.largest)}`,
    };
    const note = noteAt(trace, k - 1);
    return (note && `${note}: `) + (says[actionAt(trace, k)] ?? (() => actionAt(trace, k)))();
  }

  function heading(trace, state) {
    const { pools, streams } = trace.meta;
    const several = (key) => new Set(state.segments.map((segment) => segment[key])).size > 1;
    return (segments) => {
      const [first] = segments,
        size = segments.reduce((sum, each) => sum + each.size, 0);
      const count =
        segments.length === 1
          ? `a segment of ${bytes(size)}`
          : `${segments.length} segments, ${bytes(size)} together`;
      return [
        count,
        several("large")
          ? first.large
            ? "for requests above 1 MiB"
            : "for requests up to 1 MiB"
          : "",
        several("stream") ? `stream ${streams[first.stream]}` : "",
        several("pool") ? poolName(pools[first.pool]) : "",
      ]
        .filter(Boolean)
        .join(", ");
    };
  }

  function legend(traces, look) {
    const some = (test) =>
      traces.some(({ lives }) => {
        for (let l = 0; l < lives.count; l++) if (test(lives, l)) return true;
        return false;
      });
    const key = (style, text) => lk.h("span", { class: "lk-mm-key" }, lk.h("i", { style }), text);
    const blue = lk.palette[0];
    const light = `linear-gradient(${look.rounding},${look.rounding}),${blue}`;
    const hatch = `repeating-linear-gradient(135deg,${look.ink} 0 2px,${blue} 2px 5px)`;
    return [
      key(`background:${blue}`, "in use: what was asked for"),
      some((l, i) => l.block[i] > l.size[i]) ? key(`background:${light}`, "added to it") : "",
      some((l, i) => l.asked[i] < l.end[i] && l.end[i] > l.asked[i])
        ? key(`background:${hatch}`, "waits for another stream")
        : "",
      key(`background:${look.free}`, "free"),
      key(`border:2px solid ${look.accent};background:none`, "this step"),
      traces.some(({ meta }) => Object.keys(meta.ooms).length)
        ? key(`border:2px dashed ${look.alert};background:none`, "wanted, and no room for it")
        : "",
    ];
  }

  function look(root, trace) {
    const theme = lk.theme(root),
      dark = isDark(theme.paper);
    return {
      ...theme,
      least: LEAST,
      free: dark ? "#22272e" : "#f1f3f5",
      rounding: dark ? "rgba(0,0,0,.45)" : "rgba(255,255,255,.6)",
      colour: () => lk.palette[0],
      requested: (block) => (block.life < 0 ? block.size : trace.lives.size[block.life]),
    };
  }

  // One trace at one step: the segments, and what is wanted in vain, else short blocks enlarged. A
  // segment that goes back is still drawn, empty, in the step in which it goes.
  function draw({ wanted, bars, lens }, trace, stop, width, style, perRow) {
    const { k } = stop,
      action = stop.region ? "" : actionAt(trace, k),
      state = memory.state(trace, k),
      drawn = isReturn(action) ? memory.state(trace, k - 1) : state,
      focus = touched(trace, stop);
    const names = { group: heading(trace, drawn) };
    const laid = memoryBlocks.layout(drawn, names, width, ROWS, perRow);
    const pen = pens.prepare(bars, width, laid.height);
    memoryBlocks.draw(pen, laid, style);
    labelBlocks(pen, laid, trace, style);
    if (!drawn.segments.length) {
      pens.words(pen, "the allocator holds no memory of the GPU", 0, 15, {
        fill: style.muted,
        align: "left",
      });
    }
    if (isReturn(action)) drawReturned(pen, laid, focus, style);
    else if (focus) memoryBlocks.mark(pen, laid, focus, style.accent, 2, LEAST);
    const size = action === "oom" ? trace.columns.size[k - 1] : 0;
    drawWanted(wanted, size, laid, width, style);
    const enlarged = size ? null : memoryScale.strip(trace, perRow, width);
    memoryScale.drawStrip(lens, trace, state, k, focus, style, enlarged, width);
    const { totals } = state;
    bars.setAttribute(
      "aria-label",
      `${bytes(totals.reserved)} taken from the GPU in ` +
        `${totals.segments} segments: ${totals.live} blocks in use, ${bytes(totals.free)} free`,
    );
  }

  // The place of what goes back to the GPU: empty, in a broken frame.
  function drawReturned(pen, laid, { address, size }, style) {
    for (const { segment, from, to, x, y, width } of laid.places) {
      const a = Math.max(from, address - segment.address),
        b = Math.min(to, address + size - segment.address);
      if (a >= b) continue;
      const scale = width / (to - from),
        left = x + (a - from) * scale,
        wide = (b - a) * scale;
      pen.fillStyle = style.paper;
      pen.fillRect(left, y, wide, memoryBlocks.ROW);
      pens.frameCell(pen, left, y - 2, wide, memoryBlocks.ROW + 4, style.accent, 2, [5, 3]);
      pens.words(pen, "goes back", left + wide / 2, y + memoryBlocks.ROW / 2, {
        size: 11,
        fill: style.ink,
        width: wide,
      });
    }
  }

  // What user_metadata said while the entry was recorded; "" where it said nothing.
  const noteAt = (trace, entry) =>
    entry < 0 ? "" : trace.meta.notes[trace.columns.note[entry]] || "";
  // What stands in a block, the longer words first, and the ink: how much is free, or the note of
  // who asked for it.
  function labelOf(block, trace, style) {
    const size = bytes(block.size);
    if (block.life < 0) return [[`free ${size}`, size], style.muted];
    const note = noteAt(trace, trace.lives.event[block.life]);
    return [note ? [`${note} ${size}`] : [], "#ffffff"];
  }

  function labelBlocks(pen, laid, trace, style) {
    for (const { segment, from, to, x, y, width } of laid.places) {
      for (const block of segment.blocks) {
        const a = Math.max(from, block.address - segment.address);
        const b = Math.min(to, block.address - segment.address + block.size);
        const wide = ((b - a) / (to - from)) * width,
          [words, fill] = labelOf(block, trace, style),
          text = words.find((one) => wide >= one.length * 6.7 + 4);
        if (!text) continue;
        pens.words(
          pen,
          text,
          x + ((a - from) / (to - from)) * width + wide / 2,
          y + memoryBlocks.ROW / 2,
          { size: 11, fill },
        );
      }
    }
  }

  function drawWanted(canvas, size, laid, width, style) {
    canvas.style.display = size ? "block" : "none";
    if (!size) return;
    const pen = pens.prepare(canvas, width, 44),
      wide = Math.min(width, (size / laid.perRow) * width);
    pens.words(pen, `wanted, in one piece: ${bytes(size)}`, 0, 9, {
      size: 11,
      fill: style.alert,
      align: "left",
    });
    pens.frameCell(pen, 0, 18, wide, memoryBlocks.ROW, style.alert, 2, [5, 3]);
  }

  const scale = (traces) => memoryScale.bytesPerRow(traces, ROWS);

  return { stops, sentence, legend, look, draw, scale };
})();

// Only the bars in `root`; swap() shows all panels instead.
function simpleMap({ model, root, store, swap }) {
  const title = lk.h("span", { class: "lk-mm-title" });
  const head = lk.h(
    "div",
    { class: "lk-row" },
    title,
    lk.h("span", { class: "lk-space" }),
    lk.button("all panels", "the whole tool: time line, figures, call sites, settings", swap),
  );
  const notice = lk.h("div", { class: "lk-mm-notice", role: "status" }),
    steps = lk.h("div");
  const legend = lk.h("div", { class: "lk-row lk-mm-legend" }),
    maps = lk.h("div");
  root.append(head, notice, steps, legend, maps);
  let trace = null,
    stops = [],
    stepper = null,
    panes = [],
    width = 0;

  // The last step that is done after k entries.
  const stepAt = (k) =>
    Math.max(
      0,
      stops.findLastIndex((stop) => stop.k <= k && !stop.region),
    );
  function go(step, save = true) {
    const { k, region } = stops[step];
    if (stepper.index !== step) stepper.set(step);
    if (save) {
      model.set("frame", k);
      model.save_changes();
    }
    width = maps.clientWidth;
    if (!width) return;
    const perRow = memorySimple.scale(store.traces);
    panes.forEach((pane, index) => {
      const own = store.traces[index],
        stop = { k: Math.min(k, own.n), region };
      memorySimple.draw(pane, own, stop, width, memorySimple.look(root, own), perRow);
    });
    legend.replaceChildren(...memorySimple.legend(store.traces, memorySimple.look(root, trace)));
    const { totals } = memory.state(trace, k);
    Object.assign(root.dataset, {
      step: k,
      entries: trace.n,
      reserved: totals.reserved,
      allocated: totals.allocated,
      pending: totals.pending,
      live: totals.live,
    });
    lk.drew(root);
  }
  function pane(index) {
    const canvas = () => lk.h("canvas", { role: "img", "aria-label": "" });
    const own = { wanted: canvas(), bars: canvas(), lens: canvas() };
    own.wanted.setAttribute("aria-label", "the request that found no room");
    own.lens.setAttribute("aria-label", "short blocks, enlarged");
    const name =
      store.traces.length > 1
        ? lk.h("div", { class: "lk-mm-title" }, model.get("meta").titles[index])
        : "";
    own.element = lk.h("div", { class: "lk-mm-pane" }, name, own.wanted, own.bars, own.lens);
    return own;
  }
  function rebuild() {
    const meta = model.get("meta");
    title.textContent = meta.title || "memory map";
    notice.replaceChildren(
      ...[...(meta.remarks ?? []), meta.live].filter(Boolean).map((text) => lk.h("div", {}, text)),
    );
    if (!store.traces.length || trace === store.traces[0]) return;
    const followed = trace && stepper.index === stops.length - 1;
    trace = store.traces[0];
    stops = memorySimple.stops(trace);
    stepper?.stop();
    const step = followed ? stops.length - 1 : stepAt(model.get("frame"));
    stepper = lk.stepper({
      count: stops.length,
      index: step,
      from: 0,
      milliseconds: 900,
      text: (i) => memorySimple.sentence(trace, stops[i]),
      change: go,
    });
    steps.replaceChildren(stepper.element);
    panes = store.traces.map((_, index) => pane(index));
    maps.replaceChildren(...panes.map(({ element }) => element));
    go(step, false);
  }
  const jump = () => {
    if (trace && stops[stepper.index].k !== stops[stepAt(model.get("frame"))].k)
      go(stepAt(model.get("frame")), false);
  };
  const repaint = () => {
    if (trace) go(stepper.index, false);
  };
  const resized = new ResizeObserver(() => {
    if (maps.clientWidth && maps.clientWidth !== width) repaint();
  });
  store.changed.add(rebuild);
  model.on("change:frame", jump);
  model.on("change:meta", rebuild);
  const unwatch = lk.onTheme(repaint);
  resized.observe(root);
  rebuild();
  return () => {
    store.changed.delete(rebuild);
    model.off("change:frame", jump);
    model.off("change:meta", rebuild);
    unwatch();
    resized.disconnect();
    stepper?.stop();
  };
}
