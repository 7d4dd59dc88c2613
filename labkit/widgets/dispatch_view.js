// A call through the dispatcher: the words of each hop bit by bit, the path, the table, what if.
const WORDS_SHOWN = 6;

// The columns of one hop: words in the order in which they are made.
function wordsOf(hop) {
  if (hop.via !== "call")
    return [
      {
        id: "given",
        kind: "arg",
        label: "given",
        title: "the set the kernel above gave",
        word: hop.result_bits,
        step: "redispatch",
        glyph: "●",
      },
    ];
  const shown = hop.arguments.slice(0, WORDS_SHOWN);
  return [
    ...shown.map((argument, i) => ({
      id: `arg${i}`,
      kind: "arg",
      label: argument.name,
      title: argument.what,
      word: argument.bits,
      step: "argument",
      at: i,
      glyph: "●",
    })),
    {
      id: "union",
      kind: "arg",
      label: "union",
      title: "all tensor arguments together",
      word: hop.union_bits,
      step: "union",
      glyph: "●",
    },
    {
      id: "included",
      kind: "in",
      label: "+ included",
      title: "what this thread includes",
      word: hop.included_bits,
      step: "include",
      glyph: "+",
    },
    {
      id: "excluded",
      kind: "out",
      label: "− excluded",
      title: "what this thread excludes",
      word: hop.excluded_bits,
      step: "exclude",
      glyph: "−",
    },
    {
      id: "after",
      kind: "arg",
      label: "on this thread",
      title: "(union + included) − excluded",
      word: hop.with_tls_bits,
      step: "exclude",
      glyph: "●",
    },
    {
      id: "mask",
      kind: "out",
      label: "falls through",
      title: "cells of this operator that say: skip my key",
      word: hop.mask_bits,
      inverse: true,
      step: "mask",
      glyph: "×",
    },
    {
      id: "left",
      kind: "arg",
      label: "left",
      title: "what the slot is chosen by, and what the kernel gets",
      word: hop.result_bits,
      step: "mask",
      glyph: "●",
    },
  ];
}
const ORDER = [
  "argument",
  "union",
  "include",
  "exclude",
  "mask",
  "redispatch",
  "winner",
  "cell",
  "kernel",
  "return",
  "end",
];

