// The story of one request: what happened, what rules found in it and where, how the score adds up, and what would
// allow it. The record says what happened then; `explain` evaluates its request again with the rules in use now.
import { at, copyable, element, get, readable, stampWithZone, visible } from "./elements.js";
import { sum } from "./plots.js";

const CONTEXT = 60; // Characters shown before and after what matched.
const SHOWN = 400; // Characters of a value that matched as a whole.

const told = () => at("told");
let asked = 0; // Answers for an earlier story than the last one are late.

/** Opens the dialog with the story of this request. */
export async function showStory(number) {
  const dialog = at("story");
  const turn = ++asked;
  dialog.dataset.state = "asked";
  at("h-story").textContent = `Request ${number}`;
  told().replaceChildren(element("p", "The request is evaluated again; this can take some seconds …"));
  if (!dialog.open) dialog.showModal();
  dialog.scrollTop = 0;
  try {
    const text = await (await get(`recent/${number}`)).text();
    const record = JSON.parse(text);
    if (turn !== asked) return;
    told().replaceChildren(verdict(record), facts(record), element("p.dim", "The request is evaluated again; this can take some seconds …"));
    const query = new URLSearchParams({ profile: record.profile });
    const headers = { "content-type": "application/json" };
    const answer = await fetch(`explain?${query}`, { method: "POST", headers, body: text });
    if (!answer.ok) throw new Error((await answer.text()).trim());
    const explained = await answer.json();
    const { profiles } = await (await get("status")).json();
    if (turn !== asked) return;
    const isDefault = profiles.find(({ name }) => name === record.profile)?.default ?? true;
    told().replaceChildren(...story(record, explained, isDefault));
    dialog.dataset.state = "told";
  } catch (error) {
    if (turn !== asked) return;
    told().append(element("p.bad", `There is no story: ${error.message}`));
    told().append(element("p.dim", "Records are stored in memory, the newest ones only (recent.requests_max), and until the process ends."));
    dialog.dataset.state = "failed";
  }
}

function story(record, { explanation, typed, text }, isDefault) {
  const arithmetic = score(explanation, record);
  return [
    verdict(record, arithmetic),
    facts(record),
    today(record, explanation),
    ...explanation.notes.map((note) => element("p.note", visible(note))),
    findings(explanation, arithmetic),
    addition(arithmetic),
    opinion(explanation.second_opinion),
    allow(explanation.exclusion, typed, record.profile, isDefault),
    folded("Raw record", copyable(JSON.stringify(record, null, 2))),
    folded("Every step, as glacis explain prints it", copyable(text)),
  ].filter((part) => part !== null);
}

/** What became of the request, in a sentence. */
function verdict(record, arithmetic) {
  const rule = record.rule ?? record.would_deny?.rule;
  let words;
  let kind = "blocked";
  const status = record.status ? ` with status ${record.status}` : "";
  if (record.would_deny) {
    kind = "would_block";
    words = "Allowed, as the profile is in detection mode. It would be blocked";
  } else if (record.action === "reject") {
    return element("p.sentence.rejected", `Rejected${status}, at a limit (${(record.reason ?? "").replaceAll("_", " ")}). No rule found an attack.`);
  } else {
    words = { redirect: "Redirected", drop: `Blocked${status}, the connection closed` }[record.action] ?? `Blocked${status}`;
  }
  const inbound = record.score_inbound > 0 ? record.score_inbound : record.score_outbound;
  if (arithmetic?.threshold != null) words += `: its anomaly score of ${arithmetic.total} reaches the threshold of ${arithmetic.threshold}.`;
  else if (rule) words += ` by rule ${rule}${inbound > 0 ? ` (anomaly score ${inbound})` : ""}.`;
  else words += ".";
  return element(`p.sentence.${kind}`, words);
}

/** A record is of then, the explanation of now: rules may have changed in between. */
function today(record, { refusal }) {
  if (refusal || record.action === "reject") return null;
  return element("p.note.passes", "Nothing would block this request now: the rules in use allow it. They have changed since, or the record lacks what they looked at.");
}

