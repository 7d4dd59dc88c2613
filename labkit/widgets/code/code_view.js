// Panes of text: hover lights the partners of a line, stations walk, marks say what is wrong where.
const WIDEST = 92; // characters of a line that count for a pane's width

function render({ model, el }) {
  const root = lk.root(el, model.get("title") || "code");
  const panes = model.get("panes"),
    links = model.get("links"),
    marks = model.get("marks"),
    stations = model.get("stations");
  const rows = panes.map(() => new Map());
  const partners = (pane, line) =>
    links.filter((group) =>
      group.some(([p, first, last]) => p === pane && first <= line && line <= last),
    );
  const stepper = lk.frameStepper(model, {
    list: "stations",
    label: "station",
    change: () => station(),
  });
  const hiddenSeverities = new Set();
  const filters = ["error", "warning", "note"]
    .filter((s) => marks.some((mark) => mark.severity === s))
    .map((severity) => {
      const node = lk.button(
        `${severity} (${marks.filter((mark) => mark.severity === severity).length})`,
        `show or hide ${severity} marks`,
        () => {
          hiddenSeverities.has(severity)
            ? hiddenSeverities.delete(severity)
            : hiddenSeverities.add(severity);
          node.setAttribute("aria-pressed", !hiddenSeverities.has(severity));
          root.querySelectorAll(`.lk-mark-${severity}`).forEach((mark) => {
            mark.hidden = hiddenSeverities.has(severity);
          });
        },
      );
      node.setAttribute("aria-pressed", "true");
      return node;
    });
  const fold =
    stations.length + links.length > 0 &&
    lk.toggle("fold", "hide lines that no link, mark or station touches", false, (on) => {
      root.classList.toggle("lk-code-folded", on);
    });
  const used = (pane, line) =>
    partners(pane, line).length ||
    marks.some((m) => m.pane === pane && Math.abs(m.line - line) <= 1) ||
    stations.some((s) => s.pane === pane && s.lines[0] - 2 <= line && line <= s.lines[1] + 2);

  function light(pane, line) {
    for (const map of rows) for (const row of map.values()) row.classList.remove("lk-linked");
    const groups = line === null ? [] : partners(pane, line);
    for (const [p, first, last] of groups.flat())
      for (let n = first; n <= last; n++) rows[p].get(n)?.classList.add("lk-linked");
    root.dataset.linked = root.querySelectorAll(".lk-linked").length;
    const shown = new Set([pane]); // of several places in a pane the first one is scrolled to
    for (const [p, first] of groups.flat())
      if (!shown.has(p)) {
        shown.add(p);
        reveal(rows[p].get(first));
      }
  }
  // Scrolls the pane only: scrollIntoView would move the whole notebook.
  function reveal(row) {
    const box = row?.parentElement;
    if (!box) return;
    const top = row.offsetTop; // from the pane, which is positioned
    if (top < box.scrollTop || top + 40 > box.scrollTop + box.clientHeight)
      box.scrollTop = Math.max(0, top - box.clientHeight / 3);
  }
  const columns = panes.map((pane, index) => {
    const body = lk.focusable(
      lk.h("div", { class: "lk-code-body lk-mono", role: "listbox", "aria-label": pane.title }),
    );
    pane.lines.forEach((text, i) => {
      const number = pane.first_line + i;
      const row = lk.h(
        "div",
        {
          class:
            "lk-code-line" +
            (partners(index, number).length ? " lk-has-link" : "") +
            (used(index, number) ? "" : " lk-unused"),
          role: "option",
          "data-line": number,
        },
        lk.h("span", { class: "lk-code-number" }, number),
        lk.h("span", { class: "lk-code-text" }, ...coloured(text, pane.language)),
      );
      row.addEventListener("pointerenter", () => light(index, number));
      rows[index].set(number, row);
      body.append(row);
      for (const mark of marks.filter((m) => m.pane === index && m.line === number))
        body.append(
          lk.h(
            "div",
            { class: `lk-code-mark lk-mark-${mark.severity}` },
            `${mark.severity}: ${mark.text}`,
          ),
        );
    });
    body.addEventListener("pointerleave", () => light(index, null));
    let cursor = pane.first_line - 1;
    lk.onKeys(body, { ArrowDown: 1, ArrowUp: -1 }, (step) => {
      cursor = Math.max(
        pane.first_line,
        Math.min(pane.first_line + pane.lines.length - 1, cursor + step),
      );
      for (const row of rows[index].values()) row.classList.remove("lk-cursor");
      rows[index].get(cursor)?.classList.add("lk-cursor");
      reveal(rows[index].get(cursor));
      light(index, cursor);
    });
    // As wide as its lines: where two do not fit side by side they stand one above the other.
    const wide = Math.min(
      WIDEST,
      Math.max(...pane.lines.map((text) => text.replaceAll("\t", "    ").length), 24),
    );
    return lk.h(
      "section",
      { style: `flex-basis:min(100%, calc(${wide + 6} * var(--lk-code-ch)))` },
      lk.h(
        "div",
        { class: "lk-row lk-code-title" },
        lk.h("b", {}, pane.title),
        lk.copyButton("copy", `copy ${pane.title}`, () => pane.lines.join("\n")),
      ),
      body,
    );
  });
  function station() {
    const now = stations[Math.min(model.get("frame"), stations.length - 1)];
    rows.forEach((map, pane) => {
      for (const [number, row] of map)
        row.classList.toggle(
          "lk-station",
          pane === now.pane && now.lines[0] <= number && number <= now.lines[1],
        );
    });
    columns.forEach((column, pane) =>
      column.classList.toggle("lk-station-pane", pane === now.pane),
    );
    reveal(rows[now.pane].get(now.lines[0]));
    if (partners(now.pane, now.lines[0]).length) light(now.pane, now.lines[0]);
    lk.drew(root);
  }
  const tools = [...filters, fold].filter(Boolean);
  root.append(
    ...[
      model.get("title") && lk.h("b", {}, model.get("title")),
      stepper && stepper.element,
      tools.length > 0 && lk.h("div", { class: "lk-row" }, ...tools),
      lk.h("div", { class: "lk-code-panes" }, ...columns),
    ].filter(Boolean),
  );
  const moved = () => {
    if (stepper) {
      stepper.follow();
      station();
    }
  };
  model.on("change:frame", moved);
  if (stepper) requestAnimationFrame(station);
  lk.drew(root);
  return () => {
    if (stepper) stepper.stop();
    model.off("change:frame", moved);
  };
}

export default { render };
