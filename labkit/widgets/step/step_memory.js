// Lane 4: the allocator's segments at this event, drawn as far as the step ever uses them.
function stepMemory(record, go, root) {
  const ROWS = 8,
    OUTSIDE = -1,
    LEAST = 4;
  const { trace, own, meta } = record;
  const canvas = lk.h("canvas", { class: "lk-step-canvas", role: "img" });
  const outside = new Set(meta.outside);
  const ends = highWater();
  const owners = new Map();
  let laid = null,
    marks = { reads: [], writes: [] },
    tallest = 0;

  const ownerOf = (life) => {
    if (!owners.has(life)) owners.set(life, stepRecord.owner(record, life));
    return owners.get(life);
  };
  // Segment's address -> the end of the last block that was ever alive in it.
  function highWater() {
    const found = new Map(),
      { lives, addresses, pieces } = trace;
    const starts = [...new Set(pieces.map((p) => p.address))].sort((a, b) => a - b);
    for (let life = 0; life < lives.count; life++) {
      const address = addresses[lives.place[life]];
      const home = starts[starts.findLastIndex((start) => start <= address)];
      found.set(home, Math.max(found.get(home) ?? 0, address + lives.block[life]));
    }
    return found;
  }
  // The state with every segment cut behind its high water; what is cut is free all the time.
  function clipped(state) {
    const segments = state.segments.map((segment) => {
      const end = Math.min(segment.end, ends.get(segment.address) ?? segment.address + 512);
      const blocks = segment.blocks
        .filter(({ address }) => address < end)
        .map((block) => ({ ...block, size: Math.min(block.size, end - block.address) }));
      const pool = outside.has(segment.address) ? OUTSIDE : segment.pool;
      return { ...segment, pool, end, size: end - segment.address, whole: segment.size, blocks };
    });
    const reserved = segments.reduce((sum, { size }) => sum + size, 0);
    return { ...state, segments, totals: { ...state.totals, reserved } };
  }
  const group = (segments) => {
    const [first] = segments,
      sum = (key) => memory.bytes(segments.reduce((all, each) => all + each[key], 0));
    if (first.pool === OUTSIDE) return `handed out by the driver before the step: ${sum("size")}`;
    const count = segments.length === 1 ? "a segment" : `${segments.length} segments`;
    const stream = meta.memory.streams[first.stream];
    const rest = sum("whole") === sum("size") ? "" : `; the first ${sum("size")} are ever used`;
    return `${count} of ${sum("whole")}, stream ${stream}${rest}`;
  };

  function show(focus) {
    const width = canvas.parentElement?.clientWidth;
    if (!width) return;
    const colours = lk.theme(root),
      dark = parseInt(colours.paper.slice(1, 3), 16) < 128,
      k = own.memory[focus.event],
      state = clipped(memory.state(trace, k));
    laid = memoryBlocks.layout(state, { group }, width, ROWS);
    tallest = Math.max(tallest, laid.height);
    const pen = pens.prepare(canvas, width, tallest);
    const look = {
      ...colours,
      least: LEAST,
      free: dark ? "#22272e" : "#f1f3f5",
      rounding: dark ? "rgba(0,0,0,.4)" : "rgba(255,255,255,.5)",
      colour: (block) => stepColours[ownerOf(block.life).phase],
      requested: (block) => (block.life < 0 ? block.size : trace.lives.size[block.life]),
    };
    memoryBlocks.draw(pen, laid, look);
    if (!state.segments.length)
      pens.words(pen, "no device memory is in use", 0, 15, { fill: colours.muted, align: "left" });
    label(pen, colours);
    marks = focus.blocks;
    const mark = (colour, thick) => (block) =>
      memoryBlocks.mark(pen, laid, block, colour, thick, LEAST);
    marks.reads.forEach(mark(stepColours.read, 3));
    marks.writes.forEach(mark(stepColours.now, 4));
    const { totals } = state;
    canvas.setAttribute("aria-label", `${totals.live} blocks in use, ${totals.allocated} bytes`);
    Object.assign(root.dataset, {
      live: totals.live,
      allocated: totals.allocated,
      writes: marks.writes.map(({ address }) => address).join(" "),
      reads: marks.reads.map(({ address }) => address).join(" "),
    });
  }
  // A block says whose it is where there is room: in what was asked for, else in what was added.
  function label(pen, colours) {
    for (const { segment, from, to, x, y, width } of laid.places) {
      const scale = width / (to - from);
      for (const block of segment.blocks) {
        if (block.life < 0 || !ownerOf(block.life).name) continue;
        const start = Math.max(from, block.address - segment.address),
          end = Math.min(to, block.address - segment.address + block.size),
          asked = Math.min(end, block.address - segment.address + trace.lives.size[block.life]),
          inside = (asked - start) * scale >= 30,
          [left, right] = inside ? [start, asked] : [asked, end],
          wide = (right - left) * scale;
        if (wide < 26) continue;
        pens.words(
          pen,
          ownerOf(block.life).name,
          x + ((left + right) / 2 - from) * scale,
          y + memoryBlocks.ROW / 2,
          { size: 10.5, fill: inside ? "#ffffff" : colours.ink, width: wide - 4, weight: 600 },
        );
      }
    }
  }

  canvas.addEventListener("click", (pointer) => {
    const { x, y } = lk.spot(pointer);
    const found = laid && memoryBlocks.at(laid, x, y);
    if (!found || found.block.life < 0) return;
    const { life } = found.block;
    // The last piece of work before this event that wrote the block, else where it was handed out.
    const writer = record.launches.findLast(
      (launch) =>
        launch.queued <= Number(root.dataset.event) &&
        stepRecord.blocksOf(record, launch).writes.some((block) => block.life === life),
    );
    const event = writer ? writer.queued : ownerOf(life).event;
    if (event !== undefined) go(event);
  });

  // Where a block is drawn: the middle of its first part.
  function spot(block) {
    for (const { segment, from, to, x, y, width } of laid.places) {
      const start = Math.max(from, block.address - segment.address),
        end = Math.min(to, block.address - segment.address + block.size);
      if (block.address < segment.address || block.address >= segment.end || start >= end) continue;
      return { node: canvas, x: x + ((start + end) / 2 - from) * (width / (to - from)), y };
    }
    return null;
  }
  return {
    element: lk.h("div", {}, canvas),
    show,
    spots: () => ({
      writes: marks.writes.map(spot).filter(Boolean),
      reads: marks.reads.map(spot).filter(Boolean),
    }),
  };
}
