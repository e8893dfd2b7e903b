// Applies the saved theme before the first paint.

const saved = localStorage.getItem("theme");
if (saved) document.documentElement.dataset.theme = saved;
