// Runs before the first paint, so that a chosen theme never flashes.
try {
  const theme = localStorage.getItem("hotloop.theme");
  if (theme === "dark" || theme === "light") document.documentElement.dataset.theme = theme;
} catch {
  // Storage may be blocked: the system's theme applies.
}
