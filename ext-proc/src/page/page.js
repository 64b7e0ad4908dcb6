// The page: what it asks for every two seconds, and what it shows of it. No build step; see elements.js for the one
// rule that holds everywhere: what a request has a part in is text, never HTML.
import { at, button, copyable, count, element, get, microseconds, plural, readable, replace, stampWithZone, visible } from "./elements.js";
import { showChecks } from "./checks.js";
import { overTime, scores } from "./plots.js";
import { showStory } from "./story.js";

const POLL_MS = 2000;
const RULES_EVERY = 5; // Looks between two at the tables of rules.
const LISTED = 25; // Requests in the list at first; more on demand, at most 500.
const SAMPLES_MIN = 50; // Requests below which shares of time say nothing.
const FILTERS = ["verdict", "minutes", "text", "category", "rule", "client", "host", "path", "user_agent", "profile"];
const VERDICTS = { blocked: "Blocked", would_block: "Would be blocked", rejected: "Limit reached" };
const MODES = { blocking: "Blocks", detection_only: "Detects, blocks nothing", off: "Off" };

const state = { filter: new URLSearchParams(), request: null, shown: "", looks: 0, activity: null, labels: {}, limit: LISTED, errors: 0 };

/** The filter and the open request are in the address, so that they can be sent to somebody. */
function readAddress() {
  const address = new URLSearchParams(location.hash.slice(1));
  state.filter = new URLSearchParams(FILTERS.filter((name) => address.get(name)).map((name) => [name, address.get(name)]));
  const request = Number(address.get("request"));
  state.request = Number.isInteger(request) && request > 0 ? request : null;
  for (const radio of at("verdict").querySelectorAll("input")) radio.checked = radio.value === (state.filter.get("verdict") ?? "");
  at("minutes").value = state.filter.get("minutes") ?? "";
  if (document.activeElement !== at("text")) at("text").value = state.filter.get("text") ?? "";
}

function writeAddress(push) {
  const address = new URLSearchParams(state.filter);
  if (state.request) address.set("request", state.request);
  const hash = String(address) ? `#${address}` : location.pathname;
  history[push ? "pushState" : "replaceState"](null, "", hash);
}

function choose(name, value) {
  if (value) state.filter.set(name, value);
  else state.filter.delete(name);
  writeAddress(false);
  readAddress();
  look().catch(fail);
}

/** A button that shows only what has this value; once more, and all is shown again. */
function chooser(name, value, label, kind = "button.choose") {
  const chosen = state.filter.get(name) === String(value);
  const made = button(kind, label, () => choose(name, chosen ? "" : value));
  made.dataset.key = `${name}=${value}`;
  made.title = chosen ? "Show all again" : "Show only these";
  made.setAttribute("aria-pressed", chosen);
  return made;
}

function showChosen() {
  const words = { category: "Category", rule: "Rule", client: "Client", host: "Host", path: "Path", user_agent: "User agent", profile: "Profile" };
  const chips = Object.entries(words).filter(([name]) => state.filter.has(name)).map(([name, word]) => {
    const value = state.filter.get(name);
    const shown = state.labels[`${name}=${value}`] ?? visible(value);
    const chip = button("button.chip", `${word}: ${shown} ✕`, () => choose(name, ""));
    chip.dataset.key = `chip-${name}`;
    chip.setAttribute("aria-label", `Remove the filter ${word}: ${shown}`);
    return chip;
  });
  replace(at("chosen"), ...chips);
  at("chosen").hidden = chips.length === 0;
}

const total = (values) => values.reduce((sum, value) => sum + value, 0);

function showNumbers({ series, started, now }) {
  const rows = [
    ["Allowed", total(series.allowed), ""],
    ["Would be blocked", total(series.would_block), "would_block"],
    ["Blocked", total(series.blocked), "blocked"],
    ["Limit reached", total(series.rejected), "rejected"],
    ["Ended before a verdict", total(series.unfinished), ""],
    ["Not fully inspected", total(series.uninspected), ""],
    ["Errors since the start", state.errors, "blocked"],
  ];
  at("numbers").replaceChildren(
    ...rows.map(([name, many, kind]) =>
      element(many === 0 ? "div.zero" : "div", element("dt", name), element(kind && many > 0 ? `dd.${kind}` : "dd", count(many))),
    ),
  );
  const minutes = Math.round((series.slot_seconds * series.allowed.length) / 60);
  const since = Math.max(series.start, started);
  at("span").textContent = `in the last ${minutes} minutes, since ${stampWithZone(new Date(1000 * since))}`;
  at("span").title = `The process runs since ${stampWithZone(new Date(1000 * started))}; it is now ${stampWithZone(new Date(1000 * now))}`;
}

