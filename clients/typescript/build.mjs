// Build ESM and CommonJS, each with its types.
import { execFileSync } from "node:child_process";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";

const tsc = createRequire(import.meta.url).resolve("typescript/bin/tsc");
const compile = (...options) =>
  execFileSync(process.execPath, [tsc, "-p", "tsconfig.json", ...options], { stdio: "inherit" });

rmSync("dist", { recursive: true, force: true });
compile("--outDir", "dist/esm");
mkdirSync("dist/cjs", { recursive: true });
writeFileSync("dist/esm/package.json", '{ "type": "module" }\n');
compile("-p", "tsconfig.cjs.json");
writeFileSync("dist/cjs/package.json", '{ "type": "commonjs" }\n');
