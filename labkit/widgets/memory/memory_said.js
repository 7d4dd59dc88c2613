// What the map says in words: the entry, the pinned block, the headline, the legend.
const memorySaid = (() => {
  function entry(trace, k) {
    if (k === 0) return "before the first entry";
    const i = k - 1,
      { columns, meta } = trace,
      action = meta.actions[columns.action[i]],
      size = memory.bytes(columns.size[i]);
    const phase = meta.notes[columns.note[i]];
    const time = columns.time[i] / 1000;
    const after = time < 1e4 ? time.toFixed(2) : thousands(Math.round(time));
    const where = [
      time ? `${after} ms after the first; ` : "",
      `stream ${meta.streams[columns.stream[i]]}, ${poolName(meta.pools[columns.pool[i]])}`,
      phase ? `, ${phase}` : "",
      ...regionsAt(trace, i).map((name) => `, in ${name}`),
    ].join("");
    if (action === "oom")
      return [
        `${action}: ${size} wanted`,
        `${memory.bytes(meta.ooms[i])} free on the device; ${where}`,
      ].join(", ");
    return `${action} ${size} at ${memory.hex(trace.addresses[columns.place[i]])}; ${where}`;
  }
  function details(map) {
    const { trace, now, ui, go } = map,
      i = now.k - 1;
    const parts = [];
    if (i >= 0) {
      const why = trace.meta.decisions?.[i];
      parts.push(
        lk.h(
          "section",
          {},
          lk.h("h4", {}, "This entry"),
          lk.h("p", {}, entry(trace, now.k)),
          why ? whyTable(why, memory) : null,
          stackList(memory.frames(trace, trace.columns.stack[i])),
        ),
      );
    }
    if (ui.pinned !== null) {
      const l = ui.pinned,
        { lives } = trace,
        freed = lives.end[l];
      const asked = lives.size[l],
        block = lives.block[l];
      const jump = (label, k) => lk.button(label, `go to ${label}`, () => go(k));
      parts.push(
        lk.h(
          "section",
          {},
          lk.h(
            "h4",
            {},
            "Pinned block ",
            lk.button("unpin", "unpin the block", () => {
              ui.pinned = null;
              go(now.k);
            }),
          ),
          lk.h(
            "p",
            {},
            `${memory.hex(trace.addresses[lives.place[l]])}: ${memory.bytes(asked)} asked for, ` +
              `${memory.bytes(block)} taken` +
              (block > asked
                ? ` (${memory.bytes(block - asked)} more, by rounding or as a rest too small ` +
                  "to split off)"
                : ""),
          ),
          lk.h(
            "div",
            { class: "lk-row" },
            lives.event[l] >= 0
              ? jump(`born in entry ${thousands(lives.event[l] + 1)}`, lives.event[l] + 1)
              : lk.h("span", {}, "older than the recording"),
            freed === memory.NEVER
              ? lk.h(
                  "span",
                  {},
                  lives.asked[l] === memory.NEVER ? "never freed" : "free asked for, still pending",
                )
              : jump(`freed in entry ${thousands(freed + 1)}`, freed + 1),
          ),
          stackList(memory.frames(trace, lives.stack[l])),
        ),
      );
    }
    map.details.replaceChildren(...parts);
  }
  function headline(map) {
    const { model, trace, store, root, swap, go } = map,
      meta = model.get("meta");
    const facts = [
      `${thousands(trace.n)} entries`,
      `peak ${memory.bytes(trace.live[trace.peak])} live after entry ${thousands(trace.peak)}`,
      `${memory.bytes(memory.reservedAt(trace, trace.n))} reserved at the end`,
    ];
    map.head.replaceChildren(
      lk.h("div", { class: "lk-mm-title" }, meta.title || "memory map"),
      lk.h(
        "div",
        { class: "lk-muted" },
        facts.join(" · "),
        " ",
        lk.button("go to the peak", "go to the entry with most live bytes", () => go(trace.peak)),
        swap ? lk.button("only the bars", "hide all panels but the bars", swap) : "",
      ),
    );
    const words = [];
    if (store.progress === "no-kernel")
      words.push(
        `This page holds the last ${thousands(trace.n)} of ${thousands(meta.whole)} entries: ` +
          `the whole trace (${megabytes(meta.held)}) is too large to save with the notebook, ` +
          "and no kernel has answered yet. If none is running, run the cell again to see " +
          "all of it.",
      );
    else if (store.progress)
      words.push(
        `Showing the last ${thousands(trace.n)} of ${thousands(meta.whole)} entries; ` +
          `${store.progress} …`,
      );
    else if (meta.held)
      words.push(
        `All ${thousands(trace.n)} entries are shown. A saved notebook keeps the last ` +
          `${thousands(meta.traces[0].entries)} of them and the picture.`,
      );
    if (meta.live) words.push(meta.live);
    for (const note of meta.remarks ?? []) words.push(note);
    const wrong = trace.columns.block_place.length ? memory.differences(trace) : 0;
    root.dataset.differences = wrong;
    if (wrong)
      words.push(
        `The map rebuilt from the entries differs from the recorded one in ${thousands(wrong)} ` +
          "blocks: the recording began or was cut in between.",
      );
    map.notice.replaceChildren(...words.map((text) => lk.h("div", {}, text)));
  }
  function legends(map) {
    const { heaviest, names } = map.choice.categories(),
      own = lk.palette.length - 1;
    const swatch = (style, text) =>
      lk.h("span", { class: "lk-mm-key" }, lk.h("i", { style }), text);
    map.legend.replaceChildren(
      ...heaviest
        .slice(0, own)
        .map((c, place) => swatch(`background:${lk.palette[place]}`, names[c])),
      heaviest.length > own
        ? swatch(`background:${lk.palette[own]}`, `${thousands(heaviest.length - own)} others`)
        : "",
      lk.h("span", { class: "lk-mm-key" }, lk.h("i", { class: "lk-mm-reserved" }), "reserved"),
      swatch(
        "background:repeating-linear-gradient(135deg,var(--lk-ink) 0 2px,transparent 2px 5px)",
        "pending",
      ),
      swatch("background:var(--lk-panel)", "free"),
      swatch("background:var(--lk-paper);border-style:dashed", "expandable segment"),
    );
  }
  const blockText = (trace, { segment, block }) =>
    (block.life < 0
      ? `free ${memory.bytes(block.size)} at ${memory.hex(block.address)}`
      : [
          block.state,
          memory.bytes(trace.lives.size[block.life]),
          `in a block of ${memory.bytes(block.size)} at ${memory.hex(block.address)}\n`,
        ].join(" ") + ownLine(memory.frames(trace, trace.lives.stack[block.life]))) +
    `\nsegment of ${memory.bytes(segment.size)} at ${memory.hex(segment.address)}`;
  return { entry, block: blockText, details, headline, legends };
})();
