import { draw } from "/chart.js";

const EVERY_MS = 200;
const KEPT = 320;
const lanes = [];
let since = 0;

function number(value) {
  return Math.round(value).toLocaleString("en");
}

function milliseconds(value) {
  if (value === null || value === undefined) return "–";
  return value < 10 ? `${value.toFixed(2)} ms` : `${number(value)} ms`;
}

function latency(ns) {
  if (ns === 0) return "none";
  return ns < 1000 ? `+${ns} ns` : `+${(ns / 1000).toFixed(ns < 10000 ? 1 : 0)} µs`;
}

// The slider goes by powers: 0, then 10 ns to the most.
function latencyOf(step, most) {
  return step === 0 ? 0 : Math.round(10 * (most / 10) ** ((step - 1) / 39));
}

function stepOf(ns, most) {
  return ns === 0 ? 0 : 1 + Math.round((39 * Math.log(ns / 10)) / Math.log(most / 10));
}

async function post(path, fields) {
  const answer = await fetch(`${path}?${new URLSearchParams(fields)}`, { method: "POST" });
  return answer.ok ? null : answer.text();
}

class Lane {
  constructor(index, state) {
    this.index = index;
    this.points = [];
    this.colours = new Map();
    const made = document.getElementById("lane").content.cloneNode(true);
    this.root = made.querySelector("section");
    document.getElementById("lanes").append(made);
    const heading = this.part("h2");
    heading.id = `lane-${index}`;
    this.root.setAttribute("aria-labelledby", heading.id);
    this.part(".scroll").setAttribute("aria-label", "Crashes");
    const form = this.part("form");
    this.form = form.elements;
    for (const name of state.engines) this.form.engine.add(new Option(name, name));
    this.form.users.max = state.most_users;
    this.form.latency.max = 40;
    this.most = state.most_latency_ns;
    form.addEventListener("submit", (event) => event.preventDefault());
    this.form.engine.addEventListener("change", () => this.send("/engine", { name: this.form.engine.value }));
    this.form.users.addEventListener("input", () => this.send("/set", { users: this.form.users.value }));
    this.form.latency.addEventListener("input", () => {
      this.send("/set", { latency: latencyOf(Number(this.form.latency.value), this.most) });
    });
    this.kill = this.part(".kill");
    this.kill.addEventListener("click", () => this.send("/crash", {}));
  }

  // The tick of the last point.
  last() {
    return this.points.length ? this.points[this.points.length - 1][0] : 0;
  }

  part(selector) {
    return this.root.querySelector(selector);
  }

  async send(path, fields) {
    this.said = await post(path, { lane: this.index, ...fields }).catch(() => null);
  }

  figure(name, text, kind = "") {
    const part = this.part(`[data-figure=${name}]`);
    part.textContent = text;
    part.className = kind;
    return part;
  }

  show(state, now) {
    if (this.engine !== state.engine) {
      this.engine = state.engine;
      this.points = [];
      this.said = null;
    }
    const last = this.last();
    const fresh = state.points.filter((point) => point.tick > last);
    this.points.push(...fresh.map((point) => [point.tick, point.txn_s, point.mean_us]));
    this.points.splice(0, Math.max(0, this.points.length - KEPT));
    this.part("h2").textContent = state.engine;
    const failed = state.failure !== null;
    const words = { loading: "loads", recovering: "recovers", running: "works", failed: "has ended" };
    const status = failed ? "has ended" : `process ${state.pid} ${words[state.status]}`;
    if (this.part(".status").textContent !== status) this.part(".status").textContent = status;
    this.kill.textContent = failed ? "Start again" : `Kill ${state.engine}`;
    this.kill.disabled = !failed && state.status === "loading";
    const failure = this.part(".failure");
    failure.hidden = !failed && !this.said;
    failure.textContent = state.failure ?? this.said ?? "";
    this.controls(state.told, state.engine);
    this.figures(state);
    const rates = this.points.map(([tick, rate]) => [tick, rate / 1000]);
    draw(this.part(".chart.rate"), rates, state.crashes, now, "Thousand transactions a second");
    const responses = this.points.map(([tick, , mean]) => [tick, mean]);
    draw(this.part(".chart.response"), responses, state.crashes, now, "Mean response in microseconds");
    this.transactions(state);
    this.crashes(state.crashes);
  }

