// Lane 2: the calls around the event, each with the dispatcher's hops and the kernels it queued.
function stepHops(record, go) {
  const body = lk.focusable(
    lk.h("div", { class: "lk-step-body lk-step-hops", "aria-label": "hops of the dispatcher" }),
  );
  let shown = -2,
    rows = new Map();

  const chip = (text, title, kind, event) =>
    lk.h(
      event >= 0 ? "button" : "span",
      {
        class: `lk-step-chip ${kind}`,
        title,
        "data-event": event,
        ...(event >= 0 ? { type: "button", on: { click: () => go(event) } } : {}),
      },
      text,
    );
  function row(place, depth) {
    const call = record.calls[place];
    const hops = call.hops.map(({ slot, kernel, seen, event }) =>
      chip(
        seen && slot === "PrivateUse1" ? kernel.split(",")[0].replace(/^\w+::/, "") : slot,
        seen ? kernel : `by the operator's table, not seen: ${kernel}`,
        seen ? "lk-seen" : "lk-inferred",
        event,
      ),
    );
    const kernels = call.launches.map((i) => {
      const { name, queued } = record.launches[i];
      return chip(`▸ ${name}`, `${name}: queued here`, "lk-step-kernel", queued);
    });
    const name = lk.h(
      "button",
      { type: "button", class: "lk-step-call", on: { click: () => go(call.begin) } },
      call.operator,
    );
    const line = lk.h(
      "div",
      { class: "lk-step-row", style: `padding-left:${6 + 16 * depth}px` },
      name,
      ...hops,
      ...kernels,
    );
    rows.set(place, line);
    return [line, ...call.inner.flatMap((inner) => row(inner, depth + 1))];
  }

  function rebuild(top) {
    shown = top;
    rows = new Map();
    const nothing = "no operator runs at this event";
    const lines = top < 0 ? [lk.h("div", { class: "lk-muted lk-step-row" }, nothing)] : row(top, 0);
    body.replaceChildren(...lines);
  }
  function show(focus) {
    if (focus.top !== shown) rebuild(focus.top);
    const { event } = focus;
    for (const [place, line] of rows) {
      line.classList.toggle("lk-step-ahead", record.calls[place].begin > event);
      line.classList.toggle("lk-step-now", place === focus.call);
    }
    for (const node of body.querySelectorAll(".lk-step-chip")) {
      const at = Number(node.dataset.event);
      node.classList.toggle("lk-step-ahead", at > event);
      node.classList.toggle("lk-chosen", at === (focus.launch?.queued ?? event));
    }
    const own = rows.get(focus.call);
    if (own) reveal(body, own);
  }
  return {
    element: body,
    show,
    spots(focus) {
      const own = rows.get(focus.call);
      if (!own || !inView(body, own)) return [];
      // What has happened of the call last: its kernel, a hop, or that it was called.
      const done = [...own.children].filter((n) => !n.classList.contains("lk-step-ahead"));
      return [own.firstChild, body.querySelector(".lk-chosen") ?? done.at(-1)];
    },
  };
}
