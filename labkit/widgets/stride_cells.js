// Draws the two pictures of a stride view: storage cells in a strip, elements in a grid.
// Only a window of either is drawn, so the cost does not grow with the storage or the tensor.
//
// `lights` are the lit elements: [{ view, index, at }].
const strideCells = (() => {
  const { prepare, words, hatch, frameCell } = pens;
  const WINDOW = 64; // rows and columns of a grid drawn at once
  const LINES = 5; // lines of a strip drawn at once
  const CELL = 27,
    ADDRESS = 14,
    LANE = 6; // heights: cell, the address under it, a bar per view
  const COUNTED_LANE = 11; // a bar with room for "×2"
  const HEAD = 20,
    SIDE = 30; // room for the column and row numbers of a grid

  // How many cells stand in a line, how many lines, and from which cell on.
  function layStrip(scene, strip, users, lights) {
    const total = scene.cellsOf(strip.storage),
      width = scene.cellWidth;
    const furthest = Math.max(
      0,
      ...users.map((view) => (view.fact.ends ? scene.cellOf(view, view.fact.ends[1]) + view.k : 0)),
    );
    const all = total + Math.max(0, Math.min(24, furthest - total)); // a few cells past the end, to show what is missing
    let per = Math.max(1, Math.floor((scene.width - 2) / width));
    if (all > per && per >= 8) per -= per % 4;
    per = Math.min(per, Math.max(1, all));
    const lines = Math.max(1, Math.min(LINES, Math.ceil(all / per)));
    const target = lights.find(({ view }) => view.storage === strip.n);
    if (target && !strip.scrolled) {
      const cell = scene.cellOf(target.view, target.at);
      if (cell < strip.from || cell >= strip.from + per * lines)
        strip.from = cell - per * Math.floor(lines / 2);
    }
    strip.scrolled = false;
    const last = Math.max(0, Math.ceil(all / per) - lines) * per;
    strip.from = Math.max(0, Math.min(last, Math.floor(strip.from / per) * per));
    const lane = users.some(({ fact }) => fact.distinct !== null && fact.distinct < fact.numel)
      ? COUNTED_LANE
      : LANE;
    const line = CELL + ADDRESS + Math.max(1, users.length) * lane + 7;
    strip.look = {
      width,
      per,
      lines,
      line,
      lane,
      total,
      all,
      count: Math.min(per * lines, all - strip.from),
    };
  }

  function paintStrip(scene, strip, lights) {
    const users = scene.views.filter((view) => view.storage === strip.n && scene.shown(view.n));
    layStrip(scene, strip, users, lights);
    const { width, per, lines, line, lane, total, count } = strip.look,
      { looks } = scene;
    const pen = prepare(strip.canvas, per * width + 2, lines * line);
    const place = (i) => [1 + (i % per) * width, 1 + Math.floor(i / per) * line];
    for (let i = 0; i < count; i++) {
      const cell = strip.from + i,
        [x, y] = place(i),
        missing = cell >= total;
      pen.fillStyle = looks.cell;
      pen.fillRect(x, y, width, CELL);
      if (missing) hatch(pen, x, y, width, CELL, looks.alert);
      frameCell(
        pen,
        x,
        y,
        width + 1,
        CELL + 1,
        missing ? looks.alert : looks.line,
        1,
        missing ? [3, 2] : [],
      );
      if (!missing)
        words(
          pen,
          scene.textAt(`${strip.n}:${strip.storage.dtype}`, cell),
          x + width / 2,
          y + CELL / 2 + 1,
          { fill: looks.ink, width: width - 4 },
        );
      words(pen, String(cell), x + width / 2, y + CELL + 8, {
        size: 10,
        fill: missing ? looks.alert : looks.muted,
        width,
      });
      users.forEach((view, n) => {
        const times = affine.countAt(view, scene.elementAt(view, cell), 100);
        if (!times) return;
        const top = y + CELL + ADDRESS + 1 + n * lane;
        pen.fillStyle = scene.colour(view.n);
        pen.fillRect(x + 1.5, top, width - 2, lane - 1.5);
        if (times === 1) return;
        pen.fillStyle = looks.paper;
        pen.fillRect(x + width / 2 - 11, top, 22, lane - 1.5);
        words(pen, times > 99 ? "99+" : `×${times}`, x + width / 2, top + 5, {
          size: 10,
          fill: looks.ink,
          weight: "bold",
        });
      });
    }
    for (const { view, at } of lights.filter((light) => light.view.storage === strip.n)) {
      for (let cell = scene.cellOf(view, at); cell < scene.cellOf(view, at) + view.k; cell++) {
        if (cell < strip.from || cell >= strip.from + count) continue;
        const [x, y] = place(cell - strip.from);
        pen.globalAlpha = 0.25;
        pen.fillStyle = scene.colour(view.n);
        pen.fillRect(x, y, width, CELL);
        pen.globalAlpha = 1;
        frameCell(
          pen,
          x - 1,
          y - 1,
          width + 3,
          CELL + 3,
          cell >= total ? looks.alert : scene.colour(view.n),
          3,
        );
      }
    }
    paintMap(scene, strip, users);
    return count;
  }

  // The whole storage in one line: where each view has elements, and which part the strip shows.
  function paintMap(scene, strip, users) {
    const { count, all, total, per, width: cell } = strip.look;
    strip.map.style.display = count >= all ? "none" : "block";
    if (count >= all) return;
    const width = per * cell,
      height = 6 + users.length * 5;
    const key = JSON.stringify([
      width,
      scene.looks,
      users.map(({ n, sizes, strides, offset }) => [n, sizes, strides, offset]),
    ]);
    if (strip.mapKey !== key) {
      strip.mapKey = key;
      strip.mapImage = document.createElement("canvas");
      const pen = prepare(strip.mapImage, width, height);
      pen.fillStyle = scene.looks.panel;
      pen.fillRect(0, 0, width, height);
      users.forEach((view, lane) => {
        pen.fillStyle = scene.colour(view.n);
        for (let x = 0; x < width; x++) {
          const from = scene.elementAt(view, (x / width) * total),
            to = scene.elementAt(view, ((x + 1) / width) * total);
          if (affine.touches(view, from, Math.max(from + 1, to)))
            pen.fillRect(x, 3 + lane * 5, 1, 4);
        }
      });
    }
    const pen = prepare(strip.map, width, height);
    pen.drawImage(strip.mapImage, 0, 0, width, height);
    const long = Math.max(4, (count / total) * width);
    frameCell(
      pen,
      Math.min(width - long, (strip.from / total) * width),
      0,
      long,
      height,
      scene.looks.ink,
      1.5,
    );
  }

  // Cell size and the part shown: the window follows the cursor.
  function layGrid(scene, card, view, index) {
    const rows = view.rows === null ? 1 : view.sizes[view.rows],
      cols = view.cols === null ? 1 : view.sizes[view.cols];
    const follow = (at, from, size) =>
      at < from
        ? at
        : at >= from + WINDOW
          ? at - WINDOW + 1
          : Math.max(0, Math.min(from, size - WINDOW));
    const top = view.rows === null ? 0 : follow(index[view.rows], card.look?.top ?? 0, rows);
    const left = view.cols === null ? 0 : follow(index[view.cols], card.look?.left ?? 0, cols);
    const high = Math.min(WINDOW, rows),
      wide = Math.min(WINDOW, cols),
      room = Math.max(120, scene.width - SIDE - 34);
    const written = high <= 16 && wide <= 16 && wide * 26 <= room;
    const width = written
      ? Math.min(scene.cellWidth, Math.floor(room / Math.max(1, wide)))
      : Math.max(3, Math.min(20, Math.floor(Math.min(room, 560) / Math.max(wide, high))));
    card.look = {
      rows,
      cols,
      top,
      left,
      high,
      wide,
      written,
      width,
      height: written ? 34 : Math.min(width, 20),
    };
    return card.look;
  }

  function paintGrid(scene, card, lights, cursor) {
    const view = scene.views[card.n],
      { fact } = view,
      { looks } = scene,
      colour = scene.colour(view.n);
    const { top, left, high, wide, written, width, height } = layGrid(scene, card, view, cursor);
    const pen = prepare(
      card.canvas,
      SIDE + Math.max(1, wide) * width + 3,
      HEAD + Math.max(1, high) * height + 3,
    );
    if (fact.numel === 0) {
      words(pen, "no elements", SIDE, HEAD + height / 2, {
        size: 11,
        fill: looks.muted,
        align: "left",
      });
      return 0;
    }
    const sparse = (size, pixels) => {
      let by = 1;
      while (by * size < pixels) by *= 2;
      return by;
    };
    if (view.cols !== null)
      for (let c = 0; c < wide; c += sparse(width, 22))
        words(pen, String(left + c), SIDE + (c + 0.5) * width, HEAD / 2, {
          size: 10,
          fill: looks.muted,
        });
    if (view.rows !== null)
      for (let r = 0; r < high; r += sparse(height, 14))
        words(pen, String(top + r), SIDE - 6, HEAD + (r + 0.5) * height, {
          size: 10,
          fill: looks.muted,
          align: "right",
        });

    const stride = (dim) => (dim === null ? 0 : view.strides[dim]);
    const corner = affine.address(
      view,
      view.sizes.map((_, dim) =>
        dim === view.rows ? top : dim === view.cols ? left : cursor[dim],
      ),
    );
    const behind = view.sizes.some(
      (_, dim) =>
        view.strides[dim] === 0 && dim !== view.rows && dim !== view.cols && cursor[dim] > 0,
    );
    const overlaps = fact.distinct !== null && fact.distinct < fact.numel;
    const known = new Map();
    const timesAt = (at) => known.get(at) ?? known.set(at, affine.countAt(view, at, 100)).get(at);
    pen.fillStyle = looks.cell;
    pen.fillRect(SIDE, HEAD, wide * width, high * height);
    pen.globalAlpha = 0.2;
    pen.fillStyle = colour;
    pen.fillRect(SIDE, HEAD, wide * width, high * height);
    pen.globalAlpha = 1;
    for (let r = 0; r < high; r++)
      for (let c = 0; c < wide; c++) {
        const at = corner + r * stride(view.rows) + c * stride(view.cols),
          x = SIDE + c * width,
          y = HEAD + r * height;
        const missing = at < fact.lowest || at >= fact.room;
        const again =
          behind ||
          (stride(view.cols) === 0 && left + c > 0) ||
          (stride(view.rows) === 0 && top + r > 0);
        if (missing || again) {
          pen.fillStyle = looks.cell;
          pen.fillRect(x, y, width, height);
        }
        if (missing) hatch(pen, x, y, width, height, looks.alert);
        else if (again && width > 9)
          frameCell(pen, x + 2, y + 2, width - 3, height - 3, colour, 1, [2, 3]);
        const times = overlaps && !again && !missing && width > 5 ? timesAt(at) : 1;
        if (!written) {
          pen.fillStyle = looks.alert;
          if (times > 1) pen.fillRect(x + width - 4, y + 2, 2.5, 2.5);
          continue;
        }
        const value = missing ? "" : scene.valueOf(view, at);
        if (missing) {
          pen.fillStyle = looks.cell;
          pen.fillRect(x + 3, y + 10, width - 6, 15);
        }
        if (value)
          words(pen, value, x + width / 2, y + 13, {
            fill: again ? looks.muted : looks.ink,
            width: width - 5,
          });
        words(pen, `@${at}`, x + width / 2, y + (value ? 26 : 18), {
          size: value ? 9 : 11,
          fill: missing ? looks.alert : looks.muted,
          width,
        });
        if (times > 1)
          words(pen, times > 99 ? "99+" : String(times), x + width - 3, y + 8, {
            size: 9,
            fill: looks.alert,
            align: "right",
            weight: "bold",
          });
      }
    pen.strokeStyle = looks.line;
    pen.lineWidth = 1;
    pen.beginPath();
    for (let c = 0; c <= wide; c++) {
      pen.moveTo(SIDE + c * width + 0.5, HEAD);
      pen.lineTo(SIDE + c * width + 0.5, HEAD + high * height);
    }
    for (let r = 0; r <= high; r++) {
      pen.moveTo(SIDE, HEAD + r * height + 0.5);
      pen.lineTo(SIDE + wide * width, HEAD + r * height + 0.5);
    }
    pen.stroke();

    const mark = (index, stroke, thick, dash) => {
      const r = (view.rows === null ? 0 : index[view.rows]) - top,
        c = (view.cols === null ? 0 : index[view.cols]) - left;
      const inPlane = index.every(
        (i, dim) => dim === view.rows || dim === view.cols || i === cursor[dim],
      );
      if (inPlane && r >= 0 && c >= 0 && r < high && c < wide)
        frameCell(
          pen,
          SIDE + c * width - 1,
          HEAD + r * height - 1,
          width + 3,
          height + 3,
          stroke,
          thick,
          dash,
        );
    };
    // Dashed: other elements, of this view or the lit one's, that live in the same cell.
    for (const light of lights.filter((other) => other.view.storage === view.storage)) {
      for (let part = 0; part < light.view.k; part++) {
        const same = scene.elementAt(view, scene.cellOf(light.view, light.at) + part);
        affine
          .indicesAt(view, same, 256)
          .forEach((index) => mark(index, looks.ink, width > 9 ? 2 : 1, [4, 2]));
      }
    }
    for (const light of lights.filter((other) => other.view.n === view.n)) {
      mark(
        light.index,
        light.at < fact.lowest || light.at >= fact.room ? looks.alert : looks.ink,
        3,
      );
    }
    return high * wide;
  }

  // The cell, or the element, under a point of the canvas; null beside them.
  function cellUnder(strip, { offsetX, offsetY }) {
    const { width, per, line, count } = strip.look,
      column = Math.floor((offsetX - 1) / width);
    const i = Math.floor(offsetY / line) * per + column;
    return column >= 0 && column < per && i < count ? strip.from + i : null;
  }
  function placeUnder(card, { offsetX, offsetY }) {
    const { width, height, left, top, rows, cols } = card.look;
    const col = left + Math.floor((offsetX - SIDE) / width),
      row = top + Math.floor((offsetY - HEAD) / height);
    return offsetX < SIDE || offsetY < HEAD || col >= cols || row >= rows ? null : [row, col];
  }

  return { paintStrip, paintGrid, cellUnder, placeUnder };
})();
