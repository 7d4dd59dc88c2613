// A warp whose lane i asks for element offset + i * stride: what would it cost?
function kernelWhatIf({ model, save }) {
  const { h } = lk,
    FAR = 1 << 20; // keeps addresses positive
  const formula = h("div", { class: "lk-mono lk-k-words" }),
    cost = h("div", { class: "lk-k-cost", "aria-live": "polite" }),
    words = h("div", { class: "lk-mono lk-k-words", "aria-live": "polite" });
  const drawing = kernelDrawing.pane((lane) => save({ lane }));
  const put = (name) => (value) => save({ what_if: { ...model.get("what_if"), [name]: value } });
  const picker = (label, name, options) => {
    const take = put(name);
    const input = lk.focusable(
      h(
        "select",
        { "aria-label": label, on: { change: () => take(JSON.parse(input.value)) } },
        ...options.map(([value, text]) => h("option", { value: JSON.stringify(value) }, text)),
      ),
    );
    return {
      name,
      input,
      label: h("label", {}, `${label} `, input),
      set: (value) => (input.value = JSON.stringify(value)),
    };
  };
  const slider = (label, name, min, max) => {
    const take = put(name),
      shown = h("span", { class: "lk-mono lk-k-value" });
    const input = lk.focusable(
      h("input", {
        type: "range",
        min,
        max,
        "aria-label": label,
        on: { input: () => take(Number(input.value)) },
      }),
    );
    return {
      name,
      label: h("label", { class: "lk-row" }, `${label} `, input, shown),
      set: (value) => {
        input.value = value;
        shown.textContent = value;
      },
    };
  };
  const controls = [
    picker("memory", "space", [
      ["global", "global: sectors"],
      ["shared", "shared: banks"],
    ]),
    picker(
      "bytes per lane",
      "size",
      [1, 2, 4, 8, 16].map((size) => [size, size]),
    ),
    slider("stride", "stride", -33, 33),
    slider("offset", "offset", 0, 31),
  ];
  const element = h(
    "div",
    { class: "lk-k-page" },
    h("div", { class: "lk-row" }, ...controls.map(({ label }) => label)),
    formula,
    cost,
    drawing.element,
    words,
  );
  function draw() {
    const now = model.get("what_if"),
      { space, size, stride, offset } = now;
    for (const control of controls) control.set(now[control.name]);
    const lanes = Array.from({ length: 32 }, (_, lane) => FAR + (offset + lane * stride) * size);
    const request = { lanes, size, shared: space === "shared", phase: FAR };
    const { taken, best, words: price } = kernelDrawing.cost(request);
    const asked = `${offset} ${stride < 0 ? "−" : "+"} ${Math.abs(stride)}·i`;
    formula.textContent = `lane i asks for element ${asked}, at byte (${asked})·${size}`;
    cost.replaceChildren(h("b", { class: taken > best ? "lk-alert" : "" }, price));
    drawing.show(request, model.get("lane"), formula.textContent);
    words.textContent = kernelDrawing.laneWords(request, model.get("lane"), "array");
    element.dataset.cost = taken;
  }
  return { element, draw };
}
