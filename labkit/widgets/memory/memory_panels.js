// Below the map: figures of this moment, why memory ran out, and the trace under other settings.
function whyTable(why, memory) {
  const rows = (why.candidates ?? []).map((c) =>
    lk.h(
      "tr",
      { class: c.chosen ? "lk-mm-chosen" : "" },
      lk.h("td", {}, memory.hex(c.address)),
      lk.h("td", {}, memory.bytes(c.size)),
      lk.h("td", {}, `stream ${c.stream}`),
      lk.h("td", {}, c.verdict),
    ),
  );
  return lk.h(
    "div",
    { class: "lk-mm-why" },
    lk.h("p", {}, why.why),
    rows.length
      ? lk.h(
          "table",
          {},
          lk.h(
            "tr",
            {},
            ["free block", "size", "stream", "verdict"].map((t) => lk.h("th", {}, t)),
          ),
          rows.slice(0, 40),
        )
      : null,
    rows.length > 40 ? lk.h("p", { class: "lk-muted" }, `and ${rows.length - 40} more`) : null,
  );
}

function memoryPanels({ model, store, go, trace, state, other }) {
  const body = lk.h("div", { class: "lk-mm-panel" }),
    tabs = lk.h("div", { class: "lk-row lk-mm-tabs", role: "group", "aria-label": "panels" });
  const element = lk.h("div", {}, tabs, body);
  const kinds = [
    ["figures", "Figures", figures],
    ["sites", "Call sites", sites],
    ["autopsy", "Why it ran out", autopsy],
    ["settings", "Other settings", whatIf],
  ];
  let open = "figures",
    waiting = null;
  const available = (kind) =>
    ({
      figures: true,
      sites: model.get("tables").length,
      autopsy: model.get("autopsy").length,
      settings: model.get("what_if").length || model.get("meta").can_replay,
    })[kind];

  function update() {
    tabs.replaceChildren(
      ...kinds
        .filter(([kind]) => available(kind))
        .map(([kind, label]) =>
          lk.button(
            label,
            label,
            () => {
              open = kind;
              update();
            },
            { "aria-pressed": open === kind },
          ),
        ),
    );
    const [, , build] = kinds.find(([kind]) => kind === open);
    if (open === "settings" && body.dataset.open === "settings") fillResults();
    else body.replaceChildren(build());
    body.dataset.open = open;
  }

  function figures() {
    const now = state(),
      second = other(),
      columns = [["now", now.totals]];
    if (second) columns.push([`the other after entry ${thousands(second.k)}`, second.totals]);
    const rows = [
      ["reserved from the device", (x) => x.reserved],
      ["in blocks, pending ones too", (x) => x.allocated + x.pending],
      ["asked for (the rest is rounding)", (x) => x.requested],
      ["pending: other streams may use it", (x) => x.pending],
      ["free in the cache", (x) => x.free],
      ["largest free block", (x) => x.largest],
    ];
    return lk.h(
      "table",
      {},
      lk.h(
        "tr",
        {},
        lk.h("th", {}, `after entry ${thousands(now.k)}`),
        columns.map(([name]) => lk.h("th", {}, name)),
      ),
      rows.map(([name, pick]) =>
        lk.h(
          "tr",
          {},
          lk.h("td", {}, name),
          columns.map(([, totals]) => lk.h("td", {}, memory.bytes(pick(totals)))),
        ),
      ),
      lk.h(
        "tr",
        {},
        lk.h("td", {}, "blocks, segments"),
        columns.map(([, x]) => lk.h("td", {}, `${thousands(x.live)}, ${x.segments}`)),
      ),
      lk.h(
        "tr",
        {},
        lk.h("td", {}, "free memory outside the largest free block"),
        columns.map(([, x]) =>
          lk.h("td", {}, x.free ? `${(100 * (1 - x.largest / x.free)).toFixed(0)} %` : "none free"),
        ),
      ),
    );
  }
  const MOST_ROWS = 40;
  function sites() {
    const cells = (kind, row) =>
      lk.h(
        "tr",
        {},
        row.map((text) => lk.h(kind, {}, text)),
      );
    return lk.h(
      "div",
      { class: "lk-mm-sites" },
      model.get("tables").map((table) =>
        lk.h(
          "section",
          {},
          lk.h("h4", {}, table.title),
          table.rows.length
            ? lk.h(
                "table",
                {},
                cells("th", table.head),
                table.rows.slice(0, MOST_ROWS).map((row) => cells("td", row)),
              )
            : lk.h("p", { class: "lk-muted" }, table.missing),
          table.rows.length > MOST_ROWS
            ? lk.h("p", { class: "lk-muted" }, `and ${table.rows.length - MOST_ROWS} more`)
            : null,
        ),
      ),
    );
  }
  function autopsy() {
    const ooms = Object.keys(trace().meta.ooms).map(Number);
    return lk.h(
      "div",
      {},
      ooms.length
        ? lk.button(
            `go to entry ${thousands(ooms.at(-1) + 1)}`,
            "go to the request that failed",
            () => go(ooms.at(-1) + 1),
          )
        : null,
      lk.h(
        "ul",
        {},
        model.get("autopsy").map((sentence) => lk.h("li", {}, sentence)),
      ),
    );
  }

  // ---- what if ---------------------------------------------------------------------------------
  const knobs = { expandable: false, split: 0, collect: 0, divisions: 0 };
  const settingsText = () =>
    [
      knobs.expandable && "expandable_segments:True",
      knobs.split >= 20 && `max_split_size_mb:${knobs.split}`,
      knobs.collect > 0 && `garbage_collection_threshold:${knobs.collect}`,
      knobs.divisions > 0 && `roundup_power2_divisions:${2 ** knobs.divisions}`,
    ]
      .filter(Boolean)
      .join(",");
  const results = lk.h("div"),
    text = lk.h("code"),
    answer = lk.h("span", { class: "lk-muted", role: "status" });
  function whatIf() {
    const slider = (label, key, attributes, show) => {
      const value = lk.h("span", { class: "lk-mono" }, show(knobs[key]));
      const input = lk.focusable(
        lk.h("input", {
          type: "range",
          "aria-label": label,
          value: knobs[key],
          ...attributes,
          on: {
            input: () => {
              knobs[key] = Number(input.value);
              value.textContent = show(knobs[key]);
              fillResults();
            },
          },
        }),
      );
      return [lk.h("span", {}, label), input, value];
    };
    const box = lk.focusable(
      lk.h("input", {
        type: "checkbox",
        "aria-label": "expandable_segments",
        checked: knobs.expandable,
        on: {
          change: () => {
            knobs.expandable = box.checked;
            fillResults();
          },
        },
      }),
    );
    const run = lk.button("replay", "replay the trace under these settings in the kernel", () =>
      ask(),
    );
    fillResults();
    return lk.h(
      "div",
      {},
      lk.h(
        "p",
        {},
        "The same requests again, under other allocator settings, on a device of the same size " +
          "where it is known.",
      ),
      lk.h(
        "div",
        { class: "lk-mm-whatif" },
        lk.h("span", {}, "expandable_segments"),
        box,
        lk.h("span"),
        slider("max_split_size_mb", "split", { min: 0, max: 512, step: 4 }, (v) =>
          v < 20 ? "no limit" : `${v} MB`,
        ),
        slider("garbage_collection_threshold", "collect", { min: 0, max: 0.95, step: 0.05 }, (v) =>
          v > 0 ? String(v) : "off",
        ),
        slider("roundup_power2_divisions", "divisions", { min: 0, max: 4, step: 1 }, (v) =>
          v ? String(2 ** v) : "off",
        ),
      ),
      lk.h("div", { class: "lk-row" }, text, run, answer),
      results,
    );
  }
  function ask() {
    const settings = settingsText();
    if (model.get("what_if").some((row) => row.settings === settings)) {
      answer.textContent = "already in the table";
      return;
    }
    answer.textContent = "replaying …";
    send(model, { kind: "what_if", settings });
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      answer.textContent =
        "no kernel answers: only the settings in the table were computed when this page was made";
    }, 15000);
  }
  store.answers.add(heard);
  function heard(message) {
    clearTimeout(waiting);
    answer.textContent = message.error ?? "";
    fillResults();
  }
  function fillResults() {
    const wanted = settingsText();
    text.textContent = wanted || "(default settings)";
    const rows = model.get("what_if");
    results.replaceChildren(
      rows.length
        ? lk.h(
            "table",
            {},
            lk.h(
              "tr",
              {},
              [
                "settings",
                "peak reserved",
                "peak in use",
                "idle at the peak",
                "retries",
                "ran out",
              ].map((t) => lk.h("th", {}, t)),
            ),
            rows.map((row) =>
              lk.h(
                "tr",
                { class: row.settings === wanted ? "lk-mm-chosen" : "" },
                lk.h("td", { class: "lk-mono" }, row.settings || "(default)"),
                lk.h("td", {}, memory.bytes(row.peak_reserved)),
                lk.h("td", {}, memory.bytes(row.peak_allocated)),
                lk.h("td", {}, `${(100 * row.fragmentation).toFixed(1)} %`),
                lk.h("td", {}, String(row.retries)),
                lk.h("td", {}, row.ran_out || "no"),
              ),
            ),
          )
        : "",
    );
  }
  model.on("change:what_if", fillResults);
  const changed = () => update();
  model.on("change:autopsy", changed);
  return {
    element,
    update,
    close: () => {
      store.answers.delete(heard);
      model.off("change:what_if", fillResults);
      model.off("change:autopsy", changed);
      clearTimeout(waiting);
    },
  };
}
