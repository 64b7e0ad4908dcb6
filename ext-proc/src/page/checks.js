// The checks that the service runs on itself (`glacis doctor`): what they find, and what to do.
import { at, count, element, get, plural, replace, stampWithZone, visible } from "./elements.js";

const EVERY_MS = 60000;
const LISTED = 50; // Findings on the page; /doctor has all of them.

let due = 0;

function finding({ id, name, severity, subject, detail, meaning, remedy }) {
  const summary = element("summary", element(`span.severity.${severity}`, severity), ` ${name}: ${visible(subject)} `, element("span.dim", id));
  summary.dataset.key = `check-${id}-${subject}`;
  const made = element("details", summary, element("p", visible(detail)), element("p", meaning), element("p", element("strong", "Remedy: "), remedy));
  made.dataset.id = `${id} ${subject}`;
  return element("li", made);
}

/** Shows the findings, and asks for them again when a minute has passed. */
export async function showChecks() {
  if (Date.now() < due) return;
  due = Date.now() + EVERY_MS;
  const { at: when, findings } = await (await get("doctor")).json();
  const open = new Set([...at("findings").querySelectorAll("details[open]")].map(({ dataset }) => dataset.id));
  replace(at("findings"), ...findings.slice(0, LISTED).map(finding));
  for (const made of at("findings").querySelectorAll("details")) made.open = open.has(made.dataset.id);
  const bad = findings.filter(({ severity }) => severity !== "note").length;
  const words = findings.length === 0 ? "nothing found" : plural(findings.length, "finding", "findings");
  const more = findings.length > LISTED ? `, ${count(LISTED)} of them shown` : "";
  at("checked").textContent = `${words}${more}, ${stampWithZone(new Date(1000 * when))}`;
  at("unhealthy").textContent = plural(bad, "check failed", "checks failed");
  at("unhealthy").hidden = bad === 0;
}
