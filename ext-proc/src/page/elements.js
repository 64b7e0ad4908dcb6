// What all parts of the page build with: elements, words, times, copying.
// A text that a request has a part in becomes a text node, never HTML.

export const at = (id) => document.getElementById(id);

/** An element with classes ("div.a.b"), and texts or elements in it. */
export function element(name, ...children) {
  const [tag, ...classes] = name.split(".");
  const made = document.createElement(tag);
  if (classes.length > 0) made.className = classes.join(" ");
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

export function button(name, text, action) {
  const made = element(name, text);
  made.type = "button";
  made.addEventListener("click", action);
  return made;
}

/** Replaces what is in a container; the focus stays on the element with the same key (data-key). */
export function replace(container, ...children) {
  const focused = container.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
  container.replaceChildren(...children);
  if (focused !== undefined) {
    container.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
  }
}

export async function get(path) {
  const answer = await fetch(path, { cache: "no-store" });
  if (!answer.ok) throw new Error(`${path}: ${answer.status} ${(await answer.text()).trim()}`);
  return answer;
}

export const count = (value) => Number(value).toLocaleString("en");
export const plural = (value, one, many) => `${count(value)} ${value === 1 ? one : many}`;
export const compact = (value) => new Intl.NumberFormat("en", { notation: "compact" }).format(value);

/** The time zone in which times are shown, such as "UTC" or "GMT+1". */
export function zone(date = new Date()) {
  const parts = new Intl.DateTimeFormat("en", { timeZoneName: "short" }).formatToParts(date);
  return parts.find(({ type }) => type === "timeZoneName")?.value ?? "";
}

/** A date and time, such as "2026-11-23 14:05:09". */
export function stamp(date) {
  const two = (value) => String(value).padStart(2, "0");
  const day = [date.getFullYear(), two(date.getMonth() + 1), two(date.getDate())].join("-");
  return `${day} ${[date.getHours(), date.getMinutes(), date.getSeconds()].map(two).join(":")}`;
}

export const stampWithZone = (date) => `${stamp(date)} ${zone(date)}`;

export function microseconds(value) {
  if (value >= 1e6) return `${+(value / 1e6).toPrecision(3)} s`;
  return value >= 1e3 ? `${+(value / 1e3).toPrecision(3)} ms` : `${+value.toPrecision(3)} µs`;
}

/** Characters that do not show, or reorder what stands around them. */
const INVISIBLE = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/** A text on which every character shows. */
export function visible(text) {
  return text.replace(INVISIBLE, (character) => `\\u{${character.codePointAt(0).toString(16)}}`);
}

/** A URI as people read it: without percent-encoding, as far as it is UTF-8. */
export function readable(uri) {
  try {
    return visible(decodeURIComponent(uri));
  } catch {
    return visible(uri);
  }
}

/** Copies a text. Pages that did not come over HTTPS or from localhost have no navigator.clipboard. */
async function copy(text, place) {
  if (navigator.clipboard) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      // Not permitted: there is another way.
    }
  }
  const area = element("textarea.offscreen");
  area.value = text;
  // Within the dialog, if there is one: nothing outside it takes the focus.
  place.append(area);
  area.select();
  const copied = document.execCommand("copy");
  area.remove();
  return copied;
}

/** A button that copies what `text` returns. */
export function copyButton(text) {
  const made = button("button.copy", "Copy", async () => {
    const copied = await copy(text(), made.parentElement);
    made.focus();
    made.textContent = copied ? "Copied" : "Select the text and press Ctrl+C";
    setTimeout(() => (made.textContent = "Copy"), 4000);
  });
  return made;
}

/** A text in a box, with a button that copies it. */
export function copyable(text) {
  const shown = element("pre", text);
  shown.tabIndex = 0;
  return element("div.copyable", copyButton(() => shown.textContent), shown);
}
