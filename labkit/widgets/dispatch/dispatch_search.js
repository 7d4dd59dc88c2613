// All operators by part of their name; Python answers.
const ANSWER_MILLISECONDS = 3000,
  ANSWERS_SHOWN = 12;

function dispatchSearch({ model, save }) {
  const { h } = lk;
  const input = lk.focusable(
    h("input", {
      type: "search",
      placeholder: "search all operators",
      "aria-label": "search all operators",
    }),
  );
  const answer = h("div", { class: "lk-row lk-found", "aria-live": "polite" });
  const say = (words) => h("span", { class: "lk-muted" }, words);
  let waiting = null;
  function show() {
    const { query, names } = model.get("found");
    if (!input.value.trim() || query !== input.value.trim()) return;
    clearTimeout(waiting);
    const more = names.length - ANSWERS_SHOWN;
    answer.replaceChildren(
      ...names
        .slice(0, ANSWERS_SHOWN)
        .map((name) => lk.button(name, `show the table of ${name}`, () => save({ wanted: name }))),
      ...(names.length ? [] : [say("no operator is called that")]),
      ...(more > 0 ? [say(`and ${more} more`)] : []),
    );
  }
  input.addEventListener("input", () => {
    clearTimeout(waiting);
    const words = input.value.trim();
    if (!words) return answer.replaceChildren();
    waiting = setTimeout(
      () =>
        answer.replaceChildren(
          say("no answer: searching asks Python, so it needs a running kernel"),
        ),
      ANSWER_MILLISECONDS,
    );
    if (model.get("query") === words) show();
    else save({ query: words });
  });
  model.on("change:found", show);
  return {
    element: h("div", { class: "lk-row" }, input, answer),
    stop: () => {
      clearTimeout(waiting);
      model.off("change:found", show);
    },
  };
}
