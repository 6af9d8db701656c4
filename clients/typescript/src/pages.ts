type Fields = Record<string, unknown>;
type Lists = (input: never) => Promise<unknown>;
type ItemsOf<F extends Lists> = {
  [Name in keyof Awaited<ReturnType<F>>]: Awaited<
    ReturnType<F>
  >[Name] extends readonly (infer One)[]
    ? One
    : never;
}[keyof Awaited<ReturnType<F>>];

/**
 * Yield the items of all pages: `for await (const record of pages(memory.records.list, {}))`.
 *
 * It follows `next_cursor`, `before` (turns) and `after` (threads) of the answers.
 */
export async function* pages<F extends Lists>(
  list: F,
  input: Parameters<F>[0],
): AsyncGenerator<ItemsOf<F>> {
  let next: Fields = { ...(input as Fields) };
  for (;;) {
    const page = (await list(next as never)) as Fields;
    const items = Object.values(page).find(Array.isArray) ?? [];
    yield* items as ItemsOf<F>[];
    const place = findPlace(page);
    if (place === undefined) return;
    next = { ...next, ...place };
  }
}

function findPlace(page: Fields): Fields | undefined {
  for (const [name, field] of [
    ["next_cursor", "cursor"],
    ["before", "before"],
    ["after", "after"],
  ] as const) {
    const value = page[name];
    if (value !== undefined && value !== null) return { [field]: value };
  }
  return undefined;
}
