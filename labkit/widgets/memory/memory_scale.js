// What a simple map keeps over a whole recording: bytes per row of its bars, and the strip that
// enlarges short blocks. Equal blocks are equally wide in every step.
const memoryScale = (() => {
  const SHORT = 12; // px: a block narrower than this in the bars is shown in the strip as well
  const LEGIBLE = 96; // px of the shortest block in the strip, where it shows many
  const LETTER = 6.7; // px of a letter in its labels
  const HIGH = 26,
    TOP = 20;
  const bytes = (count) => memory.bytes(count);

  // As `memoryBlocks.layout` chooses it for one state: here for all of them.
  function bytesPerRow(traces, rows) {
    const most = (trace) => {
      const largest = trace.pieces.reduce((size, piece) => Math.max(size, piece.size), 1);
      const peak = Math.max(...trace.reserved.bytes);
      const grows = trace.pieces.some((piece) => piece.expandable && piece.size === largest);
      return !grows && largest * 12 >= peak ? largest : Math.max(peak / rows, 1);
    };
    return Math.max(...traces.map(most));
  }

  // How the strip enlarges: the blocks that it is about, and how many bytes it is wide; null where
  // the bars show every block.
  function strip(trace, perRow, width) {
    const { lives, addresses, pieces } = trace;
    const homes = [...pieces].sort((a, b) => a.address - b.address);
    const isShort = new Uint8Array(lives.count);
    let least = Infinity,
      reach = 0;
    for (let life = 0; life < lives.count; life++) {
      const address = addresses[lives.place[life]],
        size = lives.block[life];
      const home = homes.findLast((piece) => piece.address <= address);
      if (!home || !size || size >= home.size || (size / perRow) * width >= SHORT) continue;
      isShort[life] = 1;
      least = Math.min(least, size);
      reach = Math.max(reach, address + size - home.address);
    }
    if (!reach) return null;
    const window = Math.min(Math.max(2 * reach, 4 * least), (least * width) / LEGIBLE);
    return { isShort, window };
  }

  // The segment and address that the strip shows after k entries: where a short block came or went
  // last, else where one lies.
  function shown(trace, state, k, { isShort }) {
    const home = (address) => state.segments.find((s) => s.address <= address && address < s.end);
    for (let i = k - 1; i >= 0; i--) {
      const life = trace.lifeOf[i];
      if (life < 0 || !isShort[life]) continue;
      const address = trace.addresses[trace.lives.place[life]],
        segment = home(address);
      if (segment) return { segment, address };
    }
    for (const segment of state.segments) {
      const block = segment.blocks.find(({ life }) => life >= 0 && isShort[life]);
      if (block) return { segment, address: block.address };
    }
    return null;
  }

  function drawStrip(canvas, trace, state, k, focus, look, enlarged, width) {
    const found = enlarged && shown(trace, state, k, enlarged);
    canvas.style.display = found ? "block" : "none";
    if (!found) return;
    const { segment, address } = found,
      { window } = enlarged,
      page = window / 2; // it moves by whole pages, so that most steps leave it where it is
    const from = Math.floor((address - segment.address) / page) * page;
    const to = Math.min(segment.size, from + window),
      scale = width / window,
      wide = (to - from) * scale;
    const pen = pens.prepare(canvas, width, TOP + HIGH + 4);
    const place = from ? `from byte ${bytes(from)} on` : "its first bytes";
    pens.words(pen, `the segment of ${bytes(segment.size)}, ${place}, enlarged`, 0, 9, {
      size: 11,
      fill: look.muted,
      align: "left",
      width,
    });
    memoryBlocks.stretch(pen, { segment, from, to, x: 0, y: TOP, width: wide, height: HIGH }, look);
    const left = (at) => Math.max(0, (at - segment.address - from) * scale);
    const right = (at) => Math.min(wide, (at - segment.address - from) * scale);
    for (const block of segment.blocks) {
      const { address: at, size, life } = block,
        asked = look.requested(block);
      const label = (start, end, texts, fill) => {
        const room = right(end) - left(start);
        const text = texts.find((one) => one.length * LETTER + 4 < room);
        const middle = left(start) + room / 2;
        if (text) pens.words(pen, text, middle, TOP + HIGH / 2, { size: 11, fill });
      };
      if (life < 0) label(at, at + size, [`free ${bytes(size)}`, "free"], look.muted);
      else label(at, at + asked, [bytes(asked)], "#ffffff");
      const added = `${bytes(size - asked)} added`;
      if (asked < size) label(at + asked, at + size, [added], look.ink);
    }
    pens.frameCell(pen, 0, TOP, wide, HIGH, look.line, 1);
    if (!focus || right(focus.address + focus.size) <= left(focus.address)) return;
    const edge = left(focus.address),
      end = right(focus.address + focus.size);
    pens.frameCell(pen, edge, TOP - 2, end - edge, HIGH + 4, look.accent, 2);
  }

  return { bytesPerRow, strip, drawStrip };
})();
