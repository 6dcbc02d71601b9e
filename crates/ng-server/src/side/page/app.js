// Reads metrics and what is served again and again, and shows what follows.

import { Chart, make, shown, table } from "./chart.js";
import { Reading, classes, mean, percentile, rate, growth } from "./metrics.js";
import { Hops } from "./hops.js";

const EVERY = 2;
const WINDOW = 300;
// What happens less often is averaged over a minute.
const MINUTE = 60;
const GRAPHS_MAX = 6;

const readings = [];
let paused = false;
let failures = 0;
const byId = (id) => document.getElementById(id);

function token() {
  return sessionStorage.getItem("token");
}

async function get(path, query) {
  const url = query ? `${path}?${new URLSearchParams(query)}` : path;
  const headers = token() ? { authorization: `Bearer ${token()}` } : {};
  const response = await fetch(url, { headers, cache: "no-store", redirect: "error" });
  if (response.status === 401) askToken();
  if (response.status === 404 && path === "/metrics") return null;
  if (!response.ok) {
    const text = await response.text();
    let said = `the server answered ${response.status}`;
    try { said = JSON.parse(text).error ?? said; } catch { /* No JSON: the status says enough. */ }
    throw new Error(said);
  }
  return path === "/metrics" ? response.text() : response.json();
}

function askToken() {
  byId("token").hidden = false;
}

const charts = {
  requests: new Chart("Requests a second", "All methods. Shed and failed requests are a line of their own."),
  latency: new Chart("Time of a request", "Percentiles, interpolated inside the classes of the histogram. Below the first class: 0.1 ms."),
  stages: new Chart("Stages of a request", "Means of the last minute."),
  groups: new Chart("Requests in a group", "Requests of the last minute, by how many were computed together."),
  answers: new Chart("Where rows came from", "Shares of rows: from the cache, duplicates inside a group, computed."),
  amplification: new Chart("Read amplification", "Bytes read from the device for each byte that was used."),
  depth: new Chart("Depth of the device's queue", "Reads in flight, averaged over completed reads."),
  memory: new Chart("Memory by user", "Of each graph's budget, which the line marks."),
};
for (const [name, chart] of Object.entries(charts)) byId(name).append(chart.element);

const COMMON = ["Run", "ModelInfer"];

function latest() {
  return readings[readings.length - 1];
}

// The reading from about so many seconds ago, if they all lie in one piece.
function since(seconds) {
  const newest = latest();
  const inside = readings.filter((one) => newest.seconds - one.seconds <= seconds + EVERY / 2);
  return inside.length > 1 ? inside[0] : null;
}

// A point for each step between readings.
function points(of) {
  const all = [];
  for (let at = 1; at < readings.length; at += 1) {
    const [older, newer] = [readings[at - 1], readings[at]];
    const gap = newer.seconds - older.seconds > 3 * EVERY;
    all.push([newer.seconds, gap ? null : of(older, newer)]);
  }
  return all;
}

function show() {
  const newest = latest();
  const window = [newest.seconds - WINDOW, newest.seconds];
  if (readings.length < 2) {
    for (const chart of Object.values(charts)) chart.empty("waiting for a second reading");
    showTiles();
    showJobs();
    return;
  }
  const lines = (chart, names, series, unit) => {
    const missing = names.find((name) => !newest.has(name));
    if (missing) chart.empty(`not measured: the server has no ${missing}`);
    else chart.lines(series(), unit, window);
  };
  const total = "neargraph_requests_total";
  lines(charts.requests, [total], () => [
    { name: "answered", points: points((a, b) => rate(a, b, total, { code: "OK" }) ?? 0) },
    { name: "shed or failed", points: points((a, b) => notOk(a, b, total)) },
  ], "/s");
  const method = byId("method").value;
  lines(charts.latency, ["neargraph_request_seconds"], () => [0.5, 0.95, 0.99].map((share) => ({
    name: `p${share * 100}`,
    points: points((a, b) => {
      const labels = method ? { method } : {};
      return percentile(classes(a, b, "neargraph_request_seconds", labels), share)?.value ?? null;
    }),
  })), "s");
  showStages();
  showGroups();
  showAnswers(lines);
  showDevice(lines);
  showMemory();
  showTiles();
  showJobs();
}

