// Draws the strip of a storage: a window of its cells, and a map of the whole where that is larger.
// Only the window is drawn, so the cost does not grow with the storage.
//
// `lights` are the lit elements: [{ view, index, at }].
const strideStrip = (() => {
  const { prepare, words, hatch, frameCell } = pens;
  const LINES = 5; // lines of cells drawn at once
  const PAST_THE_END = 24; // cells drawn behind the last one, to show what a view is missing
  const CELL = 27; // px: heights of a cell,
  const ADDRESS = 14; // of the number under it,
  const LANE = 6; // of a bar per view,
  const COUNTED_LANE = 11; // and of a bar with room for "×2"

  // How many cells stand in a line, how many lines, and from which cell on.
  function lay(scene, strip, users, lights) {
    const total = scene.cellsOf(strip.storage),
      width = scene.cellWidth;
    const furthest = Math.max(
      0,
      ...users.map((view) => (view.fact.ends ? scene.cellOf(view, view.fact.ends[1]) + view.k : 0)),
    );
    const all = total + Math.max(0, Math.min(PAST_THE_END, furthest - total));
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

  function paint(scene, strip, lights) {
    const users = scene.views.filter((view) => view.storage === strip.n && scene.shown(view.n));
    lay(scene, strip, users, lights);
    const { width, per, lines, line, count } = strip.look;
    const pen = prepare(strip.canvas, per * width + 2, lines * line);
    const place = (i) => [1 + (i % per) * width, 1 + Math.floor(i / per) * line];
    for (let i = 0; i < count; i++) {
      const cell = strip.from + i,
        [x, y] = place(i);
      paintCell(scene, strip, pen, cell, x, y);
      users.forEach((view, n) =>
        paintUse(scene, strip, pen, view, cell, x, y + CELL + ADDRESS + 1 + n * strip.look.lane),
      );
    }
    for (const { view, at } of lights.filter((light) => light.view.storage === strip.n)) {
      for (let cell = scene.cellOf(view, at); cell < scene.cellOf(view, at) + view.k; cell++) {
        const i = cell - strip.from;
        if (i >= 0 && i < count) paintLight(scene, strip, pen, view, cell, ...place(i));
      }
    }
    paintMap(scene, strip, users);
    return count;
  }

  function paintCell({ looks, textAt }, strip, pen, cell, x, y) {
    const { width, total } = strip.look,
      missing = cell >= total,
      middle = x + width / 2;
    pen.fillStyle = looks.cell;
    pen.fillRect(x, y, width, CELL);
    const below = { size: 10, fill: missing ? looks.alert : looks.muted, width };
    words(pen, String(cell), middle, y + CELL + 8, below);
    if (missing) {
      hatch(pen, x, y, width, CELL, looks.alert);
      frameCell(pen, x, y, width + 1, CELL + 1, looks.alert, 1, [3, 2]);
    } else {
      frameCell(pen, x, y, width + 1, CELL + 1, looks.line, 1);
      const text = textAt(`${strip.n}:${strip.storage.dtype}`, cell);
      words(pen, text, middle, y + CELL / 2 + 1, { fill: looks.ink, width: width - 4 });
    }
  }

  // A bar in the view's colour under a cell it uses; "×2" where two of its elements lie there.
  function paintUse(scene, strip, pen, view, cell, x, top) {
    const { width, lane } = strip.look;
    const times = affine.countAt(view, scene.elementAt(view, cell), 100);
    if (times === 0) return;
    pen.fillStyle = scene.colour(view.n);
    pen.fillRect(x + 1.5, top, width - 2, lane - 1.5);
    if (times === 1) return;
    pen.fillStyle = scene.looks.paper;
    pen.fillRect(x + width / 2 - 11, top, 22, lane - 1.5);
    const style = { size: 10, fill: scene.looks.ink, weight: "bold" };
    words(pen, times > 99 ? "99+" : `×${times}`, x + width / 2, top + 5, style);
  }

  function paintLight(scene, { look }, pen, view, cell, x, y) {
    const colour = scene.colour(view.n);
    pen.globalAlpha = 0.25;
    pen.fillStyle = colour;
    pen.fillRect(x, y, look.width, CELL);
    pen.globalAlpha = 1;
    frameCell(
      pen,
      x - 1,
      y - 1,
      look.width + 3,
      CELL + 3,
      cell >= look.total ? scene.looks.alert : colour,
      3,
    );
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

  // The cell under a point of the canvas; null beside the cells.
  function cellUnder(strip, event) {
    const { x, y } = lk.spot(event);
    const { width, per, line, count } = strip.look;
    const column = Math.floor((x - 1) / width);
    const i = Math.floor(y / line) * per + column;
    return column >= 0 && column < per && i < count ? strip.from + i : null;
  }

  return { paint, cellUnder };
})();
