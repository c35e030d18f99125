// The menu under one's name closes as menus do: by Escape, and by a click anywhere else.

const menu = document.querySelector("details.me");

document.addEventListener("click", (event) => {
  if (!menu.contains(event.target)) menu.open = false;
});

document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || !menu.open) return;
  if (menu.contains(document.activeElement)) menu.querySelector("summary").focus();
  menu.open = false;
});
