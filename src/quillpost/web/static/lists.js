// Keeps the page of an import up to date while it goes on. The server draws each state; here it is put in place.

const shown = document.querySelector("[data-live]");

// Whoever is at one of its links stays there.
function put(html) {
  const part = document.createElement("template");
  part.innerHTML = html;
  const at = shown.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
  shown.replaceChildren(part.content);
  if (at) [...shown.querySelectorAll("a")].find((link) => link.getAttribute("href") === at)?.focus();
}

function follow() {
  const news = new EventSource(shown.dataset.live);
  shown.classList.add("is-live");
  news.addEventListener("state", (event) => put(event.data));
  news.addEventListener("over", () => {
    news.close();
    shown.querySelector("[data-outcome]")?.focus();
  });
}

if (shown && window.EventSource) follow();
