// The findings, and a schedule that proves a race played back: who touched the word, in what order.
function kernelRace({ model, run, save }) {
  const { h } = lk,
    element = h("div", { class: "lk-k-page" });
  const list = h("div", { class: "lk-k-findings" }),
    play = h("div");
  element.append(list, play);
  let stepper = null,
    listed = "",
    order = [],
    panel = null;
  const finding = () => run().findings[Math.min(model.get("finding"), run().findings.length - 1)];
  const shownPlay = () =>
    run().plays.find((one) => one.finding === model.get("finding")) ||
    run().plays.find((one) => one.finding < 0);
  const simple = model.get("simple");
  const index = (values) =>
    simple && values.slice(1).every((n) => n === 0) ? values[0] : `(${values.join(", ")})`;

  function drawList() {
    const { findings, plays } = run();
    list.replaceChildren(
      ...(findings.length
        ? findings.map((one, i) =>
            h(
              "div",
              { class: `lk-k-finding${i === model.get("finding") ? " lk-k-open" : ""}` },
              lk.button(
                h(
                  "span",
                  {},
                  h("b", { class: "lk-alert" }, one.kind),
                  ` line ${one.line}` +
                    (one.other_line && one.other_line !== one.line ? `, ${one.other_line}` : ""),
                  one.count > 1 ? ` · ${one.count.toLocaleString("en")} times` : "",
                  plays.some((one) => one.finding === i) ? " · ▶ can be played back" : "",
                ),
                `finding: ${one.kind} at line ${one.line}`,
                () =>
                  save({
                    finding: i,
                    step: 0,
                    word: plays.find((p) => p.finding === i)?.follow ?? -1,
                  }),
                { "aria-pressed": String(i === model.get("finding")) },
              ),
              i === model.get("finding") ? h("div", { class: "lk-k-message" }, one.message) : null,
            ),
          )
        : [h("p", { class: "lk-muted" }, "no findings: nothing raced, nothing was out of bounds")]),
    );
  }

  // ---- the schedule ----------------------------------------------------------------------------
  const steps = () =>
    shownPlay()
      .steps.map((step, n) => [step, n])
      .filter(([step]) => model.get("word") < 0 || step.word === model.get("word"));
  const did = { read: "reads", write: "writes", atomic: "updates" };
  function sentence(step, of) {
    const fresh = step.before === "never written";
    const value =
      step.access === "read"
        ? ` and sees ${fresh ? "what nobody has written" : step.before}`
        : fresh
          ? `: its first value is ${step.after}`
          : `: ${step.before} becomes ${step.after}`;
    const block = run().grid.every((n) => n === 1) ? "" : ` of block ${index(step.block)}`;
    const stale = step.stale ? ", what was there before another block wrote" : "";
    const what = `${did[step.access]} ${of.words[step.word]} at line ${step.line}`;
    return `thread ${index(step.thread)}${block} ${what}${value}${stale}`;
  }
  const linear = ([x, y, z], [sx, sy]) => x + sx * (y + sy * z);
  // A row of 32 cells per warp that takes part: what each lane has done so far.
  function board(of) {
    const now = run(),
      warps = new Map();
    for (const step of of.steps) {
      const thread = linear(step.thread, now.block),
        key = `${linear(step.block, now.grid)}/${Math.floor(thread / 32)}`;
      if (!warps.has(key))
        warps.set(key, { block: step.block, warp: Math.floor(thread / 32), cells: [] });
    }
    const kept = [...warps.entries()]
      .sort(([a], [b]) => a.localeCompare(b, "en", { numeric: true }))
      .slice(0, 8);
    for (const [, warp] of kept)
      warp.cells = Array.from({ length: 32 }, (_, lane) =>
        h("span", { class: "lk-k-seat", "data-seat": lane }),
      );
    const body = kept.map(([, warp]) =>
      h(
        "div",
        { class: "lk-k-warp" },
        h(
          "span",
          { class: "lk-k-seat-name lk-muted" },
          `block ${index(warp.block)} warp ${warp.warp}`,
        ),
        ...warp.cells,
      ),
    );
    const seat = (step) => {
      const thread = linear(step.thread, now.block);
      const warp = warps.get(`${linear(step.block, now.grid)}/${Math.floor(thread / 32)}`);
      return warp.cells[thread % 32];
    };
    return {
      element: h("div", { class: "lk-k-board" }, ...body),
      seat,
      cells: kept.flatMap(([, warp]) => warp.cells),
    };
  }
  // No schedule was given: which function finds one, ready to be copied.
  function search() {
    const { grid, block, kernel } = run();
    const lines = [
      "from labkit.cuda.witness import find_witness",
      `race = report.findings[${Math.min(model.get("finding"), run().findings.length - 1)}]`,
      `witness = find_witness(kernel, ${index(grid)}, ${index(block)}, args, race)`,
      "show.kernel(report, witness=witness)",
    ].join("\n");
    return [
      h(
        "p",
        {},
        "A race goes wrong only in some orders. The race finder, ",
        h("code", {}, "find_witness"),
        ", searches for one, to play back. Below, ",
        h("code", {}, "kernel"),
        ` is the function ${kernel} as you launched it, `,
        h("code", {}, "args"),
        " are its arguments, and ",
        h("code", {}, "report"),
        " is what it returned.",
      ),
      h("pre", { class: "lk-mono lk-k-search" }, lines),
      lk.copyButton("copy", "copy the lines that search for a schedule", () => lines),
    ];
  }
  function restart() {
    const of = shownPlay();
    if (stepper) stepper.stop();
    stepper = panel = null;
    if (!of) {
      play.replaceChildren(...(finding()?.kind === "race" ? search() : []));
      return;
    }
    order = steps();
    const touched = [...new Set(of.steps.map((step) => step.word))];
    const picker = lk.focusable(
      h(
        "select",
        {
          "aria-label": "word followed",
          on: { change: () => save({ word: Number(picker.value), step: 0 }) },
        },
        h("option", { value: -1, selected: model.get("word") < 0 }, "every word that races"),
        ...touched.map((word) =>
          h("option", { value: word, selected: word === model.get("word") }, of.words[word]),
        ),
      ),
    );
    const start = Math.min(model.get("step"), order.length - 1);
    stepper = lk.stepper({
      count: order.length,
      index: start,
      label: "access",
      text: (i) => sentence(order[i][0], of),
      change: (i) => save({ step: i }),
    });
    panel = {
      of,
      board: board(of),
      word: h("div", { class: "lk-k-word lk-mono" }),
      rows: h("ol", { class: "lk-k-steps lk-mono" }),
      result: h("div", { class: "lk-k-result" }),
    };
    play.replaceChildren(
      h(
        "div",
        { class: "lk-row lk-k-play" },
        h("b", {}, simple ? "one order of the threads, played back" : `played back: ${of.title}`),
        h("label", {}, "follow ", picker),
      ),
      stepper.element,
      panel.board.element,
      panel.word,
      panel.rows,
      panel.result,
    );
  }
  function drawPlay() {
    const at = Math.min(model.get("step"), order.length - 1);
    if (stepper.index !== at) stepper.set(at);
    const { of, board: seats } = panel,
      [now] = order[at];
    for (const cell of seats.cells) {
      cell.textContent = "";
      cell.className = "lk-k-seat";
    }
    order.slice(0, at + 1).forEach(([step]) => {
      const cell = seats.seat(step);
      if (!cell) return;
      const letter = { read: "r", write: "w", atomic: "a" }[step.access];
      cell.textContent =
        cell.textContent === letter ? letter : (cell.textContent + letter).slice(-2);
      cell.classList.add("lk-k-done");
      if (step.stale) cell.classList.add("lk-k-stale");
    });
    seats.seat(now)?.classList.add("lk-k-current");
    panel.word.replaceChildren(
      h("span", { class: "lk-muted" }, `${of.words[now.word]}: `),
      now.access === "read" && !now.stale
        ? h("b", {}, now.after)
        : h("span", {}, h("span", { class: "lk-old" }, now.before), " → ", h("b", {}, now.after)),
    );
    const from = Math.max(0, Math.min(at - 3, order.length - 7));
    panel.rows.replaceChildren(
      ...order.slice(from, from + 7).map(([step], i) =>
        h(
          "li",
          {
            class: from + i === at ? "lk-k-now" : from + i > at ? "lk-k-later" : "",
            value: from + i + 1,
          },
          sentence(step, of),
        ),
      ),
    );
    const last = at === order.length - 1;
    panel.result.textContent = last ? of.result : "";
    panel.result.classList.toggle("lk-alert", last);
  }
  function draw() {
    drawList();
    const key = [model.get("run"), model.get("finding"), model.get("word")].join();
    if (key !== listed) restart();
    listed = key;
    if (panel) drawPlay();
  }
  function lines() {
    if (panel && order.length)
      return [order[Math.min(model.get("step"), order.length - 1)][0].line];
    const one = finding();
    return one && one.file === run().file ? [one.line, one.other_line].filter(Boolean) : [];
  }
  return { element, draw, lines, stop: () => stepper?.stop(), restart: () => (listed = "") };
}
