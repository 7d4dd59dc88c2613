// The memory map on a canvas: segments as bars to one scale, grouped by pool and stream.
const memoryBlocks = (() => {
  const ROW = 22,
    GAP = 5,
    HEAD = 22;
  const ORDER = ["pool", "stream", "large", "expandable"]; // of the groups

  // A segment stays in one row unless that would squeeze all others.
  function bytesPerRow({ segments, totals }, rows) {
    const largest = segments.reduce((most, s) => (s.size > most.size ? s : most), { size: 1 });
    const squeezes = largest.expandable || largest.size * 12 < totals.reserved;
    return squeezes ? Math.max(totals.reserved / rows, 1) : largest.size;
  }
  // Bars cut into rows of `width` pixels; a segment longer than a row goes on in the next one.
  // Returns places: [{segment, from, to, x, y, width}] (bytes of the segment) and headings.
  // perRow: how many bytes a row is long; left out, it is chosen for this state, for `rows` rows.
  function layout(state, names, width, rows, perRow = bytesPerRow(state, rows)) {
    const groups = new Map();
    for (const segment of state.segments) {
      const { pool, stream, large, expandable } = segment;
      const key = [pool, stream, large ? 1 : 0, expandable ? 1 : 0].join(":");
      if (!groups.has(key)) groups.set(key, []);
      groups.get(key).push(segment);
    }
    const sorted = [...groups.values()].sort(([a], [b]) => {
      const first = ORDER.find((name) => Number(a[name]) !== Number(b[name]));
      return first ? a[first] - b[first] : 0;
    });
    const places = [],
      headings = [];
    let y = 2;
    for (const segments of sorted) {
      headings.push({ y: y + 12, text: names.group(segments), segments });
      y += HEAD;
      let x = 0;
      for (const segment of segments) {
        let from = 0;
        const pixels = (size) => (size / perRow) * width;
        if (x > 0 && x + pixels(segment.size) > width && pixels(segment.size) <= width) {
          x = 0;
          y += ROW + GAP;
        }
        while (from < segment.size) {
          if (x >= width - 1) {
            x = 0;
            y += ROW + GAP;
          }
          const size = Math.min(segment.size - from, ((width - x) / width) * perRow);
          const wide = Math.max(2, pixels(size));
          places.push({ segment, from, to: from + size, x, y, width: wide });
          from += size;
          if (segment.size - from < 1) from = segment.size;
          x += wide + (from >= segment.size ? 3 : 0);
        }
      }
      y += ROW + GAP + 3;
    }
    return { places, headings, height: Math.max(y, 30), perRow };
  }

  // Blocks of one stretch of a segment. Neighbours closer than a pixel share one; look.least is the
  // width in pixels that a block has at least.
  function stretch(pen, { segment, from, to, x, y, width, height }, look) {
    const scale = width / (to - from),
      { blocks } = segment;
    let low = 0,
      high = blocks.length;
    const base = segment.address + from;
    while (low < high) {
      const m = (low + high) >> 1;
      if (blocks[m].address + blocks[m].size <= base) low = m + 1;
      else high = m;
    }
    pen.fillStyle = look.free;
    pen.fillRect(x, y, width, height);
    const least = Math.min(look.least ?? 1, width);
    let painted = x - 1;
    for (let b = low; b < blocks.length; b++) {
      const block = blocks[b];
      if (block.address >= base + (to - from)) break;
      if (block.life < 0) continue;
      const start = Math.max(x, x + (block.address - base) * scale);
      const right = Math.min(x + width, x + (block.address + block.size - base) * scale);
      const wide = right - start,
        left = Math.min(start, x + width - least);
      if (right < painted + 1 && wide < 1) continue; // this pixel is taken
      const seam = wide > 4 ? 1 : 0;
      pen.fillStyle = look.colour(block);
      pen.fillRect(left, y, Math.max(least, wide - seam), height);
      if (block.state === "pending")
        pens.hatch(pen, left, y, Math.max(least, wide - seam), height, look.ink);
      const spare = block.size - look.requested(block);
      if (spare > 0 && spare * scale >= 2) {
        // rounded up beyond what was asked for
        pen.fillStyle = look.rounding;
        pen.fillRect(right - seam - spare * scale, y, spare * scale, height);
      }
      painted = Math.max(left + least, right);
    }
  }

  function draw(pen, laid, look) {
    for (const { y, text } of laid.headings)
      pens.words(pen, text, 0, y, { size: 11, fill: look.muted, align: "left" });
    for (const place of laid.places) {
      stretch(pen, { ...place, height: ROW }, look);
      pens.frameCell(
        pen,
        place.x,
        place.y,
        place.width,
        ROW,
        look.line,
        1,
        place.segment.expandable ? [4, 3] : [],
      );
    }
  }
  function mark(pen, laid, block, colour, thick = 2, least = 3) {
    for (const { segment, from, to, x, y, width } of laid.places) {
      const a = Math.max(block.address - segment.address, from),
        b = Math.min(block.address + block.size - segment.address, to);
      if (
        block.address < segment.address ||
        block.address >= segment.address + segment.size ||
        a >= b
      )
        continue;
      const scale = width / (to - from);
      pens.frameCell(
        pen,
        x + (a - from) * scale - 1,
        y - 2,
        Math.max(least, (b - a) * scale) + 2,
        ROW + 4,
        colour,
        thick,
      );
    }
  }
  function at(laid, x, y) {
    const place = laid.places.find(
      (p) => x >= p.x && x <= p.x + p.width && y >= p.y && y <= p.y + ROW,
    );
    if (!place) return null;
    const address =
      place.segment.address + place.from + ((x - place.x) / place.width) * (place.to - place.from);
    const block = place.segment.blocks.find(
      (b) => address >= b.address && address < b.address + b.size,
    );
    return { segment: place.segment, block: block ?? place.segment.blocks.at(-1) };
  }

  const taken = (block, asked) =>
    asked < block.size
      ? `${memory.bytes(asked)} of ${memory.bytes(block.size)}`
      : memory.bytes(asked);
  // The neighbourhood of a range, large enough to read: what the map shows as a sliver.
  function lens(pen, segment, range, width, height, look) {
    const room = Math.max(range.size * 1.2, 2048);
    const from = Math.max(0, range.address - segment.address - room);
    const to = Math.min(segment.size, range.address + range.size - segment.address + room);
    const y = 16,
      tall = height - 34,
      scale = width / (to - from);
    stretch(pen, { segment, from, to, x: 0, y, width, height: tall }, look);
    for (const block of segment.blocks) {
      const left = Math.max(0, (block.address - segment.address - from) * scale);
      const right = Math.min(width, (block.address + block.size - segment.address - from) * scale);
      if (right - left < 1) continue;
      pens.frameCell(pen, left, y, right - left, tall, look.line, 1);
      const label =
        block.life < 0 ? `free ${memory.bytes(block.size)}` : taken(block, look.requested(block));
      if (right - left > 34) {
        pens.words(pen, label, (left + right) / 2, y + tall / 2, {
          size: 11,
          fill: block.life < 0 ? look.muted : look.onColour(block),
          width: right - left - 6,
        });
      }
      if (right - left > 96) {
        pens.words(pen, memory.hex(block.address), left + 2, y + tall + 9, {
          size: 10,
          fill: look.muted,
          align: "left",
        });
      }
    }
    pens.frameCell(
      pen,
      Math.max(0, (range.address - segment.address - from) * scale) - 1,
      y - 2,
      range.size * scale + 2,
      tall + 4,
      look.accent,
      2,
    );
    pens.words(pen, look.lensTitle, 0, 7, { size: 11, fill: look.muted, align: "left", width });
  }

  return { layout, draw, stretch, mark, at, lens, ROW };
})();