/** Counts of slots as rates. Of the present slot only a part has passed; after less than 2 s it says nothing. */
function perSecond(values, { series: { start, slot_seconds: step }, now }) {
  return values.map((many, index) => {
    const passed = Math.min(step, now - (start + index * step) + 1);
    return passed < 2 ? null : many / passed;
  });
}

function showPlots(activity) {
  const { series } = activity;
  const step = series.slot_seconds;
  // Nothing is known of the time before the start; some minutes are shown in any case.
  const length = series.allowed.length;
  const since = Math.floor((activity.started - series.start) / step);
  const skipped = Math.max(0, Math.min(since, length - 30));
  const start = series.start + skipped * step;
  const rate = (...lists) => perSecond(lists[0].map((_, index) => total(lists.map((list) => list[index]))), activity);
  const peak = (values) => `peak ${Math.max(0, ...values).toFixed(1)}`;
  const all = rate(series.allowed, series.would_block, series.blocked, series.rejected, series.unfinished);
  const requests = { name: "Requests per second", style: "allowed", note: peak(all), values: all.slice(skipped) };
  overTime(at("rate"), { label: `Requests per second over time, ${requests.note}`, start, step, series: [requests] });
  const kinds = [["Would be blocked", "would_block"], ["Blocked", "blocked"], ["Limit reached", "rejected"]].map(([name, style]) => {
    const values = rate(series[style]);
    return { name, style, note: count(total(series[style])), values: values.slice(skipped) };
  });
  const filtered = [...state.filter.keys()].some((name) => name !== "minutes");
  if (filtered) {
    const note = count(total(activity.matching_series));
    kinds.push({ name: "Matching the filter", style: "matching", note, values: rate(activity.matching_series).slice(skipped) });
  }
  const words = kinds.map(({ name, note }) => `${name}: ${note}`).join(", ");
  overTime(at("verdicts"), { label: `Requests per second over time. ${words}`, start, step, series: kinds });
  const latency = [["Median", "p50"], ["99th percentile", "p99"]].map(([name, key]) => {
    const whole = series[`all_${key}_us`];
    return { name, style: key, note: whole === null ? "none yet" : `≤ ${microseconds(whole)}`, values: series[`${key}_us`].slice(skipped) };
  });
  const times = latency.map(({ name, note }) => `${name} ${note}`).join(", ");
  overTime(at("latency"), { label: `Inspection time over time. ${times}`, start, step, series: latency, name: microseconds, logarithmic: true });
  const told = series.scores.flatMap((many, score) => (many > 0 ? [`${score}: ${many}`] : []));
  scores(at("scores"), series.scores, activity.threshold, `Requests by score. ${told.join(", ") || "None so far"}`);
}

function showTops(top) {
  const lists = [
    ["Attack categories", "category", top.categories],
    ["Rules", "rule", top.rules],
    ["Clients", "client", top.clients],
    ["Hosts", "host", top.hosts],
    ["Paths", "path", top.paths],
    ["User agents", "user_agent", top.user_agents],
  ].filter(([, name, rows]) => name !== "user_agent" || rows.length > 0);
  const made = lists.map(([title, name, rows]) => {
    const most = Math.max(1, ...rows.map((row) => row.count));
    const entries = rows.map((row) => {
      const words = name === "rule" ? `${row.value} ${row.label}` : row.label || "(none)";
      state.labels[`${name}=${row.value}`] = name === "path" ? readable(words) : visible(words);
      const share = element("i.share");
      share.style.width = `${(100 * row.count) / most}%`;
      const label = element("span.name", state.labels[`${name}=${row.value}`]);
      label.title = visible(words);
      const entry = element("li", chooser(name, row.value, label), element("span.number", count(row.count)), share);
      return entry;
    });
    return element("section", element("h3", title), element("ol", ...entries));
  });
  replace(at("tops"), ...made);
}

/** What may be cut off is in the title, too. */
function titled(made) {
  made.title = made.textContent;
  return made;
}

function requestRow(request) {
  const open = button("button.open", `${visible(request.method)} ${visible(request.host)}${readable(request.uri)}`, () => openStory(request.number));
  open.dataset.key = `request=${request.number}`;
  open.title = visible(`${request.method} ${request.host}${request.uri}`);
  const time = element("time", stampWithZone(new Date(request.time)));
  time.dateTime = request.time;
  const attack = request.attack_rule === null
    ? request.reason?.replaceAll("_", " ") ?? ""
    : [request.categories[0], request.attack_rule, request.attack].filter(Boolean).join(" · ");
  const row = element(
    `tr.${request.verdict}`,
    element("td.time", time),
    element("td.verdict", VERDICTS[request.verdict]),
    titled(element("td.attack", attack)),
    element("td.request", open),
    element("td.client", chooser("client", request.client, visible(request.client))),
    element("td.score.number", String(request.score_inbound || request.score_outbound)),
  );
  row.dataset.number = request.number;
  return row;
}

