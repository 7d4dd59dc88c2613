// Helpers every widget shares; this file stands in front of each widget's own module as `lk`.
const lk = (() => {
  const palette = [
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#CC79A7",
    "#56B4E9",
    "#D55E00",
    "#8C8C00",
    "#666666",
  ];
  const SVG = "http://www.w3.org/2000/svg";
  const KINDS = {
    i1: Int8Array,
    u1: Uint8Array,
    i2: Int16Array,
    u2: Uint16Array,
    i4: Int32Array,
    u4: Uint32Array,
    i8: BigInt64Array,
    u8: BigUint64Array,
    f4: Float32Array,
    f8: Float64Array,
  };

  function fill(node, attributes, children) {
    for (const [name, value] of Object.entries(attributes || {})) {
      if (value === undefined || value === null || value === false) continue;
      if (name === "on")
        for (const [event, run] of Object.entries(value)) node.addEventListener(event, run);
      else if (name === "text") node.textContent = value;
      else if (name === "style") node.style.cssText = value;
      else node.setAttribute(name, value === true ? "" : value);
    }
    node.append(...children.flat().filter((child) => child !== null && child !== undefined));
    return node;
  }
  const h = (tag, attributes, ...children) =>
    fill(document.createElement(tag), attributes, children);
  const svg = (tag, attributes, ...children) =>
    fill(document.createElementNS(SVG, tag), attributes, children);

  // JupyterLab binds arrows and letters in command mode. The attribute counts only on the element
  // that has the focus, so each focusable gets it; root() stops what still bubbles.
  function focusable(node) {
    node.setAttribute("data-lm-suppress-shortcuts", "true");
    if (!node.matches("button,input,select,textarea,a[href]")) node.tabIndex = 0;
    return node;
  }
  function root(el, label) {
    const node = h("div", { class: "lk", role: "group", "aria-label": label, "data-draws": 0 });
    node.addEventListener("keydown", (event) => event.stopPropagation());
    node.addEventListener("focusin", (event) => focusable(event.target));
    el.replaceChildren(node);
    return node;
  }
  // Tells the lesson's widgets whenever this one has come into the page; returns how to stop.
  function announce(node) {
    const seen = new ResizeObserver(() => document.dispatchEvent(new Event("lk-lesson")));
    seen.observe(node);
    return () => seen.disconnect();
  }
  const button = (label, title, run, more) =>
    focusable(
      h(
        "button",
        { type: "button", title, "aria-label": title, on: { click: run }, ...more },
        label,
      ),
    );
  // What a button does, for the pointer that rests on it and for a screen reader.
  const call = (node, title) => {
    node.title = title;
    node.setAttribute("aria-label", title);
  };
  // What keys do while `node` has the focus. table: key -> meaning, or a function that returns one;
  // run(meaning, event): by default a meaning is itself the action. A key in the table is taken
  // from the page, unless run returns false.
  const onKeys = (node, table, run = (action) => action()) =>
    node.addEventListener("keydown", (event) => {
      const meaning = (typeof table === "function" ? table() : table)[event.key];
      if (meaning !== undefined && run(meaning, event) !== false) event.preventDefault();
    });
  // A canvas that is dragged, by move(dx, dy), or clicked: pick(event).
  function onDrag(canvas, { move, pick }) {
    let last = null,
      moved = false;
    canvas.addEventListener("pointerdown", (event) => {
      last = spot(event);
      moved = false;
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!last) return;
      const { x, y } = spot(event),
        dx = x - last.x,
        dy = y - last.y;
      if (!moved && Math.hypot(dx, dy) < 4) return;
      moved = true;
      last = { x, y };
      move(dx, dy);
    });
    canvas.addEventListener("pointerup", (event) => {
      if (last && !moved) pick(event);
      last = null;
    });
  }
  // zoom(event) for a wheel that `isFor` the canvas; any other scrolls the page.
  const ownWheel = (canvas) => (event) => event.ctrlKey || document.activeElement === canvas;
  const onWheel = (canvas, zoom, isFor = ownWheel(canvas)) =>
    canvas.addEventListener(
      "wheel",
      (event) => {
        if (!isFor(event)) return;
        event.preventDefault();
        zoom(event);
      },
      { passive: false },
    );
  // Tests wait on this counter instead of sleeping.
  const drew = (node) => {
    node.dataset.draws = Number(node.dataset.draws) + 1;
  };

  // Walks `count` frames. text(i): a line under the controls; change(i): show frame i; from: the
  // number of the first.
  // Keys, wherever the focus is inside it: left, right, Home, End, space (play).
  function stepper({
    count,
    index = 0,
    label = "step",
    from = 1,
    text = () => "",
    change,
    milliseconds = 700,
  }) {
    let now = index,
      timer = null;
    const go = (to) => {
      const next = Math.max(0, Math.min(count - 1, to));
      if (next !== now) {
        set(next);
        change(next);
      }
    };
    const stop = () => {
      clearInterval(timer);
      timer = null;
      play.textContent = "▶";
    };
    const toggle = () => {
      if (timer) return stop();
      if (now === count - 1) go(0);
      play.textContent = "❚❚";
      timer = setInterval(() => {
        if (now === count - 1 || !element.isConnected) return stop();
        go(now + 1);
      }, milliseconds);
    };
    const manual = (to) => () => {
      stop();
      go(to());
    };
    const first = button(
      "«",
      `first ${label}`,
      manual(() => 0),
      { class: "lk-step-more" },
    );
    const back = button(
      "‹",
      `${label} back`,
      manual(() => now - 1),
    );
    const play = button("▶", "play or pause", toggle, { class: "lk-step-more" });
    const next = button(
      "›",
      `${label} forward`,
      manual(() => now + 1),
    );
    const last = button(
      "»",
      `last ${label}`,
      manual(() => count - 1),
      { class: "lk-step-more" },
    );
    const slider = focusable(
      h("input", {
        type: "range",
        min: 0,
        max: count - 1,
        "aria-label": label,
        on: {
          input: () => {
            stop();
            go(Number(slider.value));
          },
        },
      }),
    );
    const counter = h("span", { class: "lk-step-count lk-muted" });
    const words = h("div", { class: "lk-step-text", "aria-live": "polite" });
    const element = h(
      "div",
      { class: "lk-row lk-stepper" },
      first,
      back,
      play,
      next,
      last,
      slider,
      counter,
      words,
    );
    const keys = {
      ArrowLeft: () => now - 1,
      ArrowRight: () => now + 1,
      Home: () => 0,
      End: () => count - 1,
      " ": toggle,
    };
    onKeys(element, keys, (to, event) => {
      if (to !== toggle) manual(to)();
      else if (event.target === slider) toggle();
      else return false; // a button's own
    });
    if (count === 1) for (const node of element.children) node.hidden = node !== words;
    function set(to) {
      now = to;
      slider.value = to;
      counter.textContent = `${label} ${to + from} of ${count - 1 + from}`;
      const line = text(to);
      words.replaceChildren(line instanceof Node ? line : document.createTextNode(line));
      // aria-disabled, not disabled: a button that loses the focus would take the keys with it.
      for (const node of [first, back]) node.setAttribute("aria-disabled", to === 0);
      for (const node of [next, last]) node.setAttribute("aria-disabled", to === count - 1);
      element.dataset.step = to;
      element.dataset.at = to === count - 1 ? "last" : to === 0 ? "first" : "";
    }
    set(index);
    return {
      element,
      set,
      stop,
      get index() {
        return now;
      },
    };
  }

  // The stepper of the frames a model lists under that name; null for fewer than `least`. It keeps
  // the model's `frame` and then calls change(i); follow() moves it to where the model is.
  function frameStepper(model, { list = "frames", least = 1, label, change = () => {} } = {}) {
    const frames = model.get(list);
    if (frames.length < least) return null;
    const now = () => Math.min(model.get("frame"), frames.length - 1);
    const steps = stepper({
      count: frames.length,
      index: now(),
      label,
      text: (i) => frames[i].text,
      change: (i) => {
        model.set("frame", i);
        model.save_changes();
        change(i);
      },
    });
    steps.follow = () => steps.set(now());
    return steps;
  }
  // A button that is on or off, as isOn() says.
  function toggle(label, title, isOn, run) {
    const node = button(label, title, () => {
      node.setAttribute("aria-pressed", !node.isOn());
      run(node.isOn());
    });
    node.isOn = () => node.getAttribute("aria-pressed") === "true";
    node.setAttribute("aria-pressed", isOn);
    return node;
  }
  // A colour and what it stands for.
  const swatch = (colour, words, more = "") =>
    h(
      "span",
      {},
      h("span", { class: `lk-swatch ${more}`.trim(), style: `background:${colour}` }),
      ` ${words}`,
    );

  // Pixels of the screen for one CSS pixel of an element: a projector's widgets are magnified.
  const density = (node) => (window.devicePixelRatio || 1) * (node.currentCSSZoom ?? 1);

  // Where a pointer is over an element, in the element's own CSS pixels however magnified it is:
  // browsers differ in what offsetX says then.
  function spot({ clientX, clientY, currentTarget }) {
    const box = currentTarget.getBoundingClientRect(),
      scale = box.width / currentTarget.offsetWidth || 1;
    return {
      x: (clientX - box.left) / scale - currentTarget.clientLeft,
      y: (clientY - box.top) / scale - currentTarget.clientTop,
    };
  }

  // In projector mode a presenter's keys walk the stepper nearest to the middle of the window,
  // wherever the focus is; behind its last step they scroll the page again.
  const PRESENTER = { PageDown: "ArrowRight", PageUp: "ArrowLeft" };
  function presented() {
    const off = (node) => {
      const { top, bottom } = node.parentElement.getBoundingClientRect();
      return bottom < 0 || top > innerHeight ? Infinity : Math.abs(top + bottom - innerHeight);
    };
    const found = [...document.querySelectorAll(".jp-mod-presentationMode .lk-stepper")]
      .map((node) => [off(node), node])
      .sort(([a], [b]) => a - b)[0];
    return found && found[0] < Infinity ? found[1] : null;
  }
  if (!window.labkitPresenter) {
    window.labkitPresenter = true; // once for all widgets of a page
    const hear = (event) => {
      const key = PRESENTER[event.key],
        steps = key && presented();
      const end = event.key === "PageDown" ? "last" : "first";
      if (!steps || steps.dataset.at === end) return;
      event.preventDefault();
      event.stopImmediatePropagation();
      steps.dispatchEvent(new KeyboardEvent("keydown", { key }));
    };
    window.addEventListener("keydown", hear, true);
  }

  // The theme's colours as canvas and SVG need them; onTheme calls back when they change.
  function theme(node) {
    const style = getComputedStyle(node);
    const pick = (name) => style.getPropertyValue(`--lk-${name}`).trim();
    const names = ["paper", "panel", "ink", "muted", "line", "accent", "alert", "cell", "mono"];
    return Object.fromEntries(names.map((name) => [name, pick(name)]));
  }
  function onTheme(run) {
    // In the next frame: JupyterLab hides the page for the moment in which it changes themes.
    const later = () => requestAnimationFrame(() => run());
    const watch = new MutationObserver(later);
    const attributeFilter = ["data-jp-theme-light", "class"];
    watch.observe(document.body, { attributes: true, attributeFilter });
    const lab = document.getElementById("main"); // JupyterLab's, which says whether it presents
    if (lab) watch.observe(lab, { attributes: true, attributeFilter });
    const media = matchMedia("(prefers-color-scheme: dark)");
    media.addEventListener("change", later);
    return () => {
      watch.disconnect();
      media.removeEventListener("change", later);
    };
  }

  // A function that has `paint` run once in the next frame, however often it is called before.
  function onceAFrame(paint) {
    let pending = 0;
    return () => {
      if (!pending)
        pending = requestAnimationFrame(() => {
          pending = 0;
          paint();
        });
    };
  }

  // Typed arrays from what labkit.widgets.base.pack_columns packed.
  function columns(schema, view) {
    const bytes = view instanceof DataView ? view : new DataView(view.buffer ?? view);
    return Object.fromEntries(
      Object.entries(schema).map(([name, [kind, start, count]]) => {
        const Kind = KINDS[kind],
          from = bytes.byteOffset + start;
        return [name, new Kind(bytes.buffer.slice(from, from + count * Kind.BYTES_PER_ELEMENT))];
      }),
    );
  }

  async function copy(text) {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      // a page opened as a file has none
      const area = h("textarea", { class: "lk-hidden" });
      area.value = text;
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
  }
  const copyButton = (label, title, text) => {
    const node = button(label, title, async () => {
      await copy(text());
      node.textContent = "copied";
      setTimeout(() => {
        node.textContent = label;
      }, 1200);
    });
    return node;
  };

  return {
    palette,
    h,
    svg,
    focusable,
    root,
    button,
    call,
    drew,
    announce,
    onKeys,
    onDrag,
    onWheel,
    stepper,
    frameStepper,
    toggle,
    swatch,
    density,
    spot,
    theme,
    onTheme,
    onceAFrame,
    columns,
    copy,
    copyButton,
  };
})();
