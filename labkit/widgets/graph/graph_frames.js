// The steps of a graph: what is in force at a step, and the small heat maps beside the drawing.
const graphFrames = (() => {
  const CHECKPOINT_EVERY = 64,
    PRINTED_CELLS = 40;

  // Node -> state, node -> note and edge -> what came along it, in force at a step, each from the
  // nearest checkpoint before it.
  function history(frames) {
    const checkpoints = [{ marks: new Map(), notes: new Map(), flows: new Map() }];
    const apply = (frame, into) => {
      for (const name of ["marks", "notes", "flows"])
        for (const [id, value] of Object.entries(frame[name] ?? {}))
          value ? into[name].set(+id, value) : into[name].delete(+id);
    };
    const copy = ({ marks, notes, flows }) => ({
      marks: new Map(marks),
      notes: new Map(notes),
      flows: new Map(flows),
    });
    let last = { index: -1, ...copy(checkpoints[0]) };
    return (index) => {
      let from = last;
      if (index < last.index) {
        const place = Math.min(Math.floor((index + 1) / CHECKPOINT_EVERY), checkpoints.length - 1);
        from = { index: place * CHECKPOINT_EVERY - 1, ...copy(checkpoints[place]) };
      }
      for (let i = from.index + 1; i <= index; i++) {
        apply(frames[i], from);
        if ((i + 1) / CHECKPOINT_EVERY === checkpoints.length) checkpoints.push(copy(from));
      }
      from.index = index;
      last = from;
      return last;
    };
  }

  const finite = (value) => typeof value === "number";
  const short = (value) => (finite(value) ? String(+value.toPrecision(3)) : value);

  // Blue below zero, orange above, the page's own colour at zero; what is no number is hatched.
  function heat({ title, rows, columns, numbers }) {
    const most = Math.max(...numbers.filter(finite).map(Math.abs), 0);
    const printed = numbers.length <= PRINTED_CELLS && columns <= 4;
    const cells = numbers.map((value) => {
      const share = finite(value) && most ? Math.abs(value) / most : 0;
      const colour = !finite(value) ? "" : value < 0 ? "0, 114, 178" : "230, 159, 0";
      return lk.h(
        "span",
        {
          class: finite(value) ? "" : "lk-heat-odd",
          title: String(value),
          style:
            colour && share ? `background:rgba(${colour},${(0.12 + 0.76 * share).toFixed(3)})` : "",
        },
        printed ? short(value) : "",
      );
    });
    const label = `${title}: ${rows} by ${columns}, largest magnitude ${short(most)}`;
    return lk.h(
      "figure",
      { class: "lk-heat", role: "img", "aria-label": label },
      lk.h("figcaption", { class: "lk-muted" }, printed ? title : `${title}, ±${short(most)}`),
      lk.h(
        "div",
        {
          class: printed ? "lk-heat-cells" : "lk-heat-cells lk-heat-small",
          style:
            `grid-template-columns:repeat(${columns},` +
            (printed ? "minmax(2.6em,auto))" : "10px)"),
        },
        ...cells,
      ),
    );
  }

  // How many a side list has: of a long one Python sends the first and "… and 28 more".
  function listLength(items) {
    const rest = /^… and (\d+) more$/.exec(items.at(-1) ?? "");
    return rest ? items.length - 1 + Number(rest[1]) : items.length;
  }

  // Walk to the next or the last step of one kind; null when the steps name no kinds.
  function kindWalker(frames, index, go) {
    const kinds = [...new Set(frames.map((frame) => frame.kind).filter(Boolean))];
    const stops = frames.some((frame) => frame.stop);
    if (!kinds.length && !stops) return null;
    const options = stops ? ["break", ...kinds] : kinds;
    const choice = lk.focusable(
      lk.h(
        "select",
        { "aria-label": "kind of step" },
        ...options.map((kind) => lk.h("option", { value: kind }, kind)),
      ),
    );
    const walk = (by) => () => {
      const wanted = (frame) =>
        choice.value === "break" ? frame.stop : frame.kind === choice.value;
      for (let i = index() + by; i >= 0 && i < frames.length; i += by)
        if (wanted(frames[i])) return go(i);
    };
    return lk.h(
      "div",
      { class: "lk-row lk-step-more" },
      lk.h("label", { class: "lk-muted" }, "walk to ", choice),
      lk.button("‹ previous", "last step of this kind", walk(-1)),
      lk.button("next ›", "next step of this kind", walk(1)),
    );
  }

  return { history, heat, kindWalker, listLength };
})();
