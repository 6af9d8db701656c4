// Bundles the editor into two files, which the package ships: the graph with its forms, and the JSON view.
import { cpSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const out = process.env.EDITOR_OUT ?? join(here, "../memrelay/web/console/static/editor");
const result = await build({
  absWorkingDir: here,
  entryPoints: { editor: "src/main.js", json_view: "src/json_view.js" },
  outdir: out,
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  charset: "utf8",
  legalComments: "none",
  metafile: true,
  logLevel: "warning",
});
cpSync(join(here, "src/editor.css"), join(out, "editor.css"));

// The licenses of the packages whose code is in the files.
const inputs = Object.keys(result.metafile.inputs).filter((path) => path.includes("node_modules/"));
const names = [...new Set(inputs.map((path) => path.split("node_modules/").at(-1).split("/").slice(0, path.includes("/@") ? 2 : 1).join("/")))].sort();
const texts = names.map((name) => {
  const folder = join(here, "node_modules", name), { version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  const file = readdirSync(folder).find((one) => /^licen[cs]e/i.test(one));
  return `${name} ${version} (${license})\n\n${file ? readFileSync(join(folder, file), "utf8").trim() : ""}\n`;
});
mkdirSync(out, { recursive: true });
writeFileSync(join(out, "LICENSES.txt"), `The files of this folder are built from editor/ by \`npm run build\`. json_view.js contains these packages.\n\n${texts.join(`\n${"-".repeat(72)}\n\n`)}`);
