// Asks for the state of the room every few seconds and draws it. All texts in it come from
// learners' files, so they only ever become text: nothing here makes HTML of a string.
const SECONDS = 3;
const SIGNS = { done: "✓", wrong: "✗", open: "·" };
const opened = new Set();
let shown = "";

function node(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children.filter((child) => child !== ""));
  return made;
}

function ago(seconds) {
  if (seconds === null) return "not yet";
  if (seconds < 60) return `${seconds} s`;
  return seconds < 3600 ? `${Math.floor(seconds / 60)} min` : `${Math.floor(seconds / 3600)} h`;
}

function many(count, one) {
  return `${count} ${one}${count === 1 ? "" : "s"}`;
}

function drawSummary({ learners, exercises }) {
  const active = learners.filter((one) => one.seconds !== null && one.seconds < 180).length;
  const stuck = learners.filter((one) => one.stuck.length).length;
  const passed = exercises.reduce((sum, one) => sum + one.passed, 0);
  return (
    `${many(learners.length, "learner")}, ${active} at work in the last 3 minutes, ` +
    `${stuck} stuck, ${many(passed, "exercise")} passed`
  );
}

function planRow({ chapter, title, minutes, here, sections }, called) {
  const item = node("li", here ? { class: "here" } : {}, title, " ");
  item.append(node("small", { title: chapter }, `${minutes} min, ${here} here`));
  const list = node("select", { "aria-label": `Call everybody to a section of ${title}` });
  list.append(node("option", { value: "" }, "call everybody to…"));
  for (const section of sections) list.append(node("option", {}, section));
  list.addEventListener("change", () => {
    list.blur();
    if (list.value) callEverybody(chapter, list.value);
  });
  if (called?.chapter === chapter) item.append(node("div", {}, `called to: ${called.section}`));
  item.append(node("div", {}, list));
  return item;
}

async function callEverybody(chapter, section) {
  const headers = { "X-XSRFToken": token(), "Content-Type": "application/json" };
  const answer = await fetch("everybody", {
    method: "POST", headers, body: JSON.stringify({ chapter, section }),
  });
  if (!answer.ok) return fail();
  shown = "";
}

function doing({ exercise, state, failed }) {
  const cell = node("td");
  if (exercise) {
    const verdict = state.passed ? "passed" : state.attempts ? "not yet" : "open";
    const kind = state.passed ? "right" : state.attempts ? "wrong" : "muted";
    cell.append(exercise.split(".")[1], " ", node("span", { class: kind }, verdict));
    if (!state.passed && state.attempts) cell.append(`, ${many(state.attempts, "attempt")}`);
    const stages = state.stages.map(([name, is]) => `${name} ${SIGNS[is] ?? ""}`).join("  ");
    if (stages && !state.passed) cell.append(node("br"), node("small", {}, stages));
    const hint = state.hints.at(-1);
    if (hint && !state.passed) cell.append(node("br"), node("small", {}, `hint: ${hint}`));
  } else if (failed) cell.append(node("span", { class: "wrong" }, failed));
  return cell;
}

function learnerRow(one) {
  const place = node("td", {}, one.chapter || "—");
  if (one.section) place.append(node("br"), node("small", {}, one.section));
  const name = node("td", {}, one.name);
  if (one.stuck.length) name.append(node("br"), node("small", { class: "wrong" }, "stuck"));
  return node(
    "tr",
    {},
    name,
    place,
    doing(one),
    node("td", { class: "number" }, String(one.passed)),
    node("td", { class: "number" }, ago(one.seconds)),
  );
}

function failingCase({ name, attempts, hints, case: rows }) {
  const box = node("div", { class: "case" }, node("b", {}, name), `, ${many(attempts, "attempt")}`);
  for (const [what, text] of rows) box.append(node("pre", {}, `${what.padEnd(12)}${text}`));
  for (const hint of hints) box.append(node("div", {}, node("small", {}, `hint given: ${hint}`)));
  return box;
}

function exerciseRow(one) {
  const counts = `${one.passed} of ${one.tried} passed, ${one.failing.length} failing`;
  const head = node("summary", {}, node("b", {}, one.id), ` ${counts}`);
  if (one.gave_up) head.append(`, ${one.gave_up} opened the solution`);
  const details = node("details", opened.has(one.id) ? { open: "" } : {}, head);
  details.addEventListener("toggle", () => opened[details.open ? "add" : "delete"](one.id));
  for (const [name, wrong] of one.stages.filter(([, wrong]) => wrong)) {
    const bar = node("span", { class: "bar" });
    bar.style.width = `${14 * wrong}px`;
    details.append(node("div", { class: "stages" }, bar, ` ${name}: ${wrong}`));
  }
  details.append(...one.failing.map(failingCase));
  return details;
}

function draw(state) {
  document.getElementById("summary").textContent = drawSummary(state);
  const plan = document.getElementById("plan");
  if (!plan.contains(document.activeElement))  // a list that is open stays open
    plan.replaceChildren(...state.plan.map((stop) => planRow(stop, state.called)));
  const order = [...state.learners].sort((a, b) => b.stuck.length - a.stuck.length);
  document.getElementById("learners").replaceChildren(...order.map(learnerRow));
  const worst = [...state.exercises].sort((a, b) => b.failing.length - a.failing.length);
  const focused = document.activeElement?.closest("details")?.querySelector("b")?.textContent;
  document.getElementById("exercises").replaceChildren(...worst.map(exerciseRow));
  for (const details of document.querySelectorAll("details"))
    if (details.querySelector("b").textContent === focused) details.firstChild.focus();
  if (!worst.length) document.getElementById("exercises").textContent = "Nobody has tried one yet.";
}

function token() {
  return document.cookie.match(/(?:^|; )_xsrf=([^;]*)/)?.[1] ?? "";
}

function fail() {
  document.getElementById("summary").textContent = "The room does not answer; reload the page.";
  shown = "";
}

async function look() {
  try {
    const answer = await fetch("state", { headers: { "X-XSRFToken": token() } });
    if (!answer.ok) throw new Error(String(answer.status));
    const text = await answer.text();
    if (text !== shown) draw(JSON.parse(text));
    shown = text;
  } catch {
    fail();
  }
  setTimeout(look, 1000 * SECONDS);
}
look();
