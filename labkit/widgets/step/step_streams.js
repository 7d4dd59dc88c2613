// Lane 5: what each stream was given, in order: dim until it is queued, full once it has run.
function stepStreams(record, go, root) {
  const ROW = 24,
    LABEL = 62,
    NARROWEST = 15,
    WIDEST = 92,
    HEAD = 4;
  const { launches, meta } = record;
  const streams = [...new Set(launches.map(({ stream }) => stream))].sort((a, b) => a - b);
  const canvas = lk.h("canvas", { class: "lk-step-canvas", role: "img" });
  const height = HEAD + Math.max(1, streams.length) * ROW + 20;
  const ran = launches.some((launch) => launch.ran >= 0);
  let cell = WIDEST,
    from = 0,
    focus = null;

  const x = (i) => LABEL + (i - from) * cell;
  const y = (launch) => HEAD + streams.indexOf(launch.stream) * ROW;
  // The windowful around the kernel of the event, or the last one queued before it.
  function place(width) {
    const room = Math.max(60, width - LABEL - 4);
    cell = Math.max(NARROWEST, Math.min(WIDEST, room / Math.max(1, launches.length)));
    const visible = Math.floor(room / cell);
    let at = focus.kernel;
    if (at < 0) at = launches.findLastIndex(({ queued }) => queued <= focus.event);
    if (at < from + 1 || at > from + visible - 2) from = at - Math.floor(visible / 2);
    from = Math.max(0, Math.min(from, launches.length - visible));
    return visible;
  }

  function show(next) {
    focus = next;
    const width = canvas.parentElement?.clientWidth;
    if (!width) return;
    const visible = place(width),
      colours = lk.theme(root),
      pen = pens.prepare(canvas, width, height);
    const words = (text, at, line, more) =>
      pens.words(pen, text, at, line, { size: 11, fill: colours.ink, align: "left", ...more });
    if (!launches.length) words("no work was queued: the step ran on the host", 0, 16);
    streams.forEach((stream, i) => {
      words(`stream ${stream}`, 0, HEAD + i * ROW + ROW / 2 - 2, { fill: colours.muted });
      pen.fillStyle = colours.line;
      pen.fillRect(LABEL, HEAD + i * ROW + ROW / 2 - 2, width - LABEL, 1);
    });
    const last = Math.min(launches.length, Math.ceil(from + visible) + 1);
    for (let i = Math.max(0, Math.floor(from)); i < last; i++) drawLaunch(pen, colours, i);
    phases(pen, colours, last);
    const queued = launches.filter((launch) => launch.queued <= focus.event).length,
      done = launches.filter((launch) => 0 <= launch.ran && launch.ran <= focus.event).length;
    const state = ran ? `, ${done} have run` : "";
    canvas.setAttribute("aria-label", `${queued} of ${launches.length} are queued${state}`);
    root.dataset.queued = queued;
    root.dataset.ran = done;
  }
  function drawLaunch(pen, colours, i) {
    const launch = launches[i],
      chosen = i === focus.kernel,
      left = x(i) + 1,
      top = y(launch),
      wide = cell - 2,
      tall = ROW - 5;
    const isQueued = launch.queued <= focus.event,
      hasRun = 0 <= launch.ran && launch.ran <= focus.event;
    pen.fillStyle = colours.paper;
    pen.fillRect(left, top, wide, tall);
    pen.fillStyle = stepColours[launch.phase];
    pen.globalAlpha = hasRun ? 0.9 : isQueued ? 0.32 : 0.08;
    pen.fillRect(left, top, wide, tall);
    pen.globalAlpha = 1;
    const edge = chosen ? stepColours.now : isQueued ? stepColours[launch.phase] : colours.line;
    pens.frameCell(pen, left, top, wide, tall, edge, chosen ? 3 : 1);
    if (wide > 34)
      pens.words(pen, launch.name.replace(/^lab_/, ""), left + wide / 2, top + tall / 2, {
        size: 10,
        fill: hasRun ? "#ffffff" : isQueued ? colours.ink : colours.muted,
        width: wide - 4,
      });
  }
  // A band under the lanes: which part of the step queued it.
  function phases(pen, colours, last) {
    const line = height - 12;
    let start = Math.floor(from);
    for (let i = start + 1; i <= last; i++) {
      if (i < last && launches[i].phase === launches[start].phase) continue;
      if (!launches[start]) break;
      const wide = (i - start) * cell - 2;
      pen.fillStyle = stepColours[launches[start].phase];
      pen.fillRect(x(start) + 1, line - 5, wide, 3);
      pens.words(pen, launches[start].phase, x(start) + 2, line + 5, {
        size: 10,
        fill: colours.muted,
        align: "left",
        width: wide,
      });
      start = i;
    }
  }

  canvas.addEventListener("click", (event) => {
    const { x, y } = lk.spot(event);
    const i = Math.floor((x - LABEL) / cell + from),
      lane = Math.floor((y - HEAD) / ROW);
    // A click beside the work of one stream takes what was queued next to it.
    const near = launches.findIndex((one, k) => k >= i && streams.indexOf(one.stream) === lane);
    if (x > LABEL && near >= 0) go(launches[near].queued);
  });
  return {
    element: lk.h("div", {}, canvas),
    show,
    spots() {
      const launch = launches[focus.kernel];
      if (!launch) return [];
      return [{ node: canvas, x: x(focus.kernel) + cell / 2, y: y(launch), tall: ROW - 5 }];
    },
  };
}
