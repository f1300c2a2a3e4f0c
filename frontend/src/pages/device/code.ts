/** A code as people type it: in small letters, with spaces, without the dash. */

const LENGTH = 8;

export function tidy(text: string): string {
  const letters = text.toUpperCase().replace(/[^A-Z0-9]/g, '').slice(0, LENGTH);
  return letters.length > LENGTH / 2 ? `${letters.slice(0, LENGTH / 2)}-${letters.slice(LENGTH / 2)}` : letters;
}

export function isWhole(code: string): boolean {
  return code.length === LENGTH + 1;
}