function facts(record) {
  const rows = [
    ["Request", `${visible(record.method)} ${readable(record.uri)}`],
    ["Host", visible(record.host)],
    ["Client", visible(record.client)],
    ["Time", stampWithZone(new Date(record.time))],
    ["User agent", visible(header(record, "user-agent"))],
    ["Profile", visible(record.profile)],
    ["Request id", visible(record.request_id)],
  ];
  const told = rows.filter(([, text]) => text !== "");
  return element("dl.facts", ...told.flatMap(([name, text]) => [element("dt", name), element("dd", text)]));
}

function header(record, name) {
  const found = (record.request?.headers ?? []).find(([known]) => known.toLowerCase() === name);
  return found ? found[1] : "";
}

/**
 * How the score of the request (or of its response) came to be: {parts, total, threshold}; a part is {rule, points,
 * finders}. CRS counts by paranoia level and then adds up the levels that block; rules of higher levels are evidence
 * only. Where a rule counts what others have found, those are the finders.
 */
function score({ scores, thresholds, refusal, rules }, record) {
  const side = (refusal?.phase ?? record.phase ?? 2) > 2 ? "outbound" : "inbound";
  const compared = thresholds.find(({ member }) => member.startsWith(`rule ${refusal?.rule} for tx.`));
  if (!compared) return null;
  const member = compared.member.split("tx.")[1];
  const total = scores.filter((change) => change.member === member).at(-1)?.to;
  if (total === undefined) return null;
  const points = (names) => {
    const parts = new Map();
    for (const { rule, member, from, to } of scores) {
      if (names.includes(member)) parts.set(rule, (parts.get(rule) ?? 0) + to - from);
    }
    return [...parts].map(([rule, points]) => {
      const others = rules.find(({ id }) => id === rule)?.counts_for ?? [];
      return { rule, points, finders: others.length > 0 ? others : [rule] };
    });
  };
  const levels = [];
  for (const level of [1, 2, 3, 4]) {
    levels.push(`${side}_anomaly_score_pl${level}`);
    const parts = points(levels);
    if (parts.reduce((all, { points }) => all + points, 0) === total) return { parts, total, threshold: compared.value };
  }
  return { parts: points([member]), total, threshold: compared.value };
}

function addition(arithmetic) {
  if (!arithmetic || arithmetic.parts.length === 0) return null;
  const { parts, total, threshold } = arithmetic;
  const sign = (points) => (points < 0 ? `− ${-points}` : `+ ${points}`);
  const name = ({ rule, finders }) => (finders.includes(rule) ? rule : `${finders.join(" or ")}, counted by ${rule}`);
  const sums = parts.map((part, index) => `${index === 0 ? part.points : sign(part.points)} (${name(part)})`);
  const words = `${sums.join(" ")} = ${total}; requests are blocked from ${threshold}.`;
  const width = Math.max(240, told().clientWidth);
  return element("section", element("h3", "Score"), sum(parts.filter(({ points }) => points > 0).map(({ finders, points }) => [finders.join("/"), points]), total, threshold, width, words), element("p", words));
}

/** The rules that found something: those that count, then, folded, the others. */
function findings({ rules, rules_left_out: left }, arithmetic) {
  const counting = new Map((arithmetic?.parts ?? []).flatMap(({ finders, points }) => finders.map((rule) => [rule, points])));
  const found = rules.filter((rule) => rule.log && rule.complete && rule.phase < 5 && !addsUp(rule));
  const [count, rest] = [found.filter((rule) => counting.has(rule.id)), found.filter((rule) => !counting.has(rule.id))];
  const main = count.length > 0 ? count : rest;
  const others = count.length > 0 ? rest : [];
  const made = element("section", element("h3", "What the rules found"));
  made.append(...main.map((rule) => finding(rule, counting.get(rule.id))));
  if (main.length === 0) made.append(element("p.dim", "No rule that logs found anything."));
  if (others.length > 0) {
    made.append(folded(`${others.length} more matched and do not count towards the score`, ...others.map((rule) => finding(rule))));
  }
  if (left > 0) made.append(element("p.dim", `${left} preparing rules that neither log nor change a score are left out.`));
  return made;
}

