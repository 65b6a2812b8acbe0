
// Part of language_data.js (tools/book_search.py): Sphinx's own excerpts begin with the page's table of contents.

// Formulas stand in a page as TeX; an excerpt has them in plain letters.
const plainFormula = (tex) => tex
  .replace(/\\[()[\]]/g, "")
  .replace(/\\sqrt\s*\{([^}]*)\}/g, "√$1")
  .replace(/\\[dt]?frac\s*\{([^}]*)\}\s*\{([^}]*)\}/g, "$1/$2")
  .replace(/\\[dt]?frac(\d)(\d)/g, "$1/$2")
  .replace(/\\(?:mathrm|mathbf|text|operatorname|hat)\{([^}]*)\}/g, "$1")
  .replace(/\\(?:times|cdot)\b/g, "×")
  .replace(/\\[a-zA-Z]+|\\.|[{}]/g, "");

// The first paragraph with the most of the words; where none has any, the page's question.
const bestParagraph = (place, words) => {
  let best = "", most = 0;
  for (const kind of ["p:not(.minutes, .learn-foot, .admonition-title)", "li:not(.way > li), td, summary"]) {
    for (const paragraph of place.querySelectorAll(kind)) {
      const text = paragraph.textContent.replace(/\s+/g, " ").trim(), lower = text.toLowerCase();
      const count = words.filter((word) => lower.includes(word)).length;
      if (count > most) [best, most] = [text, count];
    }
  }
  return best || (place.querySelector("p:not(.minutes)")?.textContent.trim() ?? "");
};

Search.makeSearchSummary = (html, keywords, anchor) => {
  const article = new DOMParser().parseFromString(html, "text/html").querySelector("article");
  const place = (anchor && article?.querySelector(anchor)) || article;
  if (!place) return null;
  article.querySelectorAll(".math").forEach((math) => { math.textContent = plainFormula(math.textContent); });
  const words = [...keywords].map((word) => word.toLowerCase()), best = bestParagraph(place, words);
  // From the beginning of the sentence that has the first of the words.
  const found = words.map((word) => best.toLowerCase().indexOf(word)).filter((at) => at >= 0);
  const before = best.slice(0, found.length ? Math.min(...found) : 0);
  const start = before.search(/[^.?!:;]*$/), shown = best.slice(start).trim();
  const summary = document.createElement("p");
  summary.classList.add("context");
  summary.textContent = (start ? "… " : "")
    + (shown.length > 240 ? shown.slice(0, 240).replace(/\s\S*$/, " …") : shown);
  return summary;
};
