// One training step in five lanes; every lane shows the event at which the slider stands.
const NARROW = 700; // pixels: below it the lanes stand one below the other
const NAMED = 3; // blocks of a kernel that are named

function render({ model, el }) {
  const root = lk.root(el, model.get("title") || "one training step");
  const record = stepRecord.decode(model.get("meta"), model.get("data"));
  const { texts, remarks, words } = record.meta;
  const kinds = new Set(words.kinds.filter((_, i) => record.own.kind.includes(i)));
  const frames = texts.map((text, i) => ({ text, kind: record.kind(i) }));
  const go = (i) => {
    model.set("frame", i);
    model.save_changes();
  };
  const stepper = lk.stepper({
    count: record.count,
    index: Math.min(model.get("frame"), record.count - 1),
    label: "event",
    text: (i) => `${record.phase(i)}: ${texts[i]}`,
    change: go,
    milliseconds: 350,
  });
  const walker = graphFrames.kindWalker(frames, () => stepper.index, go);
  const choice = walker.querySelector("select");
  if (kinds.has("kernel queued")) choice.value = "kernel queued";

  const lanes = {
    source: stepSource(record, go),
    hops: stepHops(record, go),
    graph: stepGraph(record, go, root),
    streams: stepStreams(record, go, root),
    memory: stepMemory(record, go, root),
  };
  const titles = {
    source: "1 your source",
    hops: "2 the dispatcher's hops",
    graph: "3 the autograd graph",
    streams: "4 the streams",
    memory: "5 the memory map",
  };
  const said = { streams: lk.h("span", { class: "lk-mono" }), memory: lk.h("span", {}) };
  const panes = Object.entries(lanes).map(([name, { element }]) =>
    lk.h(
      "section",
      { class: `lk-step-lane lk-lane-${name}`, "aria-label": titles[name] },
      lk.h("div", { class: "lk-step-title lk-muted" }, titles[name], said[name]),
      element,
    ),
  );
  const area = lk.h("div", { class: "lk-step-lanes" }, ...panes);
  const threads = stepThreads(area);
  area.append(threads.element);
  const chip = (kind, text) => lk.h("span", { class: `lk-step-chip ${kind}` }, text);
  const inferred = record.calls.some(({ hops }) => hops.some(({ seen }) => !seen));
  const legend = lk.h(
    "div",
    { class: "lk-row lk-muted lk-step-legend" },
    lk.swatch(stepColours.now, "now, and what is written"),
    lk.swatch(stepColours.read, "what is read"),
    ...["before", "forward", "backward", "update"].map((name) =>
      lk.swatch(stepColours[name], name === "before" ? "from before the step" : name),
    ),
    chip("lk-seen", "a hop that was seen"),
    inferred ? chip("lk-inferred", "one that follows from the operator's table") : null,
  );
  const notes = remarks.map((text) => lk.h("div", { class: "lk-muted" }, text));
  const title = model.get("title") && lk.h("b", {}, model.get("title"));
  root.append(...[title, stepper.element, walker, area, legend, ...notes].filter(Boolean));

  const sized = ({ kind, grid, block }) =>
    kind === "kernel" ? ` <<<(${grid}), (${block})>>>` : "";
  const called = ({ life }) =>
    `${stepRecord.owner(record, life).name} ${memory.bytes(record.trace.lives.size[life])}`.trim();
  const listed = (blocks) => {
    const more = blocks.length > NAMED ? ` and ${blocks.length - NAMED} more` : "";
    return (blocks.slice(0, NAMED).map(called).join(", ") || "nothing") + more;
  };
  function show() {
    const i = Math.min(model.get("frame"), record.count - 1);
    if (stepper.index !== i) stepper.set(i);
    const began = performance.now();
    const focus = stepRecord.focus(record, i);
    root.dataset.event = i;
    for (const lane of Object.values(lanes)) lane.show(focus);
    const { launch, blocks } = focus;
    said.streams.textContent = launch ? ` · ${launch.name}${sized(launch)}` : "";
    said.memory.textContent = launch
      ? ` · reads ${listed(blocks.reads)}; writes ${listed(blocks.writes)}`
      : "";
    threads.show({
      line: lanes.source.spots(focus),
      hops: lanes.hops.spots(focus),
      graph: lanes.graph.spots(focus),
      streams: lanes.streams.spots(focus),
      blocks: lanes.memory.spots(focus),
    });
    root.dataset.milliseconds = (performance.now() - began).toFixed(1);
    lk.drew(root);
  }
  const draw = lk.onceAFrame(() => {
    area.classList.toggle("lk-narrow", area.clientWidth < NARROW);
    if (area.clientWidth) show();
  });
  model.on("change:frame", draw);
  const forget = lk.onTheme(draw),
    resized = new ResizeObserver(draw);
  resized.observe(area);
  draw();
  return () => {
    forget();
    resized.disconnect();
    stepper.stop();
    model.off("change:frame", draw);
  };
}

export default { render };
