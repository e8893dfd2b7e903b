// Before anything is painted: the theme that was chosen here last.

const remembered = localStorage.getItem("theme");
if (remembered) document.documentElement.dataset.theme = remembered;
