// How many lists are ticked and how many people they hold; and whose piece the preview shows.
const form = document.querySelector("#composer");

const words = (n, one, many) => `${n.toLocaleString("en-US")} ${n === 1 ? one : many}`;

const countLists = () => {
  const shown = form.querySelector("[data-lists-count]");
  if (!shown) return;
  const ticked = [...form.querySelectorAll('input[name="mailing_list_ids"]:checked')];
  const people = ticked.reduce((sum, box) => sum + Number(box.dataset.people), 0);
  const strong = document.createElement("strong");
  strong.textContent = `${words(ticked.length, "list", "lists")}, ${words(people, "person", "people")}`;
  shown.replaceChildren(ticked.length ? strong : "No list is ticked yet.");
};

form?.addEventListener("change", (event) => {
  if (event.target.name === "mailing_list_ids") countLists();
});
// Whatever a search does not find stays ticked: the server puts it first.
form?.addEventListener("htmx:afterSwap", countLists);

// What is told of the people is told of their field, to those who do not see it, too.
form?.querySelector("#people-found")?.addEventListener("htmx:afterSwap", (event) => {
  const people = form.querySelector("#people");
  if (event.currentTarget.querySelector("#people-fault")) people.setAttribute("aria-invalid", "true");
  else people.removeAttribute("aria-invalid");
});