function notOk(older, newer, name) {
  const all = rate(older, newer, name);
  return all === null ? null : all - (rate(older, newer, name, { code: "OK" }) ?? 0);
}

function showStages() {
  const name = "neargraph_stage_seconds";
  const newest = latest();
  if (!newest.has(name)) return charts.stages.empty(`not measured: the server has no ${name}`);
  const known = ["queue", "sample", "gather", "run", "encode"];
  const found = newest.values(`${name}_count`, "stage");
  const stages = [...known.filter((one) => found.includes(one)),
    ...found.filter((one) => !known.includes(one))];
  const parts = stages.map((stage) => ({
    name: stage, value: mean(since(MINUTE), newest, name, { stage }),
  }));
  const measured = parts.filter((part) => part.value !== null);
  const rows = measured.map((part) => ({ name: part.name, parts: [part] }));
  charts.stages.stacks([{ name: "all stages", parts: measured }, ...rows], "s");
}

function showGroups() {
  const name = "neargraph_group_requests";
  const newest = latest();
  if (!newest.has(name)) return charts.groups.empty(`not measured: the server has no ${name}`);
  const all = classes(since(MINUTE), newest, name) ?? [];
  const used = all.filter((one) => one.count > 0);
  if (!used.length) return charts.groups.empty("no requests for answers in the last minute");
  const from = (at) => (at ? all[at - 1].end + 1 : 1);
  const named = all.map(({ end, count }, at) => {
    const text = end === Infinity ? `≥ ${from(at)}` : from(at) === end ? `${end}` : `${from(at)}–${end}`;
    return { name: text, value: count };
  });
  const end = all.indexOf(used[used.length - 1]) + 1;
  charts.groups.columns(named.slice(0, Math.max(end, 4)), "", "requests in a group");
}

function showAnswers(lines) {
  const name = "neargraph_answers_total";
  const share = (source) => points((a, b) => {
    const all = growth(a, b, name);
    return all ? (growth(a, b, name, { source }) ?? 0) / all : null;
  });
  const sources = [["cache", "cache"], ["duplicate", "duplicate"], ["computed", "computed"]];
  lines(charts.answers, [name], () =>
    sources.map(([source, text]) => ({ name: text, points: share(source) })), "%");
}

function showDevice(lines) {
  const [read, useful] = ["neargraph_read_bytes_total", "neargraph_useful_bytes_total"];
  const graphs = () => latest().values(read, "graph").slice(0, GRAPHS_MAX);
  lines(charts.amplification, [read, useful], () => graphs().map((graph) => ({
    name: graph, points: points((a, b) => amplification(a, b, { graph })),
  })), "×");
  const depth = "neargraph_device_depth";
  lines(charts.depth, [depth], () =>
    latest().values(depth, "graph").slice(0, GRAPHS_MAX).map((graph) => ({
      name: graph, points: points((_, b) => b.sum(depth, { graph })),
    })), "");
}

function amplification(older, newer, labels = {}) {
  const read = growth(older, newer, "neargraph_read_bytes_total", labels);
  const useful = growth(older, newer, "neargraph_useful_bytes_total", labels);
  return read === null || !useful ? null : read / useful;
}

function showMemory() {
  const name = "neargraph_memory_bytes";
  const newest = latest();
  if (!newest.has(name)) return charts.memory.empty(`not measured: the server has no ${name}`);
  const rows = newest.values(name, "graph").slice(0, 2 * GRAPHS_MAX).map((graph) => ({
    name: graph,
    of: newest.sum("neargraph_memory_budget_bytes", { graph }),
    parts: newest.all(name, { graph })
      .map((sample) => ({ name: sample.labels.user ?? "", value: sample.value }))
      .filter((part) => part.value > 0)
      .sort((a, b) => (a.name < b.name ? -1 : 1)),
  }));
  charts.memory.stacks(rows, "B");
}

