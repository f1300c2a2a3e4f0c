/** Keeps a text that the page holds as a file of the reader's machine. */

export function save(name: string, parts: readonly string[], type = 'text/plain'): void {
  const url = URL.createObjectURL(new Blob([...parts], { type: `${type};charset=utf-8` }));
  const link = document.createElement('a');
  link.href = url;
  link.download = name.replace(/[^\w.+-]+/g, '_').slice(0, 120);
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
