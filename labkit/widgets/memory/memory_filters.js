// The row of filters above the map, and what the timeline shows.
function memoryFilters(map) {
  const { ui, store, choice } = map,
    { meta } = map.trace;
  const again = () => map.go(map.now.k);
  const select = (label, key, options, after) =>
    lk.focusable(
      lk.h(
        "select",
        {
          "aria-label": label,
          on: {
            change: (event) => {
              ui[key] = event.target.value;
              after();
            },
          },
        },
        options.map(([value, text]) =>
          lk.h("option", { value, selected: String(ui[key]) === String(value) }, text),
        ),
      ),
    );
  const refilter = () => {
    choice.chooseShown();
    memorySaid.legends(map);
    again();
  };
  const input = (label, attributes, change) =>
    lk.focusable(
      lk.h("input", { "aria-label": label, title: label, ...attributes, on: { change } }),
    );
  map.filters.replaceChildren(
    meta.streams.length > 1
      ? select(
          "stream",
          "stream",
          [["", "every stream"], ...meta.streams.map((s) => [s, `stream ${s}`])],
          refilter,
        )
      : "",
    meta.pools.length > 1
      ? select(
          "pool",
          "pool",
          [["", "every pool"], ...meta.pools.map((p) => [String(p), poolName(p)])],
          refilter,
        )
      : "",
    lk.h(
      "label",
      {},
      "at least ",
      input(
        "smallest request shown, KiB",
        { type: "number", min: 0, value: ui.least / 1024 },
        (event) => {
          ui.least = Math.max(0, Number(event.target.value) || 0) * 1024;
          refilter();
        },
      ),
      " KiB",
    ),
    input(
      "search in stacks",
      { type: "search", placeholder: "file, line or function", value: ui.text },
      (event) => {
        ui.text = event.target.value;
        refilter();
      },
    ),
    lk.button("‹ match", "earlier alloc that matches", () => map.nextMatch(-1)),
    lk.button("match ›", "next alloc that matches", () => map.nextMatch(1)),
    lk.h(
      "label",
      {},
      "colour by ",
      select(
        "colour by",
        "colour",
        [
          ["stack", "line of code"],
          ["phase", "phase"],
          ["size", "size"],
          ["stream", "stream"],
          ["pool", "pool"],
        ],
        () => {
          choice.chooseColours();
          memorySaid.legends(map);
          again();
        },
      ),
    ),
    lk.button("+", "zoom the timeline in", () => map.zoomBy(0.5)),
    lk.button("−", "zoom the timeline out", () => map.zoomBy(2)),
    lk.button("whole", "show the whole timeline", () => {
      ui.view = [0, map.trace.n];
      again();
    }),
    store.traces.length > 1
      ? lk.h(
          "label",
          {},
          "at equal ",
          select(
            "compare at equal",
            "align",
            [
              ["entry", "entry numbers"],
              ["request", "request numbers"],
            ],
            again,
          ),
        )
      : "",
  );
}