function showRequests({ requests, kept, started }) {
  const shown = JSON.stringify([requests.map(({ number }) => number), String(state.filter), kept.all === 0, kept.matching > requests.length]);
  const { matching, all, max, since } = kept;
  const from = since === null ? "" : ` since ${stampWithZone(new Date(1000 * since))}`;
  const listed = matching > requests.length ? `, the newest ${requests.length} are listed` : "";
  at("matching").textContent = all === 0 ? "" : `${count(matching)} of ${plural(all, "stored request", "stored requests")}${from}${listed}. At most ${count(max)} are stored, in memory.`;
  if (shown === state.shown) return;
  state.shown = shown;
  replace(at("recent"), ...requests.map(requestRow));
  at("list").hidden = requests.length === 0;
  at("tops").hidden = requests.length === 0;
  at("none").hidden = requests.length > 0;
  at("more").hidden = matching <= requests.length || requests.length >= 500;
  if (all === 0) {
    const attack = copyable("curl -i 'http://GATEWAY/?q=%3Cscript%3Ealert(1)%3C/script%3E'");
    attack.id = "try";
    at("none").replaceChildren(
      element("p", `Nothing was blocked, or would have been, since ${stampWithZone(new Date(1000 * started))}.`),
      element("p", "Send an attack to see one here. Replace GATEWAY by the address of your Envoy, for example localhost:10000:"),
      attack,
    );
  } else if (requests.length === 0) {
    at("none").replaceChildren(element("p", "No stored request matches. "), button("button", "Show all", clear));
  }
}

function clear() {
  [state.filter, state.limit] = [new URLSearchParams(), LISTED];
  writeAddress(false);
  readAddress();
  look().catch(fail);
}

/** What the whole of the service does, from what its profiles do. */
function showMode(profiles) {
  const of = (mode) => profiles.filter((profile) => profile.mode === mode).length;
  const [blocking, detecting] = [of("blocking"), of("detection_only")];
  const mode = at("mode");
  let note = "";
  if (blocking === profiles.length) [mode.textContent, mode.className] = ["BLOCKING", "mode blocking"];
  else if (blocking > 0) [mode.textContent, mode.className] = [`MIXED: ${blocking} of ${profiles.length} profiles block`, "mode detection"];
  else if (detecting > 0) [mode.textContent, mode.className] = ["DETECTION: nothing is blocked", "mode detection"];
  else [mode.textContent, mode.className] = ["OFF: nothing is inspected", "mode off"];
  if (blocking === 0 && detecting > 0) {
    note = "Rules run and block nothing. The requests below would be blocked with mode: \"on\". Review them, allow the false alarms, then block: ";
  }
  at("mode-note").replaceChildren(...(note ? [note, link("docs/tuning.md", "how to")] : []));
  at("mode-note").hidden = note === "";
  at("h-blocked").textContent = blocking === 0 && detecting > 0 ? "Requests that would be blocked" : "Blocked requests";
}

function link(address, text) {
  const made = element("a", text);
  made.href = address;
  return made;
}

function showStatus(status) {
  const causes = Object.entries(status.causes).map(([cause, why]) => `${cause}: ${why}`);
  at("ready").textContent = status.ready ? "ready" : `not ready – ${causes.join("; ")}`;
  at("ready").className = status.ready ? "good" : "bad";
  at("instance").textContent = `${status.instance}, version ${status.version}`;
  at("instance").title = "This page shows this replica alone. For others, forward the port of each pod; for all together, use the dashboards.";
  document.title = `Glacis – ${status.instance}`;
  showMode(status.profiles);
  replace(at("rulesets"), ...status.profiles.map(profileRow));
  const last = status.last_reload;
  const waits = status.restart_needed.length > 0 ? ` Waits for a restart: ${status.restart_needed.join(", ")}.` : "";
  const when = last ? stampWithZone(new Date(1000 * last.at)) : "";
  if (!last) at("reload").textContent = `Not reloaded since the start at ${stampWithZone(new Date(1000 * status.started))}.`;
  else if (last.error) at("reload").textContent = `The reload at ${when} was rejected: ${last.error}.${waits}`;
  else at("reload").textContent = `Reloaded at ${when}.${waits}`;
  at("reload").className = last?.error ? "bad" : "dim";
  showProfiles(status.profiles.map((profile) => profile.name));
}

