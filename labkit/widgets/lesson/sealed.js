// What became of a prediction, the same words in the question's box and under the run.
const answers = {
  open(sealed) {
    if (!sealed) return null;
    const bytes = Uint8Array.from(atob(sealed), (letter) => letter.charCodeAt(0));
    return JSON.parse(new TextDecoder().decode(bytes));
  },
  // One of "waiting" (no run yet), "open" (no choice yet), "shown", "right", "wrong".
  state(model) {
    const answer = answers.open(model.get("sealed"));
    const choice = model.get("choice");
    const told = (kind, sign, word, text) => ({ kind, sign, word, text, choice, answer });
    if (!answer) return told("waiting", "", "", "");
    const reason = answer.reasons[choice || answer.actual] ?? "";
    if (!choice)
      return model.get("shown")
        ? told("shown", "→", `The answer: ${answer.actual}.`, reason)
        : told("open", "", "", "");
    return choice === answer.actual
      ? told("right", "✓", "Right.", reason)
      : told("wrong", "✗", "Not right.", reason);
  },
  sentence: ({ kind, sign, word, text }) => [
    lk.h("span", { "aria-hidden": "true" }, `${sign} `),
    lk.h("b", { class: `lk-verdict-${kind}` }, ...prose.words(word)),
    " ",
    ...prose.words(text),
  ],
};
