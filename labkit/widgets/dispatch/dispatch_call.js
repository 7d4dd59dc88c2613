// One call: the words of each hop bit by bit, and the path, predicted beside recorded.
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

// What the pages share: bits, model, save, calls, call(), frame(), slots(), usedRows() and
// rowsButton().
function dispatchCall(shared) {
  const { h } = lk,
    { bits, model, save, call, frame, slots } = shared;
  const walk = h("div", {}),
    matrix = h("div", {}),
    path = h("div", { class: "lk-path" });
  // The way of the call is shown first; how each key set came about unfolds below it.
  const unfold = lk.focusable(
      h("summary", {}, "the bits: which key sets were joined, what the thread added, who wins"),
    ),
    bitSets = h("details", { class: "lk-bits" }, unfold, matrix);
  let stepper = null;
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
    const other = shared.compared().hops[step.hop],
      others = shared.compared() !== call() && other && other.via === hop.via ? wordsOf(other) : [];
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
    const winner = decided ? bits.winnerOf(big(hop.result_bits)) : -1;
    matrix.replaceChildren(
      h(
        "div",
        { class: "lk-row lk-word" },
        shared.rowsButton(),
        h("span", { class: "lk-muted" }, `hop ${step.hop + 1} of ${hops.length}`),
        h("span", { class: "lk-mono" }, word === null ? "" : bits.written(word, slots())),
      ),
      dispatchMatrix(bits, {
        columns,
        word,
        winner,
        notes: notesOf(hop, argument, columns, winner),
        rows: shared.usedRows(),
        label: "bits of each key set",
      }),
    );
    drawPath(step);
  }
  function notesOf(hop, argument, columns, winner) {
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
    if (winner >= 0) notes[winner] = `wins: ${hop.slot}, slot ${hop.slot_index}`;
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
        : (agrees ? "as predicted" : "NOT as predicted") +
          (complete ? "" : ", as far as a prediction can go");
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
        h("span", { class: "lk-muted" }, ` ${hop.reason}${origin}`),
        h("div", { class: "lk-mono lk-muted" }, hop.kernel || "no kernel"),
        h("div", {}, hop.then_text),
      ),
      `to hop ${hop.number + 1}, ${hop.slot}`,
      () => goTo(hop.number),
    );
  }
  return {
    elements: [walk, path, bitSets],
    draw: drawCall,
    restart: makeStepper,
    follow: () => stepper?.set(frame()),
    stop: () => stepper?.stop(),
  };
}
