/**
 * Names from right to left inside our sentences.
 *
 * Unmarked they take the digits and signs beside them into their own direction: "8 of 10" after a Hebrew name is read as "10 of 8".
 * In JSX a `<bdi>` does the same; what stands alone in its element is set apart by base.css.
 */

const FROM_RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u;
const FIRST_STRONG_ISOLATE = '\u2068';
const POP_ISOLATE = '\u2069';

/** The same text, set apart where it holds letters from right to left. */
export function isolate(text: string): string {
  return FROM_RIGHT_TO_LEFT.test(text) ? `${FIRST_STRONG_ISOLATE}${text}${POP_ISOLATE}` : text;
}