function showTiles() {
  const [newest, before] = [latest(), since(10)];
  const method = byId("method").value;
  const all = classes(before, newest, "neargraph_request_seconds", method ? { method } : {});
  const time = (share) => {
    if (!newest.has("neargraph_request_seconds")) return "not measured";
    const found = percentile(all, share);
    if (!found) return "no requests";
    return `${found.over ? "> " : found.under ? "< " : ""}${shown(found.value, "s")}`;
  };
  const measured = (name, value, unit, none) => {
    if (!newest.has(name)) return "not measured";
    return value === null ? none : shown(value, unit);
  };
  const rows = growth(before, newest, "neargraph_answers_total");
  const kept = growth(before, newest, "neargraph_answers_total", { source: "cache" }) ?? 0;
  const tiles = [
    ["Requests", measured("neargraph_requests_total",
      rate(before, newest, "neargraph_requests_total"), "/s", "waiting")],
    ["Median time", time(0.5)],
    ["99th percentile", time(0.99)],
    ["Cache hits", measured("neargraph_answers_total", rows ? kept / rows : null, "%", "no rows")],
    ["Read amplification", measured("neargraph_read_bytes_total",
      amplification(before, newest), "×", "no reads")],
    ["Waiting", measured("neargraph_queue_requests", newest.sum("neargraph_queue_requests"), "", "")],
    ["Shed", measured("neargraph_shed_total",
      rate(before, newest, "neargraph_shed_total"), "/s", "waiting")],
    ["Memory of the process", measured("process_resident_memory_bytes",
      newest.sum("process_resident_memory_bytes"), "B", "")],
  ];
  byId("tiles").replaceChildren(...tiles.map(([name, value]) =>
    make("div", {}, make("dt", {}, name), make("dd", { class: /\d/.test(value) ? "" : "none" }, value))));
}

function showJobs() {
  const name = "neargraph_jobs";
  const newest = latest();
  if (!newest.has(name)) return put("jobs", make("p", { class: "empty" }, `not measured: the server has no ${name}`));
  const known = ["queued", "running", "done", "failed", "cancelled"];
  const found = newest.values(name, "state");
  const states = [...known.filter((one) => found.includes(one)),
    ...found.filter((one) => !known.includes(one))];
  const rows = states.map((state) => [state, shown(newest.sum(name, { state }))]);
  put("jobs", table("Jobs", ["state", "jobs"], rows));
}

// Replaces a table unless it is the same: a reader may stand in it.
function put(id, element) {
  const place = byId(id);
  if (place.firstElementChild?.isEqualNode(element)) return;
  place.replaceChildren(element);
}

function showServed(info, graphs, models) {
  const newest = latest();
  const number = (value) => (value === null || value === undefined ? "not measured" : value.toLocaleString("en"));
  const rate60 = (name, graph) => {
    const found = newest ? rate(since(MINUTE), newest, name, { graph }) : null;
    return found === null ? "not measured" : shown(found, "/s");
  };
  const now = (name, graph, unit) => {
    const found = newest?.sum(name, { graph }) ?? null;
    return found === null ? "not measured" : shown(found, unit);
  };
  const sum = (all, key) => all.reduce((sum, one) => sum + one[key], 0);
  put("graphs", graphs.length ? table("Graphs",
    ["graph", "nodes", "edges", "commit", "commits", "pinned", "log", "on disk", "state"],
    graphs.map((graph) => [
      graph.name, number(sum(graph.node_types, "nodes")), number(sum(graph.edge_types, "edges")),
      number(graph.commit), rate60("neargraph_commits_total", graph.name),
      now("neargraph_pinned_snapshots", graph.name, ""), now("neargraph_wal_bytes", graph.name, "B"),
      shown(graph.bytes_on_disk, "B"),
      graph.read_only_because ? `read-only: ${graph.read_only_because}` : "open",
    ])) : make("p", { class: "empty" }, "no graphs are served"));
  put("models", models.length ? table("Models", ["model", "version", "graph", "prepared", "state"],
    models.map((model) => [
      model.name, String(model.version), model.graph, shown(model.ready, "%"),
      model.problem ? model.problem : model.ready >= 1 ? "ready" : "being prepared",
    ])) : make("p", { class: "empty" }, "no models are registered"));
  const parts = [`version ${info.version}`, `up ${duration(info.uptime_seconds)}`, info.addresses.join(", ")];
  if (info.read_only) parts.push("read-only");
  byId("server").textContent = parts.join(" · ");
  hops.offer(graphs, models);
}