  controls(told, engine) {
    const form = this.form;
    if (document.activeElement !== form.engine) form.engine.value = engine;
    if (document.activeElement !== form.users) form.users.value = told.users;
    if (document.activeElement !== form.latency) form.latency.value = stepOf(told.latency_ns, this.most);
    form.usersShown.value = told.users;
    form.latencyShown.value = latency(told.latency_ns);
    form.latency.setAttribute("aria-valuetext", latency(told.latency_ns));
  }

  figures(state) {
    const { restarts, lost, surplus, torn, acknowledged } = state.checks;
    const wrong = lost + surplus + torn;
    if (restarts === 0) {
      this.figure("lost", "not killed yet");
    } else {
      const part = this.figure("lost", number(lost), wrong === 0 ? "good" : "bad");
      const small = document.createElement("small");
      const more = surplus + torn === 0 ? "" : `, ${surplus} surplus, ${torn} torn`;
      small.textContent = ` of ${number(acknowledged)}${more}`;
      part.append(small);
    }
    const last = state.crashes[state.crashes.length - 1];
    this.figure("first", last ? milliseconds(last.first_commit_ms) : "not killed yet");
    const recent = this.points.slice(-10);
    const rate = recent.reduce((sum, [, value]) => sum + value, 0) / Math.max(1, recent.length);
    this.figure("rate", number(rate));
    const means = recent.map(([, , mean]) => mean).filter((mean) => mean !== null);
    const mean = means.reduce((sum, value) => sum + value, 0) / Math.max(1, means.length);
    this.figure("response", means.length ? `${mean.toFixed(1)} µs` : "–");
  }

  colour(pid) {
    if (!this.colours.has(pid)) this.colours.set(pid, this.colours.size % 4);
    return `p${this.colours.get(pid)}`;
  }

  transactions(state) {
    this.part("h3 small").textContent = state.continues
      ? "go on in the next process, at their statement"
      : "are undone by a crash, and begin again";
    const row = (long) => {
      const item = document.createElement("li");
      const said = document.createElement("div");
      said.className = "said";
      const name = document.createElement("span");
      name.textContent = `${long.name}: statement ${long.done} of ${state.statements}`;
      const more = document.createElement("span");
      const processes = new Set(long.segments.map((segment) => segment.pid)).size;
      if (long.undone > 0) {
        more.className = "undone";
        more.textContent = `${long.undone} statements undone, begins again`;
      } else if (processes > 1) {
        more.textContent = `in ${processes} processes; ${long.runs} committed`;
      } else {
        more.textContent = `${long.runs} committed`;
      }
      said.append(name, more);
      const bar = document.createElement("div");
      bar.className = "bar";
      for (const { pid, from, to } of long.segments) {
        const part = document.createElement("span");
        part.className = this.colour(pid);
        part.style.left = `${((from - 1) / state.statements) * 100}%`;
        part.style.width = `${((to - from + 1) / state.statements) * 100}%`;
        part.textContent = pid;
        part.title = `statements ${from} to ${to}: process ${pid}`;
        bar.append(part);
      }
      item.append(said, bar);
      return item;
    };
    this.part(".long").replaceChildren(...state.long.map(row));
  }

  crashes(crashes) {
    const key = JSON.stringify(crashes);
    if (crashes.length === 0 ? !this.shown : this.shown === key) return;
    this.shown = crashes.length === 0 ? null : key;
    const cells = (crash) => [
      crash.pid_before,
      crash.pid_after ?? "–",
      milliseconds(crash.open_ms),
      milliseconds(crash.first_commit_ms),
      crash.lost ?? "–",
    ];
    const rows = crashes.map((crash) => {
      const row = document.createElement("tr");
      for (const cell of cells(crash)) row.insertCell().textContent = cell;
      return row;
    });
    this.part("tbody").replaceChildren(...rows.reverse());
  }
}

async function look() {
  const answer = await fetch(`/state?since=${since}`);
  const state = await answer.json();
  const ticks = state.lanes.flatMap((lane) => lane.points.map((point) => point.tick));
  const now = Math.max(since, ...ticks);
  // All of them before any is drawn: a chart is as wide as the place that is left for it.
  state.lanes.forEach((_, index) => (lanes[index] ??= new Lane(index, state)));
  state.lanes.forEach((lane, index) => lanes[index].show(lane, now));
  // The slower of the two may have a point of the same tick still to come.
  since = Math.min(...lanes.map((lane) => lane.last()));
}

async function run() {
  const connection = document.getElementById("connection");
  for (;;) {
    try {
      await look();
      connection.hidden = true;
    } catch {
      connection.hidden = false;
    }
    await new Promise((done) => setTimeout(done, EVERY_MS));
  }
}

run();
