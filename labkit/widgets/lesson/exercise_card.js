// One exercise: statement, rules, the failing cases one by one, earned hints, solution after the
// gate.
function render({ model, el }) {
  const root = lk.root(el, `exercise ${model.get("exercise")}`);
  let attempts = null; // every kept attempt, once Python has sent them; the state holds the last
  let frame = 0,
    timer = null,
    note = "";
  const frames = () =>
    (
      attempts ?? [
        { seed: model.get("seed"), failures: model.get("failures"), number: model.get("attempts") },
      ]
    ).flatMap((attempt) =>
      attempt.failures.map((rows, index) => ({
        ...attempt,
        rows,
        index,
        of: attempt.failures.length,
      })),
    );

  function ask(question) {
    note = "";
    clearTimeout(timer);
    timer = setTimeout(() => {
      note = "No kernel answers: run the notebook's cells first.";
      draw();
    }, 3000);
    model.send({ ask: question });
  }
  const list = (title, items) =>
    items.length > 0 &&
    lk.h(
      "div",
      {},
      lk.h("b", {}, title),
      lk.h("ul", {}, ...items.map((item) => lk.h("li", {}, prose.blocks(item)))),
    );

  function evidence() {
    const all = frames();
    if (!all.length)
      return lk.h(
        "p",
        {},
        model.get("status") === "passed"
          ? "Passed."
          : [
              lk.h("b", {}, "Your turn."),
              model.get("stages").length
                ? " The stages marked · are still open: write them in the cell above, " +
                  "then run this cell again."
                : " Write the stub above, then run this cell again.",
            ],
      );
    frame = Math.min(frame, all.length - 1);
    const table = lk.h("table", { class: "lk-evidence" });
    const show = (index) => {
      frame = index;
      const { rows } = all[index];
      table.replaceChildren(
        ...rows.map(([name, text]) =>
          lk.h(
            "tr",
            {},
            lk.h("th", { scope: "row" }, name),
            lk.h("td", { class: `lk-mono${name === "got" ? " lk-alert" : ""}` }, text),
          ),
        ),
      );
      lk.drew(root);
    };
    const words = (index) => {
      const at = all[index];
      return (
        `attempt ${at.number}, seed ${at.seed}: ` +
        `failing case ${at.index + 1} of ${at.of} kept, smallest first`
      );
    };
    const stepper = lk.stepper({
      count: all.length,
      index: frame,
      label: "case",
      text: words,
      change: (index) => {
        stepper.set(index);
        show(index);
      },
    });
    show(frame);
    return lk.h("div", {}, stepper.element, table);
  }

  const STATES = { done: ["✓", "done"], wrong: ["✗", "wrong"], open: ["·", "open"] };
  const stages = () =>
    model.get("stages").length > 0 &&
    lk.h(
      "ul",
      { class: "lk-stages", "aria-label": "stages" },
      ...model
        .get("stages")
        .map(([name, state]) =>
          lk.h(
            "li",
            { class: `lk-stage-${state}`, title: STATES[state][1] },
            `${name} `,
            lk.h("span", { "aria-hidden": "true" }, STATES[state][0]),
            lk.h("span", { class: "lk-hidden" }, STATES[state][1]),
          ),
        ),
    );

  function draw() {
    const status = model.get("status"),
      solution = model.get("solution");
    const focused =
      root.contains(document.activeElement) && document.activeElement.getAttribute("aria-label");
    const left = model.get("hints_left");
    const buttons = lk.h(
      "div",
      { class: "lk-row" },
      ...[
        model.get("attempts") > 1 &&
          !attempts &&
          lk.button("all attempts", "step through every kept attempt", () => ask("attempts")),
        !solution &&
          status !== "passed" &&
          lk.button("show the solution", "give up and show the solution", () => ask("give up")),
        lk.h(
          "span",
          { class: "lk-muted" },
          note ||
            (left
              ? `${left} hint${left > 1 ? "s" : ""} still locked: ` +
                "a new attempt that fails earns the one that fits it"
              : ""),
        ),
      ].filter(Boolean),
    );
    const parts = [
      lk.h(
        "div",
        { class: "lk-row" },
        lk.h("b", {}, model.get("exercise")),
        lk.h("span", { class: `lk-status lk-status-${status.replace(" ", "-")}` }, status),
        lk.h("span", { class: "lk-muted" }, model.get("about")),
      ),
      stages(),
      list("Rules", model.get("rules")),
      lk.h(
        "details", // it stands above the answer's cell, too
        { class: "lk-task", open: root.querySelector(".lk-task")?.open },
        lk.focusable(lk.h("summary", {}, "The task")),
        prose.blocks(model.get("statement")),
      ),
      evidence(),
      list("Hints", model.get("hints")),
      solution &&
        lk.focusable(
          lk.h(
            "details",
            {},
            lk.focusable(lk.h("summary", {}, "Solution")),
            lk.h("pre", { class: "lk-mono" }, solution),
            prose.blocks(model.get("reason")),
          ),
        ),
      buttons,
    ];
    root.replaceChildren(...parts.filter(Boolean));
    if (focused)
      [...root.querySelectorAll("[aria-label]")]
        .find((node) => node.getAttribute("aria-label") === focused)
        ?.focus();
    lk.drew(root);
  }

  const receive = (message) => {
    if (!message.attempts) return;
    clearTimeout(timer);
    attempts = message.attempts;
    draw();
  };
  const changed = () => {
    clearTimeout(timer);
    draw();
  };
  model.on("msg:custom", receive);
  model.on("change", changed);
  draw();
  const stop = lk.announce(root);
  return () => {
    stop();
    clearTimeout(timer);
    model.off("msg:custom", receive);
    model.off("change", changed);
  };
}
export default { render };
