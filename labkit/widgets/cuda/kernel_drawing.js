// The 32 lanes of a request against the sectors of global memory, or the banks of shared memory.
//
// request   { lanes: 32 addresses or null, size, shared, phase: address of the array's byte 0 }
// chosen    the lane whose way is drawn boldly; pick(lane) when another is pointed at
const kernelDrawing = (() => {
  const LANES = 32,
    CELL = 20,
    LEFT = 46,
    WIDTH = LEFT + LANES * CELL + 4,
    MAX_PASSES = 32;
  const s = lk.svg;
  const box = (x, y, width, height, name) =>
    s("rect", { x, y, width, height, rx: 2, class: `lk-k-box ${name}` });
  const word = (x, y, text, name = "", anchor = "middle") =>
    s("text", { x, y, "text-anchor": anchor, class: `lk-k-text ${name}` }, text);
  const middle = (lane) => LEFT + lane * CELL + CELL / 2 - 1;

  function laneRow({ lanes }, chosen, y) {
    return [
      word(LEFT - 6, y + 13, "lane", "lk-k-small", "end"),
      ...lanes.map((at, lane) => {
        const name =
          (at === null ? "lk-k-idle" : "lk-k-lane") + (lane === chosen ? " lk-k-chosen" : "");
        return s(
          "g",
          { "data-lane": lane },
          s("title", {}, at === null ? `lane ${lane} takes no part` : `lane ${lane}`),
          box(LEFT + lane * CELL, y, CELL - 2, 18, name),
          word(middle(lane), y + 13, lane, "lk-k-small"),
        );
      }),
    ];
  }
  // Sectors of one width; a gap where memory in between is not touched.
  function layout(touched) {
    const gaps = touched.filter((n, i) => i && n !== touched[i - 1] + 1).length;
    const width = Math.min(80, (LANES * CELL - 6 * gaps) / Math.max(1, touched.length));
    const at = new Map();
    let x = LEFT;
    touched.forEach((number, i) => {
      if (i && number !== touched[i - 1] + 1) x += 6;
      at.set(number, x);
      x += width;
    });
    return { at, width };
  }

  function sectorDrawing(request, chosen) {
    const { lanes, size, phase } = request,
      unit = kernelMemory.SECTOR;
    const touched = kernelMemory.sectors(lanes, size),
      { at, width } = layout(touched),
      top = 86;
    const x = (address) => {
      const sector = Math.floor(address / unit);
      return at.get(sector) + ((address - sector * unit) * width) / unit;
    };
    const parts = [word(LEFT - 6, top + 16, "sector", "lk-k-small", "end")];
    for (const sector of touched) {
      const offset = sector * unit - phase;
      parts.push(
        s(
          "g",
          { "data-sector": sector },
          s("title", {}, `bytes ${offset} to ${offset + unit - 1}`),
          box(at.get(sector), top, width - 1, 24, "lk-k-moved"),
        ),
      );
    }
    const asked = new Set(),
      ways = [];
    lanes.forEach((address, lane) => {
      if (address === null) return;
      const bold = lane === chosen;
      if (!asked.has(address) || bold) {
        asked.add(address);
        for (let byte = address, end; byte < address + size; byte = end) {
          end = Math.min(address + size, (Math.floor(byte / unit) + 1) * unit);
          const from = x(byte),
            wide = ((end - byte) * width) / unit;
          parts.push(box(from, top + 1, wide, 22, bold ? "lk-k-read" : "lk-k-asked"));
        }
      }
      const line = s("line", {
        x1: middle(lane),
        y1: 19,
        x2: x(address) + (Math.min(size, unit) * width) / unit / 2,
        y2: top,
        class: bold ? "lk-k-way lk-k-bold" : "lk-k-way",
      });
      if (bold) ways.push(line);
      else ways.unshift(line);
    });
    const labels = touched
      .filter((sector, i) => width >= 38 || i === 0 || i === touched.length - 1)
      .map((sector, i) =>
        word(
          i && width < 38 ? at.get(sector) + width : at.get(sector),
          top + 37,
          `${sector * unit - phase >= 0 ? "+" : ""}${sector * unit - phase}`,
          "lk-k-tiny",
          i && width < 38 ? "end" : "start",
        ),
      );
    // One bracket per 128-byte line, the unit of the caches.
    const lines = new Map();
    for (const sector of touched)
      lines.set(sector >> 2, [...(lines.get(sector >> 2) || []), sector]);
    const brackets = [...lines.values()].map((group) =>
      s("line", {
        x1: at.get(group[0]) + 1,
        x2: at.get(group.at(-1)) + width - 2,
        y1: top + 42,
        y2: top + 42,
        class: "lk-k-bracket",
      }),
    );
    parts.push(...ways, ...labels, ...brackets);
    parts.push(word(LEFT - 6, top + 45, "128 B", "lk-k-tiny", "end"));
    return { parts, height: top + 52 };
  }

  function bankDrawing(request, chosen) {
    const { lanes, size } = request,
      rows = kernelMemory.passes(lanes, size),
      top = 72;
    const parts = [word(LEFT - 6, top - 4, "bank", "lk-k-tiny", "end")];
    for (let bank = 0; bank < LANES; bank++)
      parts.push(word(middle(bank), top - 4, bank, "lk-k-tiny"));
    const ways = [];
    lanes.forEach((address, lane) => {
      if (address === null) return;
      const bank =
        (((Math.floor(address / 4) % LANES) + LANES) % LANES) + Math.min(size / 4, 4) / 2 - 0.5;
      const bold = lane === chosen;
      const line = s("line", {
        x1: middle(lane),
        y1: 19,
        x2: middle(Math.max(0, bank)),
        y2: top - 14,
        class: bold ? "lk-k-way lk-k-bold" : "lk-k-way",
      });
      if (bold) ways.push(line);
      else ways.unshift(line);
    });
    parts.push(...ways);
    rows.slice(0, MAX_PASSES).forEach((row, n) => {
      const y = top + n * 17;
      parts.push(word(LEFT - 6, y + 12, n === 0 ? "pass 1" : n + 1, "lk-k-tiny", "end"));
      row.forEach((asking, bank) => {
        const kind = !asking ? "lk-k-idle" : n === 0 ? "lk-k-asked" : "lk-k-again";
        const mine = asking && asking.includes(chosen) ? " lk-k-chosen" : "";
        const text = asking && (asking.length === 1 ? asking[0] : `×${asking.length}`);
        parts.push(
          s(
            "g",
            asking && asking.length === 1 ? { "data-lane": asking[0] } : {},
            s("title", {}, `bank ${bank}: ${asking ? `lane ${asking.join(", ")}` : "not asked"}`),
            box(LEFT + bank * CELL, y, CELL - 2, 15, `${kind}${mine}`),
            asking && word(middle(bank), y + 11, text, "lk-k-tiny"),
          ),
        );
      });
    });
    let height = top + Math.min(rows.length, MAX_PASSES) * 17 + 6;
    if (rows.length > MAX_PASSES) {
      parts.push(
        word(LEFT, height + 8, `and ${rows.length - MAX_PASSES} passes more`, "lk-k-tiny", "start"),
      );
      height += 14;
    }
    return { parts, height };
  }

  function draw(request, chosen, label) {
    const { parts, height } = (request.shared ? bankDrawing : sectorDrawing)(request, chosen);
    return s(
      "svg",
      {
        viewBox: `0 0 ${WIDTH} ${height}`,
        class: "lk-k-drawing",
        role: "img",
        "aria-label": `${label}; left and right choose a lane`,
        style: `max-width: ${WIDTH * 1.15}px`,
      },
      ...laneRow(request, chosen, 0),
      ...parts.filter(Boolean),
    );
  }
  // A focusable box around the drawing: pointer and arrows choose a lane.
  function pane(pick) {
    let now = 0,
      key = "";
    const element = lk.focusable(lk.h("div", { class: "lk-k-pane", "data-key": "lanes" }));
    const point = (event) => {
      const cell = event.target.closest("[data-lane]");
      if (cell && Number(cell.dataset.lane) !== now) pick(Number(cell.dataset.lane));
    };
    element.addEventListener("pointermove", point);
    const lanes = () => ({ ArrowRight: now + 1, ArrowLeft: now - 1, Home: 0, End: LANES - 1 });
    lk.onKeys(element, lanes, (to) => {
      if (to >= 0 && to < LANES && to !== now) pick(to);
    });
    const show = (request, lane, label) => {
      now = lane;
      const next = JSON.stringify([request, lane, label]);
      if (next !== key) element.replaceChildren(draw(request, lane, label));
      key = next;
    };
    return { element, show };
  }
  // What one lane asks for, in words.
  function laneWords({ lanes, size, shared, phase }, lane, array) {
    const at = lanes[lane];
    if (at === null) return `lane ${lane} takes no part`;
    const offset = at - phase,
      where = `${array || "address"} ${offset < 0 ? "−" : "+"} ${Math.abs(offset)} bytes`;
    if (!shared) {
      const first = Math.floor(at / 32),
        last = Math.floor((at + Math.max(size, 1) - 1) / 32);
      const place = kernelMemory.sectors(lanes, size).indexOf(first) + 1;
      return (
        `lane ${lane}: ${where}, in sector ${place} of those touched` +
        (last > first ? ", and into the next" : "")
      );
    }
    const word = Math.floor(at / 4),
      bank = ((word % LANES) + LANES) % LANES;
    const answered = kernelMemory.passes(lanes, size).findIndex((row) => row[bank]?.includes(lane));
    const banks = size > 4 ? `banks ${bank} to ${bank + size / 4 - 1}` : `bank ${bank}`;
    return `lane ${lane}: ${where}, ${banks}, answered in pass ${answered + 1}`;
  }
  // The cost of a request, in words.
  function cost({ lanes, size, shared }) {
    if (shared) {
      const taken = kernelMemory.passes(lanes, size).length,
        best = kernelMemory.groups(lanes, size).length;
      return { taken, best, words: `${taken} wavefront${taken === 1 ? "" : "s"}, ${best} at best` };
    }
    const taken = kernelMemory.sectors(lanes, size).length,
      best = kernelMemory.idealSectors(lanes, size);
    return { taken, best, words: `${taken} sector${taken === 1 ? "" : "s"}, ${best} at best` };
  }
  return { pane, laneWords, cost };
})();
