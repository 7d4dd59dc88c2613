// Bits as rows, strongest first, of features and then of backends; words as columns; at the right
// the word now, backend by backend.
//
// columns   [{ id, label, title, word, against, toggle }]: words are BigInt, null if not reached
// word      the word whose runtime keys stand at the right, or null
// winner    the place of the bit that won, or -1
// notes     place -> what to say about this bit
function dispatchMatrix(bits, { columns, word, winner = -1, notes = {}, rows, label }) {
  const { h } = lk,
    { functionalities, backends, severally, placeOf, has } = bits;
  const side = bits.columns;
  const mark = (column, place) => {
    if (column.word === null) return h("td", { class: "lk-bit lk-later" });
    const on = has(column.word, place),
      off = column.inverse ? !on : on;
    const flipped =
      column.against !== null && column.against !== undefined && has(column.against, place) !== on;
    const name = [
      "lk-bit",
      off ? " lk-on" : "",
      flipped ? " lk-flip" : "",
      column.now ? " lk-now" : "",
      ` lk-word-${column.kind}`,
    ].join("");
    const glyph = off ? column.glyph : "";
    if (!column.toggle)
      return h(
        "td",
        { class: name, "data-on": off, "data-word": column.id, "data-place": place },
        glyph,
      );
    const of =
      place < bits.count ? `backend ${backends[place]}` : functionalities[place - bits.count];
    return h(
      "td",
      { class: name },
      lk.focusable(
        h(
          "button",
          {
            type: "button",
            tabindex: -1,
            "data-toggle": `${column.id}/${place}`,
            "aria-pressed": String(on),
            "aria-label": `${of} in ${column.label}`,
            on: { click: () => column.toggle(place) },
          },
          glyph,
        ),
      ),
    );
  };
  // A click on the name of a bit toggles it, where there is one word to toggle.
  const edited = columns.filter((column) => column.toggle);
  const rowName = (place, words) =>
    edited.length === 1
      ? h(
          "th",
          {
            scope: "row",
            class: "lk-toggles",
            title: `bit ${place}`,
            on: { click: () => edited[0].toggle(place) },
          },
          words,
        )
      : h("th", { scope: "row", title: `bit ${place}` }, words);
  const head = h(
    "tr",
    {},
    h("th", { class: "lk-corner" }, "bit"),
    ...columns.map((column) =>
      h(
        "th",
        { title: column.title, class: `lk-up${column.now ? " lk-now" : ""}` },
        h("span", {}, column.label),
      ),
    ),
    h("th", { class: "lk-gap" }),
    ...side.map((b) =>
      h(
        "th",
        {
          class: `lk-up lk-thin${word !== null && has(word, b) ? " lk-present" : ""}`,
          title: `backend bit ${b}`,
        },
        h("span", {}, backends[b]),
      ),
    ),
    h("th", {}),
  );
  const strong = functionalities
    .map((_, f) => f)
    .reverse()
    .filter((f) => rows.has(placeOf(f)));
  const body = strong.map((f) => {
    const place = placeOf(f),
      on = word !== null && has(word, place);
    const runtime = severally[f]
      ? side.map((b) => h("td", { class: `lk-bit${on && has(word, b) ? " lk-on lk-key" : ""}` }))
      : [h("td", { colspan: side.length, class: `lk-bit${on ? " lk-on lk-key" : ""}` })];
    return h(
      "tr",
      { class: place === winner ? "lk-wins" : "" },
      rowName(place, functionalities[f]),
      ...columns.map((column) => mark(column, place)),
      h("td", { class: "lk-gap" }),
      ...runtime,
      h("td", { class: "lk-note lk-muted" }, notes[place] || ""),
    );
  });
  const below = backends
    .map((_, b) => b)
    .reverse()
    .filter((b) => rows.has(b))
    .map((b) =>
      h(
        "tr",
        { class: "lk-backend" },
        rowName(b, `backend ${backends[b]}`),
        ...columns.map((column) => mark(column, b)),
        h("td", { class: "lk-gap" }),
        h("td", { colspan: side.length }),
        h("td", { class: "lk-note lk-muted" }, notes[b] || ""),
      ),
    );
  const table = h(
    "table",
    { class: "lk-matrix", "aria-label": label },
    h("thead", {}, head),
    h("tbody", {}, ...body, ...below),
  );
  const buttons = [...table.querySelectorAll("button")];
  if (buttons.length) buttons[0].tabIndex = 0;
  // One stop for Tab; the arrows walk from there.
  const wide = edited.length;
  const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: wide, ArrowUp: -wide };
  lk.onKeys(table, steps, (step, event) => {
    const next = buttons[buttons.indexOf(event.target) + step];
    if (next) {
      event.target.tabIndex = -1;
      next.tabIndex = 0;
      next.focus();
    }
  });
  return h("div", { class: "lk-scroll" }, table);
}
