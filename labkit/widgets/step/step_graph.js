// Lane 3: the autograd graph; it fills in as forward records it, and gradients run through it.
function stepGraph(record, go, root) {
  const { meta, own, count } = record;
  const frames = [];
  for (let i = 0; i < count; i++) frames.push(frameOf(record, i));
  const inForce = graphFrames.history(frames);
  const now = { marks: new Map(), notes: new Map(), flows: new Map(), lit: new Set(), matches: [] };
  let event = 0,
    chosen = -1;
  const graph = graphCanvas.make({
    root,
    label: "autograd graph; a click on a node shows what recorded it, another one its backward run",
    look: () => ({ ...now, chosen, accent: stepColours.now, absent: (node) => isAbsent(node) }),
    pick(i) {
      if (i < 0) return;
      const node = meta.level.nodes[i].members[0];
      const stops = [record.recordedAt.get(node), record.ranAt.get(node)].filter((s) => s >= 0);
      if (stops.length) go(stops.find((stop) => stop > event) ?? stops[0]);
    },
  });
  graph.use(meta.level, meta.node_colours);
  // A leaf is there from the beginning; an operation's node when its operator has recorded it.
  const isAbsent = (node) => record.recordedAt.has(node) && record.recordedAt.get(node) > event;
  const heat = lk.h("div", { class: "lk-step-heat" });
  let fitted = 0;

  function show(focus) {
    event = focus.event;
    const { marks, notes, flows } = inForce(event);
    Object.assign(now, { marks, notes, flows, lit: new Set(frames[event].edges ?? []) });
    chosen = focus.node < 0 ? -1 : graph.place(focus.node);
    const width = graph.element.clientWidth;
    if (width && fitted !== width) {
      fitted = width;
      graph.fit(true);
    }
    if (chosen >= 0) graph.centre(chosen);
    const numbers = meta.heats[event];
    heat.replaceChildren(...(numbers ? [graphFrames.heat(numbers)] : []));
    graph.paint();
  }
  return {
    element: lk.h("div", { class: "lk-step-graph" }, graph.element, heat),
    show,
    spots() {
      if (chosen < 0) return [];
      const { x, y, half } = graph.spot(chosen);
      return [{ node: graph.element, x: x - half[0], y: y - half[1] / 2 }];
    },
  };

  function frameOf({ kind }, i) {
    const node = own.node[i],
      edge = own.edge[i],
      came = meta.came[i];
    if (kind(i) === "node runs") {
      const before = lastRun(i);
      return { marks: { ...(before >= 0 ? { [before]: "done" } : {}), [node]: "active" } };
    }
    if (kind(i) === "gradient" && edge >= 0)
      return { edges: [edge], flows: { [edge]: came || "·" } };
    if (kind(i) === "accumulation" && node >= 0) return { marks: { [node]: "done" } };
    if (kind(i) === "error" && node >= 0) return { marks: { [node]: "error" } };
    return {};
  }
  function lastRun(i) {
    for (let k = i - 1; k >= 0; k--) if (record.kind(k) === "node runs") return own.node[k];
    return -1;
  }
}
