// Lane 1: the functions of the program, the line that runs, and who called it.
function stepSource(record, go) {
  const { functions, chains } = record.meta;
  const body = lk.focusable(lk.h("div", { class: "lk-step-body", "aria-label": "your source" }));
  const rows = functions.map(({ name, file, first_line: first, lines }) => {
    body.append(lk.h("div", { class: "lk-step-file lk-muted" }, `${name} · ${file}`));
    return lines.map((text, i) => {
      const row = lk.h(
        "div",
        { class: "lk-code-line", "data-line": first + i },
        lk.h("span", { class: "lk-code-number" }, first + i),
        lk.h("span", { class: "lk-code-text" }, ...coloured(text, "python")),
      );
      body.append(row);
      return row;
    });
  });
  const rowOf = ([place, number]) => rows[place]?.[number - functions[place].first_line];
  let now = 0,
    lit = [];

  // A line leads to the next event at which it runs, and from the last one back to its first.
  rows.forEach((own, place) =>
    own.forEach((row, i) => {
      const number = functions[place].first_line + i;
      const runs = ([p, n]) => p === place && n === number;
      const used = chains.map((chain) => chain.some(runs));
      if (!used.some(Boolean)) return;
      row.classList.add("lk-has-link");
      row.addEventListener("click", () => {
        const at = (event) => record.own.line[event] >= 0 && used[record.own.line[event]];
        const order = [...Array(record.count).keys()];
        const turned = [...order.slice(now + 1), ...order.slice(0, now + 1)];
        const starts = (event) => at(event) && !(event && at(event - 1));
        go(turned.find(starts) ?? now);
      });
    }),
  );

  function show(focus) {
    now = focus.event;
    for (const [row, name] of lit) row.classList.remove(name);
    lit = [];
    const light = (pair, name) => {
      const row = rowOf(pair);
      if (!row) return;
      row.classList.add(name);
      lit.push([row, name]);
    };
    const chain = chains[focus.line] ?? [];
    chain.slice(1).forEach((pair) => light(pair, "lk-step-caller"));
    if (focus.madeAt >= 0) light(chains[focus.madeAt][0], "lk-step-made");
    if (chain.length) light(chain[0], "lk-step-now");
    for (const pair of [chains[focus.madeAt]?.[0], chain[0]]) {
      const row = pair && rowOf(pair);
      if (row) reveal(body, row);
    }
  }
  return {
    element: body,
    show,
    // The line that runs; in backward also the one whose node runs.
    spots(focus) {
      return [chains[focus.line]?.[0], chains[focus.madeAt]?.[0]].map((pair) => {
        const row = pair && rowOf(pair);
        return row && inView(body, row) ? row : null;
      });
    },
  };
}

// Scrolls the lane only: scrollIntoView would move the whole notebook.
function reveal(body, row) {
  const top = row.offsetTop;
  if (top < body.scrollTop || top + 20 > body.scrollTop + body.clientHeight)
    body.scrollTop = Math.max(0, top - body.clientHeight / 3);
}
const inView = (body, row) => {
  const middle = row.offsetTop + row.offsetHeight / 2;
  return middle >= body.scrollTop && middle <= body.scrollTop + body.clientHeight;
};
