// Draws two dimensions of a view as a grid of elements: at most 64 by 64, following the cursor.
const strideGrid = (() => {
  const { prepare, words, hatch, frameCell } = pens;
  const WINDOW = 64; // rows and columns drawn at once
  const WRITTEN = 16; // up to so many rows and columns, cells hold their value and address
  const HEAD = 20,
    SIDE = 30; // room for the column and row numbers

  const along = (view, dim, list) => (dim === null ? 0 : list[dim]);
  const follow = (at, from, size) => {
    if (at < from) return at;
    return at >= from + WINDOW ? at - WINDOW + 1 : Math.max(0, Math.min(from, size - WINDOW));
  };

  // Cell size and the part shown.
  function lay(scene, card, view, cursor) {
    const rows = view.rows === null ? 1 : view.sizes[view.rows];
    const cols = view.cols === null ? 1 : view.sizes[view.cols];
    const top = follow(along(view, view.rows, cursor), card.look?.top ?? 0, rows);
    const left = follow(along(view, view.cols, cursor), card.look?.left ?? 0, cols);
    const high = Math.min(WINDOW, rows),
      wide = Math.min(WINDOW, cols);
    const room = Math.max(120, scene.width - SIDE - 34);
    const written = high <= WRITTEN && wide <= WRITTEN && wide * 26 <= room;
    const width = written
      ? Math.min(scene.cellWidth, Math.floor(room / Math.max(1, wide)))
      : Math.max(3, Math.min(20, Math.floor(Math.min(room, 560) / Math.max(wide, high))));
    const height = written ? 34 : Math.min(width, 20);
    card.look = { rows, cols, top, left, high, wide, written, width, height };
    return card.look;
  }

  function paint(scene, card, lights, cursor) {
    const view = scene.views[card.n],
      look = lay(scene, card, view, cursor);
    const wide = SIDE + Math.max(1, look.wide) * look.width + 3;
    const pen = prepare(card.canvas, wide, HEAD + Math.max(1, look.high) * look.height + 3);
    if (view.fact.numel === 0) {
      const style = { size: 11, fill: scene.looks.muted, align: "left" };
      words(pen, "no elements", SIDE, HEAD + look.height / 2, style);
      return 0;
    }
    const grid = {
      ...look,
      scene,
      view,
      cursor,
      pen,
      x: (c) => SIDE + c * look.width,
      y: (r) => HEAD + r * look.height,
    };
    numbers(grid);
    cells(grid);
    lines(grid);
    marks(grid, lights);
    judgements(grid);
    return look.high * look.wide;
  }

  function numbers({ scene, view, pen, x, y, top, left, high, wide, width, height }) {
    const style = { size: 10, fill: scene.looks.muted };
    const every = (pixels, need) => 2 ** Math.max(0, Math.ceil(Math.log2(need / pixels)));
    const across = view.cols === null ? 0 : wide,
      down = view.rows === null ? 0 : high;
    for (let c = 0; c < across; c += every(width, 22)) {
      words(pen, String(left + c), x(c + 0.5), HEAD / 2, style);
    }
    for (let r = 0; r < down; r += every(height, 14)) {
      words(pen, String(top + r), SIDE - 6, y(r + 0.5), { ...style, align: "right" });
    }
  }

  function cells(grid) {
    const { scene, view, cursor, pen, x, y, top, left, high, wide, width, height } = grid;
    const { fact, strides, rows, cols } = view;
    const down = along(view, rows, strides),
      across = along(view, cols, strides);
    const first = cursor.map((i, dim) => (dim === rows ? top : dim === cols ? left : i));
    const corner = affine.address(view, first);
    const behind = cursor.some(
      (i, dim) => i > 0 && strides[dim] === 0 && dim !== rows && dim !== cols,
    );
    const overlaps = !scene.simple() && fact.distinct !== null && fact.distinct < fact.numel;
    const known = new Map(); // address -> how many elements lie there
    const timesAt = (at) => known.get(at) ?? known.set(at, affine.countAt(view, at, 100)).get(at);
    pen.fillStyle = scene.looks.cell;
    pen.fillRect(SIDE, HEAD, wide * width, high * height);
    pen.globalAlpha = 0.2;
    pen.fillStyle = scene.colour(view.n);
    pen.fillRect(SIDE, HEAD, wide * width, high * height);
    pen.globalAlpha = 1;
    for (let r = 0; r < high; r++) {
      for (let c = 0; c < wide; c++) {
        const at = corner + r * down + c * across;
        const missing = at < fact.lowest || at >= fact.room;
        const again = behind || (across === 0 && left + c > 0) || (down === 0 && top + r > 0);
        const times = overlaps && !again && !missing && width > 5 ? timesAt(at) : 1;
        ground(grid, x(c), y(r), missing, again);
        if (grid.written) write(grid, x(c), y(r), { at, missing, again, times });
        else if (times > 1) {
          pen.fillStyle = scene.looks.alert;
          pen.fillRect(x(c) + width - 4, y(r) + 2, 2.5, 2.5);
        }
      }
    }
  }

  // What lies behind the text: nothing special, outside the storage, or a cell seen before.
  function ground({ scene, view, pen, width, height }, x, y, missing, again) {
    if (!missing && !again) return;
    pen.fillStyle = scene.looks.cell;
    pen.fillRect(x, y, width, height);
    if (missing) hatch(pen, x, y, width, height, scene.looks.alert);
    else if (width > 9)
      frameCell(pen, x + 2, y + 2, width - 3, height - 3, scene.colour(view.n), 1, [2, 3]);
  }

  // Value and address; the number of elements on the cell in its corner where they are several.
  function write({ scene, view, pen, width }, x, y, { at, missing, again, times }) {
    const { looks } = scene,
      value = missing ? "" : scene.valueOf(view, at);
    if (missing) {
      pen.fillStyle = looks.cell;
      pen.fillRect(x + 3, y + 10, width - 6, 15);
    }
    const fill = again ? looks.muted : looks.ink;
    if (value) words(pen, value, x + width / 2, y + 13, { fill, width: width - 5 });
    const below = { size: value ? 9 : 11, fill: missing ? looks.alert : looks.muted, width };
    words(pen, `@${at}`, x + width / 2, y + (value ? 26 : 18), below);
    if (times === 1) return;
    const corner = { size: 9, fill: looks.alert, align: "right", weight: "bold" };
    words(pen, times > 99 ? "99+" : String(times), x + width - 3, y + 8, corner);
  }

  function lines({ scene, pen, x, y, high, wide }) {
    pen.strokeStyle = scene.looks.line;
    pen.lineWidth = 1;
    pen.beginPath();
    for (let c = 0; c <= wide; c++) {
      pen.moveTo(x(c) + 0.5, y(0));
      pen.lineTo(x(c) + 0.5, y(high));
    }
    for (let r = 0; r <= high; r++) {
      pen.moveTo(x(0), y(r) + 0.5);
      pen.lineTo(x(wide), y(r) + 0.5);
    }
    pen.stroke();
  }

  // Dashed: every element in the lit element's cell, of this view or another. Solid: the lit one.
  function marks({ scene, view, cursor, pen, x, y, top, left, high, wide, width, height }, lights) {
    const { looks } = scene,
      { fact, rows, cols } = view;
    const mark = (index, stroke, thick, dash) => {
      const r = along(view, rows, index) - top,
        c = along(view, cols, index) - left;
      const here = index.every((i, dim) => dim === rows || dim === cols || i === cursor[dim]);
      if (!here || r < 0 || c < 0 || r >= high || c >= wide) return;
      frameCell(pen, x(c) - 1, y(r) - 1, width + 3, height + 3, stroke, thick, dash);
    };
    for (const light of lights.filter((other) => other.view.storage === view.storage)) {
      for (let part = 0; part < light.view.k; part++) {
        const at = scene.elementAt(view, scene.cellOf(light.view, light.at) + part);
        for (const index of affine.indicesAt(view, at, 256))
          mark(index, looks.ink, width > 9 ? 2 : 1, [4, 2]);
      }
    }
    for (const { index, at } of lights.filter((light) => light.view === view)) {
      mark(index, at < fact.lowest || at >= fact.room ? looks.alert : looks.ink, 3);
    }
  }

  // The elements that somebody judged: a thick frame, with ✓ or ✗ in its corner.
  function judgements({ scene, view, cursor, pen, x, y, top, left, high, wide, width, height }) {
    const { rows, cols } = view;
    for (const { index, right } of scene.marksOf(view)) {
      const r = along(view, rows, index) - top,
        c = along(view, cols, index) - left;
      const here = index.every((i, dim) => dim === rows || dim === cols || i === cursor[dim]);
      if (!here || r < 0 || c < 0 || r >= high || c >= wide) continue;
      const colour = right ? scene.looks.accent : scene.looks.alert;
      frameCell(pen, x(c) - 1, y(r) - 1, width + 3, height + 3, colour, 3, right ? [] : [6, 2]);
      if (width < 14) continue;
      const style = { size: 13, fill: colour, align: "left", weight: "bold" };
      words(pen, right ? "✓" : "✗", x(c) + 3, y(r) + 8, style);
    }
  }

  // Row and column under a point of the canvas; null beside the grid.
  function placeUnder(card, event) {
    const { x, y } = lk.spot(event);
    const { width, height, left, top, rows, cols } = card.look;
    const col = left + Math.floor((x - SIDE) / width);
    const row = top + Math.floor((y - HEAD) / height);
    return x < SIDE || y < HEAD || col >= cols || row >= rows ? null : [row, col];
  }

  return { paint, placeUnder };
})();
