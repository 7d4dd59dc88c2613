// The requests page: a stepper over the kept requests of the chosen line and warp, and one drawing.
function kernelRequests({ model, run, columns, save, accessTable }) {
  const { h } = lk,
    element = h("div", { class: "lk-k-page" });
  const steps = h("div"),
    filters = h("div", { class: "lk-row" }),
    cost = h("div", { class: "lk-k-cost", "aria-live": "polite" }),
    words = h("div", { class: "lk-mono lk-k-words", "aria-live": "polite" }),
    table = h("div");
  const drawing = kernelDrawing.pane((lane) => save({ lane }));
  element.append(filters, steps, cost, drawing.element, words, table);
  let stepper = null,
    listed = "",
    list = [];

  const column = (name) => columns()[`${model.get("run")}.${name}`];
  const who = (n) => {
    const block = column("block");
    return `${block[3 * n]},${block[3 * n + 1]},${block[3 * n + 2]}/${column("warp")[n]}`;
  };
  const named = (key) => {
    const [block, warp] = key.split("/");
    return `block (${block.replaceAll(",", ", ")}), warp ${warp}`;
  };
  const access = (n) => run().accesses[column("access")[n]];
  const all = () => Array.from(column("access"), (_, n) => n);
  function chosen() {
    const place = model.get("place"),
      warp = model.get("warp");
    const of = all().filter((n) => place < 0 || access(n).place === place);
    const both = of.filter((n) => !warp || who(n) === warp);
    return { of, shown: both.length ? both : of };
  }
  function request(n) {
    const { size, space } = access(n),
      mask = column("mask")[n],
      phase = column("phase")[n],
      offset = column("offset");
    const lanes = Array.from({ length: 32 }, (_, lane) =>
      (mask >>> lane) & 1 ? offset[32 * n + lane] + phase : null,
    );
    return { lanes, size, shared: space === "shared", phase };
  }
  // The thread that is a lane of a warp.
  function thread(n, lane) {
    const [x, y, z] = run().block,
      linear = column("warp")[n] * 32 + lane;
    return linear < x * y * z
      ? `thread (${linear % x}, ${Math.floor(linear / x) % y}, ${Math.floor(linear / x / y)})`
      : "no thread";
  }
  const verb = { read: "read", write: "write", atomic: "update" };
  function sentence(n) {
    const one = access(n),
      lanes = kernelMemory.taking(request(n).lanes).length;
    return (
      `line ${one.line}, ${named(who(n))}: ${lanes} lane${lanes === 1 ? "" : "s"} ` +
      `${verb[one.access]} ${one.size} bytes each of ${one.array || "memory"}`
    );
  }
  function restart() {
    const { of, shown } = chosen();
    list = shown;
    if (stepper) stepper.stop();
    const warps = [...new Set(of.map(who))];
    const picker = lk.focusable(
      h(
        "select",
        { "aria-label": "warp", on: { change: () => save({ warp: picker.value }) } },
        h("option", { value: "" }, "every warp kept"),
        ...warps.map((key) =>
          h("option", { value: key, selected: key === model.get("warp") }, named(key)),
        ),
      ),
    );
    const place = run().places[model.get("place")];
    filters.replaceChildren(
      ...[
        place
          ? lk.button(
              `only line ${place[1]}` +
                (place[0] === run().file ? "" : ` of ${place[0].split("/").at(-1)}`) +
                " ✕",
              "step the requests of all lines",
              () => save({ place: -1 }),
            )
          : h("span", { class: "lk-muted" }, "all lines, in the order they ran"),
        warps.length > 1 && picker,
      ].filter(Boolean),
    );
    if (!list.length) {
      steps.replaceChildren(h("p", { class: "lk-muted" }, "no request was kept here"));
      stepper = null;
      return;
    }
    stepper = lk.stepper({
      count: list.length,
      index: Math.max(0, list.indexOf(model.get("frame"))),
      label: "request",
      text: (i) => sentence(list[i]),
      change: (i) => save({ frame: list[i] }),
    });
    steps.replaceChildren(stepper.element);
  }
  const now = () => (list.includes(model.get("frame")) ? model.get("frame") : list[0]);

  function draw() {
    const key = [model.get("run"), model.get("place"), model.get("warp")].join();
    if (key !== listed) restart();
    listed = key;
    const n = now();
    if (n === undefined) {
      for (const node of [cost, drawing.element, words, table]) node.replaceChildren();
      return;
    }
    if (stepper.index !== list.indexOf(n)) stepper.set(list.indexOf(n));
    const asked = request(n),
      { taken, best, words: price } = kernelDrawing.cost(asked);
    cost.replaceChildren(h("b", { class: taken > best ? "lk-alert" : "" }, price));
    if (!asked.shared) {
      const used = kernelMemory.units(
        asked.lanes.filter((at) => at !== null),
        asked.size,
        1,
      ).length;
      cost.append(
        ` · ${32 * taken} bytes move, ${used} were asked for ` +
          `(${Math.round((100 * used) / (32 * taken))}%)`,
      );
    }
    drawing.show(asked, model.get("lane"), sentence(n));
    const lane = model.get("lane");
    words.textContent =
      kernelDrawing.laneWords(asked, lane, access(n).array) + ` · ${thread(n, lane)}`;
    table.replaceChildren(
      accessTable(run().accesses.filter((one) => one.place === access(n).place)),
    );
  }
  const line = () => {
    const n = now();
    return n === undefined || access(n).file !== run().file ? [] : [access(n).line];
  };
  return { element, draw, line, stop: () => stepper?.stop(), restart: () => (listed = "") };
}
