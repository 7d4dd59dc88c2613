// One line that follows a prediction: its verdict, or "answer above first" with the answer folded.
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
  function draw() {
    const state = answers.state(asked);
    if (state.sign) line.replaceChildren(...answers.sentence(state));
    else line.textContent = "Answer above first.";
    show.hidden = state.kind === "right" || state.kind === "shown";
    root.dataset.verdict = state.kind;
    lk.drew(root);
  }
  const changes = "change:choice change:sealed change:shown";
  asked.on(changes, draw);
  draw();
  return () => asked.off(changes, draw);
}
export default { render };
