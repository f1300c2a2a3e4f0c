/** Weights of a pool as people write them, `term=number`, and back. */

export function writeWeights(weights: Readonly<Record<string, number>> | null | undefined): string[] {
  return Object.entries(weights ?? {}).map(([term, weight]) => `${term}=${weight}`);
}

/** Null: one of them is not a weight. */
export function readWeights(lines: readonly string[]): Record<string, number> | null {
  const weights: Record<string, number> = {};
  for (const line of lines) {
    const found = /^\s*([a-z_]+)\s*=\s*(\d+)\s*$/.exec(line);
    if (!found?.[1]) return null;
    weights[found[1]] = Number(found[2]);
  }
  return weights;
}
