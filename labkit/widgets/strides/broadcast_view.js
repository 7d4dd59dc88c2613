// Shapes aligned from the right; a step per dimension; then each operand as the result sees it.
function render({ model, el }) {
  const MOST = 12,
    CELL = 30,
    HEIGHT = 26;
  const root = lk.root(el, "broadcasting of shapes");
  const get = (name) => model.get(name);
  let hover = null,
    stepper = null,
    table = null,
    grids = null;

  const step = () => get("steps")[frame()];
  const frame = () => Math.max(0, Math.min(get("steps").length - 1, get("frame")));
  const rank = () => Math.max(0, ...get("operands").map(({ sizes }) => sizes.length));
  const index = () =>
    hover ??
    (get("sizes") ?? []).map((size, dim) =>
      Math.max(0, Math.min(size - 1, get("index")[dim] ?? 0)),
    );
  const done = () => step().verdict === "done";
  const put = (name, value) => {
    model.set(name, value);
    model.save_changes();
  };

  function build() {
    stepper?.stop();
    stepper = lk.stepper({
      count: get("steps").length,
      index: frame(),
      milliseconds: 1100,
      change: (i) => put("frame", i),
      text: (i) =>
        lk.h(
          "span",
          { class: get("steps")[i].verdict === "clash" ? "lk-alert" : "" },
          get("steps")[i].text,
        ),
    });
    table = lk.h("table", { class: "bv-table" });
    grids = lk.focusable(
      lk.h("div", {
        class: "bv-grids",
        role: "application",
        "aria-label": "the operands as the loop reads them; arrow keys move",
        "data-key": "grids",
      }),
    );
    const moves = {
      ArrowLeft: [1, -1],
      ArrowRight: [1, 1],
      ArrowUp: [2, -1],
      ArrowDown: [2, 1],
      PageUp: [3, -1],
      PageDown: [3, 1],
    };
    lk.onKeys(grids, moves, ([fromLast, by]) => {
      const sizes = get("sizes"),
        dim = sizes?.length - fromLast;
      if (!(dim >= 0) || sizes.includes(0)) return;
      const to = [...index()];
      to[dim] = Math.max(0, Math.min(sizes[dim] - 1, to[dim] + by));
      hover = null;
      put("index", to);
    });
    grids.addEventListener("pointerleave", () => {
      hover = null;
      paint();
    });
    root.replaceChildren(
      stepper.element,
      table,
      lk.h("div", { class: "bv-message lk-alert lk-mono" }),
      grids,
    );
  }

  // Columns settle from the right as the steps advance; the one under way is framed.
  function fillTable() {
    const { dim, verdict } = step(),
      dims = Array.from({ length: rank() }, (_, at) => at - rank());
    const strideCell = (text) =>
      get("sizes_only") ? null : lk.h("td", { class: "bv-strides" }, text);
    const reached = (at) => done() || (verdict !== "start" && at >= dim);
    const cell = (text, kind, at) =>
      lk.h(
        "td",
        {
          class: [
            kind,
            at === dim && !done() ? (verdict === "clash" ? "bv-clash" : "bv-now") : "",
          ].join(" "),
        },
        text,
      );
    const rows = get("operands").map(({ name, sizes, strides, expanded }, n) =>
      lk.h(
        "tr",
        {},
        lk.h("th", { scope: "row", style: `border-left:5px solid ${lk.palette[n % 8]}` }, name),
        dims.map((at) => {
          const have = -at <= sizes.length,
            size = have ? sizes[sizes.length + at] : 1,
            wanted = get("steps").find((other) => other.dim === at)?.size;
          const stretched =
            reached(at) &&
            wanted !== null &&
            wanted !== undefined &&
            (!have || (size === 1 && wanted !== 1));
          const shown = stretched ? `${have ? 1 : "·"} → ${wanted}` : have ? String(size) : "·";
          return cell(
            shown,
            have
              ? stretched
                ? "bv-stretched"
                : ""
              : stretched
                ? "bv-stretched bv-absent"
                : "bv-absent",
            at,
          );
        }),
        strideCell(
          done() && expanded
            ? [
                "strides [",
                ...expanded.flatMap((stride, at) => [
                  at ? ", " : "",
                  stride === 0 ? lk.h("b", { class: "bv-zero" }, "0") : String(stride),
                ]),
                "]",
              ]
            : `strides [${strides.join(", ")}]`,
        ),
      ),
    );
    const result = lk.h(
      "tr",
      { class: "bv-result" },
      lk.h("th", { scope: "row" }, "result"),
      dims.map((at) => {
        const size = get("steps").find((other) => other.dim === at)?.size;
        return cell(
          !reached(at) ? "" : size === null || size === undefined ? "✗" : String(size),
          "",
          at,
        );
      }),
      strideCell(done() && get("strides") ? `strides [${get("strides").join(", ")}]` : ""),
    );
    table.replaceChildren(
      lk.h(
        "thead",
        {},
        lk.h(
          "tr",
          {},
          lk.h("th", {}, "dim", lk.h("div", {}, "from the right")),
          dims.map((at) => lk.h("th", {}, String(at + rank()), lk.h("div", {}, String(at)))),
          strideCell(""),
        ),
      ),
      lk.h("tbody", {}, rows, result),
    );
  }

  // One grid per operand over the result's last two dimensions; dashed: a cell read again.
  function grid(name, strides, n) {
    const sizes = get("sizes"),
      now = index(),
      last = sizes.length - 1;
    const rows = last > 0 ? Math.min(MOST, sizes[last - 1]) : 1,
      cols = last >= 0 ? Math.min(MOST, sizes[last]) : 1;
    const top =
      last > 0
        ? Math.max(
            0,
            Math.min(now[last - 1] - MOST + 1 + (rows < MOST ? MOST : 0), sizes[last - 1] - rows),
          )
        : 0;
    const left = last >= 0 ? Math.max(0, Math.min(now[last] - MOST + 1, sizes[last] - cols)) : 0;
    const address = (place) => place.reduce((sum, i, dim) => sum + i * strides[dim], 0);
    const here = address(now),
      picture = lk.svg("svg", {
        width: cols * CELL + 4,
        height: rows * HEIGHT + 4,
        role: "img",
        "aria-label": name,
      });
    for (let r = 0; r < rows; r++)
      for (let c = 0; c < cols; c++) {
        const place = [...now];
        if (last > 0) place[last - 1] = top + r;
        if (last >= 0) place[last] = left + c;
        const at = address(place),
          again = place.some((i, dim) => i > 0 && strides[dim] === 0);
        const chosen = place.every((i, dim) => i === now[dim]),
          same = at === here;
        picture.append(
          lk.svg(
            "g",
            {
              on: {
                pointerenter: () => {
                  hover = place;
                  paint();
                },
                click: () => {
                  hover = null;
                  put("index", place);
                },
              },
            },
            lk.svg("rect", {
              x: c * CELL + 2,
              y: r * HEIGHT + 2,
              width: CELL - 2,
              height: HEIGHT - 2,
              rx: 3,
              fill: lk.palette[n % 8],
              "fill-opacity": chosen ? 0.6 : same ? 0.38 : again ? 0.06 : 0.2,
              stroke: chosen ? "var(--lk-ink)" : lk.palette[n % 8],
              "stroke-width": chosen ? 2.5 : 1,
              "stroke-dasharray": again && !chosen ? "3 3" : "none",
            }),
            lk.svg(
              "text",
              {
                x: c * CELL + 1 + CELL / 2,
                y: r * HEIGHT + 18,
                "text-anchor": "middle",
                class: again ? "bv-again" : "",
              },
              String(at),
            ),
          ),
        );
      }
    const shape = sizes.length > 2 ? ` [${now.slice(0, -2).join(", ")}, :, :]` : "";
    return lk.h(
      "figure",
      {},
      lk.h(
        "figcaption",
        {},
        lk.h("b", { class: "lk-mono" }, name + shape),
        lk.h("span", { class: "lk-mono lk-muted" }, ` reads element ${here}`),
      ),
      picture,
      sizes.some((size, dim) => dim >= last - 1 && size > MOST)
        ? lk.h("div", { class: "lk-muted" }, `${MOST} of each dimension shown`)
        : null,
    );
  }

  function paint() {
    if (stepper.index !== frame()) stepper.set(frame());
    fillTable();
    root.querySelector(".bv-message").textContent =
      step().verdict === "clash" ? get("message") : "";
    const sizes = get("sizes"),
      drawn = done() && sizes !== null && !sizes.includes(0) && !get("sizes_only");
    grids.style.display = drawn ? "" : "none";
    grids.replaceChildren(
      ...(drawn
        ? [
            lk.h("div", { class: "lk-mono bv-index" }, `index [${index().join(", ")}]`),
            ...get("operands").map(({ name, expanded }, n) => grid(name, expanded, n)),
          ]
        : []),
    );
    Object.assign(root.dataset, {
      frame: frame(),
      verdict: step().verdict,
      index: index().join(","),
    });
    lk.drew(root);
  }
  const reload = () => {
    build();
    paint();
  };
  const data = "change:operands change:steps",
    choices = "change:frame change:index change:sizes change:strides change:message";
  model.on(data, reload);
  model.on(choices, paint);
  reload();
  return () => {
    model.off(data, reload);
    model.off(choices, paint);
    stepper.stop();
  };
}
export default { render };
