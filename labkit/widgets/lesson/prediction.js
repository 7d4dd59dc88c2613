// A question and its choices. Once the run is sealed in, every choice is judged in this box.
function render({ model, el }) {
  const root = lk.root(el, `question: ${model.get("question")}`);
  const choices = model.get("choices");
  const choose = (text) => {
    model.set("choice", text);
    model.save_changes();
  };
  const buttons = choices.map((text) => lk.button("", `predict ${text}`, () => choose(text)));
  const verdict = lk.h("p", { class: "lk-verdict", role: "status" });
  const again = lk.button("Try again", "take the prediction back", () => {
    choose("");
    buttons[0].focus();
  });
  root.append(
    lk.h("p", {}, lk.h("b", {}, "Predict: "), ...prose.words(model.get("question"))),
    lk.h("div", { class: "lk-row" }, ...buttons),
    verdict,
    again,
  );
  function draw() {
    const state = answers.state(model);
    choices.forEach((text, at) => {
      const picked = text === state.choice;
      const judged = picked && state.sign;
      const label = `predict ${text}${judged ? `: ${state.word}` : ""}`;
      buttons[at].replaceChildren(picked ? `${state.sign || "●"} ` : "", ...prose.words(text));
      buttons[at].setAttribute("aria-pressed", picked);
      buttons[at].setAttribute("aria-label", label);
    });
    if (state.kind === "waiting")
      verdict.textContent = state.choice && "Noted. Now run the cells below.";
    else verdict.replaceChildren(...(state.sign ? answers.sentence(state) : []));
    verdict.hidden = !verdict.textContent;
    again.hidden = state.kind !== "wrong";
    root.dataset.verdict = state.kind;
    lk.drew(root);
  }
  const changes = "change:choice change:sealed change:shown";
  model.on(changes, draw);
  draw();
  const stop = lk.announce(root);
  return () => {
    stop();
    model.off(changes, draw);
  };
}
export default { render };
