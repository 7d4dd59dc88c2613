// The stacked timeline: one column of pixels per entry shown, the oldest block at the bottom.
// Each column shows the entry with most live bytes among those it stands for, so no peak is lost.
const timelines = (() => {
  const STEPS = 6e6; // list steps a redraw may take; beyond it neighbouring columns share a stack

  const rgba = (colour, alpha = 255) => {
    const n = parseInt(colour.slice(1), 16);
    return ((alpha << 24) | ((n & 255) << 16) | (n & 0xff00) | (n >> 16)) >>> 0;
  };

  // Blocks alive after k entries as a doubly linked list in order of birth.
  function chainAt(trace, k) {
    const { count, start, end } = trace.lives;
    trace.chain ??= { next: new Int32Array(count + 1), previous: new Int32Array(count + 1) };
    const { next, previous } = trace.chain;
    let last = count; // the list's head and tail is a place of its own
    for (let life = 0; life < count && start[life] <= k; life++) {
      if (end[life] < k) continue;
      next[last] = life;
      previous[life] = last;
      last = life;
    }
    next[last] = count;
    previous[count] = last;
    return { next, previous, head: count };
  }

  function busiest(live, from, to) {
    let best = from;
    for (let k = from + 1; k < to; k++) if (live[k] > live[best]) best = k;
    return best;
  }

  // Paints entries [from, to] into width x height pixels; colour(life) is a 32-bit colour.
  function paint(trace, { from, to, width, height, top, colour }) {
    const image = new ImageData(width, height),
      pixels = new Uint32Array(image.data.buffer);
    const {
      lives,
      lifeOf,
      live,
      code,
      columns: { action },
    } = trace;
    const { next, previous, head } = chainAt(trace, from);
    const scale = height / Math.max(top, 1),
      entries = to - from;
    let size = 0;
    for (let life = next[head]; life !== head; life = next[life]) size++;
    const every = Math.max(1, Math.ceil((size * width) / STEPS));
    let k = from;
    for (let x = 0; x < width; x += every) {
      const low = from + Math.floor((entries * x) / width);
      const high = Math.max(
        low + 1,
        from + Math.floor((entries * Math.min(width, x + every)) / width),
      );
      const target =
        x === 0 && low === 0 && entries <= width ? low : busiest(live, low, Math.min(high, to + 1));
      for (; k < target; k++) {
        const life = lifeOf[k];
        if (life < 0) continue;
        if (action[k] === code.alloc) {
          const last = previous[head];
          next[last] = life;
          previous[life] = last;
          next[life] = head;
          previous[head] = life;
        } else if (action[k] === code.free_completed) {
          next[previous[life]] = next[life];
          previous[next[life]] = previous[life];
        }
      }
      let bytes = 0,
        y = 0;
      for (let life = next[head]; life !== head; life = next[life]) {
        bytes += lives.block[life];
        const until = Math.min(height, Math.round(bytes * scale));
        if (until <= y) continue;
        const value = colour(life);
        for (let copy = x; copy < Math.min(x + every, width); copy++) {
          for (let row = y; row < until; row++) pixels[(height - 1 - row) * width + copy] = value;
        }
        y = until;
      }
    }
    return image;
  }

  // The life under a pixel: k entries done, `bytes` above the bottom.
  function lifeAt(trace, k, bytes) {
    const { next, head } = chainAt(trace, k);
    let sum = 0;
    for (let life = next[head]; life !== head; life = next[life]) {
      sum += trace.lives.block[life];
      if (sum > bytes) return life;
    }
    return -1;
  }

  const HIGH = 12,
    DEEPEST = 3,
    PER_LETTER = 6.2;
  // Pixels that the bars need above what else is drawn.
  const regionsHigh = (regions) =>
    Math.min(
      DEEPEST,
      regions.reduce((most, [, , , depth]) => Math.max(most, depth + 1), 0),
    ) *
    (HIGH + 1);

  // Bars along the top for the named parts of the program, an inner one below its outer one.
  function drawRegions(pen, regions, { x, from, to, width, theme }) {
    for (const [name, first, last, depth] of regions) {
      if (last < from || first > to || depth >= DEEPEST) continue;
      const left = Math.max(0, x(first)),
        wide = Math.max(1.5, Math.min(width, x(last)) - left);
      const top = depth * (HIGH + 1);
      pen.fillStyle = theme.panel;
      pen.fillRect(left, top, wide, HIGH);
      pen.fillStyle = theme.accent;
      pen.fillRect(left, top + HIGH - 2, wide, 2);
      const letters = Math.floor((wide - 6) / PER_LETTER);
      if (letters < 4) continue;
      const text = name.length > letters ? `${name.slice(0, letters - 1)}…` : name;
      pens.words(pen, text, left + 3, top + 5, { size: 10, fill: theme.ink, align: "left" });
    }
  }

  return { paint, lifeAt, rgba, drawRegions, regionsHigh };
})();
