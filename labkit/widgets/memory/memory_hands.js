// What a mouse and a keyboard do to a pane.
function listenTo(map, p) {
  const entryAt = (event) => {
    const box = p.timeline.getBoundingClientRect(),
      { from, to } = p.scale;
    return Math.round(from + ((event.clientX - box.left) / box.width) * (to - from));
  };
  p.timeline.addEventListener("click", (event) => map.go(entryAt(event)));
  if (p.index > 0) return;
  p.timeline.addEventListener("dblclick", (event) => {
    const box = p.timeline.getBoundingClientRect();
    const life = timelines.lifeAt(
      map.trace,
      map.now.k,
      (1 - (event.clientY - box.top) / box.height) * p.scale.top,
    );
    if (life >= 0) {
      map.ui.pinned = life;
      map.go(map.now.k);
    }
  });
  lk.onWheel(
    p.timeline,
    (event) => map.zoomBy(event.deltaY > 0 || event.deltaX > 0 ? 1.25 : 0.8, entryAt(event)),
    (event) => event.ctrlKey || event.shiftKey,
  );
  lk.onKeys(p.timeline, {
    ArrowLeft: () => map.go(map.now.k - 1),
    ArrowRight: () => map.go(map.now.k + 1),
    PageUp: () => map.go(map.now.k - 100),
    PageDown: () => map.go(map.now.k + 100),
    Home: () => map.go(0),
    End: () => map.go(map.trace.n),
    "+": () => map.zoomBy(0.5),
    "=": () => map.zoomBy(0.5),
    "-": () => map.zoomBy(2),
  });
  p.map.addEventListener("click", (event) => {
    const { x, y } = lk.spot(event),
      found = memoryBlocks.at(p.laid, x, y);
    map.ui.pinned = found && found.block.life >= 0 ? found.block.life : null;
    map.go(map.now.k);
  });
  p.map.addEventListener("mousemove", (event) => {
    const { x, y } = lk.spot(event),
      found = memoryBlocks.at(p.laid, x, y);
    p.map.title = found ? memorySaid.block(map.trace, found) : "";
  });
  lk.onKeys(p.map, { ArrowLeft: -1, ArrowRight: 1 }, (direction) => {
    const alive = map.now.segments.flatMap((s) => s.blocks.filter((b) => b.life >= 0));
    const at = alive.findIndex((b) => b.life === map.ui.pinned);
    const chosen = alive[at < 0 ? 0 : Math.max(0, Math.min(alive.length - 1, at + direction))];
    if (chosen) {
      map.ui.pinned = chosen.life;
      map.go(map.now.k);
    }
  });
}
