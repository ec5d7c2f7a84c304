"use strict";
// The page: from the data of the report to what is read.

const DATA = JSON.parse(document.getElementById("data").textContent);
// "full/8" is one in eight transactions of the full size.
const SCALE = DATA.scale.replace(/^([^/]+)(?:\/(\d+))?$/, (_, size, oneIn) => `--${size}${oneIn ? ` --one-in ${oneIn}` : ""}`);
const main = document.getElementById("main");
const dark = matchMedia("(prefers-color-scheme: dark)");

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "onclick") element.addEventListener("click", value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

// --- Numbers and files -------------------------------------------------------------------------

function figure(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  const size = Math.abs(value);
  const digits = size === 0 || size >= 100 ? 0 : size >= 10 ? 1 : size >= 0.1 ? 2 : 4;
  return value.toLocaleString("en", { maximumFractionDigits: digits, minimumFractionDigits: digits });
}

function save(name, text, type) {
  const link = make("a", { href: URL.createObjectURL(new Blob([text], { type })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

// All points, each with its setting.
const BOTH = [["ours", DATA.points], ["paper", DATA.paper_points]]
  .flatMap(([setting, rows]) => rows.map((row) => ({ ...row, setting })));
const COLUMNS = ["setting", "experiment", "panel", "series", "x", "metric", "unit", "value", "low", "high", "n", "exact", "emulated"];
function toCsv(rows, columns = COLUMNS) {
  const cell = (value) => {
    const text = value === null || value === undefined ? "" : String(value);
    return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return [columns.join(","), ...rows.map((row) => columns.map((column) => cell(row[column])).join(","))].join("\n") + "\n";
}
const saveCsv = (name, rows, columns) => save(`${name}.csv`, toCsv(rows, columns), "text/csv");
const saveJson = (name, rows) => save(`${name}.json`, JSON.stringify(rows, null, 1), "application/json");

// --- Plots -------------------------------------------------------------------------------------

const plots = [];
window.reportPlots = { drawn: 0, failed: [] };

function draw(plot) {
  const spec = specification(plot.chart, dark.matches, plot.place.clientWidth);
  const options = { actions: false, renderer: "svg", tooltip: { theme: dark.matches ? "dark" : "light" } };
  return vegaEmbed(plot.place, spec, options).then((result) => {
    plot.view = result.view;
    if (!plot.drawn) window.reportPlots.drawn += 1;
    plot.drawn = true;
  }).catch((error) => {
    window.reportPlots.failed.push(`${plot.name}: ${error}`);
    console.error(plot.name, error);
  });
}

function plot(name, chart, whose) {
  const place = make("div", { class: "plot", role: "img", "aria-label": `${chart.title}, ${whose || ""}` });
  const entry = { name, chart, place };
  plots.push(entry);
  // For papers: always light, on white, whatever the page looks like.
  const image = (type) => () => {
    const spec = specification(chart, false, place.clientWidth);
    spec.config.background = "white";
    spec.width = Math.max(320, place.clientWidth - 60);
    delete spec.autosize;
    const view = new vega.View(vega.parse(vegaLite.compile(spec).spec), { renderer: "none" });
    view.toImageURL(type, type === "png" ? 3 : 1).then((address) => {
      make("a", { href: address, download: `${name}.${type}` }).click();
    });
  };
  return make("figure", {},
    make("figcaption", {}, make("span", {}, chart.title), whose ? make("span", { class: "whose" }, whose) : null),
    place,
    make("div", { class: "tools" },
      make("button", { type: "button", onclick: image("svg") }, "SVG"),
      make("button", { type: "button", onclick: image("png") }, "PNG"),
      make("button", { type: "button", onclick: () => saveCsv(name, chart.rows) }, "CSV"),
      make("button", { type: "button", onclick: () => saveJson(name, chart.rows) }, "JSON")));
}

// --- Head --------------------------------------------------------------------------------------

function head() {
  const { host, commit, scale, seed, date } = DATA;
  const sizes = scale === "full" ? "the paper's sizes" : scale.startsWith("full/") ? "the paper's sizes, fewer transactions" : "small sizes";
  document.getElementById("top").append(
    make("h1", {}, "Storage engines for non-volatile memory, on this machine"),
    make("p", { class: "soft" }, `Laboratory report of Perdura: ${host.cpu}, ${host.cores} cores, ${host.medium}; commit ${commit}, ${sizes}, seed ${seed}, ${date}.`));
}

function contents(entries) {
  document.getElementById("contents").append(
    make("ul", {}, entries.map(([id, text]) => make("li", {}, make("a", { href: `#${id}` }, text)))));
}

function section(id, title, ...children) {
  const element = make("section", { id }, make("h2", {}, title), ...children);
  main.append(element);
  return element;
}

// --- To choose ---------------------------------------------------------------------------------

const BOUNDS = (name) => name.startsWith("floor") || name.endsWith("map");

// What the table is made of: the comparison with others where it was measured, else P1's runs.
function choices() {
  const of = (experiment, metric) => DATA.points.filter((row) => row.experiment === experiment && row.metric === metric);
  const many = (number) => Number(number).toLocaleString("en");
  // The largest size that everybody has.
  const largest = (rows) => {
    const all = new Set(rows.map((row) => row.series)).size;
    const sizes = [...new Set(rows.map((row) => row.x))];
    const shared = sizes.filter((x) => rows.filter((row) => row.x === x).length === all);
    const top = Math.max(...(shared.length ? shared : sizes));
    return [rows.filter((row) => row.x === top), top];
  };
  const find = (rows, name) => rows.find((row) => row.series === name)?.value;
  const compared = of("PEERS-MIX", "throughput");
  const sizes = [...new Set(compared.map((row) => row.panel))];
  const size = sizes.includes("200000") ? "200000" : sizes[sizes.length - 1];
  const throughput = compared.length
    ? compared.filter((row) => row.panel === size)
    : of("P1-F5", "native throughput").filter((row) => row.panel === "low");
  const at = (list, mix, name) => find(list.filter((row) => row.x === mix), name);
  const latency = of("PEERS-MIX", "p99 to durability").filter((row) => row.panel === size);
  let [reopen, reopenAt] = largest(of("PEERS-REOPEN", "first commit"));
  let reopenUnit = `first commit, ${many(reopenAt)} tuples`;
  if (reopen.length === 0) {
    [reopen, reopenAt] = largest(of("P1-F12", "first commit").filter((row) => row.panel === "ycsb"));
    reopenUnit = `first commit, after ${many(reopenAt)} transactions`;
  }
  let [space, spaceAt] = largest(of("PEERS-SPACE", "space for a byte of user data"));
  let spaceUnit = `on the medium for a byte, ${many(spaceAt)} tuples`;
  const onMedium = space.length > 0;
  if (space.length === 0) {
    const user = of("P1-F14", "user data").filter((row) => row.panel === "ycsb");
    space = of("P1-F14", "footprint").filter((row) => row.panel === "ycsb" && row.x === "total")
      .map((row) => ({ ...row, value: row.value / find(user, row.series) }));
    spaceUnit = "for a byte, at its largest";
  }
  const wear = of("P1-F10", "nvm stores").filter((row) => row.x === "write-heavy" && row.panel === "low");
  const columns = [
    { title: "writes, 90%", unit: "transactions a second", more: true, of: (name) => at(throughput, "write-heavy", name) },
    { title: "half and half", unit: "transactions a second", more: true, of: (name) => at(throughput, "balanced", name) },
    { title: "reads only", unit: "transactions a second", more: true, of: (name) => at(throughput, "read-only", name) },
    { title: "p99, µs", unit: "to durability, writes 90%", of: (name) => at(latency, "write-heavy", name) },
    { title: "back after kill, ms", unit: reopenUnit, of: (name) => find(reopen, name) },
    { title: "space", unit: spaceUnit, of: (name) => find(space, name) },
    { title: "wear", unit: "lines written, writes 90%", of: (name) => find(wear, name) },
  ];
  const names = [...new Set(throughput.concat(reopen, wear).map((row) => row.series))];
  const known = columns.filter((column) => names.some((name) => Number.isFinite(column.of(name))));
  return { names, columns: known, size: compared.length ? size : null, onMedium };
}

function best(names, column) {
  const known = names.filter((name) => !BOUNDS(name) && Number.isFinite(column.of(name)));
  known.sort((a, b) => (column.more ? column.of(b) - column.of(a) : column.of(a) - column.of(b)));
  return known[0];
}

function choosing() {
  const { names, columns, size, onMedium } = choices();
  if (names.length === 0) {
    section("choose", "What to choose", make("p", {}, "Nothing has been measured for this page yet. ", make("code", {}, "perdura lab run PEERS --quick"), " does."));
    return;
  }
  const answer = (question, column, text) => {
    const name = column && best(names, column);
    if (!name) return null;
    return make("div", { class: "answer" },
      make("div", { class: "question" }, question),
      make("div", { class: "name" }, name),
      make("div", { class: "figure" }, text(column.of(name), name)));
  };
  const column = (title) => columns.find((one) => one.title === title);
  const [writes, reads, back] = [column("writes, 90%"), column("reads only"), column("back after kill, ms")];
  const [space, wear] = [column("space"), column("wear")];
  const answers = make("div", { class: "answers" },
    answer("Fastest where most is written", writes, (value, name) => `${figure(value)} transactions a second, each durable ${/ process\b/.test(name) ? "against a kill, not a power cut" : "in its domain"}`),
    answer("Fastest where all is read", reads, (value) => `${figure(value)} transactions a second`),
    answer("Back soonest after kill -9", back, (value) => `${figure(value)} ms to the first durable commit`),
    answer("Takes the least space", space, (value) => `${figure(value)} bytes ${onMedium ? "on the medium " : ""}for a byte of data`),
    answer("Wears the memory least", wear, (value) => `${figure(value)} lines written a transaction`));
  const kinds = [["databases", names.filter((name) => !BOUNDS(name))], ["bounds", names.filter(BOUNDS)]];
  const most = columns.map((column) => Math.max(...names.filter((name) => !BOUNDS(name)).map((name) => column.of(name) || 0)));
  const winners = columns.map((column) => best(names, column));
  const row = (name) => make("tr", BOUNDS(name) ? { class: "apart" } : {},
    make("td", {}, name),
    columns.map((column, number) => {
      const value = column.of(name);
      // Bars compare databases; bounds are beyond them.
      const share = Number.isFinite(value) && column.more && !BOUNDS(name) ? Math.min(100, (100 * value) / most[number]) : 0;
      return make("td", { class: `number cell${winners[number] === name ? " best" : ""}` },
        share ? make("i", { style: `width:${share.toFixed(1)}%`, "aria-hidden": "true" }) : null,
        make("span", {}, figure(value)));
    }));
  const sorted = (list) => (writes ? [...list].sort((a, b) => (writes.of(b) || 0) - (writes.of(a) || 0)) : list);
  const table = make("div", { class: "scroll" }, make("table", { "aria-label": "What to choose" },
    make("thead", {}, make("tr", {}, make("th", { scope: "col" }, ""),
      columns.map((column) => make("th", { class: "number", scope: "col" }, column.title, make("br"), make("span", { class: "soft" }, column.unit))))),
    make("tbody", {}, kinds.flatMap(([, list]) => sorted(list).map(row)))));
  section("choose", "What to choose",
    make("p", {}, size
      ? "Six storage engines of Perdura beside what one would take instead, in the same loop on the same machine."
      : ["Six storage engines of Perdura on this machine. What one would take instead comes beside them with ", make("code", {}, `perdura lab run PEERS ${SCALE}`), "."]),
    answers,
    make("p", { class: "soft small" }, `One thread, ${size ? `${Number(size).toLocaleString("en")} tuples of 1 KB, ` : "YCSB at low skew, "}every transaction durable before the next. A star marks the best database of a column.`),
    table,
    make("div", { class: "note" },
      make("p", {}, "Perdura's engines run as they would on persistent memory: flushes and fences are really executed. On this medium that is a model: it does not keep what they promise."),
      onMedium && names.includes("inp") ? make("p", {}, "inp has all of its data in ordinary memory besides: what lies on the medium are a compressed checkpoint and the log.") : null,
      names.includes("nvm-inp process") ? make("p", {}, "“process” promises what the other databases promise here: all of it survives a kill, nothing a power cut.") : null,
      names.includes("nvm-inp statements") ? make("p", {}, "“statements”: each transaction is declared to be one update (Database::update), which takes one fence, not three.") : null,
      names.includes("nvm-inp inline") ? make("p", {}, "“inline”: columns of text and bytes lie within the tuple (TableSchema::inline_columns).") : null,
      names.includes("inp grouped") ? make("p", {}, "“inp grouped” makes 64 transactions durable with one sync, as P1 has the traditional engines do.") : null,
      wear ? make("p", {}, "Wear is counted in emulated memory, of the paper's YCSB in eight partitions (P1-F10).") : null,
      size === null ? null : make("p", {}, "The other databases sync files, which costs next to nothing where files lie in memory: their figures are upper bounds. Floors and maps are no databases but bounds: the least that a method costs, and the same loop with no durability at all.")));
}

// --- Experiments -------------------------------------------------------------------------------

// Each plot in our setting, next to it the same in the paper's, and as published.
function beside(id, ours, papers, theirs) {
  const mine = chartsOf(id, ours.length ? ours : papers);
  const same = (charts, chart, number) => charts.find((candidate) => candidate.title === chart.title) || (mine.length === charts.length ? charts[number] : null);
  const set = ours.length && papers.length ? chartsOf(id, papers) : [], published = theirs.length ? chartsOf(id, theirs) : [];
  const here = ours.length ? "here" : "in the paper's setting";
  return mine.flatMap((chart, number) => {
    const name = `${id}-${chart.title.replaceAll(/[^a-zA-Z0-9]+/g, "-")}`;
    const [other, printed] = [same(set, chart, number), same(published, chart, number)];
    return [
      plot(name, chart, other || printed || !ours.length ? here : ""),
      other ? plot(`${name}-setting`, other, "in the paper's setting") : null,
      printed ? plot(`${name}-published`, printed, "as published") : null,
    ];
  }).filter((element) => element !== null);
}

// What is in a file of results already is not done again: so another file.
const again = (id) => `perdura lab run ${id} ${SCALE} --seed ${DATA.seed} --results again.db && perdura lab report --results again.db`;

function rerun(id) {
  const command = again(id);
  const copy = make("button", { type: "button" }, "copy");
  copy.addEventListener("click", () => {
    navigator.clipboard?.writeText(command).then(() => { copy.textContent = "copied"; });
  });
  return make("div", { class: "rerun" }, make("span", { class: "soft" }, "Again:"), make("code", {}, command), copy);
}

function experiment(entry) {
  const of = (rows) => rows.filter((row) => row.experiment === entry.id);
  const [ours, papers, theirs] = [of(DATA.points), of(DATA.paper_points), of(DATA.authors || [])];
  const all = BOTH.filter((row) => row.experiment === entry.id);
  if (all.length === 0) return null;
  const emulated = all.find((row) => row.emulated);
  const claims = DATA.claims.filter((claim) => claim.experiment === entry.id);
  const element = make("section", { id: entry.id },
    make("h3", {}, make("span", { class: "id" }, entry.id), entry.title),
    make("p", {}, entry.about, entry.paper ? make("span", { class: "soft" }, ` Paper: ${entry.paper}.`) : null),
    entry.scaled ? make("p", { class: "soft small" }, `${entry.paper ? "Smaller than in the paper" : "Smaller than wanted"}: ${entry.scaled}.`) : null,
    emulated ? make("p", { class: "soft small" }, "Computed by a model of the memory from native runs and counts; lines show its interval, from all misses overlapping to none.") : null,
    claims.length ? make("p", { class: "small" }, claims.flatMap((claim) => [badge(claim.verdict, claim.claim), " "])) : null,
    make("div", { class: "charts" }, beside(entry.id, ours, papers, theirs)),
    make("div", { class: "tools" },
      make("button", { type: "button", onclick: () => saveCsv(entry.id, all) }, "all as CSV"),
      make("button", { type: "button", onclick: () => saveJson(entry.id, all) }, "all as JSON")),
    rerun(entry.id));
  return element;
}

function experiments(id, title, group, note) {
  const drawn = DATA.experiments.filter((entry) => entry.id.startsWith(group)).map(experiment).filter(Boolean);
  if (drawn.length === 0) return false;
  section(id, title, note ? make("p", {}, note) : null, drawn);
  return true;
}

// --- Claims ------------------------------------------------------------------------------------

const KINDS = { "reproduced": "reproduced", "not reproduced": "not", "not testable here": "open" };

function badge(verdict, link, word) {
  const mark = { reproduced: "✓", not: "✗", open: "?" }[KINDS[verdict]];
  const element = make("span", { class: `badge ${KINDS[verdict]}` }, `${mark} ${word || verdict}`);
  return link ? make("a", { href: `#${link}`, style: "text-decoration:none", title: link }, element) : element;
}

function claims() {
  if (DATA.claims.length === 0) return false;
  const authors = DATA.claims.some((claim) => claim.authors_value);
  const counts = Object.keys(KINDS).map((verdict) => [verdict, DATA.claims.filter((claim) => claim.verdict === verdict).length]);
  const outcome = (claim, head) => claim
    ? [make("td", { "data-head": head }, claim.our_value, claim.emulated ? make("div", { class: "soft small" }, "emulated") : null, runs(claim)), make("td", {}, badge(claim.verdict))]
    : [make("td", { "data-head": head }, "–"), make("td", {})];
  const rows = DATA.claims.map((claim) => [claim, DATA.papers.find((one) => one.claim === claim.claim)]).map(([claim, there]) => make("tr", { id: claim.claim, "data-verdict": claim.verdict },
    make("td", {}, make("a", { href: `#${claim.experiment}` }, claim.experiment), make("div", { class: "soft small" }, `section ${claim.section}`)),
    make("td", {}, claim.text),
    make("td", { "data-head": "paper" }, claim.paper_value),
    authors ? make("td", { "data-head": "authors' points" }, claim.authors_value || "–", claim.authors_verdict === "not reproduced" ? make("div", { class: "soft small" }, "outside their own claim") : null) : null,
    outcome(claim, "here"), outcome(there, "in the paper's setting"),
    make("td", { class: "reason small" }, make("div", {}, claim.reason),
      there ? make("div", { class: "soft" }, `In the paper's setting: ${there.reason}`) : null)));
  const buttons = counts.map(([verdict, count]) => {
    const button = make("button", { type: "button", "aria-pressed": "true" }, `${count} ${verdict}`);
    button.addEventListener("click", () => {
      const shown = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", String(shown));
      rows.filter((row) => row.dataset.verdict === verdict).forEach((row) => { row.hidden = !shown; });
    });
    return button;
  });
  section("claims", "What the paper claims, and whether it is so here",
    make("p", {}, "The claims and how each is tested were written down before the first run. Reproduced means: in the same direction, and within 25% of the paper's range; what was emulated has to hold at both ends of its interval. A claim that does not hold here stays, with the reason."),
    make("p", {}, DATA.follows),
    make("div", { class: "counts" }, buttons),
    make("div", { class: "tools" },
      make("button", { type: "button", onclick: () => saveCsv("claims", DATA.claims.concat(DATA.papers), Object.keys(DATA.claims[0])) }, "CSV"),
      make("button", { type: "button", onclick: () => saveJson("claims", DATA.claims.concat(DATA.papers)) }, "JSON")),
    make("div", { class: "scroll" }, make("table", { class: "claims" },
      make("thead", {}, make("tr", {}, ["experiment", "claim", "paper", authors ? "authors' points" : null, "here", "verdict", "in the paper's setting", "verdict", "why"]
        .filter(Boolean).map((text) => make("th", { scope: "col" }, text)))),
      make("tbody", {}, rows))));
  return true;
}

// Between what a value lies in several runs.
function runs(claim) {
  if (!claim.spread) return null;
  return make("div", { class: "soft small" }, `runs: ${claim.spread}${claim.within_spread ? ", which decides" : ""}`);
}

function targets() {
  const rows = (DATA.targets || []).filter((target) => target.verdict !== "not testable here");
  if (rows.length === 0) return null;
  const untested = DATA.targets.filter((target) => !rows.includes(target)).map((target) => target.claim);
  const word = { reproduced: "reached", "not reproduced": "not reached" };
  return make("div", { class: "scroll" }, make("table", {},
    make("caption", {}, `What Perdura wants to reach, as ratios within this run.${untested.length ? ` Not measured in this run: ${untested.join(", ")}.` : ""}`),
    make("thead", {}, make("tr", {}, ["", "wanted", "here", ""].map((text) => make("th", { scope: "col" }, text)))),
    make("tbody", {}, rows.map((target) => make("tr", {},
      make("td", { style: "white-space:normal" }, target.text), make("td", {}, target.paper_value), make("td", {}, target.our_value, runs(target)),
      make("td", {}, badge(target.verdict, null, word[target.verdict])))))));
}

// --- Host --------------------------------------------------------------------------------------

function facts() {
  const { host, commit, scale, seed, date, seconds } = DATA;
  const entries = [
    ["Processor", host.cpu], ["Cores", host.cores], ["Memory", `${figure(host.memory_bytes / 2 ** 30)} GiB`],
    ["Lines are written back with", host.flush], ["Pools lie on", host.medium], ["Kernel", host.kernel], ["Machine", host.name],
    ["Version of the source", commit], ["Scale", scale], ["Seed", seed], ["Measured", date],
    ["Measuring took", `${figure(seconds / 60)} minutes`],
    ...DATA.calibrations.map((line) => [`A line of ${figure(line.arena_bytes / 2 ** 20)} MiB`,
      `${figure(line.dependent_ns)} ns where it is waited for alone, ${figure(line.near_ns)} near another one, `
      + `${figure(line.sequential_ns)} in sequence, ${figure(line.independent_ns)} among several that are known`]),
    ...(DATA.file_costs ? [["A call for a file", `${figure(DATA.file_costs.call_ns)} ns, and a sync ${figure(DATA.file_costs.sync_ns)} ns more: the paper's setting has its own in their place`]] : []),
    ...DATA.missing.map((text) => ["Incomplete", text]),
    ...DATA.unequal.map((text) => ["A bug of Perdura", `${text}; it should be the same`]),
  ];
  section("host", "How it was measured",
    make("dl", {}, entries.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, String(value))])),
    make("p", {}, "Counts (lines, fences, bytes) are the same for the same seed on every machine. Times are the median of several runs; lines in the plots span the slowest and the fastest, or the interval of the model."),
    make("p", {}, "All of it again: ", make("code", {}, again("all")), "."),
    make("div", { class: "tools" },
      make("button", { type: "button", onclick: () => saveCsv("perdura-lab", BOTH) }, "all points as CSV"),
      make("button", { type: "button", onclick: () => saveJson("perdura-lab", BOTH) }, "all points as JSON")));
}

// --- The whole ---------------------------------------------------------------------------------

head();
choosing();
const peers = experiments("peers", "Against what one would take instead", "PEERS");
if (peers) {
  const wanted = targets();
  if (wanted) document.querySelector("#peers > h2").after(wanted);
}
const tested = claims();
const figures = experiments("figures", "The paper's figures", "P1", [DATA.paper_points.length ? "Each plot in our setting, and in the paper's." : "", DATA.authors ? "Beside it what the authors published." : ""].filter(Boolean).join(" ") || null);
const slotted = experiments("p3", "The figures of P3", "P3", "Slotted pages in persistent memory: FAST, FASH and NVWAL.");
const crossed = experiments("p4", "The figures of P4", "P4", "A column store whose transactions go on after a crash: TATP across a kill.");
facts();
contents([
  ["choose", "What to choose"], peers ? ["peers", "Against others"] : null, tested ? ["claims", "Claims"] : null,
  figures ? ["figures", "Figures"] : null,
  ...DATA.experiments.filter((entry) => figures && entry.id.startsWith("P1") && document.getElementById(entry.id)).map((entry) => [entry.id, entry.id.slice(3)]),
  slotted ? ["p3", "Figures of P3"] : null,
  crossed ? ["p4", "Figures of P4"] : null,
  ["host", "How it was measured"],
].filter(Boolean));
document.getElementById("bottom").append(
  "Made by ", make("code", {}, "perdura lab report"), " of Perdura ", DATA.perdura, ". Plots: Vega-Lite. This file needs no network.");
const drawAll = () => plots.reduce((before, one) => before.then(() => draw(one)), Promise.resolve())
  .then(() => {
    // For `.ci/look`: how many plots there are, how many were drawn, what failed, what was measured
    // and has none, how wide it is.
    const { drawn, failed } = window.reportPlots;
    const measured = DATA.experiments.filter(({ id }) => BOTH.some((row) => row.experiment === id));
    const bare = measured.map(({ id }) => id).filter((id) => !document.getElementById(id)?.querySelector(".charts > *"));
    Object.assign(document.documentElement.dataset, {
      plots: plots.length, drawn, failed: failed.join("; "), bare: bare.join(", "), wide: document.documentElement.scrollWidth,
    });
  });
drawAll();
dark.addEventListener("change", drawAll);
