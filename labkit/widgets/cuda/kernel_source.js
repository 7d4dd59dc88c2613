// The source with its counters: click a line, or walk with the arrows, to step its requests.
function kernelSource({ model, run, save }) {
  const { h } = lk;
  const COUNTERS = [
    {
      name: "sectors",
      counter: "sectors",
      ideal: "ideal_sectors",
      title: "sectors of 32 bytes per request / the fewest possible",
    },
    {
      name: "wavefronts",
      counter: "wavefronts",
      ideal: "ideal_wavefronts",
      title: "passes over the shared banks per request / the fewest possible",
    },
  ];
  const body = lk.focusable(
    h("div", { class: "lk-code-body lk-mono lk-k-lines", role: "listbox", "data-key": "lines" }),
  );
  const elsewhere = h("div", { class: "lk-k-elsewhere" });
  const element = h("section", { class: "lk-k-source" }, body, elsewhere);
  let rows = new Map(),
    drawn = null,
    key = "";

  const short = (value) => String(Number(value.toFixed(2)));
  const heat = (counter, ideal) =>
    ideal && counter ? Math.min(1, Math.max(0, Math.log2(counter / ideal) / 5)) : 0;
  const cell = (text, share, title) =>
    h(
      "span",
      {
        class: "lk-k-heat",
        title,
        style: `--lk-share: ${Math.round(100 * share)}%`,
        "data-heat": share.toFixed(2),
      },
      text,
    );
  const empty = () => h("span", { class: "lk-k-heat lk-k-none" });

  // What one source line, or one file elsewhere, cost: a cell per counter. Accesses that cost
  // differently stand apart: a mean of a good and a bad one says nothing of either.
  function counters(accesses, used) {
    return used.map(({ name, counter, ideal }) => {
      const counted = accesses.filter((one) => one[ideal]);
      if (!counted.length) return empty();
      const each = (which) => [...new Set(counted.map((one) => short(one[which] / one.requests)))];
      const said = counted.map(
        (one) =>
          `${one.access} ${one.array || "memory"}: ${one[counter]} ${name} ` +
          `in ${one.requests} requests, ${one[ideal]} at best`,
      );
      return cell(
        `${each(counter).join(", ")} / ${each(ideal).join(", ")}`,
        Math.max(...counted.map((one) => heat(one[counter], one[ideal]))),
        said.join("; "),
      );
    });
  }
  function build() {
    const now = run(),
      used = COUNTERS.filter(({ ideal }) => now.accesses.some((one) => one[ideal]));
    const efficiency = new Map(now.lines.map((line) => [line.line, line]));
    const flagged = new Map();
    for (const one of now.findings)
      for (const line of [one.line, one.other_line])
        if (line && one.file === now.file) flagged.set(line, one.kind);
    rows = new Map();
    const head = h(
      "div",
      { class: "lk-code-line lk-k-head" },
      h(
        "span",
        { class: "lk-k-gutter" },
        h("span", { class: "lk-k-number" }),
        ...used.map(({ name, title }) => h("span", { class: "lk-k-heat lk-k-none", title }, name)),
        h(
          "span",
          {
            class: "lk-k-heat lk-k-none lk-k-lanes",
            title: "share of the 32 lanes that did the line's work",
          },
          "lanes",
        ),
      ),
      h(
        "span",
        { class: "lk-code-text lk-muted" },
        `${now.file.split("/").at(-1)}, per request / at best`,
      ),
    );
    const lines = now.source.map((text, i) => {
      const number = i + 1,
        place = now.places.findIndex(([file, line]) => file === now.file && line === number);
      const here = now.accesses.filter((one) => one.place === place && place >= 0),
        ran = efficiency.get(number);
      const active =
        ran && ran.runs
          ? cell(
              `${Math.round(100 * ran.efficiency)}%`,
              1 - ran.efficiency,
              "share of the 32 lanes that did this line's work",
            )
          : empty();
      active.classList.add("lk-k-lanes");
      const row = h(
        "div",
        {
          class: [
            "lk-code-line lk-k-line",
            place >= 0 ? " lk-k-has" : "",
            flagged.has(number) ? " lk-k-flagged" : "",
          ].join(""),
          role: "option",
          "data-line": number,
          title: flagged.get(number),
        },
        h(
          "span",
          { class: "lk-k-gutter" },
          h("span", { class: "lk-k-number" }, flagged.has(number) ? `▲ ${number}` : number),
          ...counters(here, used),
          active,
        ),
        h("span", { class: "lk-code-text" }, ...coloured(text, "cuda")),
      );
      if (place >= 0) row.addEventListener("click", () => choose(place));
      rows.set(number, row);
      return row;
    });
    body.replaceChildren(head, ...lines);
    body.setAttribute("aria-label", `${now.file}; up and down choose a line, Escape all`);
    const others = now.places.map((place, i) => [place, i]).filter(([[file]]) => file !== now.file);
    elsewhere.replaceChildren(
      ...others.map(([[file, line], i]) =>
        lk.button(
          h(
            "span",
            { class: "lk-k-gutter" },
            h("span", {}, `${file.split("/").at(-1)}:${line}`),
            ...counters(
              now.accesses.filter((one) => one.place === i),
              used,
            ),
          ),
          `step the requests of ${file}, line ${line}`,
          () => choose(i),
          { "data-place": i },
        ),
      ),
    );
    drawn = model.get("run");
  }
  function choose(place) {
    save({ place: place === model.get("place") ? -1 : place, page: "requests" });
  }
  const steps = () => {
    const now = run(),
      here = now.places
        .map(([file, line], i) => [file, line, i])
        .filter(([file]) => file === now.file);
    const at = here.findIndex(([, , i]) => i === model.get("place"));
    const to = (line) => () => line && save({ place: line[2], page: "requests" });
    return {
      ArrowDown: to(here[at + 1]),
      ArrowUp: to(here[at < 0 ? here.length - 1 : at - 1]),
      Escape: () => save({ place: -1 }),
    };
  };
  lk.onKeys(body, steps);
  // Scrolls the pane only: scrollIntoView would move the whole notebook.
  function reveal(row) {
    const top = row.offsetTop;
    if (top < body.scrollTop + 24 || top + 24 > body.scrollTop + body.clientHeight)
      body.scrollTop = Math.max(0, top - body.clientHeight / 3);
  }

  // lines: those lit now, each with a class; chosen: the place whose requests are stepped.
  function draw(lit) {
    if (drawn !== model.get("run")) build();
    const now = run(),
      place = now.places[model.get("place")];
    for (const [number, row] of rows) {
      const chosen = place && place[0] === now.file && place[1] === number;
      row.classList.toggle("lk-k-chosen-line", Boolean(chosen));
      row.setAttribute("aria-selected", Boolean(chosen));
      row.classList.toggle("lk-station", lit.includes(number));
    }
    for (const node of elsewhere.querySelectorAll("[data-place]"))
      node.setAttribute("aria-pressed", Number(node.dataset.place) === model.get("place"));
    const first = rows.get(lit[0]);
    if (first && key !== lit.join()) requestAnimationFrame(() => reveal(first));
    key = lit.join();
  }
  return { element, draw };
}