function duration(seconds) {
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} days`;
}

function methods() {
  const select = byId("method");
  const found = latest().values("neargraph_request_seconds_count", "method");
  const names = ["", ...found];
  const before = select.value;
  const known = [...select.options].map((option) => option.value);
  if (JSON.stringify(known) === JSON.stringify(names)) return;
  select.replaceChildren(...names.map((name) => make("option", { value: name }, name || "all methods")));
  const common = COMMON.find((name) => found.includes(name) && !known.includes(name));
  select.value = before && names.includes(before) ? before : common ?? before;
}

async function readiness() {
  const response = await fetch("/readyz", { cache: "no-store" });
  const text = (await response.text()).trim().slice(0, 200);
  return response.ok ? "ready" : `not ready: ${text}`;
}

async function turn() {
  if (paused || document.hidden) return;
  const state = byId("state");
  try {
    const [text, info, graphs, models, ready] = await Promise.all([
      get("/metrics"), get("/api/info"), get("/api/graphs"), get("/api/models"), readiness(),
    ]);
    readings.push(new Reading(text ?? "", performance.now() / 1000));
    while (latest().seconds - readings[0].seconds > WINDOW + EVERY) readings.shift();
    failures = 0;
    byId("token").hidden = true;
    methods();
    show();
    showServed(info, graphs, models);
    say(state, ready, ready !== "ready");
  } catch (error) {
    failures += 1;
    const why = error instanceof TypeError ? "the server cannot be reached" : error.message;
    say(state, failures > 1 ? `${why}, for ${failures * EVERY} s` : why, true);
  }
}

function say(place, text, wrong) {
  if (place.textContent !== text) place.textContent = text;
  place.classList.toggle("wrong", wrong);
}

const hops = new Hops(byId("hops"), get);

const theme = byId("theme");
function light(name) {
  document.documentElement.dataset.theme = name;
  theme.textContent = name === "dark" ? "Light" : "Dark";
  theme.setAttribute("aria-label", `Use ${name === "dark" ? "light" : "dark"} colours`);
}
const dark = matchMedia("(prefers-color-scheme: dark)");
light(localStorage.getItem("theme") ?? (dark.matches ? "dark" : "light"));
dark.addEventListener("change", () => {
  if (!localStorage.getItem("theme")) light(dark.matches ? "dark" : "light");
});
theme.addEventListener("click", () => {
  const name = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  localStorage.setItem("theme", name);
  light(name);
});
const pause = byId("pause");
pause.addEventListener("click", () => {
  paused = !paused;
  pause.setAttribute("aria-pressed", String(paused));
  pause.textContent = paused ? "Go on" : "Pause";
  if (!paused) turn();
});
byId("method").addEventListener("change", () => latest() && show());
byId("token").addEventListener("submit", (event) => {
  event.preventDefault();
  const field = event.target.elements.token;
  sessionStorage.setItem("token", field.value.trim());
  field.value = "";
  turn();
});
async function forever() {
  await turn();
  setTimeout(forever, EVERY * 1000);
}
forever();
