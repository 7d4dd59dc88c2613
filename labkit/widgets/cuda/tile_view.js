// Grids side by side on canvases: values, heat, marked cells, boxes; hover or arrows read a cell.
const STEPS = 200,
  MAX_CELL = 40,
  MIN_TEXT_CELL = 20,
  HEAT = [
    [255, 255, 255],
    [240, 228, 66],
    [230, 159, 0],
    [213, 94, 0],
    [90, 20, 60],
  ];

function heatColour(share) {
  const at = Math.max(0, Math.min(1, share)) * (HEAT.length - 1),
    i = Math.min(HEAT.length - 2, Math.floor(at)),
    f = at - i;
  return HEAT[i].map((low, k) => Math.round(low + (HEAT[i + 1][k] - low) * f));
}

function render({ model, el }) {
  const root = lk.root(el, model.get("title") || "grids");
  const layers = model.get("layers"),
    frames = model.get("frames");
  const columns = lk.columns(model.get("schema"), model.get("data"));
  const grids = lk.h("div", { class: "lk-tiles" }),
    reading = lk.h("div", { class: "lk-mono lk-tiles-reading", "aria-live": "polite" });
  const limits = layers.map((layer, i) => {
    const values = columns[`values${i}`] || [];
    let low = Infinity,
      high = -Infinity;
    for (const value of values)
      if (Number.isFinite(Number(value))) {
        low = Math.min(low, Number(value));
        high = Math.max(high, Number(value));
      }
    return [low, high];
  });
  const stepper = lk.frameStepper(model, { least: 2, change: () => draw() });
  const hot = layers.map((layer, i) => [layer, i]).filter(([layer]) => layer.heat);
  const [low, high] = hot.length
    ? [Math.min(...hot.map(([, i]) => limits[i][0])), Math.max(...hot.map(([, i]) => limits[i][1]))]
    : [0, 1];
  // Whole steps: a slider over [low, high] itself may stop one rounding error short of high.
  const shareOf = (value) => Math.round((STEPS * (value - low)) / (high - low || 1));
  const slider =
    hot.length > 0 &&
    lk.focusable(
      lk.h("input", {
        type: "range",
        min: 0,
        max: STEPS,
        value: shareOf(model.get("threshold") ?? low),
        "aria-label": "threshold",
        on: {
          input: () => {
            model.set("threshold", low + ((high - low) * Number(slider.value)) / STEPS);
            model.save_changes();
            draw();
          },
        },
      }),
    );
  const thresholdText = lk.h("span", { class: "lk-mono" });
  const boxes =
    frames.some((frame) => Object.keys(frame.boxes).length) &&
    lk.toggle("boxes", "show or hide boxes", true, () => draw());
  const tools = lk.h(
    "div",
    { class: "lk-row" },
    slider
      ? lk.h("label", { class: "lk-row lk-muted" }, "only cells ≥", slider, thresholdText)
      : null,
    boxes || null,
  );
  root.append(
    ...[
      model.get("title") && lk.h("b", {}, model.get("title")),
      stepper ? stepper.element : frames[0].text && lk.h("div", {}, frames[0].text),
      tools,
      grids,
      reading,
    ].filter(Boolean),
  );

  const statuses = model.get("statuses"),
    statusOf = (i, at) => (layers[i].status ? statuses[columns[`status${i}`][at] - 1] : undefined);
  const tally = (i) =>
    statuses
      .map(([name], k) => [name, columns[`status${i}`].reduce((n, one) => n + (one === k + 1), 0)])
      .filter(([, n]) => n)
      .map(([name, n]) => `${n} ${name}`)
      .join(", ");
  const found = statuses.filter((_, k) =>
    layers.some((layer, i) => layer.status && columns[`status${i}`].includes(k + 1)),
  );
  if (found.length)
    root.append(
      lk.h(
        "div",
        { class: "lk-row lk-muted" },
        ...found.map(([name, sign, colour]) => lk.swatch(colour, `${sign} ${name}`)),
      ),
    );
  // The ground of a cell that was covered so, and its sign where there is room.
  function cover(g, [name, sign, colour], x, y, size, colours) {
    g.globalAlpha = name === "missing" ? 0.12 : 0.42;
    g.fillStyle = colour;
    g.fillRect(x, y, size, size);
    g.globalAlpha = 1;
    if (name === "wrong" && size > 7) {
      g.save();
      g.beginPath();
      g.rect(x, y, size, size);
      g.clip();
      g.strokeStyle = colour;
      g.lineWidth = 1.5;
      g.beginPath();
      for (let at = -size; at < size; at += 7) {
        g.moveTo(x + at, y + size);
        g.lineTo(x + at + size, y);
      }
      g.stroke();
      g.restore();
    }
    if (size < 12) return;
    g.fillStyle = colours.ink;
    g.font = `bold ${Math.min(12, size * 0.5)}px ${colours.mono}`;
    g.textAlign = "left";
    g.fillText(sign, x + 2, y + Math.min(8, size / 3));
    g.textAlign = "center";
  }
  const text = (i, at) => {
    const layer = layers[i];
    if (layer.texts.length) return layer.texts[at];
    const value = Number(columns[`values${i}`][at]);
    if (!Number.isFinite(value)) return String(value).replace("Infinity", "inf").toLowerCase();
    return layer.whole ? String(value) : String(Number(value.toPrecision(4)));
  };
  const panes = layers.map((layer, i) => {
    const canvas = lk.focusable(
      lk.h("canvas", {
        role: "img",
        "aria-label":
          `${layer.name}, ${layer.rows} rows, ${layer.cols} columns` +
          `${layer.status ? `, ${tally(i)}` : ""}; arrow keys read cells`,
      }),
    );
    const size = Math.max(
      1,
      Math.min(
        MAX_CELL,
        Math.floor(640 / Math.max(1, layer.cols)),
        Math.floor(420 / Math.max(1, layer.rows)),
      ),
    );
    canvas.style.width = `${Math.max(1, layer.cols * size) + 2}px`;
    canvas.style.height = `${Math.max(1, layer.rows * size) + 2}px`;
    const pick = (row, col) => {
      if (!layer.rows || !layer.cols) return;
      row = Math.max(0, Math.min(layer.rows - 1, row));
      col = Math.max(0, Math.min(layer.cols - 1, col));
      const cell = model.get("cell");
      if (cell[0] === i && cell[1] === row && cell[2] === col) return;
      model.set("cell", [i, row, col]);
      model.save_changes();
      draw();
    };
    canvas.addEventListener("pointermove", (event) => {
      const { x, y } = lk.spot(event);
      pick(Math.floor((y - 1) / size), Math.floor((x - 1) / size));
    });
    const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    lk.onKeys(canvas, moves, (move) => {
      const [chosen, row, col] = model.get("cell");
      chosen === i ? pick(row + move[0], col + move[1]) : pick(0, 0);
    });
    const note = !layer.rows || !layer.cols ? lk.h("div", { class: "lk-muted" }, "no cells") : null;
    return {
      canvas,
      size,
      element: lk.h(
        "figure",
        {},
        lk.h(
          "figcaption",
          { class: "lk-mono" },
          `${layer.name} ${layer.rows}×${layer.cols}${layer.status ? `: ${tally(i)}` : ""}`,
        ),
        canvas,
        note,
      ),
    };
  });
  grids.append(...panes.map((pane) => pane.element));

  function paint(i, frame, colours) {
    const { canvas, size } = panes[i],
      layer = layers[i],
      ratio = lk.density(canvas);
    canvas.width = (layer.cols * size + 2) * ratio;
    canvas.height = (layer.rows * size + 2) * ratio;
    const g = canvas.getContext("2d"),
      threshold = model.get("threshold");
    g.setTransform(ratio, 0, 0, ratio, ratio, ratio);
    g.textAlign = "center";
    g.textBaseline = "middle";
    const marks = new Map(
      (frame.marks[layer.name] || []).map(([row, col, label]) => [row * layer.cols + col, label]),
    );
    const [bottom, top] = limits[i],
      chosen = model.get("cell");
    for (let row = 0; row < layer.rows; row++)
      for (let col = 0; col < layer.cols; col++) {
        const at = row * layer.cols + col,
          x = col * size,
          y = row * size;
        const value = layer.texts.length ? NaN : Number(columns[`values${i}`][at]);
        const hidden = layer.heat && threshold !== null && value < threshold;
        let ink = colours.ink;
        g.fillStyle = colours.cell;
        if (layer.heat && !hidden && Number.isFinite(value)) {
          const share = top > bottom ? (value - bottom) / (top - bottom) : 0;
          g.fillStyle = `rgb(${heatColour(share)})`;
          ink = share > 0.6 ? "#ffffff" : "#1b1f24";
        }
        g.fillRect(x, y, size, size);
        const status = statusOf(i, at);
        if (status) cover(g, status, x, y, size, colours);
        if (marks.has(at)) {
          g.globalAlpha = 0.5;
          g.fillStyle = lk.palette[4];
          g.fillRect(x, y, size, size);
          g.globalAlpha = 1;
        }
        if (size > 5) {
          g.strokeStyle = marks.has(at) ? colours.ink : colours.line;
          g.lineWidth = marks.has(at) ? 1.5 : 1;
          g.strokeRect(x + 0.5, y + 0.5, size - 1, size - 1);
        }
        if (size >= MIN_TEXT_CELL) {
          const words = text(i, at),
            room = Math.max(1, Math.floor(size / 6));
          g.fillStyle = hidden ? colours.muted : ink;
          g.font = `${words.length > room - 1 ? 9 : 11}px ${colours.mono}`;
          g.fillText(
            words.length > room ? words.slice(0, room - 1) + "…" : words,
            x + size / 2,
            y + size / 2 + (marks.get(at) ? 3 : 0),
          );
          if (marks.get(at)) {
            g.font = `8px ${colours.mono}`;
            g.fillStyle = colours.muted;
            g.textAlign = "right";
            g.fillText(marks.get(at), x + size - 3, y + 7);
            g.textAlign = "center";
          }
        }
      }
    if (boxes && boxes.isOn())
      for (const [t, l, b, r, label] of frame.boxes[layer.name] || []) {
        g.strokeStyle = lk.palette[0];
        g.lineWidth = 2.5;
        g.strokeRect(l * size + 1, t * size + 1, (r - l) * size - 2, (b - t) * size - 2);
        if (label) {
          g.fillStyle = lk.palette[0];
          g.font = `bold 10px ${colours.mono}`;
          g.textAlign = "left";
          g.fillText(label, l * size + 4, t * size + 9);
          g.textAlign = "center";
        }
      }
    if (chosen[0] === i) {
      g.strokeStyle = colours.accent;
      g.lineWidth = 2.5;
      g.strokeRect(chosen[2] * size + 1, chosen[1] * size + 1, size - 2, size - 2);
    }
  }
  function draw() {
    const frame = frames[Math.min(model.get("frame"), frames.length - 1)],
      colours = lk.theme(root);
    panes.forEach((pane, i) => {
      pane.element.hidden = !frame.show.includes(layers[i].name);
      if (!pane.element.hidden) paint(i, frame, colours);
    });
    if (slider) slider.value = shareOf(model.get("threshold") ?? low);
    if (slider)
      thresholdText.textContent = String(Number((model.get("threshold") ?? low).toPrecision(4)));
    const [i, row, col] = model.get("cell");
    if (i === undefined)
      reading.textContent = "hover over a cell, or focus a grid and use the arrow keys";
    else {
      const layer = layers[i],
        at = row * layer.cols + col,
        mark = (frame.marks[layer.name] || []).find((m) => m[0] === row && m[1] === col);
      reading.textContent =
        `${layer.name}[${row}, ${col}] = ${text(i, at)}${layer.unit ? " " + layer.unit : ""}` +
        (statusOf(i, at) ? `, ${statusOf(i, at)[0]}` : "") +
        (layer.owners ? `, owner ${Number(columns[`owners${i}`][at])}` : "") +
        (mark ? `, marked${mark[2] ? " " + mark[2] : ""}` : "");
    }
    lk.drew(root);
  }
  const moved = () => {
    stepper?.follow();
    draw();
  };
  model.on("change:frame", moved);
  model.on("change:cell", draw);
  model.on("change:threshold", draw);
  const forget = lk.onTheme(draw);
  draw();
  return () => {
    forget();
    if (stepper) stepper.stop();
    model.off("change:frame", moved);
    model.off("change:cell", draw);
    model.off("change:threshold", draw);
  };
}

export default { render };
