// Prints the size of the built bundle and fails if the first page exceeds its budget (gzipped).
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";

const BUDGET = { firstScript: 180_000, style: 15_000, allScripts: 260_000 };
const folder = new URL("../../python/hotloop/server/static/", import.meta.url).pathname;
const size = (file) => gzipSync(readFileSync(file), { level: 9 }).length;

const page = readFileSync(join(folder, "index.html"), "utf8");
const assets = readdirSync(join(folder, "assets")).map((name) => ({ name, bytes: size(join(folder, "assets", name)) }));
const scripts = assets.filter(({ name }) => name.endsWith(".js"));
const sum = (files) => files.reduce((total, { bytes }) => total + bytes, 0);
const sizes = {
  firstScript: sum(scripts.filter(({ name }) => page.includes(name))),
  style: sum(assets.filter(({ name }) => name.endsWith(".css"))),
  allScripts: sum(scripts),
};
let isOver = false;
for (const [what, limit] of Object.entries(BUDGET)) {
  isOver ||= sizes[what] > limit;
  console.log(`${what}: ${(sizes[what] / 1000).toFixed(1)} kB gzipped of ${limit / 1000} kB`);
}
console.log(`report: ${(size(join(folder, "report.html")) / 1000).toFixed(1)} kB gzipped`);
process.exit(isOver ? 1 : 0);
