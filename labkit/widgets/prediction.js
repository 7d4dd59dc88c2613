// A question and its choices; picking one is the whole interaction, and it ends with the answer.
function render({ model, el }) {
  const root = lk.root(el, `prediction: ${model.get("question")}`);
  const buttons = model.get("choices").map((text) => lk.button(text, `predict ${text}`, () => {
    if (model.get("locked")) return;
    model.set("choice", text);
    model.save_changes();
  }));
  root.append(lk.h("p", {}, lk.h("b", {}, "Predict: "), model.get("question")), lk.h("div", { class: "lk-row" }, ...buttons));
  const draw = () => {
    model.get("choices").forEach((text, index) => {
      buttons[index].setAttribute("aria-pressed", text === model.get("choice"));
      buttons[index].setAttribute("aria-disabled", model.get("locked"));
    });
    lk.drew(root);
  };
  model.on("change:choice change:locked", draw);
  draw();
  return () => model.off("change:choice change:locked", draw);
}
export default { render };
