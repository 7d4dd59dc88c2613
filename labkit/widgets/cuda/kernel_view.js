// A traced kernel: source with heat at the left; requests, findings or a what-if beside it.
function render({ model, el }) {
  const { h } = lk,
    root = lk.root(el, model.get("title") || `kernel ${model.get("runs")[0].kernel}`);
  root.classList.toggle("lk-k-simple", model.get("simple"));
  const runs = model.get("runs"),
    run = () => runs[Math.min(model.get("run"), runs.length - 1)];
  const held = lk.columns(model.get("schema"), model.get("data"));
  const save = (values) => {
    const given = Object.entries(values).filter(([name, value]) => model.get(name) !== value);
    for (const [name, value] of given) model.set(name, value);
    if (given.length) model.save_changes();
  };
  const PAGES = ["requests", "findings", "what if"];
  const shared = { model, run, save, columns: () => held, accessTable };
  const source = kernelSource(shared),
    requests = kernelRequests(shared),
    race = kernelRace(shared),
    whatIf = kernelWhatIf(shared);
  const title = h("div", { class: "lk-row lk-k-title" }),
    tabs = h("div", { class: "lk-row", role: "tablist" }),
    page = h("div"),
    compared = h("div");
  root.append(
    title,
    compared,
    h(
      "div",
      { class: "lk-k-body" },
      source.element,
      h("section", { class: "lk-k-side" }, tabs, page),
    ),
  );

  const short = (value) => String(Number(value.toFixed(2)));
  const sum = (accesses, name) => accesses.reduce((total, one) => total + one[name], 0);
  const head = (...names) => h("tr", {}, ...names.map((name) => h("th", {}, name)));
  const row = (...cells) => h("tr", {}, ...cells.map((cell) => h("td", {}, cell)));
  function accessTable(accesses) {
    return h(
      "table",
      { class: "lk-k-table" },
      head("", "array", "bytes", "requests", "lanes each", "cost each", "at best"),
      ...accesses.map((one) => {
        const waves = one.space === "shared",
          cost = short((waves ? one.wavefronts : one.sectors) / one.requests);
        return row(
          `${one.access} ${one.space}`,
          one.array || "–",
          one.size,
          one.requests.toLocaleString("en"),
          short(one.lanes / one.requests),
          `${cost} ${waves ? "wavefront" : "sector"}${cost === "1" ? "" : "s"}`,
          short((waves ? one.ideal_wavefronts : one.ideal_sectors) / one.requests),
        );
      }),
    );
  }
  function drawTitle() {
    const now = run(),
      findings = now.findings.length;
    const notes = [
      now.truncated && "tracing stopped at the event limit",
      now.races_unchecked && "too large to look for races everywhere",
    ].filter(Boolean);
    title.replaceChildren(
      h(
        "b",
        { class: "lk-mono" },
        `${now.kernel}<<<(${now.grid.join(", ")}), (${now.block.join(", ")})>>>`,
      ),
      h(
        "span",
        { class: "lk-muted" },
        `${now.blocks_traced} block${now.blocks_traced === 1 ? "" : "s"} traced · ` +
          `lanes at work ${Math.round(100 * now.efficiency)}%`,
      ),
      h(
        "span",
        { class: findings ? "lk-alert" : "lk-muted" },
        `${findings} finding${findings === 1 ? "" : "s"}`,
      ),
      ...notes.map((note) => h("span", { class: "lk-alert" }, note)),
    );
    if (model.get("title")) title.prepend(h("b", {}, model.get("title")));
    tabs.replaceChildren(
      ...PAGES.map((name) =>
        lk.button(
          name === "findings" ? `findings (${findings})` : name,
          `page: ${name}`,
          () => save({ page: name }),
          {
            role: "tab",
            "aria-selected": String(model.get("page") === name),
            "aria-pressed": String(model.get("page") === name),
          },
        ),
      ),
    );
    compared.replaceChildren(
      ...(runs.length < 2
        ? []
        : [
            h(
              "table",
              { class: "lk-k-table" },
              head(
                "launch",
                "requests",
                "sectors",
                "at best",
                "wavefronts",
                "at best",
                "lanes",
                "findings",
              ),
              ...runs.map((one, i) =>
                row(
                  lk.button(one.kernel, `show ${one.kernel}`, () => turn(i), {
                    "aria-pressed": String(i === model.get("run")),
                  }),
                  ...["requests", "sectors", "ideal_sectors", "wavefronts", "ideal_wavefronts"].map(
                    (name) => sum(one.accesses, name).toLocaleString("en"),
                  ),
                  `${Math.round(100 * one.efficiency)}%`,
                  one.findings.length,
                ),
              ),
            ),
          ]),
    );
  }
  const turn = (i) =>
    save({ run: i, place: -1, frame: 0, finding: 0, step: 0, word: -1, warp: "" });

  function draw() {
    drawTitle();
    const now = model.get("page"),
      shown = { requests, findings: race, "what if": whatIf }[now];
    root.dataset.page = now;
    if (page.firstChild !== shown.element) page.replaceChildren(shown.element);
    shown.draw();
    source.draw(now === "requests" ? requests.line() : now === "findings" ? race.lines() : []);
    lk.drew(root);
  }
  let pending = false;
  // One drawing for the several traits that change together.
  const later = () => {
    if (pending) return;
    pending = true;
    queueMicrotask(() => {
      pending = false;
      draw();
    });
  };
  const names = [
    "run",
    "place",
    "warp",
    "lane",
    "page",
    "finding",
    "step",
    "word",
    "what_if",
    "frame",
  ];
  for (const name of names) model.on(`change:${name}`, later);
  draw();
  return () => {
    requests.stop();
    race.stop();
    for (const name of names) model.off(`change:${name}`, later);
  };
}

export default { render };
