// One line that follows a prediction: its verdict, or "answer above first" with the answer folded.
// Until then it keeps back what the cells between the question and itself have put out, and what
// follows it: text and outputs, up to the next section, question or exercise's card.
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
function behind(el) {
  const cells = [];
  let cell = el.closest(".jp-Cell, .cell")?.nextElementSibling;
  for (; cell; cell = cell.nextElementSibling) {
    const isText = cell.matches(".jp-MarkdownCell, .text_cell");
    const section = isText && cell.querySelector("h1, h2");
    if (section && !/^(Exercise|Boss)/.test(section.textContent)) break; // its text repeats a rule
    if (cell.querySelector(".lk[aria-label^='question: '], .lk[aria-label^='exercise ']")) break;
    cells.push(cell);
  }
  return cells;
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
    const after = waiting ? behind(el) : [];
    kept.forEach((cell) => cell.classList.remove("lk-kept", "lk-kept-text"));
    kept = [...(waiting ?? []), ...after];
    kept.forEach((cell) => cell.classList.add("lk-kept"));
    after.forEach((cell) => cell.classList.add("lk-kept-text"));
  }
  const attached = new ResizeObserver(keepBack); // it has its place in the page only later
  attached.observe(root);
  document.addEventListener("lk-lesson", keepBack); // a question or an exercise came, or moved
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
    document.removeEventListener("lk-lesson", keepBack);
    asked.off(changes, draw);
    told = true;
    keepBack();
  };
}
export default { render };
