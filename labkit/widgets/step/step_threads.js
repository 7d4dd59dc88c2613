// Threads over the lanes: from the line to its operator, its node, its kernel, the blocks it wrote;
// in backward also from the line of forward that made the node.
function stepThreads(area) {
  const drawing = lk.svg("svg", { class: "lk-step-threads", "aria-hidden": "true" });

  // A place as a point of the area: an element's side, or a point of a canvas.
  function point(place, side) {
    const box = area.getBoundingClientRect(),
      zoom = area.currentCSSZoom ?? 1; // boxes are in pixels of the window
    if (place instanceof Element) {
      const own = place.getBoundingClientRect();
      const x = { left: own.left, right: own.right }[side] ?? own.left + own.width / 2;
      const y = side === "below" ? own.bottom : own.top + own.height / 2;
      return [(x - box.left) / zoom, (y - box.top) / zoom];
    }
    const own = place.node.getBoundingClientRect();
    const down = side === "below" ? (place.tall ?? 0) : 0;
    return [(own.left - box.left) / zoom + place.x, (own.top - box.top) / zoom + place.y + down];
  }
  function thread([ax, ay], [bx, by], colour, { across = false, thick = 2.5 } = {}) {
    const bend = Math.max(18, (across ? Math.abs(bx - ax) : Math.abs(by - ay)) / 2);
    const path = across
      ? `M${ax} ${ay}C${ax + bend} ${ay} ${bx - bend} ${by} ${bx} ${by}`
      : `M${ax} ${ay}C${ax} ${ay + bend} ${bx} ${by - bend} ${bx} ${by}`;
    const shape = { d: path, fill: "none", stroke: colour, "stroke-width": thick };
    const end = { cx: bx, cy: by, r: thick + 1, fill: colour };
    drawing.append(lk.svg("path", shape), lk.svg("circle", end));
  }

  function show({ line, hops, graph, streams, blocks }) {
    drawing.replaceChildren();
    const { now, read } = stepColours;
    const [call, kernelChip] = hops;
    const across = !area.classList.contains("lk-narrow"); // else the graph lies below
    if (line[0] && call) thread(point(line[0], "left"), point(call, "left"), now);
    if (kernelChip && graph[0])
      thread(point(kernelChip, across ? "right" : "below"), point(graph[0]), now, { across });
    if (line[1] && graph[0])
      thread(point(line[1], across ? "right" : "below"), point(graph[0]), read, { across });
    if (kernelChip && streams[0]) thread(point(kernelChip, "below"), point(streams[0]), now);
    const source = streams[0] ?? kernelChip;
    if (!source) return;
    const from = point(source, "below");
    for (const block of blocks.reads) thread(from, point(block), read, { thick: 1.5 });
    for (const block of blocks.writes) thread(from, point(block), now, { thick: 3 });
  }
  return { element: drawing, show };
}
