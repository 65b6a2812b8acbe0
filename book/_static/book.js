// A classic script without fetch or modules, so that it also works on pages opened from disk.

// The theme's download links open the notebook's JSON in a new tab. With this attribute the browser saves the file.
document.addEventListener("DOMContentLoaded", function () {
  document.querySelectorAll("a.btn-download-source-button, a.btn-download-notebook-button").forEach(function (link) {
    link.setAttribute("download", "");
    link.removeAttribute("target");
  });
});

// Sphinx's search fetches every page it found for an excerpt, which browsers forbid on pages opened from disk.
if (typeof DOCUMENTATION_OPTIONS !== "undefined" && location.protocol === "file:") {
  DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
}
