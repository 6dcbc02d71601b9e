// The neighbourhood of a node: whom its messages come from, one or two hops away, with the answers
// of a model. What is drawn stands in a table, too.

import { draw, make, table } from "./chart.js";

const SIZE = 520;
const RINGS = [0, 120, 218];
// Neighbours of a neighbour that are drawn.
const SECOND_MAX = 4;
// Nodes that one request may name.
const IDS_MAX = 256;

export class Hops {
  constructor(root, ask) {
    this.root = root;
    this.ask = ask;
    this.form = root.querySelector("form");
    this.plot = root.querySelector("[data-plot]");
    this.said = root.querySelector("[data-said]");
    this.list = root.querySelector("[data-list]");
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.show();
    });
    this.form.elements.graph.addEventListener("change", () => this.choices());
    this.graphs = [];
    this.models = [];
    this.turn = 0;
  }

  // What can be picked, without changing what is picked.
  offer(graphs, models) {
    const key = JSON.stringify([
      graphs.map((graph) => [graph.name, graph.edge_types.map(nameOfType)]),
      models.map((model) => [model.graph, model.name, model.version]),
    ]);
    [this.graphs, this.models] = [graphs, models];
    if (key === this.key) return;
    const select = this.form.elements.graph;
    options(select, graphs.map((graph) => [graph.name, graph.name]));
    if (!this.key && models.length) select.value = models[0].graph;
    this.key = key;
    this.choices();
  }

  choices() {
    const graph = this.graph();
    const types = (graph?.edge_types ?? []).map((type, at) => [String(at), nameOfType(type)]);
    options(this.form.elements.type, types);
    const models = this.models.filter((model) => model.graph === graph?.name);
    const titles = models.map((model) => `${model.name}@${model.version}`);
    options(this.form.elements.model, [["", "none"], ...titles.map((title) => [title, title])]);
    if (titles.length) this.form.elements.model.value = titles[titles.length - 1];
    const button = this.form.querySelector("button");
    button.disabled = !graph || !types.length;
  }

  graph() {
    return this.graphs.find((graph) => graph.name === this.form.elements.graph.value);
  }

  async show() {
    const turn = (this.turn += 1);
    this.say("reading…");
    try {
      const found = await this.read();
      if (turn !== this.turn) return;
      this.paint(found);
    } catch (error) {
      if (turn !== this.turn) return;
      this.plot.replaceChildren();
      this.list.replaceChildren();
      this.say(error.message, true);
    }
  }

  async read() {
    const fields = this.form.elements;
    const graph = this.graph();
    const type = graph.edge_types[Number(fields.type.value)];
    const node = fields.node.value.trim();
    if (!/^\d{1,15}$/.test(node)) throw new Error("a node is a number from 0");
    const limit = Math.max(1, Math.min(32, Number(fields.limit.value) || 12));
    const lists = (ids, most) =>
      this.ask("/api/neighbors", {
        graph: graph.name, edge_type: fields.type.value, ids: ids.join(","), limit: most,
      });
    const first = await lists([Number(node)], limit);
    const nodes = new Map([[Number(node), { hop: 0, degree: first.lists[0].degree, ring: [] }]]);
    const edges = [];
    const join = (list, hop) => {
      for (const id of new Set(list.neighbors)) {
        if (!nodes.has(id)) {
          nodes.set(id, { hop, degree: null, ring: [], parent: list.id });
          nodes.get(list.id).ring.push(id);
        }
        edges.push([id, list.id]);
      }
    };
    join(first.lists[0], 1);
    const near = nodes.get(Number(node)).ring;
    const same = type.source === type.destination;
    if (same && near.length) {
      const two = fields.hops.value === "2";
      const second = await lists(near, two ? SECOND_MAX : 0);
      for (const list of second.lists) {
        nodes.get(list.id).degree = list.degree;
        if (two) join(list, 2);
      }
    }
    const answers = await this.answers(graph, fields.model.value, [...nodes.keys()]);
    return { node: Number(node), nodes, edges, answers, type, same, commit: first.commit };
  }

  async answers(graph, model, ids) {
    if (!model) return null;
    try {
      const some = ids.slice(0, IDS_MAX);
      const ask = { graph: graph.name, model, ids: some.join(",") };
      const answer = await this.ask("/api/scores", ask);
      answer.of = new Map(some.map((id, at) => [id, answer.rows[at]]));
      return answer;
    } catch (error) {
      return { problem: error.message, of: new Map() };
    }
  }

  paint(found) {
    const { nodes, answers, type, same } = found;
    const places = placed(found);
    const lines = found.edges.map(([from, to]) => {
      const [a, b] = [places.get(from), places.get(to)];
      return draw("line", { class: "edge", x1: a.x, y1: a.y, x2: b.x, y2: b.y });
    });
    const marks = [...nodes].map(([id, node]) => this.mark(id, node, places.get(id), answers));
    const name = `${nodes.size - 1} neighbours of node ${found.node}; the table lists them`;
    const svg = draw(
      "svg",
      { viewBox: `0 0 ${SIZE} ${SIZE}`, role: "group", "aria-label": name },
      ...lines, ...marks.reverse(),
    );
    svg.addEventListener("keydown", (event) => walk(event, svg));
    svg.querySelector(".node.hop0").setAttribute("tabindex", 0);
    this.plot.replaceChildren(svg);
    const centre = nodes.get(found.node);
    const drawn = centre.ring.length;
    const parts = [
      `Node ${found.node} has ${centre.degree.toLocaleString("en")} neighbours by ` +
        `“${nameOfType(type)}”; ${drawn} of them are drawn.`,
    ];
    if (!same) parts.push("Its neighbours are of another type, so there is one hop.");
    else if (this.form.elements.hops.value === "2") {
      parts.push(`At most ${SECOND_MAX} neighbours of each neighbour are drawn.`);
    }
    if (answers?.problem) parts.push(`No answers: ${answers.problem}`);
    else if (answers) {
      parts.push(`${answers.model} answered at commit ${answers.commit}; a node's colour is the ` +
        "column with the highest number (six colours, again and again).");
    }
    this.say(parts.join(" "), Boolean(answers?.problem));
    this.tabulate(found);
  }

  mark(id, node, place, answers) {
    const row = answers?.of.get(id);
    const best = row ? top(row) : null;
    const radius = [20, 13, 7][node.hop];
    const label = [`node ${id}`, `hop ${node.hop}`];
    if (best) label.push(`highest: column ${best.column}, ${best.number}`);
    const circle = { r: radius, class: best ? `s${best.column % 6}` : "plain" };
    const group = draw(
      "g",
      {
        class: `node hop${node.hop}`, tabindex: -1, role: "button", "data-id": id,
        transform: `translate(${place.x.toFixed(1)} ${place.y.toFixed(1)})`,
        "aria-label": label.join(", "),
      },
      draw("title", {}, label.join(", ")),
      draw("circle", circle),
    );
    if (node.hop < 2) {
      const isAbove = node.hop && place.y < SIZE / 2;
      const y = node.hop ? (isAbove ? -radius - 4 : radius + 3) : 0;
      const baseline = node.hop ? (isAbove ? "auto" : "hanging") : "central";
      const text = { y, "text-anchor": "middle", "dominant-baseline": baseline };
      group.append(draw("text", text, String(id)));
    }
    const go = () => {
      this.form.elements.node.value = id;
      this.show();
    };
    group.addEventListener("click", () => node.hop && this.same() && go());
    group.addEventListener("keydown", (event) => {
      if ((event.key === "Enter" || event.key === " ") && node.hop && this.same()) {
        event.preventDefault();
        go();
      }
    });
    return group;
  }

  same() {
    const type = this.graph()?.edge_types[Number(this.form.elements.type.value)];
    return type && type.source === type.destination;
  }

  tabulate({ nodes, answers }) {
    const columns = Math.min(answers?.columns ?? 0, 4);
    const head = ["node", "hop", "neighbours"];
    if (columns) head.push("highest column", ...Array.from({ length: columns }, (_, at) => `[${at}]`));
    if ((answers?.columns ?? 0) > columns) head.push("…");
    const rows = [...nodes].map(([id, node]) => {
      const row = answers?.of.get(id);
      const best = row ? top(row) : null;
      const cells = [String(id), String(node.hop), node.degree?.toLocaleString("en") ?? "not read"];
      if (columns) cells.push(best ? String(best.column) : "none");
      for (let at = 0; at < columns; at += 1) cells.push(row ? digits(row[at]) : "none");
      if (head.includes("…")) cells.push(`${answers.columns - columns} more`);
      return cells;
    });
    this.list.replaceChildren(table("Nodes that are drawn", head, rows));
  }

  say(text, wrong = false) {
    this.said.textContent = text;
    this.said.classList.toggle("wrong", wrong);
  }
}

