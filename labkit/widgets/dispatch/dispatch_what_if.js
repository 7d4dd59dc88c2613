// What if: three words to edit; the rest follows as in the dispatcher.
const SET = "color-mix(in srgb, #0072B2 34%, var(--lk-cell))",
  KEY = "color-mix(in srgb, #56B4E9 55%, var(--lk-cell))"; // as in dispatch_view.css

function dispatchWhatIf(shared) {
  const { h } = lk,
    { bits, model, calls, call, frame, slots } = shared;
  const matrix = h("div", {});
  const small = model.get("shown").length > 0;
  let edited = null;
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
    // a small view has one word, and no thread that adds to it
    if (small) {
      const [weakest, strongest] = [bits.rows[0], bits.rows.at(-1)];
      return {
        arguments:
          bits.bit(bits.columns[0]) |
          bits.bit(bits.placeOf(weakest)) |
          bits.bit(bits.placeOf(strongest)),
        included: 0n,
        excluded: 0n,
      };
    }
    const of = (name) => bits.bit(bits.placeOf(bits.functionalities.indexOf(name)));
    return {
      arguments: bits.bit(0) | of("Dense") | of("ADInplaceOrView") | of("AutogradFunctionality"),
      included: of("BackendSelect") | of("ADInplaceOrView"),
      excluded: 0n,
    };
  }
  const legend = () =>
    h(
      "div",
      { class: "lk-row lk-muted lk-bit-legend" },
      lk.swatch(SET, "bit is set"),
      lk.swatch(KEY, "key in the set: its feature and its backend are set"),
      lk.swatch("none", "changed by you", "lk-flipped"),
    );
  function drawWhatIf() {
    const start = startWords();
    edited = edited || { ...start };
    const table = model.get("table"),
      text = (i) => table.texts[i];
    const after = bits.minus(edited.arguments | edited.included, edited.excluded);
    const mask = small ? -1n : big(table.masks[bits.backendOf(after)]),
      left = after & mask,
      slot = bits.slotOf(left),
      cell = table.cells[slot];
    const toggle = (name) => (place) => {
      edited[name] ^= bits.bit(place);
      shared.draw();
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
    const winner = bits.winnerOf(left);
    const runs = text(cell.stale ? cell.stored : cell.kernel);
    shared.root.dataset.slot = cell.slot;
    matrix.replaceChildren(
      h(
        "div",
        { class: "lk-row" },
        h("span", {}, "Toggle bits: what would a call run?"),
        small ? null : shared.rowsButton(),
        lk.button("reset", "back to the words of the call", () => {
          edited = null;
          shared.draw();
        }),
      ),
      h(
        "div",
        { class: "lk-outcome", "aria-live": "polite" },
        small ? "the call goes to " : "",
        h("b", { class: "lk-mono" }, small ? cell.slot : `slot ${slot}: ${cell.slot}`),
        ...(small
          ? [cell.kernel ? "" : ": no kernel there, an error"]
          : [
              ` ${text(cell.reason)}, step ${cell.rule}`,
              cell.stale
                ? h("span", { class: "lk-alert" }, " (stale: the stored cell runs)")
                : null,
              h("div", { class: "lk-mono lk-muted" }, runs || "no kernel: the call is an error"),
              h("div", { class: "lk-mono" }, bits.written(left, slots())),
            ]),
      ),
      dispatchMatrix(bits, {
        columns: small ? columns.slice(0, 1) : columns,
        word: left,
        winner,
        rows: shared.usedRows([...Object.values(start), ...Object.values(edited), bits.bit(1)]),
        notes: winner < 0 ? {} : { [winner]: `wins: ${cell.slot}` },
        label: "words to toggle; arrow keys walk, space toggles",
      }),
      small ? legend() : "",
    );
  }
  return {
    element: matrix,
    draw: drawWhatIf,
    reset: () => {
      edited = null;
    },
  };
}
