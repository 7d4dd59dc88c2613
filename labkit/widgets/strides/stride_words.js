// What a stride view says: the sum behind an address, and the facts of a layout.
const strideWords = (() => {
  const count = (number) => number.toLocaleString("en");
  const alert = (text) => lk.h("div", { class: "lk-alert" }, text);

  // offset + i·stride₀ + j·stride₁, with numbers, down to the byte.
  function worked(scene, view, { index, at }) {
    const { fact } = view;
    const inside = at >= fact.lowest && at < fact.room;
    const value = inside ? scene.valueOf(view, at) : "";
    const symbols = index.map(
      (_, dim) => ("ijklmn"[dim] ?? `i${dim}`) + "·stride" + ("₀₁₂₃₄₅₆₇₈₉"[dim] ?? dim),
    );
    const terms = index.map((i, dim) => `${i}·${view.strides[dim]}`);
    const bytes = `${view.base ? `${view.base} + ` : ""}${at} × ${view.itemsize} bytes = `;
    return [
      lk.h(
        "div",
        {},
        lk.h("b", {}, `${view.name}[${index.join(", ")}]`),
        value ? ` = ${value}` : "",
      ),
      lk.h("div", { class: "lk-muted" }, ["offset", ...symbols].join(" + ")),
      lk.h("div", {}, `${[view.offset, ...terms].join(" + ")} = `, lk.h("b", {}, `element ${at}`)),
      inside
        ? lk.h("div", {}, bytes, lk.h("b", {}, `byte ${view.base + at * view.itemsize}`))
        : alert(`outside: the storage holds elements ${fact.lowest} to ${fact.room - 1}`),
    ];
  }

  // The same for a first look: the number, and the place it lies at.
  function place(scene, view, { index, at }) {
    const name = lk.h("b", {}, `${view.name}[${index.join(", ")}]`);
    return [lk.h("div", {}, name, ` = ${scene.valueOf(view, at)}`, `, at place ${at}`)];
  }

  function warnings({ fact, strides, changed }) {
    const list = [];
    if (fact.outside && fact.ends[0] < fact.lowest) {
      list.push(alert(`Elements begin at ${fact.ends[0]}, before the storage does.`));
    } else if (fact.outside) {
      list.push(
        alert(
          `Elements reach ${fact.ends[1]}, the storage ends at ${fact.room - 1}: ` +
            "PyTorch refuses this view.",
        ),
      );
    }
    if (changed && strides.some((stride) => stride < 0)) {
      list.push(alert("PyTorch refuses negative strides; NumPy allows them."));
    }
    return list;
  }

  const judged = (marks) =>
    marks.map(({ index, right }) =>
      lk.h(
        "span",
        { class: right ? "sv-tag" : "sv-tag sv-tag-alert" },
        `${right ? "✓ expected" : "✗ wrong"} at [${index.join(", ")}]`,
      ),
    );

  function tags({ fact, names, sizes, strides }) {
    const tag = (text, bad) =>
      lk.h("span", { class: bad ? "sv-tag sv-tag-alert" : "sv-tag" }, text);
    const zero = strides.flatMap((stride, dim) => (stride === 0 && sizes[dim] > 1 ? [dim] : []));
    const list = [
      tag(fact.numel === 0 ? "no elements" : fact.contiguous ? "contiguous" : "not contiguous"),
    ];
    if (names.length > 1) list.push(tag(`one tensor, ${names.length} names`));
    if (zero.length) list.push(tag(`stride 0 in dim ${zero.join(", ")}`));
    if (fact.distinct === null) list.push(tag("overlap not counted: too large"));
    else if (fact.distinct < fact.numel) {
      list.push(
        tag(`${count(fact.numel)} elements on ${count(fact.distinct)} cells`, !zero.length),
      );
    }
    if (fact.outside) list.push(tag("outside the storage", true));
    return list;
  }

  function layout(view, version) {
    const known = version === undefined || version === null ? "" : `  version ${version}`;
    const places = `sizes [${view.sizes.join(", ")}]  strides [${view.strides.join(", ")}]`;
    return `${places}\n${view.dtype}  offset ${view.offset}${known}`;
  }
  function storage(store, cells, uses) {
    const size = ` ${count(cells)} × ${store.dtype} = ${count(store.nbytes)} bytes`;
    const more = [size, uses ? `use count ${uses}` : "", store.note].filter(Boolean).join(" · ");
    return [lk.h("b", {}, `storage ${store.name}`), lk.h("span", { class: "lk-muted" }, more)];
  }

  const inRow = (cells, whose) => [
    lk.h("b", {}, ["memory", ...(whose.length ? [whose.join(", ")] : [])].join(" of ")),
    lk.h(
      "span",
      { class: "lk-muted" },
      ` ${count(cells)} numbers in a row, places 0 to ${cells - 1}`,
    ),
  ];

  // What the copy button copies.
  function plain(scene, view) {
    const tuple = (list) => `(${list.join(", ")}${list.length === 1 ? "," : ""})`;
    return (
      `${view.name}: sizes [${view.sizes.join(", ")}], strides [${view.strides.join(", ")}], ` +
      `storage_offset ${view.offset}, ${view.dtype}, storage ${scene.storageOf(view).name}\n` +
      `torch.as_strided(${view.name}, ${tuple(view.sizes)}, ${tuple(view.strides)}, ${view.offset})`
    );
  }

  function legend() {
    const mark = (kind, text, inside = "") =>
      lk.h("span", {}, lk.h("i", { class: `sv-key sv-key-${kind}` }, inside), text);
    return lk.h(
      "div",
      { class: "sv-legend lk-muted" },
      mark("lane", "used by this view"),
      mark("again", "same cell again: stride 0"),
      mark("twice", "times one view uses the cell", "×2"),
      mark("out", "outside the storage"),
      lk.h("span", {}, "point at an element, or focus a grid and use the arrow keys"),
    );
  }

  const simpleLegend = () =>
    lk.h("div", { class: "sv-legend lk-muted" }, "click a number, then use the arrow keys");

  return {
    worked,
    place,
    warnings,
    judged,
    tags,
    layout,
    storage,
    inRow,
    plain,
    legend,
    simpleLegend,
  };
})();
