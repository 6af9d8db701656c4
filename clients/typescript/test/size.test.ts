/** The size of the client in a browser. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { build } from "esbuild";

const LIMIT = 15_000;

test("the client has at most 15 kB, minified, without its two libraries", async () => {
  for (const file of ["index.js", "ai.js"]) {
    const { outputFiles } = await build({
      entryPoints: [`dist/esm/${file}`],
      bundle: true,
      minify: true,
      write: false,
      format: "esm",
      platform: "browser",
      external: ["openapi-fetch", "standardwebhooks", "ai"],
    });
    assert.ok((outputFiles[0]?.contents.length ?? LIMIT + 1) <= LIMIT);
  }
});
