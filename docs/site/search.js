// Search in SECTIONS, which tools/search_index.py writes: [address, title of the page, heading, text] of every section.
"use strict";

const EXCERPT = 240;
const PAGES_SHOWN = 40;
// What is made from records or docstrings is long and mentions everything: written pages go first.
const WEIGHTS = [[/^CHANGELOG/, 0.3], [/^docs\/reproduction\//, 0.4], [/^docs\/api\//, 0.35], [/^docs\/results\//, 0.7]];

const escaped = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");

// A word that begins with the term without its ending: "thresholds" finds "threshold", "resume" finds "resuming".
const pattern = (term) => {
  const stem = term.length > 4 ? term.replace(/(ing|ed|es|s|e)$/, "") : term;
  return new RegExp(`(?<![\\p{L}\\p{N}])${escaped(stem)}`, "giu");
};

const count = (text, expression) => (text.match(expression) ?? []).length;

const find = (query) => {
  const terms = query.toLowerCase().match(/[\p{L}\p{N}_]+/gu) ?? [];
  const patterns = terms.map(pattern);
  if (!patterns.length) return [];
  const matches = SECTIONS.map((section) =>
    patterns.map((expression) => section.slice(1).map((text) => count(text, expression))),
  );
  const rarity = patterns.map((_, term) => {
    const having = matches.filter((match) => match[term].some((times) => times)).length;
    return Math.log(1 + SECTIONS.length / (1 + having));
  });
  const phrase = patterns.length > 1 ? pattern(terms.join(" ")) : null;
  const scored = SECTIONS.map((section, number) => {
    if (matches[number].some((times) => times.every((many) => !many))) return null;
    const [address, title, heading, text] = section;
    let score = 0;
    matches[number].forEach(([inTitle, inHeading, inText], term) => {
      const often = inText / (inText + 1 + text.length / 2000);
      score += rarity[term] * (3 * Math.min(inTitle, 1) + 4 * Math.min(inHeading, 1) + 3 * often);
    });
    if (phrase) score *= 1 + 2 * Math.min(count(heading, phrase), 1) + Math.min(count(text, phrase), 1);
    const weight = WEIGHTS.find(([expression]) => expression.test(address));
    return { section, score: score * (weight ? weight[1] : 1) };
  });
  const best = new Map(); // a page comes once, by its best section
  scored.filter((hit) => hit).sort((one, other) => other.score - one.score).forEach((hit) => {
    const page = hit.section[0].split("#")[0];
    if (!best.has(page)) best.set(page, hit);
  });
  return [...best.values()].map((hit) => ({ ...hit, patterns }));
};

const excerpt = (text, patterns) => {
  const first = Math.min(...patterns.map((expression) => text.search(expression)).filter((place) => place >= 0));
  const middle = Number.isFinite(first) ? first : 0;
  const begin = middle < 80 ? 0 : text.indexOf(" ", middle - 80) + 1;
  const shown = text.slice(begin, begin + EXCERPT + 1).replace(begin + EXCERPT < text.length ? /\s\S*$/ : "", "");
  const paragraph = document.createElement("p");
  paragraph.append(begin ? "… " : "");
  const marked = new RegExp(patterns.map((expression) => `${expression.source}[\\p{L}\\p{N}]*`).join("|"), "giu");
  let end = 0;
  for (const match of shown.matchAll(marked)) {
    paragraph.append(shown.slice(end, match.index));
    paragraph.appendChild(document.createElement("mark")).textContent = match[0];
    end = match.index + match[0].length;
  }
  paragraph.append(shown.slice(end), begin + shown.length < text.length ? " …" : "");
  return paragraph;
};

const show = (query) => {
  const place = document.getElementById("search-results");
  const found = find(query);
  place.appendChild(document.createElement("h1")).textContent = query ? `Search: ${query}` : "Search";
  const list = document.createElement("ul");
  list.className = "search";
  for (const { section: [address, title, heading, text], patterns } of found.slice(0, PAGES_SHOWN)) {
    const item = list.appendChild(document.createElement("li"));
    const link = item.appendChild(document.createElement("a"));
    link.href = address;
    link.textContent = heading === title ? title : `${title} › ${heading}`;
    item.appendChild(excerpt(text, patterns));
  }
  const pages = found.length === 1 ? "1 page" : `${found.length} pages`;
  const words = found.length ? `${pages}, the best first.` : "No page has all of these words.";
  place.appendChild(document.createElement("p")).textContent = query ? words : "Type what you look for at the side.";
  place.appendChild(list);
};

const searched = new URLSearchParams(window.location.search).get("q") ?? "";
document.querySelectorAll("input[name=q]").forEach((input) => (input.value = searched));
show(searched.trim());
