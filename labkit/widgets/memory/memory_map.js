// The memory map: timeline, segments and blocks, one trace entry at a time, forward and back.
// All panels of the map in `root`; swap() shows only the bars instead, where there is such a view.
//
// What the parts share is one object: the trace and the state after the entry it stands at, what is
// chosen, and the elements they fill.
function wholeMap({ model, root, store, swap }) {
  const ui = {
    view: null,
    pinned: null,
    colour: "stack",
    stream: "",
    pool: "",
    least: 0,
    text: "",
    align: "entry",
  };
  const map = { model, root, store, swap, ui, trace: null, now: null, panes: [] };
  let stepper = null,
    last = -1,
    width = 0,
    stale = false;

  const steps = lk.h("div"),
    maps = lk.h("div"),
    notice = lk.h("div", { class: "lk-mm-notice", role: "status" });
  Object.assign(map, {
    head: lk.h("div", { class: "lk-mm-head" }),
    filters: lk.h("div", { class: "lk-row lk-mm-filters" }),
    legend: lk.h("div", { class: "lk-row lk-mm-legend" }),
    details: lk.h("div", { class: "lk-mm-details" }),
    choice: memoryChoice(map),
    notice,
    maps,
    go,
    zoomBy,
    nextMatch,
  });
  const choice = map.choice,
    drawing = memoryDrawing(map);
  const panels = memoryPanels({
    model,
    store,
    go,
    trace: () => map.trace,
    state: () => map.now,
    other: () => (store.traces[1] ? memory.state(store.traces[1], drawing.stepOf(1)) : null),
  });
  root.append(map.head, notice, steps, map.filters, map.legend, maps, map.details, panels.element);

  function go(k, save = true) {
    const began = performance.now(),
      { trace } = map,
      now = (map.now = memory.state(trace, Math.max(0, Math.min(trace.n, k))));
    if (now.k < ui.view[0] || now.k > ui.view[1]) zoom(ui.view[1] - ui.view[0], now.k);
    if (stepper.index !== now.k) stepper.set(now.k);
    if (save && model.get("frame") !== now.k) {
      model.set("frame", now.k);
      model.save_changes();
    }
    map.panes.forEach(drawing.draw);
    memorySaid.details(map);
    panels.update();
    Object.assign(root.dataset, {
      step: now.k,
      entries: trace.n,
      reserved: now.totals.reserved,
      allocated: now.totals.allocated,
      pending: now.totals.pending,
      live: now.totals.live,
      stepMs: (performance.now() - began).toFixed(1),
    });
    lk.drew(root);
  }
  function zoom(width, centre) {
    const { trace } = map;
    const wide = Math.max(Math.min(20, trace.n), Math.min(trace.n, Math.round(width)));
    const from = Math.max(0, Math.min(trace.n - wide, Math.round(centre - wide / 2)));
    ui.view = [from, from + wide];
  }
  function zoomBy(factor, centre = map.now.k) {
    zoom((ui.view[1] - ui.view[0]) * factor, centre);
    go(map.now.k);
  }
  function nextMatch(direction) {
    const { trace, now } = map;
    for (let i = now.k - 1 + direction; i >= 0 && i < trace.n; i += direction) {
      const life = trace.lifeOf[i];
      if (life >= 0 && choice.isShown(0, life) && trace.columns.action[i] === trace.code.alloc)
        return go(i + 1);
    }
    notice.textContent = `no ${direction > 0 ? "later" : "earlier"} alloc matches the filter`;
    return undefined;
  }
  function rebuild() {
    if (!store.traces.length) {
      notice.textContent = "waiting for the trace";
      return;
    }
    if (map.trace !== store.traces[0]) {
      const began = performance.now(),
        at = map.now?.k,
        following = map.trace === null ? model.get("frame") : at === last ? Infinity : at,
        trace = (map.trace = store.traces[0]);
      const k = Math.min(
        trace.n,
        trace.n === model.get("meta").whole || model.get("meta").live ? following : trace.n,
      );
      last = trace.n;
      ui.view = [0, trace.n];
      ui.pinned = null;
      map.now = { k: -1 };
      choice.chooseShown();
      choice.chooseColours();
      stepper?.stop();
      stepper = lk.stepper({
        count: trace.n + 1,
        index: k,
        label: "entry",
        from: 0,
        text: (to) => memorySaid.entry(trace, to),
        change: (to) => go(to),
        milliseconds: 400,
      });
      steps.replaceChildren(stepper.element);
      map.panes = store.traces.map((_, index) => drawing.pane(index));
      maps.replaceChildren(...map.panes.map((p) => p.element));
      map.panes.forEach((p) => listenTo(map, p));
      memoryFilters(map);
      memorySaid.legends(map);
      memorySaid.headline(map);
      width = root.clientWidth; // drawn for it below, and again only when it changes
      go(k, false);
      root.dataset.openMs = (store.buildMs + performance.now() - began).toFixed(1);
      root.dataset.complete = store.complete;
    } else memorySaid.headline(map);
  }
  const jump = () => {
    if (map.trace && model.get("frame") !== map.now.k) go(model.get("frame"), false);
  };
  const repaint = () => {
    stale = !root.clientWidth; // out of the page: it is done when it comes back
    if (map.trace && map.now.k >= 0 && !stale) go(map.now.k, false);
  };
  store.changed.add(rebuild);
  const said = () => {
    if (map.trace) memorySaid.headline(map);
  };
  model.on("change:frame", jump);
  model.on("change:meta", said);
  const unwatch = lk.onTheme(repaint);
  const resized = new ResizeObserver(() => {
    if (root.clientWidth && (stale || root.clientWidth !== width)) {
      width = root.clientWidth;
      repaint();
    }
  });
  resized.observe(root);
  rebuild();
  return () => {
    store.changed.delete(rebuild);
    model.off("change:frame", jump);
    model.off("change:meta", said);
    unwatch();
    resized.disconnect();
    stepper?.stop();
    panels.close();
  };
}

function render({ model, el }) {
  const root = lk.root(el, "memory map"),
    store = storeOf(model),
    simple = model.get("simple");
  let close = null;
  const open = (view) => {
    close?.();
    root.replaceChildren();
    close = view({
      model,
      root,
      store,
      swap: simple ? () => open(view === wholeMap ? simpleMap : wholeMap) : null,
    });
  };
  open(simple ? simpleMap : wholeMap);
  return () => close();
}

export default { render };
