/** Where drafts of this tab stand, apart from what they are: the sign-in page asks whether there is one, and reads no more. */

export const DRAFT_KEY = 'berth-draft:';

export function isDraftKept(): boolean {
  try {
    return Object.keys(sessionStorage).some((key) => key.startsWith(DRAFT_KEY));
  } catch {
    return false; // Storage is switched off.
  }
}
