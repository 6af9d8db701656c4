/** The server of the tests, which tests/clients/test_typescript.py starts. */

import { Memrelay } from "memrelay";

export const url = process.env["MEMRELAY_URL"] ?? "http://127.0.0.1:8765";
export const pipeline = process.env["MEMRELAY_PIPELINE"] ?? "";
export const memory = new Memrelay({ url, pipeline });