/** Whether a rule only looks at scores of others. */
function addsUp(rule) {
  return rule.matches.length > 0 && rule.matches.every(({ variable }) => variable.startsWith("TX:"));
}

function finding(rule, points) {
  const title = element("h4", visible(rule.msg) || "Rule without a message", element("span.id", ` rule ${rule.id}`));
  if (points !== undefined) title.append(element("span.points", `+${points}`));
  // Further links of a chain look at what the first has found.
  const matches = rule.matches.filter(({ link, variable }) => link === 0 || !variable.startsWith("TX:")).slice(0, 4);
  return element("article.finding", title, ...matches.map(matched));
}

function matched({ variable, value, transformed, operator, parameter, found, fingerprint }) {
  const last = transformed.length > 0 ? transformed.at(-1).value : value;
  const parts = [element("p", "in ", element("code", visible(variable)))];
  parts.push(element("p.value", ...highlighted(last, found)));
  if (transformed.length > 0) {
    const names = transformed.map(({ transformation }) => transformation).join(", ");
    parts.push(element("p.dim", `after ${names}; as sent: ${visible(shortened(value.text))}`));
  }
  const words = [operator, parameter ? visible(shortened(parameter.text)) : "", fingerprint ? `fingerprint ${visible(fingerprint)}` : ""];
  parts.push(element("p.dim", words.filter(Boolean).join(" ")));
  return element("div.match", ...parts);
}

const shortened = (text) => (text.length > 120 ? `${text.slice(0, 120)}…` : text);

/** A value with the part that matched marked, and some context around it. */
function highlighted(value, found) {
  const { text, length } = value;
  const whole = found.find(({ group }) => group === 0);
  const part = whole ? place(text, whole) : null;
  if (!part) {
    const rest = whole && whole.text.text !== "" ? [" … ", element("mark", visible(shortened(whole.text.text)))] : [];
    return [visible(text.slice(0, SHOWN)), text.length > SHOWN || length ? "…" : null, ...rest];
  }
  const [before, inside, after] = part;
  return [
    before.length > CONTEXT ? "…" : null,
    visible(before.slice(-CONTEXT)),
    element("mark", visible(inside.slice(0, SHOWN))),
    inside.length > SHOWN ? "…" : null,
    visible(after.slice(0, CONTEXT)),
    after.length > CONTEXT || length ? "…" : null,
  ];
}

/** Before, in and after a match. Its place is in bytes; where bytes are no UTF-8 they do not fit, and its text is looked for. */
function place(text, { start, end, text: { text: found } }) {
  const [bytes, decoder] = [new TextEncoder().encode(text), new TextDecoder()];
  const inside = decoder.decode(bytes.slice(start, end));
  if (found !== "" && inside.startsWith(found)) return [decoder.decode(bytes.slice(0, start)), inside, decoder.decode(bytes.slice(end))];
  const index = found === "" ? -1 : text.indexOf(found);
  return index < 0 ? null : [text.slice(0, index), found, text.slice(index + found.length)];
}

function opinion(second) {
  if (!second) return null;
  const points = (value) => value.toFixed(1);
  const reasons = second.reasons.slice(0, 12).map(({ rule, weight }) => `${rule} ${weight < 0 ? "−" : "+"}${points(Math.abs(weight))}`);
  const said = second.score >= second.threshold ? "an attack" : "no attack";
  const words = `By learned weights it is ${said}: ${points(second.score)} points, an attack from ${points(second.threshold)}.`;
  const where = second.value ? ` in ${visible(second.value)}` : "";
  return element("section", element("h3", "Second opinion"), element("p", words), element("p.dim", `${reasons.join(", ")}${where}`));
}

