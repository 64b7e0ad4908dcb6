// The page for people. Everything that a request has a part in is put in as text, never as HTML.
"use strict";

const POLL_MS = 2000;
const KEPT = 100; // Rows of refused requests, as the service keeps by default.
const HISTORY = 90; // Points of the plot of rates.
const SHOWN = 120; // Characters of a rule's message in the list.
const SVG = "http://www.w3.org/2000/svg";

const at = (id) => document.getElementById(id);
const state = { last: 0, rates: [], before: null, failed: 0 };

/** An element with a class, and text or elements in it. */
function element(name, ...children) {
  const [tag, kind] = name.split(".");
  const made = document.createElement(tag);
  if (kind) made.className = kind;
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

function row(...cells) {
  return element("tr", ...cells.map((cell) => (cell instanceof HTMLTableCellElement ? cell : element("td", cell))));
}

const number = (value) => element("td.number", Number(value).toLocaleString("en"));

async function get(path) {
  const answer = await fetch(path, { cache: "no-store" });
  if (!answer.ok) throw new Error(`${path}: ${answer.status} ${(await answer.text()).trim()}`);
  return answer;
}

/** The samples of OpenMetrics text, as {name, labels, value}. */
function samples(text) {
  const found = [];
  for (const line of text.split("\n")) {
    const parts = /^([a-z_:]+)(?:\{(.*)\})? ([^ ]+)$/i.exec(line);
    if (line.startsWith("#") || !parts) continue;
    const labels = {};
    for (const [, key, value] of (parts[2] ?? "").matchAll(/([a-z_]+)="((?:[^"\\]|\\.)*)"/gi)) {
      labels[key] = value.replace(/\\(.)/g, (_, escaped) => (escaped === "n" ? "\n" : escaped));
    }
    found.push({ name: parts[1], labels, value: Number(parts[3]) });
  }
  return found;
}

/** Adds up samples of one name by one label, or by several. */
function sum(all, name, by, keep = () => true) {
  const totals = new Map();
  for (const sample of all) {
    if (sample.name !== name || !keep(sample.labels)) continue;
    const key = sample.labels[by];
    totals.set(key, (totals.get(key) ?? 0) + sample.value);
  }
  return totals;
}

/** A histogram's buckets as [bound, count in it], from what counts all up to each bound. */
function buckets(all, name, keep) {
  const totals = [...sum(all, `${name}_bucket`, "le", keep)].map(([bound, count]) => [
    bound === "+Inf" ? Infinity : Number(bound),
    count,
  ]);
  totals.sort(([a], [b]) => a - b);
  return totals.map(([bound, count], index) => [bound, count - (index > 0 ? totals[index - 1][1] : 0)]);
}

/** The bound below which this share of the values lies. */
function quantile(bars, share) {
  const total = bars.reduce((sofar, [, count]) => sofar + count, 0);
  let seen = 0;
  for (const [bound, count] of bars) {
    seen += count;
    if (total > 0 && seen >= share * total) return bound;
  }
  return NaN;
}

