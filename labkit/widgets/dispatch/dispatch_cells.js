// The whole table of an operator: a grid of slots, what one holds, and the registrations.
function dispatchCells(shared) {
  const { h } = lk,
    { bits, model, root, save } = shared;
  const table = () => model.get("table"),
    text = (i) => table().texts[i];
  const filters = {
    all: () => true,
    stale: (cell) => cell.stale,
    empty: (cell) => !cell.kernel,
    fallthrough: (cell) => cell.fallthrough,
    "step 1": (cell) => cell.rule === 1,
  };
  let filter = table().cells.some(filters.stale) ? "stale" : "all",
    registration = null;
  const small = model.get("shown").length > 0,
    simple = model.get("simple");
  const search = dispatchSearch(shared),
    rules = dispatchRules(shared);
  const schema = h("div", { class: "lk-mono lk-muted lk-schema" }),
    tools = h("div", { class: "lk-row" });
  const grid = h("div", { class: "lk-scroll" }),
    registered = h("details", { class: "lk-registered" }); // newest first per key
  const element = h(
    "div",
    {},
    model.get("searches") ? search.element : null,
    schema,
    small ? null : tools,
    h("div", { class: "lk-cells-body" }, grid, simple ? null : rules.element),
    simple ? null : registered,
  );

  const chosen = (cell) =>
    filters[filter](cell) && (!registration || text(cell.source) === registration);
  function drawGrid() {
    const { cells } = table(),
      now = model.get("cell"),
      focused = grid.contains(document.activeElement);
    const square = (slot, wide) => {
      const cell = cells[slot],
        name = [
          "lk-slot",
          cell.fallthrough && "lk-falls",
          !cell.kernel && "lk-empty",
          cell.stale && "lk-stale",
          slot === now && "lk-chosen",
          !chosen(cell) && "lk-dim",
        ]
          .filter(Boolean)
          .join(" ");
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
              style: cell.kernel ? `--lk-rule:${ruleColour(cell.rule)}` : "",
              title: `${cell.slot}: ${text(cell.reason)}`,
              "aria-label":
                `${cell.slot}, step ${cell.rule}, ${text(cell.reason)}` +
                (cell.stale ? ", stale" : ""),
              on: { click: () => save({ cell: slot, rule: cells[slot].asked.length - 1 }) },
            },
            simple
              ? cell.kernel
                ? "\u2713"
                : ""
              : cell.kernel
                ? `${cell.rule}${cell.stale ? "!" : ""}`
                : cell.stale
                  ? "!"
                  : "",
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
          colspan: bits.columns.length - 1,
          class: `lk-said lk-muted${chosen(cells[slot]) ? "" : " lk-dim"}`,
        },
        h(
          "span",
          {},
          cells[slot].kernel
            ? [
                text(cells[slot].reason),
                cells[slot].fallthrough ? " · falls through" : "",
                ` · ${text(cells[slot].kernel).split("/").pop()}`,
              ].join("")
            : text(cells[slot].reason),
        ),
      ),
    ];
    const rows = bits.rows
      .map((f) =>
        h(
          "tr",
          {},
          h("th", { scope: "row" }, bits.functionalities[f]),
          ...(bits.severally[f]
            ? bits.columns.map((b) => square(bits.slotAt(f, b), 1))
            : alone(bits.slotAt(f, 0))),
        ),
      )
      .reverse();
    if (!small) rows.push(h("tr", {}, h("th", { scope: "row" }, "Undefined"), ...alone(0)));
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
            ...bits.columns.map((b) =>
              h("th", { class: "lk-up" }, h("span", {}, bits.backends[b])),
            ),
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
    if (
      top - head < grid.scrollTop ||
      top + 2 * row.offsetHeight > grid.scrollTop + grid.clientHeight
    )
      grid.scrollTop = top - grid.clientHeight / 2;
  }
  const moves = {
    ArrowLeft: (row, at) => [row, at - 1],
    ArrowRight: (row, at) => [row, at + 1],
    ArrowUp: (row, at) => [row.previousElementSibling, at],
    ArrowDown: (row, at) => [row.nextElementSibling, at],
  };
  lk.onKeys(grid, moves, (move, { target }) => {
    const row = target.closest("tr"),
      [line, to] = move(row, [...row.querySelectorAll("button")].indexOf(target));
    const buttons = line ? [...line.querySelectorAll("button")] : [];
    buttons[Math.max(0, Math.min(buttons.length - 1, to))]?.click();
  });
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
      lk.focusable(
        h(
          "summary",
          {},
          `${table().registrations.length} registrations: choose one to see the cells it fills`,
        ),
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
    rules.draw();
    drawRegistered();
  }
  const listen = {
    "change:table": () => {
      registration = null;
      draw();
    },
    "change:cell": () => {
      drawGrid();
      rules.draw();
    },
  };
  for (const [event, run] of Object.entries(listen)) model.on(event, run);
  const stop = () => {
    search.stop();
    rules.stop();
    for (const [event, run] of Object.entries(listen)) model.off(event, run);
  };
  return { element, draw, stop };
}