function profileRow(profile) {
  const name = element("td.wide", profile.name);
  if (profile.exclusions_expired > 0) name.append(element("span.bad", ` ${plural(profile.exclusions_expired, "exclusion", "exclusions")} expired`));
  if (profile.warnings > 0) {
    const more = button("button.link", plural(profile.warnings, "warning", "warnings"), () => showWarnings(profile.name).catch(fail));
    more.dataset.key = `warnings=${profile.name}`;
    name.append(" ", more);
  }
  return element("tr", name, element("td", MODES[profile.mode] ?? profile.mode), element("td.number", count(profile.rules)), element("td", profile.ruleset.slice(0, 12)));
}

async function showWarnings(profile) {
  const { warnings, total } = await (await get(`warnings?${new URLSearchParams({ profile })}`)).json();
  const more = total > warnings.length ? [`and ${total - warnings.length} more`] : [];
  at("warnings").replaceChildren(...[...warnings, ...more].map((text) => element("li", visible(text))));
  at("warnings").hidden = false;
}

function showProfiles(names) {
  const select = at("profile");
  if ([...select.options].map((option) => option.value).join("\n") === names.join("\n")) return;
  const chosen = select.value;
  select.replaceChildren(...names.map((name) => new Option(name, name)));
  if (names.includes(chosen)) select.value = chosen;
}

/** Rules as a table: [id, message, …cells]. */
function rows(place, all) {
  at(place).replaceChildren(
    ...all.map(([id, message, ...cells]) => {
      const text = element("td.wide", message.split("%{")[0].replace(/[^\p{L}\p{N})]+$/u, ""));
      text.title = message;
      return element("tr", element("td", String(id)), text, ...cells.map((cell) => element("td.number", cell)));
    }),
  );
  at(`${place}-table`).hidden = all.length === 0;
}

async function showRules() {
  const profile = at("profile").value;
  if (!profile) return;
  const hits = new URLSearchParams({ profile, sort: "hits", matched: "true", limit: "14" });
  const { rules } = await (await get(`rules?${hits}`)).json();
  // Rules that add up scores match whenever another does.
  const adds = (rule) => rule.phase === 5 || rule.tags.some((tag) => tag === "anomaly-evaluation" || tag === "reporting");
  rows("rules", rules.filter((rule) => !adds(rule)).slice(0, 10).map((rule) => [rule.id, rule.msg, count(rule.hits), count(rule.evidence.served), count(rule.evidence.banned)]));
  at("no-rules").hidden = !at("rules-table").hidden;
  const dear = new URLSearchParams({ profile, sort: "cost", limit: "10" });
  const { rules: costs, cost_sample: sample } = await (await get(`rules?${dear}`)).json();
  const enough = (sample?.exchanges ?? 0) >= SAMPLES_MIN;
  const ran = enough ? costs.filter(({ cost }) => cost && cost.visited > 0) : [];
  rows("costs", ran.map(({ id, msg, cost }) => [id, msg, `${cost.percent.toFixed(1)} %`, count(cost.run)]));
  const told = at("sample");
  if (!sample) told.textContent = "Not measured: cost_sample is 0.";
  else if (!enough) told.textContent = `Too few samples: ${sample.exchanges} of ${SAMPLES_MIN}. One of ${count(sample.one_of)} requests is measured.`;
  else told.textContent = `Share of the time of all rules, in a sample of ${plural(sample.exchanges, "request", "requests")} (one of ${count(sample.one_of)}).`;
}

/** The samples of one family of OpenMetrics text, as {labels, value}. */
function samples(text, family) {
  const found = [];
  for (const line of text.split("\n")) {
    const parts = /^([a-z_:]+)(?:\{(.*)\})? ([^ ]+)$/i.exec(line);
    if (!parts || parts[1] !== family) continue;
    const labels = {};
    for (const [, key, value] of (parts[2] ?? "").matchAll(/([a-z_]+)="((?:[^"\\]|\\.)*)"/gi)) {
      labels[key] = value.replace(/\\(.)/g, (_, escaped) => (escaped === "n" ? "\n" : escaped));
    }
    found.push({ labels, value: Number(parts[3]) });
  }
  return found;
}

