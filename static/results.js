/* An address with the anchor of a section or figure, from when all results were one page, opens the page that has it now. */
const anchor = document.getElementById(location.hash.slice(1));
const link = anchor?.closest(".contents") && (anchor.matches("a") ? anchor : anchor.querySelector("a"));
if (link) {
  history.replaceState(null, "", location.pathname + location.search); // so that Back returns to the overview and not to the anchor
  link.click();
}