function drawn(tag, attributes, text) {
  const made = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

function picture(width, height, label) {
  return drawn("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
}

/** A plot of bars: [label, count] each. */
function bars(rows, label) {
  const [width, height, foot, head] = [480, 150, 18, 16];
  const svg = picture(width, height, label);
  const most = Math.max(1, ...rows.map(([, count]) => count));
  const step = width / Math.max(1, rows.length);
  rows.forEach(([name, count], index) => {
    const tall = ((height - foot - head) * count) / most;
    const middle = (index + 0.5) * step;
    svg.append(
      drawn("rect", { class: "bar", x: index * step + 2, y: height - foot - tall, width: step - 4, height: tall }),
    );
    // Where there are many, there is room for each second name.
    if (rows.length <= 13 || index % 2 === 0) {
      svg.append(drawn("text", { x: middle, y: height - 4, "text-anchor": "middle" }, name));
    }
    if (count > 0) {
      const text = { x: middle, y: height - foot - tall - 3, "text-anchor": "middle" };
      svg.append(drawn("text", text, compact(count)));
    }
  });
  svg.append(drawn("line", { class: "axis", x1: 0, x2: width, y1: height - foot, y2: height - foot }));
  return svg;
}

/** A text on few lines; the whole of it is in the title. */
function short(text) {
  const made = element("span", text.length > SHOWN ? `${text.slice(0, SHOWN)}…` : text);
  made.title = text;
  return made;
}

const compact = (value) => new Intl.NumberFormat("en", { notation: "compact" }).format(value);

function seconds(value) {
  if (!Number.isFinite(value)) return "> 1 s";
  if (value >= 1) return `${value} s`;
  return value >= 0.001 ? `${+(value * 1e3).toPrecision(3)} ms` : `${+(value * 1e6).toPrecision(3)} µs`;
}

function showNumbers(all) {
  const verdicts = sum(all, "glacis_requests_total", "verdict");
  const uninspected = [...sum(all, "glacis_uninspected_total", "reason").values()].reduce((a, b) => a + b, 0);
  const errors = [...sum(all, "glacis_errors_total", "kind").values()].reduce((a, b) => a + b, 0);
  const known = ["allow", "deny", "redirect", "drop", "none"].map((name) => [name, verdicts.get(name) ?? 0]);
  const rows = [...known, ["not fully inspected", uninspected], ["errors", errors]];
  at("numbers").replaceChildren(
    ...rows.map(([name, count]) =>
      element("div", element("dt", name), element("dd", Number(count).toLocaleString("en"))),
    ),
  );
  const total = [...verdicts.values()].reduce((a, b) => a + b, 0);
  const refused = ["deny", "redirect", "drop"].reduce((sofar, name) => sofar + (verdicts.get(name) ?? 0), 0);
  showRate({ time: performance.now(), total, refused });
}

function showRate(now) {
  const { before } = state;
  state.before = now;
  if (!before || now.total < before.total) return;
  const per = (a, b) => (1000 * (a - b)) / Math.max(1, now.time - before.time);
  state.rates.push([per(now.total, before.total), per(now.refused, before.refused)]);
  state.rates = state.rates.slice(-HISTORY);
  const [width, height] = [960, 90];
  const most = Math.max(1, ...state.rates.map(([all]) => all));
  const [all, refused] = state.rates[state.rates.length - 1].map((rate) => rate.toFixed(1));
  const svg = picture(width, height, `${all} requests a second, ${refused} of them refused`);
  [0, 1].forEach((which) => {
    const points = state.rates.map((rates, index) => {
      const x = (width * index) / (HISTORY - 1);
      return `${x.toFixed(1)},${(height - 4 - ((height - 24) * rates[which]) / most).toFixed(1)}`;
    });
    svg.append(drawn("polyline", { class: which ? "line bad" : "line", points: points.join(" ") }));
  });
  svg.append(drawn("text", { x: 0, y: 12 }, `${all} requests a second, refused (red): ${refused}`));
  at("rate").replaceChildren(svg);
}

function showScores(all) {
  const found = buckets(all, "glacis_anomaly_score", ({ direction }) => direction === "inbound");
  const rows = found.map(([bound, count]) => [Number.isFinite(bound) ? `≤${bound}` : ">50", count]);
  const told = rows.filter(([, count]) => count > 0).map(([name, count]) => `${name}: ${count}`);
  at("scores").replaceChildren(bars(rows, `Requests by score. ${told.join(", ") || "None so far"}`));
}

function showLatency(all) {
  const phases = [...sum(all, "glacis_inspection_seconds_count", "phase")].filter(([, count]) => count > 0);
  const plots = phases.map(([phase]) => {
    const found = buckets(all, "glacis_inspection_seconds", (labels) => labels.phase === phase);
    const middle = seconds(quantile(found, 0.5));
    const tail = seconds(quantile(found, 0.99));
    const title = `${phase.replace("_", " ")}: half within ${middle}, 99 of 100 within ${tail}`;
    const rows = found.map(([bound, count]) => [seconds(bound).replace(" ", ""), count]);
    return element("div", element("h3", title), bars(rows, title));
  });
  at("latency").replaceChildren(...(plots.length > 0 ? plots : [element("p.dim", "None so far.")]));
}

function showStatus(status) {
  const causes = Object.entries(status.causes).map(([cause, why]) => `${cause}: ${why}`);
  const ready = at("ready");
  ready.textContent = status.ready ? "ready" : `not ready – ${causes.join("; ")}`;
  ready.className = status.ready ? "good" : "bad";
  at("rulesets").replaceChildren(
    ...status.profiles.map((profile) => {
      const remarks = [];
      if (profile.warnings > 0) remarks.push(`${profile.warnings} warnings`);
      if (profile.exclusions_expired > 0) remarks.push(`${profile.exclusions_expired} exclusions expired`);
      const remark = remarks.length > 0 ? element("span.bad", ` (${remarks.join(", ")})`) : null;
      const name = element("span", profile.name, remark);
      return row(element("td.wide", name), profile.mode, number(profile.rules), profile.ruleset.slice(0, 12));
    }),
  );
  const reload = at("reload");
  const last = status.last_reload;
  const waits = status.restart_needed.length > 0 ? ` Waits for a restart: ${status.restart_needed.join(", ")}.` : "";
  const when = last ? new Date(1000 * last.at).toLocaleString() : "";
  if (!last) reload.textContent = `Version ${status.version}. Not reloaded since the start.`;
  else if (last.error) reload.textContent = `Reload at ${when} not put to use: ${last.error}.${waits}`;
  else reload.textContent = `Reloaded at ${when}.${waits}`;
  reload.className = last?.error ? "bad" : "dim";
  showProfiles(status.profiles.map((profile) => profile.name));
}

function showProfiles(names) {
  const select = at("profile");
  if ([...select.options].map((option) => option.value).join("\n") === names.join("\n")) return;
  const chosen = select.value;
  select.replaceChildren(...names.map((name) => new Option(name, name)));
  if (names.includes(chosen)) select.value = chosen;
}

async function showRules() {
  const profile = at("profile").value;
  if (!profile) return;
  const query = new URLSearchParams({ profile, sort: "hits", matched: "true", limit: "12" });
  const { rules } = await (await get(`rules?${query}`)).json();
  at("rules").replaceChildren(...rules.map((rule) => row(String(rule.id), element("td.wide", short(rule.msg)), number(rule.hits))));
  await showCosts(profile);
}

async function showCosts(profile) {
  const query = new URLSearchParams({ profile, sort: "cost", limit: "12" });
  const { rules, cost_sample: sample } = await (await get(`rules?${query}`)).json();
  const dear = rules.filter((rule) => rule.cost && rule.cost.visited > 0);
  at("costs").replaceChildren(
    ...dear.map(({ id, msg, cost }) =>
      row(String(id), element("td.wide", short(msg)), element("td.number", `${cost.percent.toFixed(1)} %`), number(cost.run)),
    ),
  );
  const told = at("sample");
  if (!sample) told.textContent = "Not counted: `cost_sample` is 0.";
  else if (sample.exchanges === 0) told.textContent = `None yet: one of ${sample.one_of} requests is counted.`;
  else told.textContent = `Of the time of all rules in ${sample.exchanges.toLocaleString("en")} requests, one of ${sample.one_of}.`;
}

function showRecent(requests) {
  const rows = requests.map((request) => {
    const open = element("button", `${request.method} ${request.uri}`);
    open.type = "button";
    open.addEventListener("click", () => tell(request.number));
    const time = element("td", request.time.slice(11, 19));
    time.title = request.time;
    const rule = request.rule === null ? "limit" : String(request.rule);
    const made = row(time, request.client, element("td.wide", open), number(request.score_inbound), rule, request.profile);
    made.dataset.number = request.number;
    return made;
  });
  const body = at("recent");
  body.prepend(...rows.reverse());
  while (body.rows.length > KEPT) body.lastElementChild.remove();
  at("none").hidden = body.rows.length > 0;
}

/** Shows the story of a refused request. */
async function tell(request) {
  const dialog = at("story");
  at("facts").replaceChildren();
  at("ways").replaceChildren();
  at("told").textContent = "The request is evaluated again; this can take some seconds …";
  dialog.dataset.state = "asked";
  if (!dialog.open) dialog.showModal();
  try {
    const record = await (await get(`recent/${request}`)).text();
    showFacts(JSON.parse(record));
    const query = new URLSearchParams({ profile: JSON.parse(record).profile });
    const headers = { "content-type": "application/json" };
    const answer = await fetch(`explain?${query}`, { method: "POST", headers, body: record });
    if (!answer.ok) throw new Error((await answer.text()).trim());
    const { text, explanation, typed } = await answer.json();
    at("told").textContent = text;
    showWays(explanation.exclusion, typed);
    dialog.dataset.state = "told";
  } catch (error) {
    at("told").textContent = `Nothing can be told: ${error.message}`;
    dialog.dataset.state = "failed";
  }
}

function showFacts(record) {
  const rules = (record.rules ?? []).filter((rule) => rule.msg !== "");
  const facts = [
    ["Request", `${record.method} ${record.uri}`],
    ["Host", record.host],
    ["Client", record.client],
    ["Time", record.time],
    ["Answer", `${record.action}, status ${record.status}, by ${record.rule ? `rule ${record.rule}` : "a limit"}`],
    ["Request id", record.request_id],
    ["Matched", rules.map((rule) => `${rule.id} ${rule.msg}`).join("; ")],
  ];
  at("facts").replaceChildren(...facts.flatMap(([name, text]) => [element("dt", name), element("dd", text)]));
}

/** A text to be put into the configuration, with what was seen when it was tried. */
function way(place, told, text, passes, fault) {
  const copy = element("button", "Copy");
  copy.type = "button";
  copy.addEventListener("click", async () => {
    await navigator.clipboard.writeText(text);
    copy.textContent = "Copied";
  });
  const seen = passes ? "Tried: the request passes." : `Tried: ${fault ?? "it is still refused."}`;
  const tried = passes === null ? "Not tried: there was no time." : seen;
  const shown = element("pre.exclusion", text);
  shown.tabIndex = 0;
  return [element("h3", `${place}: ${told}. ${tried} `, copy), shown];
}

function showWays(exclusion, typed) {
  const ways = at("ways");
  if (!exclusion) return;
  for (const remark of exclusion.remarks) ways.append(element("p", remark));
  const places = [
    [exclusion.on_this_path, typed.on_this_path, "For this path only", "setup"],
    [exclusion.everywhere, typed.everywhere, "For all requests", "directives"],
  ];
  for (const [seclang, written, place, key] of places) {
    if (written) {
      ways.append(...way(place, "with owner, reason and last day, of the profile", written.yaml, written.passes));
    }
    if (seclang) {
      const told = `as SecLang, at the end of \`${key}\``;
      ways.append(...way(place, told, seclang.directives, seclang.passes, seclang.fault));
    }
  }
}

/** Learns exclusions from what the chosen profile would have blocked in detection mode. */
async function propose() {
  const told = at("proposed");
  at("propose").disabled = true;
  told.textContent = "The requests are evaluated again; this can take some seconds …";
  at("proposals").replaceChildren();
  try {
    const query = new URLSearchParams({ profile: at("profile").value });
    const found = await (await get(`proposals?${query}`)).json();
    told.textContent =
      `Profile ${found.profile}: ${found.blocked} of ${found.requests} collected requests are blocked; ` +
      `${found.passing} of those pass with ${found.exclusions} exclusions (tried).`;
    const copy = element("button", "Copy");
    copy.type = "button";
    copy.addEventListener("click", async () => {
      await navigator.clipboard.writeText(found.yaml);
      copy.textContent = "Copied";
    });
    const shown = element("pre.exclusion", found.yaml);
    shown.tabIndex = 0;
    const reasons = [
      ...found.remarks,
      ...found.declined.map(({ requests, subject, reason }) => `Declined, ${requests} requests: ${subject}: ${reason}`),
    ];
    at("proposals").replaceChildren(copy, shown, element("ul", ...reasons.map((text) => element("li", text))));
    told.dataset.state = "told";
  } catch (error) {
    told.textContent = `Nothing can be proposed: ${error.message}`;
    told.dataset.state = "failed";
  }
  at("propose").disabled = false;
}

async function look() {
  showStatus(await (await get("status")).json());
  const all = samples(await (await get("metrics")).text());
  showNumbers(all);
  showScores(all);
  showLatency(all);
  await showRules();
  const { last, requests } = await (await get(`recent?after=${state.last}`)).json();
  state.last = last;
  showRecent(requests);
}

async function watch() {
  if (!at("pause").checked && !document.hidden) {
    const fault = at("fault");
    try {
      await look();
      fault.hidden = true;
    } catch (error) {
      fault.textContent = `The service does not answer: ${error.message}`;
      fault.className = "bad";
      fault.hidden = false;
    }
  }
  setTimeout(watch, POLL_MS);
}

at("profile").addEventListener("change", showRules);
at("propose").addEventListener("click", propose);
watch().then(() => {
  const wanted = /^#request=(\d+)$/.exec(location.hash);
  if (wanted) tell(Number(wanted[1]));
});
