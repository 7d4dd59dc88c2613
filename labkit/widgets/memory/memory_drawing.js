// One pane per trace: its timeline, its segments and blocks, and the block of the entry enlarged.
function memoryDrawing(map) {
  const { model, root, store, ui, choice } = map;

  function pane(index) {
    const label =
      model.get("meta").traces.length > 1
        ? (model.get("meta").titles?.[index] ?? `trace ${index + 1}`)
        : "";
    const timeline = lk.focusable(
      lk.h("canvas", {
        class: "lk-mm-timeline",
        role: "img",
        "aria-label": `live bytes over the entries ${label}`,
      }),
    );
    const lens = lk.h("canvas", {
      class: "lk-mm-lens",
      role: "img",
      "aria-label": "the block of this entry and its neighbours",
    });
    const canvas = lk.focusable(
      lk.h("canvas", {
        class: "lk-mm-map",
        role: "img",
        "aria-label": `segments and blocks ${label}`,
      }),
    );
    const element = lk.h(
      "div",
      { class: "lk-mm-pane" },
      label ? lk.h("div", { class: "lk-mm-title" }, label) : null,
      timeline,
      index ? null : lens,
      canvas,
    );
    return { index, timeline, lens, map: canvas, element, image: null, laid: null };
  }
  const stepOf = (index) => {
    const { trace, now } = map;
    // the same step in another trace
    if (index === 0) return now.k;
    const other = store.traces[index];
    return ui.align === "request"
      ? stepAtRequest(other, requestsAt(trace, now.k))
      : Math.min(now.k, other.n);
  };

  const roomFor = () => Math.max(200, map.maps.clientWidth);
  function paintTimeline(p) {
    const own = store.traces[p.index],
      t = lk.theme(root),
      width = roomFor(),
      height = 150;
    const [from, to] = p.index === 0 ? ui.view : [0, own.n];
    const regions = own.meta.regions ?? [];
    const top =
      Math.max(1, ...reservedIn(own, from, to), own.live[own.peak]) *
      1.04 *
      (height / (height - timelines.regionsHigh(regions)));
    const key = [
      width,
      from,
      to,
      ui.colour,
      ui.stream,
      ui.pool,
      ui.least,
      ui.text,
      t.paper,
      own.n,
    ].join();
    const scale = lk.density(p.map);
    if (p.key !== key) {
      const grey = timelines.rgba(choice.look(p.index).dimmed);
      const colour = (life) => choice.paintOf(p.index, life, grey);
      const image = timelines.paint(own, {
        from,
        to,
        width: Math.round(width * scale),
        height: Math.round(height * scale),
        top,
        colour,
      });
      p.image = Object.assign(document.createElement("canvas"), {
        width: image.width,
        height: image.height,
      });
      p.image.getContext("2d").putImageData(image, 0, 0);
      p.key = key;
    }
    const pen = pens.prepare(p.timeline, width, height);
    pen.drawImage(p.image, 0, 0, width, height);
    const x = (k) => ((k - from) / Math.max(1, to - from)) * width,
      y = (bytes) => height - (bytes / top) * height;
    pen.strokeStyle = t.ink;
    pen.lineWidth = 1.5;
    pen.beginPath();
    let level = memory.reservedAt(own, from);
    pen.moveTo(0, y(level));
    own.reserved.at.forEach((k, i) => {
      if (k > from && k <= to) {
        pen.lineTo(x(k), y(level));
        level = own.reserved.bytes[i];
        pen.lineTo(x(k), y(level));
      }
    });
    pen.lineTo(width, y(level));
    pen.stroke();
    for (const bytes of ticks(top)) {
      const label = memory.bytes(bytes),
        at = y(bytes);
      pen.fillStyle = t.line;
      pen.fillRect(0, Math.round(at), 6, 1);
      pen.globalAlpha = 0.8;
      pen.fillStyle = t.paper;
      pen.fillRect(7, at - 6, label.length * 6.2 + 4, 12);
      pen.globalAlpha = 1;
      pens.words(pen, label, 9, at, { size: 10, fill: t.ink, align: "left" });
    }
    timelines.drawRegions(pen, regions, { x, from, to, width, theme: t });
    let labelled = -Infinity;
    for (const i of Object.keys(own.meta.ooms)
      .map(Number)
      .sort((a, b) => a - b)) {
      const at = x(i + 1);
      pen.fillStyle = t.alert;
      pen.fillRect(at - 1, 0, 2, height);
      if (at - labelled < 96) continue; // the lines are enough where they are close
      labelled = at;
      pens.words(pen, "out of memory", at > 100 ? at - 4 : at + 4, 8, {
        size: 11,
        fill: t.alert,
        align: at > 100 ? "right" : "left",
      });
    }
    const k = stepOf(p.index);
    if (k >= from && k <= to) {
      pen.fillStyle = t.accent;
      pen.fillRect(x(k) - 1, 0, 2, height);
    }
    p.scale = { from, to, width, height, top };
  }
  function drawMap(p) {
    const style = choice.look(p.index);
    const width = roomFor(),
      state = p.index === 0 ? map.now : memory.state(store.traces[p.index], stepOf(p.index));
    const own = store.traces[p.index];
    const names = {
      group: (segments) => {
        const s = segments[0],
          size = segments.reduce((sum, each) => sum + each.size, 0);
        const kind = `${s.expandable ? "expandable " : ""}${s.large ? "large" : "small"}`,
          count = `${segments.length} segment${segments.length === 1 ? "" : "s"}`;
        return [
          poolName(own.meta.pools[s.pool]),
          `stream ${own.meta.streams[s.stream]}`,
          kind,
          `${count}, ${memory.bytes(size)}`,
        ].join(" · ");
      },
    };
    p.laid = memoryBlocks.layout(state, names, width, 9);
    const pen = pens.prepare(p.map, width, p.laid.height);
    memoryBlocks.draw(pen, p.laid, style);
    if (!state.segments.length)
      pens.words(pen, "no segment is reserved", 0, 15, {
        size: 12,
        fill: style.muted,
        align: "left",
      });
    if (p.index > 0) return;
    const touched = touchedRange();
    if (touched) memoryBlocks.mark(pen, p.laid, touched, style.accent);
    const pinned = pinnedBlock();
    if (pinned) memoryBlocks.mark(pen, p.laid, pinned, style.alert);
    const focus = pinned ?? touched,
      segment =
        focus && map.now.segments.find((s) => focus.address >= s.address && focus.address < s.end);
    p.lens.style.display = segment ? "block" : "none";
    if (segment) {
      const title =
        `enlarged: ${pinned ? "the pinned block" : "the block of this entry"} in the segment ` +
        `at ${memory.hex(segment.address)} (${memory.bytes(segment.size)})`;
      memoryBlocks.lens(pens.prepare(p.lens, width, 74), segment, focus, width, 74, {
        ...style,
        lensTitle: title,
        accent: pinned ? style.alert : style.accent,
      });
    }
  }
  function touchedRange() {
    const { trace, now } = map,
      i = now.k - 1;
    if (i < 0 || trace.meta.actions[trace.columns.action[i]] === "oom") return null;
    const life = trace.lifeOf[i],
      address = trace.addresses[trace.columns.place[i]];
    return { address, size: life >= 0 ? trace.lives.block[life] : trace.columns.size[i] };
  }
  const pinnedBlock = () =>
    ui.pinned === null
      ? null
      : {
          address: map.trace.addresses[map.trace.lives.place[ui.pinned]],
          size: map.trace.lives.block[ui.pinned],
          life: ui.pinned,
        };
  const draw = (p) => {
    paintTimeline(p);
    drawMap(p);
  };
  return { pane, stepOf, draw };
}
