// Brings the widgets of a static page to life from the state saved in it: no server, no network.
// Each widget's module gets a model with the few methods it may use (get, set, on, off,
// save_changes); the picture that stood in its place leaves once the module has drawn.
(async () => {
  const page = JSON.parse(document.getElementById("lk-widgets").textContent);

  function model(state) {
    const listeners = new Map();
    const tell = (name) => (listeners.get(name) ?? []).slice().forEach((run) => run());
    return {
      get: (name) => state[name],
      set(name, value) {
        const same = JSON.stringify(state[name]) === JSON.stringify(value);
        state[name] = value;
        if (!same) {
          tell(`change:${name}`);
          tell("change");
        }
      },
      save_changes() {},
      send() {},
      on(names, run) {
        for (const name of names.split(" "))
          listeners.set(name, [...(listeners.get(name) ?? []), run]);
      },
      off(names, run) {
        for (const name of names.split(" "))
          listeners.set(
            name,
            (listeners.get(name) ?? []).filter((other) => other !== run),
          );
      },
      widget_manager: { get_model: async (id) => modelOf(id) },
    };
  }
  function bytes(base64) {
    const text = atob(base64),
      array = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) array[i] = text.charCodeAt(i);
    return new DataView(array.buffer);
  }

  const modules = page.sources.map(
    (source) => import(URL.createObjectURL(new Blob([source], { type: "text/javascript" }))),
  );
  for (const style of page.styles) {
    const node = document.createElement("style");
    node.textContent = style;
    document.head.append(node);
  }
  const models = new Map(); // a widget shown twice is one model, as in the notebook
  function modelOf(id) {
    if (!models.has(id)) {
      const { state, buffers } = page.models[id];
      for (const {
        path: [name],
        data,
      } of buffers)
        state[name] = bytes(data);
      models.set(id, model(state));
    }
    return models.get(id);
  }
  const closers = new WeakMap(); // place -> what ends the widget that is drawn there
  async function draw(place, source, drawn) {
    const el = document.createElement("div");
    const before = [...place.childNodes];
    place.append(el);
    try {
      const { default: widget } = await modules[source];
      const close = await widget.render({ model: drawn, el });
      closers.get(place)?.();
      closers.set(place, close);
      before.forEach((node) => node.remove());
    } catch (error) {
      el.remove(); // what stood there stays
      throw error;
    }
  }
  // For a page that reads a file: the widget's place shows another state.
  window.lkRedraw = (place, state) => {
    const saved = page.models[place.dataset.widget];
    return draw(place, saved.source, model({ ...saved.state, ...state }));
  };
  for (const place of document.querySelectorAll("[data-widget]")) {
    const id = place.dataset.widget,
      saved = page.models[id];
    if (saved) await draw(place, saved.source, modelOf(id)).catch(console.error);
  }
  document.documentElement.dataset.widgets = "ready";

  // Projector mode, as JupyterLab's presentation mode: the same class; kept for the next page.
  const MODE = "jp-mod-presentationMode";
  const remember = (value) => {
    try {
      if (value !== undefined) localStorage.setItem(MODE, value);
      return localStorage.getItem(MODE) === "true";
    } catch {
      return false; // a browser that keeps nothing for pages
    }
  };
  const projector = document.createElement("button");
  projector.className = "projector";
  projector.textContent = "Projector";
  projector.title = "large type for a room; Page Down and Page Up walk the steps in the middle";
  const present = (on) => {
    document.body.classList.toggle(MODE, on);
    projector.setAttribute("aria-pressed", on);
  };
  projector.addEventListener("click", () => {
    const on = !document.body.classList.contains(MODE);
    remember(on);
    present(on);
  });
  present(remember());
  document.body.prepend(projector);
})();
