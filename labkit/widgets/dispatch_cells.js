// The whole table of an operator: a grid of slots, the rules asked about one, the registrations.
function dispatchCells(bits, model, root) {
  const { h } = lk,
    element = h("div", {});
  const filters = {
    all: () => true,
    stale: (cell) => cell.stale,
    empty: (cell) => !cell.kernel,
    fallthrough: (cell) => cell.fallthrough,
    "rule 1": (cell) => cell.rule === 1,
  };
  let filter = "all",
    registration = null,
    stepper = null;
  const table = () => model.get("table"),
    text = (i) => table().texts[i];
  // Rules 4 and 10 fill nothing, which leaves a colour for each of the others.
  const colour = (rule) => lk.palette[[1, 2, 3, 5, 6, 7, 8, 9].indexOf(Number(rule))] || "none";
  const save = (values) => {
    for (const [name, value] of Object.entries(values)) model.set(name, value);
    model.save_changes();
  };
  const short = (name) => name.split("/").pop();
  const search = lk.focusable(
    h("input", {
      type: "search",
      placeholder: "search all operators",
      "aria-label": "search all operators",
    }),
  );
  const answer = h("div", { class: "lk-row lk-found", "aria-live": "polite" });
  const box = h("div", {}, h("div", { class: "lk-row" }, search, answer));
  const grid = h("div", { class: "lk-scroll" }),
    details = h("div", { class: "lk-cell-details", "aria-live": "polite" });
  const tools = h("div", { class: "lk-row" }),
    registered = h("div", { class: "lk-registered" }),
    rules = h("div", { class: "lk-rules" });
  const schema = h("div", { class: "lk-mono lk-muted lk-schema" });
  element.append(
    ...(model.get("searches") ? [box] : []),
    schema,
    tools,
    h(
      "div",
      { class: "lk-cells-body" },
      grid,
      h("div", { class: "lk-cells-side" }, details, rules),
    ),
    registered,
  );

  const chosen = (cell) =>
    filters[filter](cell) && (!registration || text(cell.source) === registration);
  function drawGrid() {
    const { cells } = table(),
      now = model.get("cell"),
      focused = grid.contains(document.activeElement);
    const square = (slot, wide) => {
      const cell = cells[slot],
        name = `lk-slot${cell.fallthrough ? " lk-falls" : ""}${cell.kernel ? "" : " lk-empty"}${cell.stale ? " lk-stale" : ""}${slot === now ? " lk-chosen" : ""}${chosen(cell) ? "" : " lk-dim"}`;
      return h(
        "td",
        { colspan: wide },
        lk.focusable(
          h(
            "button",
            {
              type: "button",
              class: name,
              tabindex: slot === now ? 0 : -1,
              "data-slot": slot,
              style: cell.kernel ? `--lk-rule:${colour(cell.rule)}` : "",
              title: `${cell.slot}: ${text(cell.reason)}`,
              "aria-label": `${cell.slot}, rule ${cell.rule}, ${text(cell.reason)}${cell.stale ? ", stale" : ""}`,
              on: { click: () => save({ cell: slot, rule: cells[slot].asked.length - 1 }) },
            },
            cell.kernel ? `${cell.rule}${cell.stale ? "!" : ""}` : cell.stale ? "!" : "",
          ),
        ),
      );
    };
    // A slot alone in its row leaves room to say what it holds.
    const alone = (slot) => [
      square(slot, 1),
      h(
        "td",
        {
          colspan: bits.backends.length - 1,
          class: `lk-said lk-muted${chosen(cells[slot]) ? "" : " lk-dim"}`,
        },
        h(
          "span",
          {},
          cells[slot].kernel
            ? `${text(cells[slot].reason)}${cells[slot].fallthrough ? " · falls through" : ""} · ${short(text(cells[slot].kernel))}`
            : text(cells[slot].reason),
        ),
      ),
    ];
    const rows = bits.functionalities
      .map((name, f) =>
        h(
          "tr",
          {},
          h("th", { scope: "row" }, name),
          ...(bits.severally[f]
            ? bits.backends.map((_, b) => square(bits.slotAt(f, b), 1))
            : alone(bits.slotAt(f, 0))),
        ),
      )
      .reverse();
    rows.push(h("tr", {}, h("th", { scope: "row" }, "Undefined"), ...alone(0)));
    grid.replaceChildren(
      h(
        "table",
        { class: "lk-cells", "aria-label": "slots; arrow keys walk" },
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            h("th", {}),
            ...bits.backends.map((name) => h("th", { class: "lk-up" }, h("span", {}, name))),
          ),
        ),
        h("tbody", {}, ...rows),
      ),
    );
    if (focused) grid.querySelector(`[data-slot="${now}"]`).focus({ preventScroll: true });
    requestAnimationFrame(reveal);
  }
  // Scrolls the table only: scrollIntoView would move the whole notebook.
  function reveal() {
    const row = grid.querySelector(".lk-chosen")?.closest("tr");
    if (!row || !grid.clientHeight) return;
    const head = grid.querySelector("thead").offsetHeight,
      top = row.offsetTop;
    if (top - head < grid.scrollTop || top + 2 * row.offsetHeight > grid.scrollTop + grid.clientHeight)
      grid.scrollTop = top - grid.clientHeight / 2;
  }
  grid.addEventListener("keydown", (event) => {
    const row = event.target.closest("tr"),
      at = [...row.querySelectorAll("button")].indexOf(event.target);
    const side = { ArrowLeft: at - 1, ArrowRight: at + 1 }[event.key];
    const other = { ArrowUp: row.previousElementSibling, ArrowDown: row.nextElementSibling }[
      event.key
    ];
    const line = side === undefined ? other : row;
    if (side === undefined && other === undefined) return;
    event.preventDefault();
    const buttons = line ? [...line.querySelectorAll("button")] : [];
    buttons[Math.max(0, Math.min(buttons.length - 1, side === undefined ? at : side))]?.click();
  });
  const pair = (name, value) =>
    h(
      "div",
      {},
      h("span", { class: "lk-muted" }, `${name} `),
      h("span", { class: "lk-mono" }, value),
    );
  function drawDetails() {
    const { cells, side, stale } = table(),
      cell = cells[model.get("cell")],
      kernel = text(cell.kernel);
    const origin = text(cell.source);
    details.replaceChildren(
      h("b", { class: "lk-mono" }, cell.slot),
      h("span", { class: "lk-muted" }, ` slot ${model.get("cell")}`),
      pair("canonical", kernel || "nothing"),
      pair(
        "reason",
        `${text(cell.reason)}, rule ${cell.rule}${origin ? `, registered for ${origin}` : ""}${cell.fallthrough ? "; falls through: its key is skipped" : ""}`,
      ),
      cell.stored === null
        ? pair(
            "stored",
            stale
              ? "PyTorch shows only the recomputed table; its check says that the stored one differs"
              : `PyTorch shows only the recomputed table${side === "labkit" ? "" : "; its check says that the stored one agrees"}`,
          )
        : h(
            "div",
            { class: cell.stale ? "lk-alert" : "" },
            pair(
              "stored",
              cell.stale
                ? `${text(cell.stored) || "nothing"}: stale, and this is what a call runs`
                : "the same",
            ),
          ),
    );
    stepper?.stop();
    const steps = cell.asked.length,
      at = Math.min(model.get("rule"), steps - 1);
    stepper = lk.stepper({
      count: steps,
      index: at,
      label: "rule",
      change: (i) => save({ rule: i }),
      text: (i) =>
        i === steps - 1 ? `rule ${cell.rule} decides` : "does not apply, on to the next",
    });
    rules.replaceChildren(stepper.element, h("ol", { class: "lk-rule-list" }));
    drawRules(at);
  }
  function drawRules(at) {
    const cell = table().cells[model.get("cell")];
    rules.querySelector("ol").replaceChildren(
      ...Object.entries(table().rules).map(([number, question], i) => {
        const state =
          i > at
            ? i >= cell.asked.length
              ? "never"
              : "later"
            : i === cell.asked.length - 1
              ? "decides"
              : "asked";
        return h(
          "li",
          { class: `lk-rule-${state}`, "data-state": state },
          h("span", { class: "lk-number" }, number),
          h("span", { class: "lk-swatch", style: `background:${colour(number)}` }),
          h("span", {}, i < cell.asked.length && i <= at ? text(cell.asked[i]) : question),
        );
      }),
    );
    lk.drew(root);
  }
  function drawTools() {
    const { cells } = table();
    tools.replaceChildren(
      ...Object.entries(filters).map(([name, test]) => {
        const many = cells.filter(test).length;
        return lk.button(
          `${name} (${many})`,
          `show ${name} cells`,
          () => {
            filter = name;
            drawTools();
            drawGrid();
            lk.drew(root);
          },
          { "aria-pressed": String(filter === name) },
        );
      }),
    );
    if (table().stale && !cells.some((cell) => cell.stale))
      tools.append(
        h("span", { class: "lk-alert" }, "PyTorch's check: the stored table differs from this one"),
      );
  }
  function drawRegistered() {
    registered.replaceChildren(
      h(
        "div",
        { class: "lk-muted" },
        "registrations, newest first per key: choose one to see the cells it fills",
      ),
      ...table().registrations.map((entry) =>
        lk.button(
          h(
            "span",
            { class: entry.active ? "" : "lk-old" },
            h("b", {}, entry.key),
            entry.alias ? " (alias) " : " ",
            h("span", { class: "lk-mono lk-muted" }, entry.kernel),
          ),
          `cells filled by ${entry.key}${entry.active ? "" : ", replaced by a newer one"}`,
          () => {
            registration = registration === entry.key || !entry.active ? null : entry.key;
            drawRegistered();
            drawGrid();
            lk.drew(root);
          },
          { "aria-pressed": String(entry.active && registration === entry.key) },
        ),
      ),
    );
  }
  function draw() {
    schema.textContent = table().schema || table().operator;
    root.dataset.operator = table().operator;
    drawTools();
    drawGrid();
    drawDetails();
    drawRegistered();
  }
  let waiting = null;
  search.addEventListener("input", () => {
    const words = search.value.trim();
    clearTimeout(waiting);
    if (!words) return answer.replaceChildren();
    waiting = setTimeout(
      () =>
        answer.replaceChildren(
          h(
            "span",
            { class: "lk-muted" },
            "no answer: searching asks Python, so it needs a running kernel",
          ),
        ),
      3000,
    );
    save({ query: words });
  });
  const listen = {
    "change:found": () => {
      clearTimeout(waiting);
      const found = model.get("found");
      answer.replaceChildren(
        ...(found.length
          ? found
              .slice(0, 12)
              .map((name) =>
                lk.button(name, `show the table of ${name}`, () => save({ wanted: name })),
              )
          : [h("span", { class: "lk-muted" }, "no operator is called that")]),
        ...(found.length > 12
          ? [h("span", { class: "lk-muted" }, `and ${found.length - 12} more`)]
          : []),
      );
    },
    "change:table": () => {
      registration = null;
      draw();
    },
    "change:cell": () => {
      drawGrid();
      drawDetails();
    },
    "change:rule": () => {
      if (!stepper) return;
      const at = Math.min(model.get("rule"), table().cells[model.get("cell")].asked.length - 1);
      stepper.set(at);
      drawRules(at);
    },
  };
  for (const [event, run] of Object.entries(listen)) model.on(event, run);
  return {
    element,
    draw,
    stop: () => {
      stepper?.stop();
      for (const [event, run] of Object.entries(listen)) model.off(event, run);
    },
  };
}
