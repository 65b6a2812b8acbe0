// A classic script without fetch or modules, so that it also works on pages opened from disk.

// The theme's download links open the notebook's JSON in a new tab. With this attribute the browser saves the file.
document.addEventListener("DOMContentLoaded", function () {
  document.querySelectorAll("a.btn-download-source-button, a.btn-download-notebook-button").forEach(function (link) {
    link.setAttribute("download", "");
    link.removeAttribute("target");
  });
});

// The theme's arrows in the contents have a picture and no name for those who can't see it.
document.addEventListener("DOMContentLoaded", function () {
  document.querySelectorAll(".bd-sidenav li.has-children > details > summary").forEach(function (summary) {
    var page = summary.closest("li").querySelector("a");
    summary.setAttribute("aria-label", "Studies under " + page.textContent.trim());
  });
});

// Sphinx's search fetches every page it found for an excerpt, which browsers forbid on pages opened from disk.
if (typeof DOCUMENTATION_OPTIONS !== "undefined" && location.protocol === "file:") {
  DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
}

// On paper a page is light and nothing is folded; afterwards all is as it was.
(function () {
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
})();
