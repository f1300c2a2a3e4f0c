/**
 * Whoever points at words whose end is cut off is shown all of them, in every table and card without its own doing.
 *
 * A title is there as long as the pointer is: what is drawn anew under the same element would leave an old one.
 */

const DEPTH = 4; // From the words to the cell that cuts them.

export function isCut(one: HTMLElement): boolean {
  return one.scrollWidth > one.clientWidth + 1 && one.clientWidth > 0 && getComputedStyle(one).textOverflow === 'ellipsis';
}

/** The element that cuts off the words under the pointer; null where all is seen, or something says it already. */
export function cutAround(target: EventTarget | null): HTMLElement | null {
  let one = target instanceof HTMLElement ? target : null;
  if (!one || one.closest('[title]')) return null;
  for (let depth = 0; one && depth < DEPTH; depth += 1, one = one.parentElement) if (isCut(one)) return one;
  return null;
}

/** Begin; what is given back ends it. */
export function tellWholeText(page: Document = document): () => void {
  let told: HTMLElement | null = null;
  const over = (event: Event) => {
    if (told && event.target instanceof Node && told.contains(event.target)) return;
    told?.removeAttribute('title');
    told = cutAround(event.target);
    if (told) told.title = told.innerText.trim();
  };
  page.addEventListener('mouseover', over, { passive: true });
  return () => page.removeEventListener('mouseover', over);
}