async function showMetrics() {
  const text = await (await get("metrics")).text();
  state.errors = total(samples(text, "glacis_errors_total").map(({ value }) => value));
  const shadows = new Map();
  for (const { labels, value } of samples(text, "glacis_shadow_requests_total")) {
    const key = JSON.stringify([labels.profile, labels.shadow]);
    shadows.set(key, { ...shadows.get(key), [labels.result]: value });
  }
  at("shadows").hidden = shadows.size === 0;
  at("shadow-rows").replaceChildren(
    ...[...shadows].map(([key, results]) => {
      const cells = ["agreed", "would_block", "would_pass", "incomplete"].map((result) => element("td.number", count(results[result] ?? 0)));
      return element("tr", ...JSON.parse(key).map((name) => element("td", name)), ...cells);
    }),
  );
  const differing = samples(text, "glacis_shadow_rule_differences_total").filter(({ value }) => value > 0);
  differing.sort((a, b) => b.value - a.value);
  const only = { current: "only in the rules in use", shadow: "only in the shadow" };
  const words = differing.slice(0, 10).map(({ labels, value }) => `rule ${labels.rule_id} ${only[labels.only]}: ${count(value)}`);
  at("shadow-rules").textContent = words.length > 0 ? `Rules that matched in one of both, by requests: ${words.join("; ")}.` : "";
}

/** Learns exclusions from what the chosen profile would have blocked in detection mode. */
async function propose() {
  const told = at("proposed");
  at("propose").disabled = true;
  told.textContent = "The stored requests are evaluated again; this can take some seconds …";
  at("proposals").replaceChildren();
  try {
    const query = new URLSearchParams({ profile: at("profile").value });
    const found = await (await get(`proposals?${query}`)).json();
    told.textContent =
      `Profile ${found.profile}: ${count(found.blocked)} of ${plural(found.requests, "collected request", "collected requests")} are blocked; ` +
      `${count(found.passing)} of those pass with ${plural(found.exclusions, "exclusion", "exclusions")} (tried).`;
    const reasons = [
      ...found.remarks,
      ...found.declined.map(({ requests, subject, reason }) => `Declined, ${plural(requests, "request", "requests")}: ${subject}: ${reason}`),
    ];
    const list = element("ul", ...reasons.map((text) => element("li", visible(text))));
    at("proposals").replaceChildren(...(found.exclusions > 0 ? [copyable(found.yaml)] : []), list);
    told.dataset.state = "told";
  } catch (error) {
    told.textContent = `There are no proposals: ${error.message}`;
    told.dataset.state = "failed";
  }
  at("propose").disabled = false;
}

function openStory(number) {
  state.request = number;
  writeAddress(true);
  showStory(number);
}

function closeStory() {
  if (state.request === null) return;
  state.request = null;
  writeAddress(false);
}

/** The address has changed by hand, by a link, or by Back. */
function follow() {
  const before = state.request;
  readAddress();
  if (state.request !== null && state.request !== before) showStory(state.request);
  else if (state.request === null) at("story").close();
  look().catch(fail);
}

async function look() {
  const filter = String(state.filter);
  const [status, activity] = await Promise.all([get("status"), get(`activity?${filter}&limit=${state.limit}`)]);
  showStatus(await status.json());
  const found = await activity.json();
  if (filter !== String(state.filter)) return; // Another was chosen meanwhile.
  state.activity = found;
  showNumbers(found);
  showPlots(found);
  showTops(found.top);
  showRequests(found);
  showChosen();
  if (state.looks++ % RULES_EVERY === 0) await Promise.all([showRules(), showMetrics(), showChecks()]);
  at("fault").hidden = true;
}

function fail(error) {
  at("fault").textContent = `The service does not answer: ${error.message}`;
  at("fault").hidden = false;
}

async function watch() {
  if (!at("pause").checked && !document.hidden) await look().catch(fail);
  setTimeout(watch, POLL_MS);
}

at("profile").addEventListener("change", () => showRules().catch(fail));
at("propose").addEventListener("click", propose);
at("more").addEventListener("click", () => {
  state.limit = Math.min(500, 4 * state.limit);
  look().catch(fail);
});
at("close").addEventListener("click", () => at("story").close());
at("story").addEventListener("close", closeStory);
at("filter").addEventListener("submit", (event) => event.preventDefault());
at("verdict").addEventListener("change", (event) => choose("verdict", event.target.value));
at("minutes").addEventListener("change", (event) => choose("minutes", event.target.value));
let typing;
at("text").addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(() => choose("text", at("text").value.trim()), 250);
});
at("unhealthy").addEventListener("click", (event) => {
  // The address holds the filter: it is not changed.
  event.preventDefault();
  at("checks").scrollIntoView();
  at("findings").querySelector("summary")?.focus();
});
addEventListener("popstate", follow);
addEventListener("resize", () => state.activity && showPlots(state.activity));
readAddress();
if (state.request) showStory(state.request);
watch();
