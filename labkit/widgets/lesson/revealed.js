// One line that follows a prediction: its verdict, or "answer above first" with the answer folded.
// Until then it keeps back what the cells between the question and itself have put out, and the
// text that follows it, which draws the conclusion.
function between(el, question) {
  const cells = [];
  let cell = el.closest(".jp-Cell, .cell")?.previousElementSibling;
  for (; cell; cell = cell.previousElementSibling) {
    const roots = [...cell.querySelectorAll(".lk[aria-label]")];
    const names = roots.map((root) => root.getAttribute("aria-label"));
    if (names.includes(`question: ${question}`)) return cells;
    if (names.some((name) => /^(question:|exercise) /.test(name))) return null; // work of its own
    cells.push(cell);
  }
  return null; // the question is not above: nothing waits for it
}
async function render({ model, el }) {
  const root = lk.root(el, "what became of the prediction");
  let asked;
  try {
    asked = await model.widget_manager.get_model(model.get("prediction"));
  } catch {
    root.append("Run the question above first.");
    return lk.drew(root);
  }
  const show = lk.button("show me", "show the answer without a choice", () => {
    asked.set("choice", "");
    asked.set("shown", true);
    asked.save_changes();
  });
  const line = lk.h("span", {});
  root.append(lk.h("div", { class: "lk-row" }, line, show));
  let told = false; // what was seen once is not taken away by "try again"
  let kept = [];
  function keepBack() {
    const waiting = told ? null : between(el, asked.get("question"));
    kept.forEach((cell) => cell.classList.remove("lk-kept"));
    kept = waiting ?? [];
    kept.forEach((cell) => cell.classList.add("lk-kept"));
    root.classList.toggle("lk-asks", waiting !== null);
  }
  const attached = new ResizeObserver(keepBack); // it has its place in the page only later
  attached.observe(root);
  function draw() {
    const state = answers.state(asked);
    if (state.sign) line.replaceChildren(...answers.sentence(state));
    else line.textContent = "Answer above first.";
    show.hidden = state.kind === "right" || state.kind === "shown";
    root.dataset.verdict = state.kind;
    told ||= state.kind !== "open";
    keepBack();
    lk.drew(root);
  }
  const changes = "change:choice change:sealed change:shown";
  asked.on(changes, draw);
  draw();
  return () => {
    attached.disconnect();
    asked.off(changes, draw);
    told = true;
    keepBack();
  };
}
export default { render };
