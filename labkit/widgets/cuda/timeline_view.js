// Lanes of spans on a canvas: zoom, pan, walk events, see what orders what and what may overlap.
const LANE = 38,
  LABEL = 130,
  FOOT = 26;

// Round numbers between the two, 1, 2 or 5 times a power of ten apart: at most nine. Steps have no
// fractions.
function roundTicks(from, to, whole) {
  const rough = Math.max((to - from) / 8, 1e-12),
    power = 10 ** Math.floor(Math.log10(rough));
  const round = power * [1, 2, 5, 10].find((times) => times * power >= rough * (1 - 1e-9));
  const by = whole ? Math.max(1, Math.round(round)) : round,
    ticks = [];
  for (let k = Math.ceil(from / by - 1e-9); k * by <= to + by * 1e-9; k++)
    ticks.push(Number((k * by).toPrecision(12)));
  return ticks;
}

function render({ model, el }) {
  const root = lk.root(el, model.get("title") || "timeline");
  const lanes = model.get("lanes"),
    spans = model.get("spans"),
    edges = model.get("edges"),
    races = model.get("races");
  const frames = model.get("frames"),
    unit = model.get("unit");
  const canvas = lk.focusable(
    lk.h("canvas", {
      class: "lk-timeline",
      role: "img",
      "aria-label": "timeline; left and right choose a span, plus and minus zoom, 0 shows all",
    }),
  );
  canvas.style.height = `${lanes.length * LANE + FOOT}px`;
  const details = lk.h("div", { "aria-live": "polite", class: "lk-timeline-details" });
  const order = spans
    .map((_, i) => i)
    .sort((a, b) => spans[a].start - spans[b].start || spans[a].lane - spans[b].lane);
  const kinds = model.get("kinds"),
    racing = new Set(races.flatMap((race) => race.spans));
  const first = spans.reduce((t, s) => Math.min(t, s.start), Infinity),
    last = spans.reduce((t, s) => Math.max(t, s.end), -Infinity);
  const origin = spans.length ? first : 0,
    length = spans.length ? last - first || 1 : 1;
  let from = origin,
    shown = length;

  // after[i]: the spans that can only start once i has ended, by edges and by order within a lane.
  const direct = spans.map(() => []);
  edges.forEach((edge) => direct[edge.source].push(edge.target));
  lanes.forEach((_, lane) => {
    const row = order.filter((i) => spans[i].lane === lane);
    row.forEach((i, k) => k && direct[row[k - 1]].push(i));
  });
  const reach = (start, next) => {
    const seen = new Set(),
      stack = [start];
    while (stack.length)
      for (const t of next[stack.pop()])
        if (!seen.has(t)) {
          seen.add(t);
          stack.push(t);
        }
    return seen;
  };
  const reverse = spans.map(() => []);
  direct.forEach((targets, i) => targets.forEach((t) => reverse[t].push(i)));

  const stepper = lk.frameStepper(model, { change: () => draw() });
  const arrows = lk.toggle("order", "show or hide the arrows that order spans", true, () => draw());
  const overlap = lk.toggle(
    "may overlap",
    "dim what cannot run at the same time as the chosen span",
    false,
    () => draw(),
  );
  const legend = lk.h(
    "div",
    { class: "lk-row lk-muted" },
    ...kinds
      .filter((kind) => kind && spans.some((span) => span.kind === kind))
      .map((kind) => lk.swatch(lk.palette[kinds.indexOf(kind) % lk.palette.length], kind)),
  );
  root.append(
    ...[
      model.get("title") && lk.h("b", {}, model.get("title")),
      stepper && stepper.element,
      lk.h(
        "div",
        { class: "lk-row" },
        lk.button("−", "zoom out", () => zoom(1.5)),
        lk.button("+", "zoom in", () => zoom(1 / 1.5)),
        lk.button("all", "show all", () => {
          from = origin;
          shown = length;
          draw();
        }),
        edges.length ? arrows : null,
        overlap,
        legend,
      ),
      canvas,
      details,
      ...races.map((race) => lk.h("div", { class: "lk-alert" }, race.text)),
    ].filter(Boolean),
  );

  const width = () => Math.max(200, canvas.clientWidth || 700),
    x = (time) => LABEL + ((time - from) / shown) * (width() - LABEL - 16);
  function zoom(by, at = from + shown / 2) {
    const next = Math.min(length * 1.05, Math.max(length / 5000, shown * by));
    from = at - (at - from) * (next / shown);
    shown = next;
    draw();
  }
  function choose(i) {
    model.set("selected", i);
    model.save_changes();
  }
  const draw = lk.onceAFrame(paint);
  function paint() {
    const ratio = lk.density(canvas),
      w = width(),
      hgt = lanes.length * LANE + FOOT,
      colours = lk.theme(root);
    canvas.width = Math.round(w * ratio);
    canvas.height = Math.round(hgt * ratio);
    const g = canvas.getContext("2d"),
      chosen = model.get("selected");
    const until = frames.length
      ? frames[Math.min(model.get("frame"), frames.length - 1)].time
      : Infinity;
    const ordered =
      chosen >= 0 && overlap.isOn()
        ? new Set([...reach(chosen, direct), ...reach(chosen, reverse)])
        : null;
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.textBaseline = "middle";
    lanes.forEach((lane, i) => {
      g.strokeStyle = colours.line;
      g.beginPath();
      g.moveTo(LABEL, (i + 1) * LANE - 4.5);
      g.lineTo(w - 8, (i + 1) * LANE - 4.5);
      g.stroke();
      g.fillStyle = colours.ink;
      g.font = `12px ${colours.mono}`;
      g.textAlign = "left";
      g.fillText(lane.length > 16 ? lane.slice(0, 15) + "…" : lane, 4, i * LANE + LANE / 2);
    });
    g.save();
    g.beginPath();
    g.rect(LABEL - 1, 0, w - LABEL, hgt);
    g.clip();
    spans.forEach((span, i) => {
      if (span.start > until || span.end < from || span.start > from + shown) return;
      const a = x(span.start),
        b = Math.max(a + 2, x(Math.min(span.end, Math.max(until, span.start)))),
        y = span.lane * LANE + 5;
      g.globalAlpha = ordered && i !== chosen && ordered.has(i) ? 0.15 : 0.55;
      g.fillStyle = lk.palette[kinds.indexOf(span.kind) % lk.palette.length];
      g.beginPath();
      g.roundRect(a, y, b - a, LANE - 14, 3);
      g.fill();
      g.globalAlpha = 1;
      g.lineWidth = i === chosen ? 2.5 : racing.has(i) ? 2 : 1;
      g.strokeStyle = i === chosen ? colours.accent : racing.has(i) ? colours.alert : g.fillStyle;
      g.stroke();
      const room = Math.floor((b - a - 6) / 6.2);
      if (room > 1) {
        g.fillStyle = colours.ink;
        g.font = `10.5px ${colours.mono}`;
        g.fillText(
          span.name.length > room ? span.name.slice(0, room - 1) + "…" : span.name,
          a + 4,
          y + (LANE - 14) / 2,
        );
      }
    });
    if (arrows.isOn())
      for (const edge of edges) {
        const a = spans[edge.source],
          b = spans[edge.target];
        if (b.start > until) continue;
        const near = edge.source === chosen || edge.target === chosen,
          [ax, ay, bx, by] = [
            x(a.end),
            a.lane * LANE + LANE / 2 - 2,
            x(b.start),
            b.lane * LANE + LANE / 2 - 2,
          ];
        g.strokeStyle = g.fillStyle = near ? colours.accent : colours.muted;
        g.lineWidth = near ? 2 : 1.2;
        g.setLineDash(edge.kind === "event" ? [] : [4, 3]);
        g.beginPath();
        g.moveTo(ax, ay);
        g.bezierCurveTo(ax + 14, ay, bx - 14, by, bx, by);
        g.stroke();
        g.setLineDash([]);
        g.beginPath();
        g.moveTo(bx, by);
        g.lineTo(bx - 6, by - 3.5);
        g.lineTo(bx - 6, by + 3.5);
        g.fill();
      }
    g.restore();
    g.fillStyle = colours.muted;
    g.font = `11px ${colours.mono}`;
    g.textAlign = "center";
    const ticks = roundTicks(from, from + shown, unit === "steps");
    g.strokeStyle = colours.line;
    g.lineWidth = 1;
    ticks.forEach((t, k) => {
      g.beginPath();
      g.moveTo(x(t), hgt - FOOT);
      g.lineTo(x(t), hgt - FOOT + 5);
      g.stroke();
      g.fillText(
        `${t}${k === ticks.length - 1 ? " " + unit : ""}`,
        Math.min(w - 40, x(t)),
        hgt - 9,
      );
    });
    root.dataset.ticks = ticks.join(" ");
    const span = spans[chosen];
    details.replaceChildren(
      ...(span
        ? [
            lk.h("b", { class: "lk-mono" }, span.name),
            ` ${span.start}–${span.end} ${unit}`,
            ...(span.reads.length ? [`, reads ${span.reads.join(", ")}`] : []),
            ...(span.writes.length ? [`, writes ${span.writes.join(", ")}`] : []),
            ...races
              .filter((race) => race.spans.includes(chosen))
              .map((race) => lk.h("span", { class: "lk-alert" }, ` ${race.text}`)),
          ]
        : [
            lk.h(
              "span",
              { class: "lk-muted" },
              "click a span, or focus the lanes and use left and right",
            ),
          ]),
    );
    root.dataset.selected = span ? span.name : "";
    lk.drew(root);
  }
  const hit = (event) => {
    const { x, y } = lk.spot(event),
      lane = Math.floor(y / LANE),
      time = from + ((x - LABEL) / (width() - LABEL - 16)) * shown,
      slack = (3 / (width() - LABEL)) * shown;
    return spans.findIndex(
      (s) => s.lane === lane && s.start - slack <= time && time <= s.end + slack,
    );
  };
  lk.onDrag(canvas, {
    move: (dx) => {
      from -= (dx / (width() - LABEL - 16)) * shown;
      draw();
    },
    pick: (event) => choose(hit(event)),
  });
  lk.onWheel(canvas, (event) =>
    zoom(
      Math.exp(event.deltaY / 400),
      from + ((lk.spot(event).x - LABEL) / (width() - LABEL - 16)) * shown,
    ),
  );
  const moves = () => {
    const at = order.indexOf(model.get("selected"));
    return {
      ArrowRight: () => choose(order[Math.min(order.length - 1, at + 1)]),
      ArrowLeft: () => choose(order[Math.max(0, at - 1)]),
      "+": () => zoom(1 / 1.5),
      "=": () => zoom(1 / 1.5),
      "-": () => zoom(1.5),
      0: () => {
        from = origin;
        shown = length;
        draw();
      },
    };
  };
  lk.onKeys(canvas, moves, (move) => {
    if (!order.length) return false;
    move();
  });
  const moved = () => {
    stepper?.follow();
    draw();
  };
  model.on("change:frame", moved);
  model.on("change:selected", draw);
  const forget = lk.onTheme(draw),
    resized = new ResizeObserver(draw);
  resized.observe(canvas);
  draw();
  return () => {
    forget();
    resized.disconnect();
    if (stepper) stepper.stop();
    model.off("change:frame", moved);
    model.off("change:selected", draw);
  };
}

export default { render };