function nameOfType(type) {
  return `${type.source} → ${type.name} → ${type.destination}`;
}

function options(select, pairs) {
  const before = select.value;
  select.replaceChildren(...pairs.map(([value, text]) => make("option", { value }, text)));
  if (pairs.some(([value]) => value === before)) select.value = before;
}

function top(row) {
  let column = -1;
  row.forEach((number, at) => {
    if (typeof number === "number" && (column < 0 || number > row[column])) column = at;
  });
  return column < 0 ? null : { column, number: digits(row[column]) };
}

function digits(number) {
  return typeof number === "number" ? String(Number(number.toPrecision(4))) : String(number);
}

// Neighbours on a ring, theirs outside of them in the same sector.
function placed({ node, nodes }) {
  const middle = SIZE / 2;
  const places = new Map([[node, { x: middle, y: middle }]]);
  const near = nodes.get(node).ring;
  const at = (angle, hop) => ({
    x: middle + RINGS[hop] * Math.cos(angle), y: middle + RINGS[hop] * Math.sin(angle),
  });
  const sector = (2 * Math.PI) / Math.max(near.length, 1);
  near.forEach((id, place) => {
    const angle = place * sector - Math.PI / 2;
    places.set(id, at(angle, 1));
    const far = nodes.get(id).ring;
    far.forEach((other, nth) => {
      const turned = angle + ((nth + 0.5) / far.length - 0.5) * sector * 0.86;
      places.set(other, at(turned, 2));
    });
  });
  return places;
}

// The arrow keys go from node to node.
function walk(event, svg) {
  const moves = { ArrowRight: -1, ArrowDown: -1, ArrowLeft: 1, ArrowUp: 1 };
  if (!(event.key in moves)) return;
  event.preventDefault();
  const all = [...svg.querySelectorAll(".node")];
  const now = all.indexOf(document.activeElement);
  const next = all[(now + moves[event.key] + all.length) % all.length];
  all.forEach((one) => one.setAttribute("tabindex", -1));
  next.setAttribute("tabindex", 0);
  next.focus();
}
