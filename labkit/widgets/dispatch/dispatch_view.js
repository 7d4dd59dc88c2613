// The dispatcher: a call step by step, an operator's table, and what other bits would do.
function render({ model, el }) {
  const { h } = lk,
    root = lk.root(el, `dispatch of ${model.get("table").operator}`);
  root.classList.toggle("lk-dispatch-small", model.get("shown").length > 0);
  const bits = dispatchBits(model.get("bit_names"), model.get("shown")),
    allBits = bits.functionalities.length + bits.count;
  const slots = () => model.get("table").cells.map((cell) => cell.slot);
  const calls = model.get("calls"),
    page = h("div", { class: "lk-dispatch-page" });
  const save = (values) => {
    for (const [name, value] of Object.entries(values)) model.set(name, value);
    model.save_changes();
  };
  const now = () => (calls.length || model.get("page") !== "call" ? model.get("page") : "table");
  const call = () => calls[Math.min(model.get("context"), calls.length - 1)];
  const frame = () => Math.min(model.get("frame"), call().steps.length - 1);
  let compare = 0,
    allRows = false;

  const title = h("div", { class: "lk-row lk-dispatch-title" });
  const tabs = h("div", { class: "lk-row", role: "tablist" });
  const contexts = h("div", { class: "lk-row lk-contexts" });
  root.append(title, ...(model.get("simple") ? [] : [tabs, contexts]), page);

  const rowsButton = () =>
    lk.button(
      allRows ? "fewer rows" : `all ${allBits} bits`,
      "show every bit, or only those that occur",
      () => {
        allRows = !allRows;
        draw();
      },
      { "aria-pressed": String(allRows) },
    );
  // The bits worth a row: all that occur in a word that adds, in any context.
  const usedRows = (extra = []) => {
    if (model.get("shown").length)
      return new Set([...bits.rows.map((f) => bits.placeOf(f)), ...bits.columns]);
    const rows = new Set();
    let word = 0n;
    for (const { hops } of calls)
      for (const hop of hops)
        for (const bitsOf of [hop.union_bits, hop.included_bits, hop.result_bits])
          word |= big(bitsOf) || 0n;
    for (const more of extra) word |= more;
    for (let place = 0; place < allBits; place++)
      if (allRows || bits.has(word, place)) rows.add(place);
    return rows;
  };

  const shared = {
    bits,
    model,
    root,
    save,
    calls,
    call,
    frame,
    slots,
    usedRows,
    rowsButton,
    draw,
    compared: () => calls[compare],
  };
  const callPage = dispatchCall(shared),
    whatIf = dispatchWhatIf(shared),
    table = dispatchCells(shared);

  function drawTitle() {
    const { operator, side } = model.get("table");
    title.replaceChildren(
      h("b", { class: "lk-mono" }, operator),
      h("span", { class: "lk-muted" }, side),
    );
    const pages = calls.length
      ? { call: "the call", table: "the table", "what-if": "what if" }
      : { table: "the table", "what-if": "what if" };
    tabs.replaceChildren(
      ...Object.entries(pages).map(([name, words]) =>
        lk.button(words, `page: ${words}`, () => save({ page: name }), {
          role: "tab",
          "aria-selected": String(now() === name),
          "aria-pressed": String(now() === name),
        }),
      ),
    );
    const toggles = calls.map((one, i) => {
      const same =
        i > 0 &&
        one.hops.map((hop) => hop.slot).join() === calls[0].hops.map((hop) => hop.slot).join();
      return lk.button(
        one.label,
        `the call: ${one.label}${same ? ", the same slots" : ""}`,
        () => chooseContext(i),
        { "aria-pressed": String(i === model.get("context")) },
      );
    });
    const picker = lk.focusable(
      h(
        "select",
        {
          "aria-label": "compare with",
          on: {
            change: () => {
              compare = Number(picker.value);
              draw();
            },
          },
        },
        ...calls.map((one, i) => h("option", { value: i, selected: i === compare }, one.label)),
      ),
    );
    const left = Object.entries(model.get("left_out")).map(([name, why]) =>
      h("div", { class: "lk-muted" }, `${name} is left out: ${why}`),
    );
    contexts.replaceChildren(
      ...(now() === "table" || calls.length < 2
        ? []
        : [
            h("span", { class: "lk-muted" }, "made"),
            ...toggles,
            h("span", { class: "lk-muted" }, "outline what differs from"),
            picker,
            ...left,
          ]),
    );
  }
  // The same hop and kind of step, so that only the bits move.
  function chooseContext(i) {
    const step = calls.length && call().steps[frame()],
      steps = calls[i].steps;
    const exact = steps.findIndex(
      (other) =>
        other.hop === step.hop &&
        other.kind === step.kind &&
        other.text.split(" is ")[0] === step.text.split(" is ")[0],
    );
    const near =
      exact >= 0
        ? exact
        : steps.findIndex((other) => other.hop === step.hop && other.kind === step.kind);
    save({ context: i, frame: Math.max(0, near) });
  }

  function draw() {
    root.dataset.page = now();
    drawTitle();
    const scrolled = page.querySelector(".lk-scroll")?.scrollTop || 0;
    const elements = {
      call: callPage.elements,
      "what-if": [whatIf.element],
      table: [table.element],
    }[now()];
    const turned = !page.contains(elements[0]);
    if (turned) page.replaceChildren(...elements);
    if (now() === "call") callPage.draw();
    else if (now() === "what-if") whatIf.draw();
    else if (turned) table.draw();
    if (scrolled && !turned) page.querySelector(".lk-scroll").scrollTop = scrolled;
    lk.drew(root);
  }
  const listen = {
    "change:frame": () => {
      if (!calls.length) return;
      callPage.follow();
      whatIf.reset();
      if (now() !== "table") draw();
    },
    "change:context": () => {
      callPage.restart();
      whatIf.reset();
      draw();
    },
    "change:page": draw,
    "change:table": () => {
      whatIf.reset();
      draw();
    },
  };
  for (const [event, run] of Object.entries(listen)) model.on(event, run);
  if (calls.length) callPage.restart();
  draw();
  return () => {
    callPage.stop();
    table.stop();
    for (const [event, run] of Object.entries(listen)) model.off(event, run);
  };
}

export default { render };
