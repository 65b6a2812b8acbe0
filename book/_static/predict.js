// Predictions: the answer, and what after it gives it away, are veiled until the reader says that the guess is made.
// The question is a paragraph of class "predict" (tools/book_learn.py), the answer an output tagged hide-output, which
// is folded in the page itself: so it works without this script, and opens on paper. What was opened stays open.
(function () {
  "use strict";

  // The cell with the answer: the next one with a folded output, before another question or heading.
  function answerOf(question) {
    for (var node = question.nextElementSibling; node && !node.matches("p.predict, section"); node = node.nextElementSibling) {
      if (node.matches("div.cell.tag_hide-output")) return node;
    }
    return null;
  }

  // The first paragraph after the answer; and pictures and explorers up to the next cell of code, heading or question,
  // with what is said between them.
  function tellingAfter(cell) {
    var telling = [], waiting = [];
    for (var node = cell.nextElementSibling; node; node = node.nextElementSibling) {
      if (node.matches("p:not(.predict), ul, ol, div.pst-scrollable-table-container")) waiting.push(node);
      else if (node.matches("div.cell.tag_hide-input")) telling = telling.concat(waiting.splice(0), node);
      else break;
    }
    var said = telling.some(function (node) { return node.matches("p, ul, ol"); });
    return said ? telling : telling.concat(waiting.slice(0, 1));
  }

  function veil(question) {
    var cell = answerOf(question), details = cell && cell.querySelector("details.below-input");
    if (!details) return;
    var key = question.textContent.trim().slice(9, 69), kept = annotatedKept.read("predict");
    if (kept[key]) {
      details.open = true;
      return;
    }
    var hidden = [details.querySelector(".cell_output")].concat(tellingAfter(cell));
    var button = document.createElement("button");
    button.type = "button";
    button.className = "aa-button unveil";
    button.textContent = "Made your guess? Show the answer";
    button.addEventListener("click", function () {
      kept = annotatedKept.read("predict");
      kept[key] = true;
      annotatedKept.write("predict", kept);
      unveil(details, hidden, button);
    });
    hidden.forEach(function (part) {
      part.classList.add("veiled");
      part.inert = true;
    });
    details.open = true;
    details.classList.add("asks");
    details.append(button);
  }

  function unveil(details, hidden, button) {
    details.classList.remove("asks");
    hidden.forEach(function (part) {
      part.classList.remove("veiled");
      part.inert = false;
    });
    // The keyboard goes on at the answer, not at the head of the page.
    hidden[0].tabIndex = -1;
    hidden[0].focus({ preventScroll: true });
    button.remove();
  }

  document.addEventListener("DOMContentLoaded", function () {
    document.querySelectorAll(".bd-article p.predict").forEach(veil);
  });
})();
