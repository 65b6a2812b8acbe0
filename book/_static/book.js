// Small things that the theme leaves to us. A classic script without fetch or modules, so that it also works on pages
// opened from disk. Predictions are in predict.js, quizzes in quiz.js, what readers move in explorer.js.
(function () {
  "use strict";

  // The theme's download links open the notebook's JSON in a new tab, and name their files by endings.
  function downloads() {
    document.querySelectorAll("a.btn-download-source-button, a.btn-download-notebook-button").forEach(function (link) {
      link.setAttribute("download", "");
      link.removeAttribute("target");
      rename(link, link.href.endsWith(".ipynb") ? "Notebook" : "Text");
    });
    document.querySelectorAll(".btn-download-pdf-button").forEach(function (button) { rename(button, "Print or PDF"); });
  }
  function rename(control, name) {
    control.querySelector(".btn__text-container").textContent = name;
  }

  // Controls of the theme that have a picture and no name for those who can't see it.
  function names() {
    document.querySelectorAll(".bd-sidenav li.has-children > details > summary").forEach(function (summary) {
      var page = summary.closest("li").querySelector("a");
      summary.setAttribute("aria-label", "Studies under " + page.textContent.trim());
    });
  }

  // Tables and long code scroll in their own boxes: the keyboard reaches these, and a table's is told by its heading.
  function boxes() {
    document.querySelectorAll(".bd-article .pst-scrollable-table-container").forEach(function (box) {
      var section = box.closest("section"), heading = section && section.querySelector("h1, h2, h3");
      box.tabIndex = 0;
      box.setAttribute("role", "region");
      box.setAttribute("aria-label", "Table: " + (heading ? heading.firstChild.textContent.trim() : document.title));
    });
  }

  // Outputs that are sentences break where the screen ends. Two blanks in a row mean columns, which keep their places.
  function sentences() {
    document.querySelectorAll(".cell_output .output.stream pre").forEach(function (pre) {
      var columns = /\S {2,}\S/.test(pre.textContent), long = /.{48,}/.test(pre.textContent);
      pre.classList.toggle("sentences", long && !columns);
    });
  }

  // The list of references is one for readers of the screen, too: docutils gives its entries roles that aren't allowed there.
  function references() {
    document.querySelectorAll(".citation-list, .citation-list > .citation").forEach(function (node) {
      node.setAttribute("role", node.classList.contains("citation") ? "listitem" : "list");
    });
  }

  // On paper a page is light and nothing is folded; afterwards all is as it was.
  function paper() {
    var folded = [], theme;
    window.addEventListener("beforeprint", function () {
      theme = document.documentElement.dataset.theme;
      document.documentElement.dataset.theme = "light";
      folded = document.querySelectorAll("details:not([open])");
      folded.forEach(function (details) { details.open = true; });
    });
    window.addEventListener("afterprint", function () {
      document.documentElement.dataset.theme = theme;
      folded.forEach(function (details) { details.open = false; });
    });
  }

  // Sphinx's search fetches every page it found for an excerpt, which browsers forbid on pages opened from disk.
  if (typeof DOCUMENTATION_OPTIONS !== "undefined" && location.protocol === "file:") {
    DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
  }
  document.addEventListener("DOMContentLoaded", function () {
    downloads();
    names();
    boxes();
    sentences();
    references();
  });
  paper();
})();

// What a reader did on a page, kept in this browser alone: annotatedKept.read("predict") → {…}.
var annotatedKept = (function () {
  function place(kind) {
    return "annotated:" + kind + ":" + location.pathname.split("/").pop();
  }
  return {
    read: function (kind) {
      try { return JSON.parse(localStorage.getItem(place(kind))) || {}; } catch (error) { return {}; }
    },
    write: function (kind, value) {
      try { localStorage.setItem(place(kind), JSON.stringify(value)); } catch (error) { /* private window: forgotten */ }
    },
  };
})();
