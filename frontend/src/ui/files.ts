/** What the page holds as a file of the reader's machine, and rows as CSV (RFC 4180) that a spreadsheet opens without running anything in it. */

const KEPT_MS = 10_000; // Some browsers read the text only after the click.

export function save(name: string, text: string | readonly string[], type = 'text/plain'): void {
  const url = URL.createObjectURL(new Blob(typeof text === 'string' ? [text] : [...text], { type: `${type};charset=utf-8` }));
  const link = document.createElement('a');
  link.href = url;
  link.download = name.replace(/[^\w.+-]+/g, '_').slice(0, 120);
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), KEPT_MS);
}

export type Cell = string | number | null | undefined;

/** The mark at the beginning tells a spreadsheet that this is UTF-8. */
export function saveCsv(name: string, rows: readonly (readonly Cell[])[]): void {
  save(name, ['\uFEFF', csv(rows)], 'text/csv');
}

export function csv(rows: readonly (readonly Cell[])[]): string {
  return rows.map((row) => `${row.map(cell).join(',')}\r\n`).join('');
}

/** Quoted where it must be; a text that a spreadsheet would calculate gets an apostrophe first (OWASP, CSV injection). */
export function cell(value: Cell): string {
  if (value === null || value === undefined) return '';
  if (typeof value === 'number') return String(value);
  const text = /^[=+\-@\t\r\n]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