function folded(title, ...content) {
  return element("details", element("summary", title), ...content);
}

/** What would allow the request: the narrowest exclusion, in the scope and form that are chosen. */
function allow(exclusion, typed, profile, isDefault) {
  if (!exclusion) return null;
  const remarks = exclusion.remarks.map((remark) => element("p", remark));
  const scopes = [["on_this_path", "This path only"], ["everywhere", "All requests"]].filter(([scope]) => exclusion[scope] || typed[scope]);
  const made = folded("False alarm? Allow this", ...remarks);
  made.id = "allow";
  if (scopes.length === 0) return made;
  const owner = input("Owner", "who answers for it");
  const reason = input("Reason", "why these rules need not look there");
  const scope = choice("scope", "Scope", scopes);
  const form = choice("form", "Form", [["yaml", "YAML"], ["values", "Helm values"], ["seclang", "SecLang"]]);
  const shown = element("div");
  const show = () => shown.replaceChildren(...way(exclusion, typed, chosen(scope), chosen(form), { profile, isDefault, owner: owner.lastChild.value, reason: reason.lastChild.value }));
  for (const one of [owner, reason, scope, form]) one.addEventListener("input", show);
  made.append(element("div.row", scope, form), element("div.row", owner, reason), shown);
  show();
  return made;
}

function input(name, hint) {
  const field = element("input");
  [field.type, field.placeholder, field.autocomplete] = ["text", hint, "off"];
  return element("label", `${name} `, field);
}

function choice(name, title, options) {
  const made = options.map(([value, text], index) => {
    const radio = element("input");
    [radio.type, radio.name, radio.value, radio.checked] = ["radio", name, value, index === 0];
    return element("label", radio, element("span", text));
  });
  return element("fieldset", element("legend.offscreen", title), ...made);
}

const chosen = (fieldset) => fieldset.querySelector("input:checked").value;

function way(exclusion, typed, scope, form, { profile, isDefault, owner, reason }) {
  const [seclang, written] = [exclusion[scope], typed[scope]];
  const tried = form === "seclang" ? seclang : written;
  if (!tried) {
    const other = form === "seclang" ? "YAML" : "SecLang";
    return [element("p", `It cannot be written in this form: take ${other}.`)];
  }
  const seen = { true: "Tried: the request is allowed with it.", false: `Tried: ${seclang?.fault ?? "the request is still blocked."}`, null: "Not tried: there was no time." }[tried.passes];
  const where = isDefault ? "at the top of the configuration" : `of the profile ${profile}`;
  if (form === "seclang") {
    const key = scope === "on_this_path" ? "setup" : "directives";
    return [element("p", `${seen} Append it to the key ${key} ${where}.`), copyable(tried.directives)];
  }
  const yaml = tried.yaml
    .replaceAll(/owner: "".*/g, owner ? `owner: ${JSON.stringify(owner)}` : `owner: "" # required: who answers for it`)
    .replaceAll(/reason: "".*/g, reason ? `reason: ${JSON.stringify(reason)}` : `reason: "" # required: why these rules need not look there`);
  const needed = owner && reason ? "" : " Fill in owner and reason: the configuration is rejected without them.";
  if (form === "yaml") return [element("p", `${seen} Add it to the key exclusions ${where}.${needed}`), copyable(yaml)];
  const keys = ["extProc:", "config:", ...(isDefault ? [] : ["profiles:", `${JSON.stringify(profile)}:`])];
  const kept = keys.map((key, depth) => `  ${"  ".repeat(depth)}${key}`);
  const added = yaml.trimEnd().split("\n").map((line) => `+ ${"  ".repeat(keys.length)}${line}`);
  return [element("p", `${seen} A change of your values file; where exclusions are listed already, add the entries to them.${needed}`), copyable([...kept, ...added].join("\n"))];
}
