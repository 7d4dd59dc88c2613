// One cell: what it holds and why, and the rules that were asked about it, step by step.
//
// Rules 4 and 10 fill nothing, which leaves a colour for each of the others.
const ruleColour = (rule) => lk.palette[[1, 2, 3, 5, 6, 7, 8, 9].indexOf(Number(rule))] || "none";

function dispatchRules({ model, root, save }) {
  const { h } = lk,
    table = () => model.get("table"),
    text = (i) => table().texts[i],
    small = model.get("shown").length > 0;
  const details = h("div", { "aria-live": "polite" }),
    rules = h("div", {});
  let stepper = null;
  const pair = (name, value) =>
    h(
      "div",
      {},
      h("span", { class: "lk-muted" }, `${name} `),
      h("span", { class: "lk-mono" }, value),
    );
  function drawDetails() {
    const { cells, side, stale } = table(),
      cell = cells[model.get("cell")],
      kernel = text(cell.kernel);
    const origin = text(cell.source),
      recomputed = "PyTorch shows only the recomputed table";
    details.replaceChildren(
      h("b", { class: "lk-mono" }, cell.slot),
      h("span", { class: "lk-muted" }, small ? "" : ` slot ${model.get("cell")}`),
      pair(small ? "kernel" : "canonical", kernel || "nothing"),
      pair(
        "reason",
        [
          `${text(cell.reason)}, step ${cell.rule}`,
          origin ? `, registered for ${origin}` : "",
          cell.fallthrough ? "; falls through: its key is skipped" : "",
        ].join(""),
      ),
      small && cell.stored === null
        ? ""
        : cell.stored === null
          ? pair(
              "stored",
              stale
                ? `${recomputed}; its check says that the stored one differs`
                : recomputed +
                    (side === "labkit" ? "" : "; its check says that the stored one agrees"),
            )
          : h(
              "div",
              { class: cell.stale ? "lk-alert" : "" },
              pair(
                "stored",
                cell.stale
                  ? `${text(cell.stored) || "nothing"}: stale, and this is what a call runs`
                  : "the same",
              ),
            ),
    );
    stepper?.stop();
    const steps = cell.asked.length,
      at = Math.min(model.get("rule"), steps - 1);
    stepper = lk.stepper({
      count: steps,
      index: at,
      label: "step",
      change: (i) => save({ rule: i }),
      text: (i) =>
        i === steps - 1
          ? `step ${cell.rule} decides`
          : i === 3
            ? "a question for step 6"
            : "does not apply, on to the next",
    });
    rules.replaceChildren(stepper.element, h("ol", { class: "lk-rule-list" }));
    drawRules(at);
  }
  function drawRules(at) {
    const cell = table().cells[model.get("cell")];
    rules.querySelector("ol").replaceChildren(
      ...Object.entries(table().rules).map(([number, question], i) => {
        const state =
          i > at
            ? i >= cell.asked.length
              ? "never"
              : "later"
            : i === cell.asked.length - 1
              ? "decides"
              : number === "4"
                ? "question"
                : "asked";
        return h(
          "li",
          { class: `lk-rule-${state}`, "data-state": state },
          h("span", { class: "lk-number" }, number),
          h("span", { class: "lk-swatch", style: `background:${ruleColour(number)}` }),
          h("span", {}, i < cell.asked.length && i <= at ? text(cell.asked[i]) : question),
        );
      }),
    );
    lk.drew(root);
  }
  const followRule = () => {
    if (!stepper) return;
    const at = Math.min(model.get("rule"), table().cells[model.get("cell")].asked.length - 1);
    stepper.set(at);
    drawRules(at);
  };
  model.on("change:rule", followRule);
  return {
    element: h("div", { class: "lk-cells-side" }, details, rules),
    draw: drawDetails,
    stop: () => {
      stepper?.stop();
      model.off("change:rule", followRule);
    },
  };
}
