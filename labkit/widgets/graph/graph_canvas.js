// A directed graph on a canvas: places come from Python, this draws, pans, zooms and is clicked.
const graphCanvas = (() => {
  const NODE_WIDTH = 132,
    LAYER_HEIGHT = 62,
    BOX_WIDTH = 124,
    BOX_HEIGHT = 30,
    READABLE = 0.46,
    LARGEST = 1.1,
    OVERVIEW = 0.2,
    FAINT = 0.22;
  const STATE_COLOURS = {
    active: "#E69F00",
    ready: "#56B4E9",
    done: "#009E73",
    waiting: "#8E6BD8",
    error: "#D55E00",
  };
  const colourOf = (kinds, kind, otherwise) =>
    kind ? lk.palette[kinds[kind] % lk.palette.length] : otherwise;
  const shortened = (text, room) =>
    text.length > room ? text.slice(0, Math.max(1, room - 1)) + "…" : text;

  // root: the widget's; label: for a screen reader; pick(i): node i was clicked, -1 for none;
  // look(): what is in force: marks, notes, flows (maps of members), lit (edges, a set),
  // matches (nodes found), chosen (a node, or -1), and optionally absent(member) and
  // absentEdge(member): not there now, accent: the colour of the chosen.
  function make({ root, label, look, pick }) {
    const canvas = lk.focusable(
      lk.h("canvas", { class: "lk-graph-canvas", role: "img", "aria-label": label }),
    );
    let level = { nodes: [], edges: [] },
      kinds = {},
      drawnAs = new Map(),
      base = null;
    const view = { scale: 1, x: 0, y: 0 };
    const at = (x, y) => [
      x * NODE_WIDTH * view.scale + view.x,
      y * LAYER_HEIGHT * view.scale + view.y,
    ];
    const size = () => [canvas.clientWidth || 640, canvas.clientHeight || 360];

    function use(next, itsKinds) {
      [level, kinds] = [next, itsKinds];
      drawnAs = new Map(level.nodes.flatMap((node, i) => node.members.map((m) => [m, i])));
    }

    // The drawing's edges [left, right, top, bottom], and its size in pixels at scale 1.
    function extent() {
      const limits = [Infinity, -Infinity, Infinity, -Infinity];
      const bends = level.edges.flatMap(([, , , route]) => route.map(([x, y]) => ({ x, y })));
      for (const { x, y } of [...level.nodes, ...bends]) {
        limits[0] = Math.min(limits[0], x);
        limits[1] = Math.max(limits[1], x);
        limits[2] = Math.min(limits[2], y);
        limits[3] = Math.max(limits[3], y);
      }
      const [x0, x1, y0, y1] = limits;
      const wide = (x1 - x0 + 1.2) * NODE_WIDTH,
        tall = (y1 - y0 + 1) * LAYER_HEIGHT;
      return { limits, wide, tall };
    }
    // The canvas is as high as the whole graph needs it to be read, within [least, most] pixels.
    function grow(least, most) {
      if (!level.nodes.length) return;
      const { wide, tall } = extent();
      const high = tall * Math.min(LARGEST, size()[0] / wide);
      canvas.style.height = `${Math.round(Math.max(least, Math.min(most, high)))}px`;
    }
    // The whole graph; with `readable`, rather its top at a size one can read.
    function fit(readable = false) {
      if (!level.nodes.length) return;
      const [width, height] = size(),
        { limits, wide, tall } = extent(),
        [x0, x1, y0, y1] = limits;
      const whole = Math.min(LARGEST, width / wide, height / tall);
      const scale = Math.max(readable ? READABLE : 0, whole);
      const reach = width / (2 * scale * NODE_WIDTH) - 0.6;
      // A wider drawing fills the canvas around its first node.
      const middle =
        scale * wide <= width
          ? (x0 + x1) / 2
          : Math.max(x0 + reach, Math.min(x1 - reach, level.nodes[0].x));
      view.scale = scale;
      view.x = width / 2 - middle * NODE_WIDTH * scale;
      view.y =
        scale * tall <= height
          ? (height - (y0 + y1) * LAYER_HEIGHT * scale) / 2
          : LAYER_HEIGHT * scale * (0.6 - y0);
    }
    function zoom(by, x = size()[0] / 2, y = size()[1] / 2) {
      const to = Math.max(0.005, Math.min(3, view.scale * by));
      view.x = x - (x - view.x) * (to / view.scale);
      view.y = y - (y - view.y) * (to / view.scale);
      view.scale = to;
      draw();
    }
    function centre(i) {
      const [width, height] = size(),
        [x, y] = at(level.nodes[i].x, level.nodes[i].y);
      const [w, h] = [(BOX_WIDTH / 2) * view.scale + 6, (BOX_HEIGHT / 2) * view.scale + 4];
      if (x < w || x > width - w) view.x += width / 2 - x;
      if (y < h || y > height - h) view.y += height / 2 - y;
    }
    const draw = lk.onceAFrame(paint);

    function paint() {
      const colours = lk.theme(root),
        now = look(),
        g = prepared();
      if (view.scale < OVERVIEW) overview(g, colours, now);
      else {
        const pills = [];
        for (const edge of level.edges) drawEdge(g, colours, now, edge, pills);
        g.textAlign = "center";
        g.textBaseline = "middle";
        level.nodes.forEach((node, i) => drawNode(g, colours, now, node, i));
        for (const one of pills) pill(g, colours, ...one);
      }
      lk.drew(root);
    }
    // The pen, on a cleared canvas that is as sharp as the screen; the page says how large it is.
    function prepared() {
      const [width, height] = size(),
        ratio = lk.density(canvas),
        [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
      if (canvas.width !== w || canvas.height !== h) [canvas.width, canvas.height] = [w, h];
      const g = canvas.getContext("2d");
      g.setTransform(ratio, 0, 0, ratio, 0, 0);
      g.clearRect(0, 0, width, height);
      return g;
    }
    function seen(node) {
      const [width, height] = size(),
        [x, y] = at(node.x, node.y);
      return x > -90 && x < width + 90 && y > -60 && y < height + 60;
    }
    const isAbsent = (now, node) => Boolean(now.absent) && node.members.every(now.absent);

    const isCut = (now, members) => Boolean(now.absentEdge) && members.every(now.absentEdge);

    function drawEdge(g, colours, now, [s, t, label, route, members, aside], pills) {
      const a = level.nodes[s],
        b = level.nodes[t],
        { scale } = view;
      if (!seen(a) && !seen(b) && !route.some(([x, y]) => seen({ x, y }))) return;
      const half = (BOX_HEIGHT / 2) * Math.min(1, scale);
      const [ax, ay] = at(a.x + aside, a.y),
        [bx, by] = at(b.x + aside, b.y),
        used = now.lit.size && members.some((m) => now.lit.has(m)),
        near = used || s === now.chosen || t === now.chosen;
      const bends = route.map(([x, y]) => at(x + aside, y)),
        leaves = (bends[0]?.[1] ?? by) >= ay ? 1 : -1,
        enters = by >= (bends.at(-1)?.[1] ?? ay) ? 1 : -1;
      const came = now.flows.get(members.find((m) => now.flows.has(m)));
      g.strokeStyle = used ? STATE_COLOURS.active : near ? colours.accent : colours.muted;
      const gone = isAbsent(now, a) || isAbsent(now, b) || isCut(now, members);
      g.globalAlpha = gone ? FAINT : near || came ? 1 : 0.65;
      g.lineWidth = used ? 3.5 : near || came ? 2 : 1;
      g.beginPath();
      g.moveTo(ax, ay + leaves * half);
      let px = ax,
        py = ay + leaves * half;
      for (const [x, y] of [...bends, [bx, by - enters * half]]) {
        const my = (py + y) / 2;
        g.bezierCurveTo(px, my, x, my, x, y);
        [px, py] = [x, y];
      }
      g.stroke();
      if (scale > 0.25) {
        const head = 4 * Math.min(1, scale) + 1;
        g.beginPath();
        g.moveTo(bx, by - enters * half);
        g.lineTo(bx - head, by - enters * (half + 1.7 * head));
        g.lineTo(bx + head, by - enters * (half + 1.7 * head));
        g.fillStyle = g.strokeStyle;
        g.fill();
      }
      g.globalAlpha = 1;
      if (came && scale > (used ? 0.3 : 0.7)) {
        const [cx, cy] = bends[0] ?? [bx, by - enters * half];
        const y = 0.64 * (ay + leaves * half) + 0.36 * cy;
        pills.push([came, aside < 0 ? -1 : 1, (ax + cx) / 2, y, used]);
      }
      if (label && scale > 0.6 && !gone) {
        g.fillStyle = colours.muted;
        g.font = `10px ${colours.mono}`;
        g.textAlign = "left";
        g.fillText(label, (ax + bx) / 2 + 4, (ay + by) / 2 + 3);
      }
    }

    function drawNode(g, colours, now, node, i) {
      if (!seen(node)) return;
      const { scale } = view,
        [x, y] = at(node.x, node.y),
        w = BOX_WIDTH * scale,
        hgt = BOX_HEIGHT * Math.min(1.2, scale);
      const states = node.members.map((m) => now.marks.get(m)).filter(Boolean),
        urgent = states.find((s) => s === "error") || states.find((s) => s === "active"),
        state = urgent || states[0];
      g.globalAlpha = isAbsent(now, node) ? FAINT : 1;
      g.beginPath();
      g.roundRect(x - w / 2, y - hgt / 2, w, hgt, 5 * scale);
      g.fillStyle = colours.cell;
      g.fill();
      if (state) {
        g.globalAlpha = 0.38;
        g.fillStyle = STATE_COLOURS[state];
        g.fill();
        g.globalAlpha = 1;
      }
      g.lineWidth = i === now.chosen ? 3 : node.folds ? 2 : 1.5;
      const plain = colourOf(kinds, node.kind, colours.line);
      g.strokeStyle = i === now.chosen ? (now.accent ?? colours.accent) : plain;
      g.setLineDash(node.folds ? [4, 3] : []);
      g.stroke();
      g.setLineDash([]);
      if (now.matches.includes(i)) {
        g.strokeStyle = colours.alert;
        g.lineWidth = 2;
        g.strokeRect(x - w / 2 - 3, y - hgt / 2 - 3, w + 6, hgt + 6);
      }
      const note = node.members.length === 1 && now.notes.get(node.members[0]);
      if (note && scale > 0.45) {
        g.font = `${Math.max(8, 9.5 * Math.min(1.2, scale))}px ${colours.mono}`;
        g.fillStyle = colours.ink;
        g.textAlign = "right";
        g.lineWidth = 3; // an edge behind the words does not cross them
        g.strokeStyle = colours.cell;
        g.strokeText(note, x + w / 2, y - hgt / 2 - 6);
        g.fillText(note, x + w / 2, y - hgt / 2 - 6);
        g.textAlign = "center";
      }
      if (scale >= 0.32) nodeWords(g, colours, node, x, y);
      g.globalAlpha = 1;
    }
    function nodeWords(g, colours, node, x, y) {
      const { scale } = view,
        badge = node.badges.join(", "),
        px = Math.max(7, 11 * Math.min(1.2, scale));
      const fits = (text, pixels) =>
        shortened(text, Math.floor((BOX_WIDTH * scale) / (pixels * 0.62)));
      g.fillStyle = colours.ink;
      g.font = `${px}px ${colours.mono}`;
      g.fillText(fits(node.label, px), x, badge && scale > 0.55 ? y - 5 * scale : y);
      if (badge && scale > 0.55) {
        g.fillStyle = badge.includes("✗") ? colours.alert : colours.muted;
        g.font = `${px * 0.82}px ${colours.mono}`;
        g.fillText(fits(badge, px * 0.82), x, y + 7 * scale);
      }
    }

    // What came along an edge, beside it: thick while it is on its way.
    function pill(g, colours, text, side, x, y, used) {
      const px = Math.max(8.5, 10.5 * Math.min(1.2, view.scale));
      g.font = `${used ? "bold " : ""}${px}px ${colours.mono}`;
      const wide = g.measureText(text).width + 8,
        left = side < 0 ? x - wide - 3 : x + 3;
      g.fillStyle = colours.paper;
      g.strokeStyle = used ? STATE_COLOURS.active : colours.line;
      g.lineWidth = used ? 2 : 1;
      g.beginPath();
      g.roundRect(left, y - px * 0.75, wide, px * 1.5, px * 0.75);
      g.fill();
      g.stroke();
      g.fillStyle = colours.ink;
      g.textAlign = "left";
      g.textBaseline = "middle";
      g.fillText(text, left + 4, y);
    }

    // A graph too small to read: boxes without words. Edges and plain boxes are kept as a picture,
    // so that a step draws only what has a state.
    function overview(g, colours, now) {
      const [width, height] = size(),
        boxes = new Map(),
        bw = Math.max(1, BOX_WIDTH * view.scale),
        bh = Math.max(1, BOX_HEIGHT * view.scale);
      const box = (colour, i, grow = 0) => {
        const [x, y] = at(level.nodes[i].x, level.nodes[i].y);
        if (x < -bw || x > width + bw || y < -bh || y > height + bh) return;
        if (!boxes.has(colour)) boxes.set(colour, []);
        const [left, top] = [x - bw / 2 - grow, y - bh / 2 - grow];
        boxes.get(colour).push([left, top, bw + 2 * grow, bh + 2 * grow]);
      };
      const fill = (pen) => {
        for (const [colour, all] of boxes) {
          pen.fillStyle = colour;
          for (const one of all) pen.fillRect(...one);
        }
        boxes.clear();
      };
      const key = [view.scale, view.x, view.y, width, height, canvas.width, colours.muted].join();
      if (base?.level !== level || base.key !== key) {
        const plain = lk.h("canvas", { width: canvas.width, height: canvas.height });
        base = { level, key, canvas: plain };
        const pen = plain.getContext("2d"),
          ratio = canvas.width / width;
        pen.setTransform(ratio, 0, 0, ratio, 0, 0);
        pen.beginPath();
        for (const [s, t, , route] of level.edges) {
          const a = level.nodes[s],
            b = level.nodes[t];
          pen.moveTo(...at(a.x, a.y));
          for (const [x, y] of route) pen.lineTo(...at(x, y));
          pen.lineTo(...at(b.x, b.y));
        }
        pen.strokeStyle = colours.muted;
        pen.globalAlpha = 0.5;
        pen.stroke();
        pen.globalAlpha = 1;
        level.nodes.forEach((node, i) => box(colourOf(kinds, node.kind, colours.muted), i));
        fill(pen);
      }
      g.drawImage(base.canvas, 0, 0, width, height);
      const marked = [...now.marks].filter(([member]) => drawnAs.has(member)),
        urgent = ([, state]) => state === "active" || state === "error";
      for (const [member, state] of marked.filter((one) => !urgent(one)))
        box(STATE_COLOURS[state], drawnAs.get(member));
      for (const [member, state] of marked.filter(urgent))
        box(STATE_COLOURS[state], drawnAs.get(member), 2);
      for (const i of now.matches) box(colours.alert, i, 2);
      if (now.chosen >= 0) box(now.accent ?? colours.accent, now.chosen, 2);
      fill(g);
    }

    const inside =
      (over) =>
      (node) => {
        const [x, y] = at(node.x, node.y);
        return (
          Math.abs(over.x - x) <= (BOX_WIDTH / 2) * view.scale + 1 &&
          Math.abs(over.y - y) <= Math.max(4, (BOX_HEIGHT / 2) * view.scale)
        );
      };
    // The page scrolls until the graph has the focus.
    lk.onWheel(canvas, (event) => {
      const over = lk.spot(event);
      zoom(Math.exp(-event.deltaY / 400), over.x, over.y);
    });
    lk.onDrag(canvas, {
      move: (dx, dy) => {
        view.x += dx;
        view.y += dy;
        draw();
      },
      pick: (event) => pick(level.nodes.findIndex(inside(lk.spot(event)))),
    });

    return {
      element: canvas,
      use,
      grow,
      fit,
      zoom,
      centre,
      draw,
      paint,
      place: (member) => drawnAs.get(member) ?? -1,
      // Where a node is drawn: its middle, and half its size.
      spot(i) {
        const [x, y] = at(level.nodes[i].x, level.nodes[i].y);
        const half = [(BOX_WIDTH / 2) * view.scale, (BOX_HEIGHT / 2) * Math.min(1.2, view.scale)];
        return { x, y, half };
      },
    };
  }

  return { make, colourOf, STATE_COLOURS };
})();