function render({ model, el }) {
  const { h } = lk,
    root = lk.root(el, `dispatch of ${model.get("table").operator}`);
  const bits = dispatchBits(model.get("bit_names")),
    big = (text) => (text === null || text === undefined ? null : BigInt(text));
  const slots = () => model.get("table").cells.map((cell) => cell.slot);
  const calls = model.get("calls"),
    page = h("div", { class: "lk-dispatch-page" });
  const save = (values) => {
    for (const [name, value] of Object.entries(values)) model.set(name, value);
    model.save_changes();
  };
  const now = () => (calls.length || model.get("page") !== "call" ? model.get("page") : "table");
  const cellsPage = dispatchCells(bits, model, root);
  const call = () => calls[Math.min(model.get("context"), calls.length - 1)];
  const frame = () => Math.min(model.get("frame"), call().steps.length - 1);
  let compare = 0,
    allRows = false,
    stepper = null,
    edited = null;

  const title = h("div", { class: "lk-row lk-dispatch-title" });
  const tabs = h("div", { class: "lk-row", role: "tablist" });
  const contexts = h("div", { class: "lk-row lk-contexts" });
  const walk = h("div", {}),
    matrix = h("div", {}),
    path = h("div", { class: "lk-path" });
  root.append(title, tabs, contexts, page);

  const rowsButton = () =>
    lk.button(
      allRows ? "fewer rows" : "all 62 bits",
      "show every bit, or only those that occur",
      () => {
        allRows = !allRows;
        draw();
      },
      { "aria-pressed": String(allRows) },
    );
  // The bits worth a row: all that occur in a word that adds, in any context.
  const used = (extra = []) => {
    const rows = new Set(),
      all = bits.functionalities.length + bits.count;
    let word = 0n;
    for (const { hops } of calls)
      for (const hop of hops)
        for (const bitsOf of [hop.union_bits, hop.included_bits, hop.result_bits])
          word |= big(bitsOf) || 0n;
    for (const more of extra) word |= more;
    for (let place = 0; place < all; place++) if (allRows || bits.has(word, place)) rows.add(place);
    return rows;
  };

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
    edited = null;
    save({ context: i, frame: Math.max(0, near) });
  }
  const goTo = (hop, kind) => {
    const place = call().steps.findIndex(
      (step) => step.hop === hop && (!kind || step.kind === kind),
    );
    if (place >= 0) save({ frame: place });
  };

  function makeStepper() {
    stepper?.stop();
    const { steps } = call();
    stepper = lk.stepper({
      count: steps.length,
      index: frame(),
      text: (i) => `hop ${steps[i].hop + 1}, ${steps[i].kind}: ${steps[i].text}`,
      change: (i) => save({ frame: i }),
    });
    walk.replaceChildren(stepper.element);
  }
  function drawCall() {
    const { steps, hops } = call(),
      step = steps[frame()],
      hop = hops[step.hop],
      reached = ORDER.indexOf(step.kind);
    const argument =
      step.kind === "argument"
        ? steps
            .slice(0, frame())
            .filter((other) => other.kind === "argument" && other.hop === step.hop).length
        : -1;
    const other = calls[compare]?.hops[step.hop],
      others =
        compare !== model.get("context") && other && other.via === hop.via ? wordsOf(other) : [];
    const columns = wordsOf(hop).map((column) => {
      const at = ORDER.indexOf(column.step),
        seen =
          at < reached ||
          (at === reached && (column.at ?? 0) <= (argument < 0 ? Infinity : argument));
      const twin = others.find((candidate) => candidate.id === column.id);
      return {
        ...column,
        word: seen ? big(column.word) : null,
        against: twin ? big(twin.word) : null,
        now: at === reached && (argument < 0 || column.at === argument),
      };
    });
    const word = big(step.bits),
      decided = reached >= ORDER.indexOf("winner") && step.kind !== "end";
    const winner = decided ? bits.placeOf(bits.highest(big(hop.result_bits))) : -1;
    matrix.replaceChildren(
      h(
        "div",
        { class: "lk-row lk-word" },
        rowsButton(),
        h("span", { class: "lk-muted" }, `hop ${step.hop + 1} of ${hops.length}`),
        h(
          "span",
          { class: "lk-mono" },
          word === null
            ? ""
            : `${bits.hex(word)} = ${bits.names(word, slots()).join(", ") || "nothing"}`,
        ),
      ),
      dispatchMatrix(bits, {
        columns,
        word,
        winner,
        notes: notesOf(hop, step, argument, columns),
        rows: used(),
        label: "bits of each key set",
      }),
    );
    drawPath(step);
  }
  function notesOf(hop, step, argument, columns) {
    const notes = {},
      column = (id) => columns.find((one) => one.id === id && one.word !== null);
    bits.functionalities.forEach((name, f) => {
      const place = bits.placeOf(f),
        here = (id) => column(id) && bits.has(column(id).word, place);
      if (argument >= 0) {
        const origin = hop.arguments[argument].origins.find(
          (one) =>
            one.key === name ||
            (bits.severally[f] &&
              slots().indexOf(one.key) >= bits.slotAt(f, 0) &&
              slots().indexOf(one.key) < bits.slotAt(f, 0) + bits.count),
        );
        if (origin) notes[place] = origin.why;
      } else if (column("mask") && here("after") && !here("left"))
        notes[place] = "falls through: skipped";
      else if (column("after") && (here("union") || here("included")) && !here("after"))
        notes[place] = "excluded by this thread";
      else if (here("included") && !here("union")) notes[place] = "included by this thread";
    });
    if (ORDER.indexOf(step.kind) >= ORDER.indexOf("winner") && step.kind !== "end") {
      const place = bits.placeOf(bits.highest(big(hop.result_bits)));
      notes[place] = `wins: ${hop.slot}, slot ${hop.slot_index}`;
    }
    return notes;
  }
  function drawPath(step) {
    const { hops, recorded, agrees, complete, below, below_more, note, raised } = call();
    const predicted = hops.map((hop) =>
      h("li", { class: hop.number === step.hop ? "lk-here" : "" }, hopLine(hop)),
    );
    const ran = (recorded || []).map((run) =>
      h(
        "li",
        { style: `margin-left:${run.depth * 14}px`, class: run.predicted ? "" : "lk-extra" },
        h("b", { class: "lk-mono" }, run.slot),
        h(
          "span",
          { class: "lk-muted" },
          ` ${run.via} · ${run.kernel}${run.raised ? ` · left by ${run.raised}` : ""}`,
        ),
      ),
    );
    const verdict =
      recorded === null
        ? "not run in this context: a prediction only"
        : `${agrees ? "as predicted" : "NOT as predicted"}${complete ? "" : ", as far as a prediction can go"}`;
    path.replaceChildren(
      h("section", {}, h("b", {}, "predicted"), h("ol", {}, ...predicted)),
      h(
        "section",
        {},
        h("b", {}, "really ran "),
        h("span", { class: agrees === false ? "lk-alert" : "lk-muted" }, verdict),
        h("ol", {}, ...ran),
        raised ? h("div", { class: "lk-alert" }, `raised ${raised.split("\n")[0]}`) : null,
        below.length
          ? h(
              "details",
              {},
              h("summary", {}, `called below it (${below.length + below_more})`),
              ...below.map((one) =>
                h(
                  "div",
                  { class: "lk-mono", style: `margin-left:${one.depth * 12}px` },
                  one.operator,
                ),
              ),
            )
          : null,
        note ? h("div", { class: "lk-muted" }, note) : null,
      ),
    );
  }
  function hopLine(hop) {
    const origin = hop.source && hop.source !== hop.slot ? `, registered for ${hop.source}` : "";
    return lk.button(
      h(
        "span",
        {},
        h("span", { class: "lk-muted" }, `${hop.assumed ? "if passed on: " : ""}${hop.via} `),
        h("b", { class: "lk-mono" }, hop.slot),
        h("span", { class: "lk-muted" }, ` ${hop.reason}, rule ${hop.rule}${origin}`),
        h("div", { class: "lk-mono lk-muted" }, hop.kernel || "no kernel"),
        h("div", {}, hop.then_text),
      ),
      `to hop ${hop.number + 1}, ${hop.slot}`,
      () => goTo(hop.number),
    );
  }

  // What if: three words to edit; the rest follows as in the dispatcher.
  function startWords() {
    const hop = calls.length
      ? call()
          .hops.slice(0, call().steps[frame()].hop + 1)
          .reverse()
          .find((one) => one.via === "call")
      : null;
    if (hop)
      return {
        arguments: big(hop.union_bits),
        included: big(hop.included_bits),
        excluded: big(hop.excluded_bits),
      };
    const of = (name) => bits.bit(bits.placeOf(bits.functionalities.indexOf(name)));
    return {
      arguments: bits.bit(0) | of("Dense") | of("ADInplaceOrView") | of("AutogradFunctionality"),
      included: of("BackendSelect") | of("ADInplaceOrView"),
      excluded: 0n,
    };
  }
  function drawWhatIf() {
    const start = startWords();
    edited = edited || { ...start };
    const table = model.get("table"),
      text = (i) => table.texts[i];
    const after = bits.minus(edited.arguments | edited.included, edited.excluded);
    const mask = big(table.masks[bits.backendOf(after)]),
      left = after & mask,
      slot = bits.slotOf(left),
      cell = table.cells[slot];
    const toggle = (name) => (place) => {
      edited[name] ^= bits.bit(place);
      draw();
      matrix.querySelectorAll("button[data-toggle]").forEach((node) => {
        const here = node.dataset.toggle === `${name}/${place}`;
        node.tabIndex = here ? 0 : -1;
        if (here) node.focus({ preventScroll: true });
      });
    };
    const column = (id, kind, label, glyph, more) => ({
      id,
      kind,
      label,
      title: label,
      glyph,
      against: edited[id] === undefined ? null : start[id],
      ...more,
    });
    const columns = [
      column("arguments", "arg", "arguments", "●", {
        word: edited.arguments,
        toggle: toggle("arguments"),
      }),
      column("included", "in", "+ included", "+", {
        word: edited.included,
        toggle: toggle("included"),
      }),
      column("excluded", "out", "− excluded", "−", {
        word: edited.excluded,
        toggle: toggle("excluded"),
      }),
      column("after", "arg", "on this thread", "●", { word: after }),
      column("mask", "out", "falls through", "×", { word: mask, inverse: true }),
      column("left", "arg", "left", "●", { word: left }),
    ];
    const winner = bits.highest(left) < 0 ? -1 : bits.placeOf(bits.highest(left));
    const runs = text(cell.stale ? cell.stored : cell.kernel);
    root.dataset.slot = cell.slot;
    matrix.replaceChildren(
      h(
        "div",
        { class: "lk-row" },
        h("span", {}, "Toggle bits: what would a call run?"),
        rowsButton(),
        lk.button("reset", "back to the words of the call", () => {
          edited = null;
          draw();
        }),
      ),
      h(
        "div",
        { class: "lk-outcome", "aria-live": "polite" },
        h("b", { class: "lk-mono" }, `slot ${slot}: ${cell.slot}`),
        ` ${text(cell.reason)}, rule ${cell.rule}`,
        cell.stale ? h("span", { class: "lk-alert" }, " (stale: the stored cell runs)") : null,
        h("div", { class: "lk-mono lk-muted" }, runs || "no kernel: the call is an error"),
        h(
          "div",
          { class: "lk-mono" },
          `${bits.hex(left)} = ${bits.names(left, slots()).join(", ") || "nothing"}`,
        ),
      ),
      dispatchMatrix(bits, {
        columns,
        word: left,
        winner,
        rows: used([...Object.values(edited), bits.bit(1)]),
        notes: winner < 0 ? {} : { [winner]: `wins: ${cell.slot}` },
        label: "words to toggle; arrow keys walk, space toggles",
      }),
    );
  }

  function draw() {
    root.dataset.page = now();
    drawTitle();
    const scrolled = matrix.querySelector(".lk-scroll")?.scrollTop || 0;
    if (now() === "call") {
      if (!page.contains(walk)) page.replaceChildren(walk, matrix, path);
      drawCall();
    } else if (now() === "table") {
      if (!page.contains(cellsPage.element)) {
        page.replaceChildren(cellsPage.element);
        cellsPage.draw();
      }
    } else {
      if (page.firstChild !== matrix || page.childNodes.length > 1) page.replaceChildren(matrix);
      drawWhatIf();
    }
    if (scrolled) matrix.querySelector(".lk-scroll").scrollTop = scrolled;
    lk.drew(root);
  }
  const listen = {
    "change:frame": () => {
      if (!calls.length) return;
      stepper.set(frame());
      if (model.get("page") === "call") draw();
    },
    "change:context": () => {
      makeStepper();
      edited = null;
      draw();
    },
    "change:page": draw,
    "change:table": () => {
      edited = null;
      draw();
    },
  };
  for (const [event, run] of Object.entries(listen)) model.on(event, run);
  if (calls.length) makeStepper();
  draw();
  return () => {
    stepper?.stop();
    cellsPage.stop();
    for (const [event, run] of Object.entries(listen)) model.off(event, run);
  };
}

export default { render };
