// Tells the page around the frame, and no other site's, what was made.
const ready = document.querySelector("[data-ready]");

if (ready && window.parent !== window) {
  const { url, piece, origin } = ready.dataset;
  window.parent.postMessage({ type: "quillpost.stored_send", stored_send_url: url, piece }, origin);
  ready.querySelector("h1").focus();
}
