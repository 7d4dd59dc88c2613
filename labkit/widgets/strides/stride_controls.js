// The inputs of one view: which dimensions the grid shows, and the what-if editor.
// Both give { element, show(view) }; they change nothing themselves but call back.
const strideControls = (() => {
  // An input keeps what is being typed: it is set only when it says something else.
  const set = (input, value) => {
    const empty = input.value === "";
    if (empty ? input !== document.activeElement : Number(input.value) !== value)
      input.value = value;
  };
  const whole = (input) => (input.value === "" ? NaN : Math.trunc(Number(input.value)));

  // axes([down, across]); fix(dim, index) for the dimensions that stand still.
  function planes(n, rank, { axes, fix }) {
    let now = null;
    const choice = (label, at) => {
      const change = ({ target }) => {
        const next = [now.rows, now.cols],
          chosen = Number(target.value);
        if (next[1 - at] === chosen) next[1 - at] = next[at];
        next[at] = chosen;
        axes(next);
      };
      const options = Array.from({ length: rank }, (_, dim) =>
        lk.h("option", { value: dim }, `dim ${dim}`),
      );
      const given = {
        "aria-label": `${label} dimension`,
        "data-key": `${label} ${n}`,
        on: { change },
      };
      return lk.focusable(lk.h("select", given, options));
    };
    const fixed = Array.from({ length: rank }, (_, dim) => {
      const take = ({ target }) => {
        const index = whole(target);
        if (index >= 0 && index < now.sizes[dim]) fix(dim, index);
      };
      const given = {
        type: "number",
        min: 0,
        "aria-label": `index of dim ${dim}`,
        "data-key": `fix ${n} ${dim}`,
        on: { input: take },
      };
      const input = lk.focusable(lk.h("input", given));
      return { input, label: lk.h("label", {}, `dim ${dim} = `, input) };
    });
    const rows = choice("down", 0),
      cols = choice("across", 1);
    const labels = [lk.h("label", {}, "down ", rows), lk.h("label", {}, "across ", cols)];
    const element = lk.h(
      "div",
      { class: "lk-row sv-planes" },
      labels,
      fixed.map(({ label }) => label),
    );
    const show = (view, cursor) => {
      now = view;
      rows.value = view.rows;
      cols.value = view.cols;
      fixed.forEach(({ input, label }, dim) => {
        label.style.display = dim === view.rows || dim === view.cols ? "none" : "";
        input.max = Math.max(0, view.sizes[dim] - 1);
        set(input, cursor[dim]);
      });
    };
    return { element, show };
  }

  // edit({ sizes, strides, offset }); reset().
  function editor(n, rank, { edit, reset }) {
    let now = null;
    const change = (alter) => {
      const next = { sizes: [...now.sizes], strides: [...now.strides], offset: now.offset };
      alter(next);
      edit(next);
    };
    const field = (label, min, get, put) => {
      const take = ({ target }) => {
        const to = whole(target);
        if (Math.abs(to) < 2 ** 40 && (min === null || to >= min)) change((next) => put(next, to));
      };
      const input = (type) =>
        lk.focusable(
          lk.h("input", {
            type,
            min: type === "range" ? 0 : min,
            "aria-label": label,
            "data-key": `${label} ${type} ${n}`,
            on: { input: take },
          }),
        );
      const slider = input("range"),
        number = input("number");
      const row = lk.h("label", { class: "sv-field" }, lk.h("span", {}, label), slider, number);
      return { label, get, slider, number, row };
    };
    const size = (dim) =>
      field(
        `size ${dim}`,
        0,
        (view) => view.sizes[dim],
        (next, to) => {
          next.sizes[dim] = to;
        },
      );
    const stride = (dim) =>
      field(
        `stride ${dim}`,
        null,
        (view) => view.strides[dim],
        (next, to) => {
          next.strides[dim] = to;
        },
      );
    const offset = field(
      "offset",
      0,
      (view) => view.offset,
      (next, to) => {
        next.offset = to;
      },
    );
    const fields = [
      ...Array.from({ length: rank }, (_, dim) => [size(dim), stride(dim)]).flat(),
      offset,
    ];
    const add = () =>
      change((next) => {
        next.sizes.unshift(1);
        next.strides.unshift(0);
      });
    const remove = () =>
      change((next) => {
        next.sizes.shift();
        next.strides.shift();
      });
    const buttons = lk.h(
      "div",
      { class: "lk-row" },
      lk.button("+ dim", "add a dimension of size 1 in front", add),
      lk.button("− dim", "remove the first dimension", remove),
      lk.button("reset", "back to the tensor's own layout", reset, { "data-key": `reset ${n}` }),
    );
    const element = lk.h(
      "div",
      { class: "sv-editor" },
      fields.map(({ row }) => row),
      buttons,
    );
    const show = (view) => {
      now = view;
      for (const { label, get, slider, number } of fields) {
        const value = get(view);
        const most = label === "offset" ? view.fact.room - 1 : 2 * (get(view.original) ?? 0);
        slider.max = Math.max(8, most, value);
        set(slider, value);
        set(number, value);
      }
    };
    return { element, show };
  }

  return { planes, editor };
})();
